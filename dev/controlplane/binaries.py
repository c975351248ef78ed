"""Where the binaries of the control plane come from: the first source that has one, in a fixed order.

KUBEBUILDER_ASSETS, then PATH, then the project's cache, then the envtest archive of this platform, then a build from
Go modules. Each binary is looked for by itself, since the envtest archive holds no kube-controller-manager. The later
sources cost minutes, so they are asked only for what the earlier ones lack. Versions aren't compared: what is put on
PATH or into KUBEBUILDER_ASSETS is taken as meant.
"""

import os
import platform
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

KUBERNETES_VERSION = "1.36.3"  # the version dev/controlplane/go.mod builds; a test holds the two together
REQUIRED = ("etcd", "kube-apiserver", "kube-controller-manager")

Report = Callable[[str], None]
Finder = Callable[[Sequence[str]], Mapping[str, Path]]


class BinariesUnavailable(RuntimeError):
    """No source has all the binaries; the message gives every source's reason."""


class BuildFailed(RuntimeError):
    """Go is there but the build did not succeed; the message ends with Go's last lines."""


class SourceUnavailable(RuntimeError):
    """One source can't serve; the message says why, and the next source is asked."""


@dataclass(frozen=True)
class Source:
    """A named place. `find` maps those of the wanted names it has to executables, or raises SourceUnavailable."""

    label: str
    find: Finder


@dataclass(frozen=True)
class Found:
    """An executable and the label of the source it came from."""

    path: Path
    source: str


def go_platform() -> str:
    """This machine as Go and the envtest archive spell it, e.g. `linux-amd64`."""
    machine = platform.machine().lower()
    arch = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}.get(machine, machine)
    return f"{platform.system().lower()}-{arch}"


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """The folder of built binaries for this version and platform; it need not exist yet."""
    env = os.environ if environ is None else environ
    base = Path(env["XDG_CACHE_HOME"]) if env.get("XDG_CACHE_HOME") else Path.home() / ".cache"
    return base / "vidra" / "controlplane" / f"{KUBERNETES_VERSION}-{go_platform()}"


def in_folder(folder: Path, names: Iterable[str]) -> dict[str, Path]:
    """Those of the names that are executable files in the folder."""
    paths = {name: folder / name for name in names}
    return {name: path for name, path in paths.items() if path.is_file() and os.access(path, os.X_OK)}


def resolve(names: Collection[str], sources: Iterable[Source], *, report: Report) -> dict[str, Found]:
    """Every name from the first source that has it.

    Raises BinariesUnavailable, with each source's reason, when a name is in none. BuildFailed passes through: a broken
    build is a fault to see, not a source to skip.
    """
    found: dict[str, Found] = {}
    reasons: list[str] = []
    for source in sources:
        missing = [name for name in names if name not in found]
        if not missing:
            break
        try:
            have = source.find(missing)
        except SourceUnavailable as error:
            reasons.append(f"{source.label}: {error}")
            report(reasons[-1])
            continue
        found.update({name: Found(path, source.label) for name, path in have.items() if name in missing})
        if lacking := [name for name in missing if name not in have]:
            reasons.append(f"{source.label}: has no {', '.join(lacking)}")
    if missing := [name for name in names if name not in found]:
        raise BinariesUnavailable(f"no {', '.join(missing)} to be had ({'; '.join(reasons)})")
    return found


def default_sources(*, report: Report) -> list[Source]:
    """The five sources in their order."""
    from controlplane import build, envtest  # here, since both need the names above

    def from_assets(names: Sequence[str]) -> Mapping[str, Path]:
        folder = os.environ.get("KUBEBUILDER_ASSETS")
        if folder and not Path(folder).is_dir():
            raise SourceUnavailable(f"{folder} is no folder")
        return in_folder(Path(folder), names) if folder else {}

    def from_path(names: Sequence[str]) -> Mapping[str, Path]:
        return {name: Path(path) for name in names if (path := shutil.which(name))}

    def from_cache(names: Sequence[str]) -> Mapping[str, Path]:
        return {**in_folder(envtest.folder(), names), **in_folder(cache_folder(), names)}

    return [
        Source("KUBEBUILDER_ASSETS", from_assets),
        Source("PATH", from_path),
        Source("cache", from_cache),
        Source("envtest archive", lambda names: envtest.download(names, report=report)),
        Source("Go modules", lambda names: build.build(names, report=report)),
    ]


def obtain(names: Collection[str] = REQUIRED, *, report: Report) -> dict[str, Found]:
    """The binaries by name, downloaded or built if need be; `report` is told what takes long, a line at a time.

    Raises BinariesUnavailable or BuildFailed.
    """
    return resolve(names, default_sources(report=report), report=report)

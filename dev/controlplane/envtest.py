"""The envtest archive: etcd and kube-apiserver as the controller-tools project publishes them.

Nothing is kept, let alone run, whose SHA-512 isn't the one in the project's release index. A machine without a way
out fails in seconds.
"""

import hashlib
import os
import re
import tarfile
import tempfile
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import yaml

from controlplane.binaries import KUBERNETES_VERSION, Report, SourceUnavailable, cache_folder, go_platform, in_folder

INDEX_URL = "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml"
INDEX_TIMEOUT = 3.0  # seconds
READ_TIMEOUT = 15.0  # seconds without a byte of the archive
HELD = frozenset({"etcd", "kube-apiserver", "kubectl"})  # all an archive has


@dataclass(frozen=True)
class Archive:
    """One line of the release index: file name, address, and SHA-512 in hex."""

    name: str
    url: str
    sha512: str


def folder() -> Path:
    """Where the archive's binaries are kept. Apart from the built ones, as its patch version may differ."""
    minor = KUBERNETES_VERSION.rpartition(".")[0]
    return cache_folder().with_name(f"envtest-{minor}-{go_platform()}")


def choose(index: Mapping[str, Any], version: str, target: str) -> Archive:
    """The archive of this version, or of the newest patch of its minor, since envtest skips patches.

    `index` is the parsed release index, `target` a platform such as `linux-amd64`. Raises SourceUnavailable.
    """
    minor = version.rpartition(".")[0]
    patches: dict[int, tuple[str, Any]] = {}
    for release, archives in (index.get("releases") or {}).items():
        match = re.fullmatch(rf"v{re.escape(minor)}\.(\d+)", release)
        name = f"envtest-{release}-{target}.tar.gz"
        if match and name in archives:
            patches[int(match[1])] = (name, archives[name])
    if not patches:
        raise SourceUnavailable(f"has no {minor} for {target}")
    wanted = int(version.rpartition(".")[2])
    name, entry = patches.get(wanted) or patches[max(patches)]
    url, sha512 = str(entry["selfLink"]), str(entry["hash"])
    if not url.startswith("https://") or not re.fullmatch(r"[0-9a-f]{128}", sha512):
        raise SourceUnavailable(f"the index entry of {name} has no https address or no SHA-512")
    return Archive(name, url, sha512)


def copy_verified(source: BinaryIO, target: BinaryIO, sha512: str) -> None:
    """Copy all of source. Raises SourceUnavailable when what came isn't what the hash says."""
    digest = hashlib.sha512()
    while chunk := source.read(1 << 20):
        digest.update(chunk)
        target.write(chunk)
    if digest.hexdigest() != sha512:
        raise SourceUnavailable(f"checksum mismatch: got {digest.hexdigest()[:16]}..., want {sha512[:16]}...")


def extract(archive: BinaryIO, names: Sequence[str], into: Path) -> None:
    """The named members of a tar.gz, found by their last path element, as executables in `into`."""
    into.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=archive, mode="r:gz") as tar:
        for member in tar:
            name = member.name.rpartition("/")[2]
            content = tar.extractfile(member) if name in names and member.isfile() else None
            if content is None:
                continue
            partial = into / f".{name}.{os.getpid()}.partial"
            partial.write_bytes(content.read())
            partial.chmod(0o755)
            partial.replace(into / name)


def download(names: Sequence[str], *, report: Report) -> Mapping[str, Path]:
    """Those of the names that the archive of this platform has. Raises SourceUnavailable."""
    wanted = [name for name in names if name in HELD]
    if not wanted:
        raise SourceUnavailable(f"holds no {', '.join(names)}")
    try:
        with urllib.request.urlopen(INDEX_URL, timeout=INDEX_TIMEOUT) as answer:
            index = yaml.safe_load(answer.read())
        archive = choose(index, KUBERNETES_VERSION, go_platform())
        report(f"envtest archive: downloading {archive.name}")
        with tempfile.TemporaryFile() as file:
            with urllib.request.urlopen(archive.url, timeout=READ_TIMEOUT) as answer:
                copy_verified(answer, file, archive.sha512)
            file.seek(0)
            extract(file, wanted, folder())
    except (OSError, yaml.YAMLError, tarfile.TarError) as error:
        raise SourceUnavailable(f"can't be had ({getattr(error, 'reason', error)})") from error
    return in_folder(folder(), wanted)

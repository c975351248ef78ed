"""The control plane that the integration tests share.

`control_plane` is one real control plane for the whole session. Tests keep apart by namespaces and names of their
own; one that stops or restarts a server starts a ControlPlane for itself.
"""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from controlplane import BinariesUnavailable, BuildFailed, ControlPlane, Found, obtain

_BINARIES: pytest.StashKey[Mapping[str, Found] | BinariesUnavailable | BuildFailed] = pytest.StashKey()
_FIXTURES = {"control_plane", "second_plane", "control_plane_binaries"}


@pytest.hookimpl(trylast=True)  # what is deselected by -k or -m must be gone by now
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Obtain the binaries before the first test: in a fixture, a build would run into a test's time-out."""
    if config.option.collectonly or _BINARIES in session.stash:
        return
    if not any(_FIXTURES.intersection(getattr(item, "fixturenames", ())) for item in items):
        return
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    capture = config.pluginmanager.get_plugin("capturemanager")

    def report(line: str) -> None:
        if terminal is not None and capture is not None:
            with capture.global_and_fixture_disabled():
                terminal.write_line(f"control plane: {line}")

    try:
        session.stash[_BINARIES] = obtain(report=report)
    except (BinariesUnavailable, BuildFailed) as error:
        session.stash[_BINARIES] = error


@pytest.fixture(scope="session")
def control_plane_binaries(request: pytest.FixtureRequest) -> Mapping[str, Found]:
    """The binaries to start a control plane of one's own with.

    Skips when no source has them, which can't be where Go is; fails when Go could not build them.
    """
    binaries = request.session.stash[_BINARIES]
    if isinstance(binaries, BinariesUnavailable):
        pytest.skip(str(binaries))
    if isinstance(binaries, BuildFailed):
        pytest.fail(str(binaries), pytrace=False)
    return binaries


@pytest.fixture(scope="session")
def control_plane(control_plane_binaries: Mapping[str, Found]) -> Iterator[ControlPlane]:
    """The shared control plane, with its controller manager."""
    with ControlPlane(binaries=control_plane_binaries) as plane:
        yield plane


@pytest.fixture(scope="session")
def second_plane(control_plane_binaries: Mapping[str, Found]) -> Iterator[ControlPlane]:
    """Another cluster to deploy to, beside `control_plane`. At the same address on another port, as two clusters behind
    one load balancer."""
    with ControlPlane(binaries=control_plane_binaries) as plane:
        yield plane


@pytest.fixture
def temp_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temp folder of the test's own, for this process and those it starts, so that it can be seen to be empty."""
    # Not tmp_path: it may be long, and a socket's path may have 107 characters only.
    with tempfile.TemporaryDirectory(prefix="cp") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)

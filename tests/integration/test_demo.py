"""`python -m demo`, as a process: it tells the whole story, and leaves nothing behind however it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from controlplane import Found

REPOSITORY = Path(__file__).parents[2]


@asynccontextmanager
async def demo(binaries: Mapping[str, Found], temp: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    assets = temp / "assets"
    assets.mkdir()
    for name, found in binaries.items():
        (assets / name).symlink_to(found.path)
    environment = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY / "dev"),
        "KUBEBUILDER_ASSETS": str(assets),
        "DEMO_ONCE": "1",
        "TMPDIR": str(temp),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "demo",
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def left_behind(temp: Path) -> list[str]:
    """Processes that have the test's own temp folder on their command line, and what is in it."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue
        if entry.name.isdecimal() and str(temp) in command:
            found.append(f"{entry.name}: {command}")
    return found + [path.name for path in temp.iterdir() if path.name != "assets"]


async def test_the_demo_tells_its_story_to_the_end(
    control_plane_binaries: Mapping[str, Found], temp_folder: Path
) -> None:
    async with demo(control_plane_binaries, temp_folder) as process:
        out, _ = await asyncio.wait_for(process.communicate(), 150)
    text = out.decode()
    assert process.returncode == 0, text
    for told in (
        "all three artifacts are deployed and Succeeded",
        "Deployment web-001 has 3 replicas",
        "web-003 and its Namespace are gone",
        "export KUBECONFIG=",
    ):
        assert told in text
    assert left_behind(temp_folder) == []


async def test_ctrl_c_in_the_middle_leaves_nothing_behind(
    control_plane_binaries: Mapping[str, Found], temp_folder: Path
) -> None:
    async with demo(control_plane_binaries, temp_folder) as process:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            while b"operator started" not in await process.stdout.readline():
                pass
        process.send_signal(signal.SIGINT)
        out, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 130, out.decode()
    assert "nothing is left running" in out.decode()
    assert left_behind(temp_folder) == []

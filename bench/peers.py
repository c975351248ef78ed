"""The same objects by kubectl, in the same run."""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.arena import Stopwatch, control_plane
from bench.report import Measured
from infrahub.seeds import bench_manifest

KUBECTL = Path(sys.executable).parent / "kubectl"


async def kubectl(artifacts: int, objects: int, works: Sequence[str]) -> list[Measured]:
    """`kubectl apply --server-side` of one file with all objects, once for each of ``works``."""
    rows = []
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write("".join(bench_manifest(number, objects=objects) for number in range(1, artifacts + 1)))
        file.flush()
        async with control_plane() as (plane, _):
            command = [str(KUBECTL), f"--kubeconfig={plane.kubeconfig_path}", "apply", "--server-side", "-f", file.name]
            for work in works:
                mark, watch = plane.audit.mark(), Stopwatch(plane, _cpu_of_children)
                process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
                if await process.wait():
                    raise RuntimeError("kubectl failed")
                seconds, cpu, server = watch.read()
                counts: dict[str, int] = {}
                for entry in plane.audit.entries(since=mark, user_agent_prefix="kubectl"):
                    counts[entry.verb] = counts.get(entry.verb, 0) + 1
                rows.append(
                    Measured(
                        work=work,
                        contender="kubectl apply --server-side",
                        seconds=seconds,
                        cpu=cpu,
                        server_cpu=server,
                        requests=counts,
                    )
                )
    return rows


def _cpu_of_children() -> float:
    """Processor time of the children that have ended: here kubectl's, since the servers still run."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

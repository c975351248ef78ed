"""One cluster that hangs costs the others nothing: its resources wait, and hold no worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import yaml
from tests.integration.kube_support import until
from tests.integration.test_two_clusters import put_kubeconfig
from tests.integration.world import World, config_map, documents, world

from controlplane import ControlPlane

HANGING = 60


@asynccontextmanager
async def silent_server() -> AsyncIterator[str]:
    """Accepts connections and never says a word."""
    connections: set[asyncio.StreamWriter] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(writer)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in connections:
            writer.close()


@pytest.mark.case("U23")
async def test_a_cluster_that_never_answers_holds_up_no_other(control_plane: ControlPlane) -> None:
    async with world(control_plane) as w, silent_server() as url:
        config = yaml.safe_load(control_plane.kubeconfig_path.read_text())
        config["clusters"][0]["cluster"]["server"] = url
        await put_kubeconfig(w, "silent", config)
        for number in range(HANGING):
            manifest = documents(config_map(f"far-{number}", w.namespace))
            await w.create_resource(f"far-{number}", manifest, destination={"server": url})
        queue = w.operator.resource_queue

        async def all_seen() -> bool:
            seen = [obj for obj in await w.all(World.RESOURCES) if obj["metadata"].get("finalizers")]
            return len(seen) > 0 and len(queue) == 0

        await until(all_seen)
        assert queue.in_progress <= 4, "a quarter of the workers, the others are free"
        for number in range(20):
            name = f"near-{number}"
            await w.create_resource(name, documents(config_map(name, w.namespace)))
        for number in range(20):
            await w.until_state(World.RESOURCES, f"near-{number}", "Succeeded", timeout=15)

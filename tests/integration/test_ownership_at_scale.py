"""One Namespace in a thousand resources: applied once, and gone with the last of them."""

from __future__ import annotations

import asyncio
import uuid

from tests.integration.deploy_support import make_sync, namespace_of, owned, writes
from tests.integration.kube_support import CONFIGMAPS, NAMESPACES, until
from tests.integration.world import World, config_map, documents, world

from controlplane import ControlPlane
from vidra.kube.client import Obj

COUNT = 1000
#: Seconds for all of it, on two cores that the API server and etcd use too.
WITHIN = 120.0


async def states(w: World) -> set[str | None]:
    return {(obj.get("status") or {}).get("DeployState") for obj in await w.all(World.RESOURCES)}


async def test_a_namespace_in_a_thousand_resources_is_applied_once_and_goes_with_the_last(
    control_plane: ControlPlane,
) -> None:
    team = f"team-{uuid.uuid4().hex[:8]}"
    async with world(control_plane) as w:
        sync = await make_sync(w, "one")
        slots = asyncio.Semaphore(16)

        async def create(number: int) -> None:
            async with slots:
                name = f"r{number:04}"
                text = documents(namespace_of(team, tier="web"), config_map(name, team))
                await w.create_resource(name, text, metadata=owned(sync))

        async def delete(obj: Obj) -> None:
            async with slots:
                await w.client.delete(World.RESOURCES, obj["metadata"]["name"])

        async def all_succeeded() -> bool:
            await asyncio.sleep(0.25)  # a list of all of them costs the API server more than a reconcile
            return await states(w) == {"Succeeded"}

        async def only_one_left() -> bool:
            await asyncio.sleep(0.25)
            return len(await w.all(World.RESOURCES)) <= 1

        mark = w.plane.audit.mark()
        await asyncio.gather(*(create(number) for number in range(COUNT)))
        await until(all_succeeded, timeout=WITHIN)
        assert len(await w.all(CONFIGMAPS, team)) >= COUNT
        assert [entry.verb for entry in writes(w, mark, NAMESPACES, team)] == ["create"]
        first, *others = await w.all(World.RESOURCES)
        await asyncio.gather(*(delete(obj) for obj in others))
        await until(only_one_left, timeout=WITHIN)
        assert await w.get(NAMESPACES, team) is not None
        assert [entry.verb for entry in writes(w, mark, NAMESPACES, team)] == ["create"]
        assert {obj["metadata"]["name"] for obj in await w.all(CONFIGMAPS, team)} == {
            first["metadata"]["name"],
            "kube-root-ca.crt",
        }
        await delete(first)
        await w.until_gone(NAMESPACES, team)
        await w.until_gone(World.RESOURCES, first["metadata"]["name"])

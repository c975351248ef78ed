"""What is watched follows what is in use."""

from __future__ import annotations

from tests.integration.world import World, config_map, documents, world

from controlplane import ControlPlane
from vidra.kube.resource import GroupKind


async def test_a_kind_is_watched_for_as_long_as_a_resource_has_objects_of_it(control_plane: ControlPlane) -> None:
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"holderIdentity": "a"}}
    async with world(control_plane) as w:
        metadata = {"name": "one", "namespace": w.namespace}
        await w.create_resource("leases", documents({**lease, "metadata": metadata}))
        await w.create_resource("maps", documents(config_map("one", w.namespace)))
        await w.until_state(World.RESOURCES, "leases", "Succeeded")
        await w.until_state(World.RESOURCES, "maps", "Succeeded")
        place = await w.operator.places.open("")
        await _sweep_twice(w)
        assert {"Lease", "ConfigMap"} <= {kind.kind for kind in place.to.live.kinds()}

        await w.client.delete(World.RESOURCES, "leases")
        await w.until_gone(World.RESOURCES, "leases")
        await w.until_quiet()
        await _sweep_twice(w)
        assert GroupKind("coordination.k8s.io", "Lease") not in place.to.live.kinds()
        assert GroupKind("", "ConfigMap") in place.to.live.kinds()

        await w.create_resource("again", documents({**lease, "metadata": metadata}))
        await w.until_state(World.RESOURCES, "again", "Succeeded")


async def _sweep_twice(w: World) -> None:
    await w.operator.places.sweep()
    await w.operator.places.sweep()

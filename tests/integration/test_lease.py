"""The Lease on the real API server: what election relies on, and that the shipped rights are enough for it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from tests.integration.kube_support import connected, own_namespace, refused, until

from controlplane import ControlPlane
from vidra.kube import config
from vidra.kube.client import Client
from vidra.kube.errors import ApiError
from vidra.kube.resource import Resource
from vidra.runtime.fence import Fence
from vidra.runtime.leader import Elector
from vidra.runtime.lease import LEASES, KubeLease, LeaseTimes, first, lease_session, released, renewed, taken

SHIPPED = Path(__file__).parents[2] / "manifests/rbac/operator.yaml"
RBAC = "rbac.authorization.k8s.io"
ROLES = Resource(RBAC, "v1", "Role", "roles", namespaced=True)
BINDINGS = Resource(RBAC, "v1", "RoleBinding", "rolebindings", namespaced=True)
TIMES = LeaseTimes()


@pytest.fixture
async def admin(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with connected(control_plane.kubeconfig_path) as client:
        yield client


@pytest.fixture
async def namespace(admin: Client) -> AsyncIterator[str]:
    async with own_namespace(admin) as name:
        yield name


async def test_no_version_but_the_last_can_be_written_over(admin: Client, namespace: str) -> None:
    lease = KubeLease(admin, namespace, "lease")
    assert await lease.get() is None
    made = await lease.create(first("a", TIMES))
    assert (await refused(lease.create(first("b", TIMES)))).already_exists
    newer = await lease.update(renewed(made, TIMES))
    for spoilt in (renewed(made, TIMES), taken(made, "b", TIMES), released(made)):
        assert (await refused(lease.update(spoilt))).conflict
    over = await lease.update(taken(newer, "b", TIMES))
    assert over["spec"]["leaseTransitions"] == 1
    assert (await lease.update(released(over)))["spec"]["leaseDurationSeconds"] == 1
    seen = await lease.get()
    assert seen is not None
    assert "holderIdentity" not in seen["spec"] or seen["spec"]["holderIdentity"] == ""


async def test_an_update_brings_no_deleted_lease_back_and_touches_no_successor(admin: Client, namespace: str) -> None:
    lease = KubeLease(admin, namespace, "lease")
    made = await lease.create(first("a", TIMES))
    await admin.delete(LEASES, "lease", namespace=namespace)
    assert (await refused(lease.update(renewed(made, TIMES)))).status in {404, 409}
    assert await lease.get() is None
    await lease.create(first("b", TIMES))
    assert (await refused(lease.update(renewed(made, TIMES)))).conflict


async def test_a_deleted_lease_is_made_again_by_its_holder_and_taken_by_nobody(
    control_plane: ControlPlane, admin: Client, namespace: str
) -> None:
    leads: list[str] = []
    times = LeaseTimes(duration=15, renew_deadline=10.0, retry=0.3)

    async def work() -> None:
        await asyncio.Event().wait()

    async with lease_session(config.loader(control_plane.kubeconfig_path), times) as session:

        def start(name: str) -> tuple[Elector, asyncio.Task[None]]:
            def tell(value: bool) -> None:
                if value:
                    leads.append(name)

            lease = KubeLease(Client(session), namespace, "lease")
            elector = Elector(lease, Fence(), identity=name, times=times, observer=tell)
            return elector, asyncio.create_task(elector.run(work))

        _, leader = start("a")
        await until(lambda: leads)
        standby, waiting = start("b")
        await until(lambda: standby.standing() == "standby, a leads")
        tasks = (leader, waiting)
        lease = KubeLease(admin, namespace, "lease")
        for _ in range(5):
            await until(lambda: _is_there(lease))
            await admin.delete(LEASES, "lease", namespace=namespace)
        await until(lambda: _is_there(lease))
        assert leads == ["a"]
        assert not any(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _is_there(lease: KubeLease) -> bool:
    return await lease.get() is not None


async def test_the_shipped_rights_are_enough_to_lead_and_to_see_a_release_at_once(
    control_plane: ControlPlane, admin: Client, namespace: str
) -> None:
    user = f"u-{uuid.uuid4().hex[:8]}"
    (role,) = (d for d in yaml.safe_load_all(SHIPPED.read_text()) if d["kind"] == "Role")
    rules = [rule for rule in role["rules"] if rule["resources"] == ["leases"]]
    body = {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": {"name": user}, "rules": rules}
    await admin.create(ROLES, body, namespace=namespace)
    reference = {"apiGroup": RBAC, "kind": "Role", "name": user}
    body = {"apiVersion": f"{RBAC}/v1", "kind": "RoleBinding", "metadata": {"name": user}, "roleRef": reference}
    subject = {"kind": "User", "name": user, "apiGroup": RBAC}
    await admin.create(BINDINGS, {**body, "subjects": [subject]}, namespace=namespace)

    leading, leads = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        leads.set()
        await leading.wait()

    async with lease_session(config.loader(control_plane.user_kubeconfig(user)), TIMES) as session:
        lease = KubeLease(Client(session), namespace, "lease")

        async def allowed() -> bool:
            try:
                return await lease.get() is None
            except ApiError as error:
                if error.status != 403:
                    raise
                return False

        await until(allowed)
        mark = await asyncio.to_thread(control_plane.audit.mark)
        ours = await KubeLease(admin, namespace, "lease").create(first("another", TIMES))
        elector = Elector(lease, Fence(), identity="a", times=TIMES)
        running = asyncio.create_task(elector.run(work))
        await until(lambda: elector.standing() == "standby, another leads")
        assert not leads.is_set()
        await KubeLease(admin, namespace, "lease").update(released(ours))
        await asyncio.wait_for(leads.wait(), 2.0)
        leading.set()
        await running
        entries = await asyncio.to_thread(control_plane.audit.entries, since=mark, user=user)
        assert [entry.uri for entry in entries if entry.code >= 400] == []
    seen = await KubeLease(admin, namespace, "lease").get()
    assert seen is not None
    assert not seen["spec"].get("holderIdentity")

"""The heart of the contract: state, last success and last error are in status, and writing them wakes nobody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.integration.world import World, config_map, documents, world

from controlplane import ControlPlane
from infrahub.seeds import webservers
from vidra.kube.client import Obj, PatchType
from vidra.kube.resource import Resource

KINDS = pytest.mark.parametrize("kind", [World.SYNCS, World.RESOURCES], ids=lambda kind: kind.kind)


@pytest.fixture
async def settled(control_plane: ControlPlane) -> AsyncIterator[World]:
    """A sync of one artifact, and a resource of nobody's sync, both Succeeded, both named `one`."""
    async with world(control_plane, seed=webservers(1)) as w:
        await w.create_sync("one")
        await w.create_resource("one", documents(config_map("one", w.namespace)))
        await w.until_state(World.SYNCS, "one", "Succeeded")
        await w.until_state(World.RESOURCES, "one", "Succeeded")
        await w.until_quiet()
        yield w


@KINDS
async def test_a_status_write_causes_no_reconcile(settled: World, kind: Resource) -> None:
    await _wakes(settled, kind, {"status": {"lastError": "somebody wrote this"}}, "status", times=0)


@KINDS
async def test_a_thousand_status_writes_leave_counters_and_audit_log_still(settled: World, kind: Resource) -> None:
    before, mark = settled.reconciles(kind), settled.plane.audit.mark()
    slots = asyncio.Semaphore(20)

    async def write(number: int) -> None:
        async with slots:
            patch = {"status": {"lastError": f"number {number}"}}
            await settled.client.patch(kind, "one", patch, PatchType.MERGE, subresource="status")

    await asyncio.gather(*(write(number) for number in range(1000)))
    await settled.until_quiet()
    assert settled.reconciles(kind) == before
    assert settled.plane.audit.count(since=mark, user=settled.user) == 0


@KINDS
async def test_a_label_causes_no_reconcile(settled: World, kind: Resource) -> None:
    await _wakes(settled, kind, {"metadata": {"labels": {"team": "a"}}}, None, times=0)


@KINDS
async def test_an_annotation_causes_no_reconcile(settled: World, kind: Resource) -> None:
    await _wakes(settled, kind, {"metadata": {"annotations": {"note": "a"}}}, None, times=0)


@KINDS
async def test_a_spec_change_causes_exactly_one_reconcile(settled: World, kind: Resource) -> None:
    await _wakes(settled, kind, {"spec": {"destination": {"namespace": settled.namespace}}}, None, times=1)


@KINDS
async def test_a_request_for_a_reconcile_causes_exactly_one_and_is_answered(settled: World, kind: Resource) -> None:
    request = {"metadata": {"annotations": {"vidra.infrahub.operators.com/reconcile-request": "now"}}}
    await _wakes(settled, kind, request, None, times=1)
    assert (await settled.status(kind, "one"))["lastHandledReconcileAt"] == "now"


async def _wakes(w: World, kind: Resource, patch: Obj, subresource: str | None, *, times: int) -> None:
    """The patch leads to so many reconciles of this kind, and without any to no request of the operator's."""
    before, mark = w.reconciles(kind), w.plane.audit.mark()
    await w.client.patch(kind, "one", patch, PatchType.MERGE, subresource=subresource)
    await w.until_quiet()
    assert w.reconciles(kind) == before + times
    if not times:
        assert w.plane.audit.count(since=mark, user=w.user) == 0

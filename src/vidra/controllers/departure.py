"""Lets go of all that a resource has in a cluster: because it is deleted, or because it has gone elsewhere.

Objects go first, the resource's finalizer last. What can't be let go of keeps the resource, and its status says what
and why; the way out for a cluster that is gone for good is ``deletionPolicy: Orphan``.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from vidra.api.common import DeletionPolicy, LeavingSpec
from vidra.api.states import Reason, State
from vidra.clusters.secrets import DestinationUnknown
from vidra.controllers import reporting, rollout_status
from vidra.controllers.kinds import is_deleting, manager_of, owning_sync
from vidra.controllers.places import Places
from vidra.controllers.subjects import Subjects
from vidra.controllers.whereabouts import read_whereabouts, write_whereabouts
from vidra.deploy.errors import ObjectError, Problem
from vidra.deploy.inventory import Inventory
from vidra.deploy.prune import Leaver
from vidra.deploy.rollout import Outcome, prune_all
from vidra.kube.client import Obj
from vidra.kube.errors import ConfigError
from vidra.runtime.bulkhead import Full
from vidra.runtime.controller import Result
from vidra.runtime.store import Key, Store

log = structlog.get_logger(__name__)

#: Seconds until a look at objects that are going, where no watch says when they are gone.
STILL_GOING = 5.0
#: Seconds after which one who was turned away from a busy cluster comes back unless woken before.
TURNED_AWAY = 30.0


class Departure:
    """Stateless; both ways out of a cluster share it."""

    def __init__(self, subjects: Subjects, places: Places, syncs: Store[Obj]) -> None:
        self._subjects = subjects
        self._places = places
        self._syncs = syncs

    async def of_resource(self, obj: Obj) -> Result:
        """A resource that is being deleted. Reads no more of its spec than that takes: whatever else is wrong with it,
        it can be deleted. Raises the controller's errors."""
        if not self._subjects.is_kept(obj):
            return Result()
        spec = LeavingSpec.model_validate(obj.get("spec") or {})
        inventories = read_whereabouts(obj)
        together = Outcome({})
        try:
            for server, inventory in list(inventories.items()):
                outcome = await self.from_cluster(
                    obj,
                    server,
                    inventory,
                    service_account=spec.service_account_name,
                    orphan=spec.deletion_policy is DeletionPolicy.ORPHAN,
                )
                inventories[server] = outcome.inventory
                together.errors += outcome.errors
                together.removed += outcome.removed
        except Full:
            return Result(requeue_after=TURNED_AWAY)
        rollout_status.log_outcome(together)
        if together.errors or any(inventories.values()):
            return await self._stay(obj, spec, inventories, together)
        await self._subjects.release(obj)
        self._places.forget(obj["metadata"]["name"])
        return Result()

    async def from_cluster(
        self, obj: Obj, server: str, inventory: Inventory, *, service_account: str, orphan: bool = False
    ) -> Outcome:
        """Lets go of a whole inventory; the outcome's is what is left of it. Raises Full."""
        name, manager = obj["metadata"]["name"], manager_of(obj)
        try:
            place = await self._places.open(server, service_account)
        except (DestinationUnknown, ConfigError) as error:
            if orphan:
                log.warning("objects left behind", server=server, objects=[str(key) for key in inventory])
                return Outcome({})
            text = (
                f"{len(inventory)} objects are still there: {error}. To leave them behind, set spec.deletionPolicy to "
                "Orphan and delete the resource"
            )
            first = next(iter(inventory))
            return Outcome(inventory, errors=[ObjectError(first, Problem.PRUNE, text, where=server)])
        place.ownership.declare(name, manager, {})
        place.ownership.inventory(name, manager, inventory, version=obj["metadata"].get("resourceVersion") or "")
        outcome = Outcome(dict(inventory))
        with place.enter(name):
            await prune_all(place.pruner, inventory.values(), outcome, self.leaver(obj, orphan=orphan))
        return outcome

    def leaver(self, obj: Obj, *, orphan: bool = False) -> Leaver:
        """On whose behalf objects are let go of. While its sync writes or deletes resources, or is gone, siblings may
        be about to go as well."""
        owner = owning_sync(obj)
        sync = None if owner is None else self._syncs.get(Key("", owner[0]))
        busy = sync is None or is_deleting(sync) or (sync.get("status") or {}).get("syncState") == State.RUNNING
        return Leaver(obj["metadata"]["name"], manager_of(obj), orphan=orphan, patient=owner is not None and busy)

    async def _stay(
        self, obj: Obj, spec: LeavingSpec, inventories: Mapping[str, Inventory], outcome: Outcome
    ) -> Result:
        changes = write_whereabouts(spec.destination, inventories)
        if outcome.errors:
            await self._subjects.fail(obj, rollout_status.failure(outcome.errors, stale=False), changes)
        report = reporting.running(rollout_status.still_going(outcome), reason=Reason.DELETING)
        await self._subjects.write(obj, report, changes)
        return Result(requeue_after=STILL_GOING)

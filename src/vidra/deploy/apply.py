"""Decides what one object needs, and knows when that is nothing.

The way of an object, under a lock of its own:

1. Another resource of the same sync declares it differently, and that is live: refused.
2. Somebody asked, by annotation, to leave it alone: left alone.
3. What is live is what our last apply made of the same wish (the *seal* fits): no request.
4. Only to detect drift: what an apply would change is told.
5. Not known to be there: POST. A name that is taken is a race-free sign that somebody made it; whose it is, its
   managedFields say. Foreign objects are refused, or adopted where that is allowed.
6. Else: apply. Fields held by managers outside of Vidra are taken by force; held by another sync they are a conflict.
7. A field that can't change, and ``force``: delete, wait, create.

All of it is repeated a few times when the object changes under our hands.
"""

from __future__ import annotations

from dataclasses import replace

from vidra.api import names
from vidra.deploy.destination import Destination, see
from vidra.deploy.drift import differences
from vidra.deploy.errors import ObjectError, Problem, is_immutable, refusal
from vidra.deploy.inventory import Entry
from vidra.deploy.ownership import Ownership
from vidra.deploy.wanted import Action, Applicant, Applied, Seals, Wanted, seal
from vidra.deploy.write import Writer, moved, refuse_terminating
from vidra.kube.client import Obj
from vidra.kube.errors import ApiError, KubeError
from vidra.runtime.observed import Observed

#: How often an object may change under our hands before it is left to the next reconcile.
TRIES = 4


class Applier:
    """For one destination. Keeps the last seal of each object in ``seals``, so that the next owner of the same sync,
    which has none in its status yet, has nothing to do either."""

    def __init__(self, destination: Destination, ownership: Ownership, seals: Seals | None = None) -> None:
        self._to = destination
        self._writer = Writer(destination)
        self._ownership = ownership
        self._seals: Seals = {} if seals is None else seals

    def is_done(self, wanted: Wanted, prior: Entry | None, who: Applicant) -> bool:
        """Whether :meth:`apply` would find nothing to do, as far as one can tell without waiting for a lock."""
        live = self._to.live.get(wanted.key)
        return prior is not None and live is not None and self._sealed(wanted, prior, who, live)

    async def apply(self, wanted: Wanted, prior: Entry | None, who: Applicant) -> Applied:
        """Raises ObjectError, and nothing else that the cluster can cause."""
        key = wanted.key
        async with self._to.hold(key):
            live = self._to.live.get(key)
            at_rest = None if live is None else live.digest
            holder = self._ownership.holder(who.resource, who.manager, key, wanted.digest, live=at_rest)
            if holder is not None:
                self._ownership.refused(who.resource, key)
                text = f"VidraResource {holder} declares it differently"
                raise ObjectError(key, Problem.SIBLING_CONFLICT, text, where=wanted.where)
            try:
                applied = await self._decide(wanted, prior, who)
            except KubeError as error:
                raise refusal(key, error, body=wanted.body, where=wanted.where) from error
            self._ownership.applied(who.resource, key)
            return applied

    async def _decide(self, wanted: Wanted, prior: Entry | None, who: Applicant) -> Applied:
        live = await self._see(wanted)
        note = wanted.left_alone(live)
        if note is not None:
            return _left_alone(wanted, prior, note)
        if live is not None and self._sealed(wanted, prior, who, live):
            return Applied(self._entry(wanted, prior, who, live), Action.UNCHANGED)
        if who.detect:
            return await self._detect(wanted, prior, who, live)
        warnings: list[str] = []
        answer, action = await self._write(wanted, prior, who, live, warnings)
        if answer is None:
            return _left_alone(wanted, prior, "left as it is: it was there before")
        observed = self._to.live.wrote(wanted.key, answer)
        entry = self._entry(wanted, prior, who, observed)
        if action is Action.ADOPTED:
            entry = replace(entry, adopted=True)
        return Applied(entry, action, tuple(warnings))

    async def _see(self, wanted: Wanted) -> Observed | None:
        """The live object, by the cache; by a look where its kind can't be watched."""
        if self._to.live.knows(wanted.key):
            return self._to.live.get(wanted.key)
        obj = await self._writer.get(wanted)
        return None if obj is None else see(obj)

    def _sealed(self, wanted: Wanted, prior: Entry | None, who: Applicant, live: Observed) -> bool:
        if live.terminating or not live.managed_by(who.manager):
            return False
        stamp = seal(wanted.digest, live.digest)
        return stamp == self._seals.get((who.manager, wanted.key)) or (prior is not None and stamp == prior.seal)

    def _entry(self, wanted: Wanted, prior: Entry | None, who: Applicant, live: Observed) -> Entry:
        """The object is as wanted: what the inventory says of it. An adopted object that was deleted and made anew by
        us is ours."""
        stamp = self._seals[who.manager, wanted.key] = seal(wanted.digest, live.digest)
        marked = live.annotations.get(names.ADOPTED_ANNOTATION) == names.ADOPTED_VALUE
        adopted = marked or (prior is not None and prior.adopted and prior.uid == live.uid)
        return Entry(wanted.key, wanted.resource.version, live.uid, adopted, stamp)

    async def _detect(self, wanted: Wanted, prior: Entry | None, who: Applicant, live: Observed | None) -> Applied:
        known = prior or Entry(wanted.key, wanted.resource.version)
        obj = await self._writer.get(wanted)
        if obj is None:
            return Applied(replace(known, message="drifted: it is gone"), Action.DRIFTED)
        changed = differences(obj, await self._writer.rehearse(wanted, who, obj))
        if changed:
            return Applied(replace(known, message=f"drifted: {changed}"), Action.DRIFTED)
        return Applied(self._entry(wanted, prior, who, live or see(obj)), Action.UNCHANGED)

    async def _write(
        self, wanted: Wanted, prior: Entry | None, who: Applicant, live: Observed | None, warnings: list[str]
    ) -> tuple[Obj | None, Action]:
        """The server's answer; None where an object that is to be made once was there already."""
        action = Action.CONFIGURED
        if live is not None and not live.managers:
            # It carries our label, or its kind isn't watched: that doesn't make it ours.
            live, adopted = await self._writer.take_over(wanted, prior, who)
            action = Action.ADOPTED if adopted else action
        for _ in range(TRIES):
            if live is None:
                try:
                    return await self._writer.create(wanted, who, warnings), Action.CREATED
                except ApiError as error:
                    if not error.already_exists:
                        raise
                if wanted.is_once:
                    return None, Action.UNCHANGED
            else:
                refuse_terminating(wanted, live)
                try:
                    return await self._writer.apply(wanted, who, live, warnings), action
                except ApiError as error:
                    if is_immutable(error):
                        return await self._writer.recreate(wanted, who, live, error, warnings), Action.RECREATED
                    if not moved(error):
                        raise
            # It is another object by now, or was changed in between: see what is there.
            live, adopted = await self._writer.take_over(wanted, prior, who)
            action = Action.ADOPTED if adopted else Action.CONFIGURED
        raise ObjectError(wanted.key, Problem.REFUSED, "it keeps changing while it is applied", where=wanted.where)


def _left_alone(wanted: Wanted, prior: Entry | None, note: str) -> Applied:
    """What the inventory knew of it stays: an object that was never applied is not deleted either."""
    known = prior or Entry(wanted.key, wanted.resource.version)
    return Applied(replace(known, version=wanted.resource.version, message=note), Action.UNCHANGED)

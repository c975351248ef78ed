"""Applies everything a manifest wants, stage by stage, and lets go of what left it.

One object that fails keeps none of its stage from being applied. The last stage (webhooks, APIServices) is held back
while an earlier object failed: a webhook whose server isn't there stops everybody's writes. Nothing is pruned while
anything failed: what replaces an old object may be just what did not arrive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import structlog
from tenacity import AsyncRetrying, RetryError, retry_if_result, stop_after_delay, wait_exponential

from vidra.deploy import plan
from vidra.deploy.apply import Applier
from vidra.deploy.destination import Destination
from vidra.deploy.errors import ObjectError, Problem
from vidra.deploy.inventory import Entry, Inventory
from vidra.deploy.prune import Leaver, Pruner, Removal, Removed
from vidra.deploy.resolve import Resolved, resolve_coming
from vidra.deploy.wanted import Action, Applicant, Applied, Wanted
from vidra.kube.errors import KubeError
from vidra.kube.resource import ObjectKey

log = structlog.get_logger(__name__)

T = TypeVar("T")
R = TypeVar("R")

#: Objects of one resource that are worked on at once.
AT_ONCE = 8
#: Seconds until a new CustomResourceDefinition must be served.
ESTABLISHED_WITHIN = 30.0


@dataclass(slots=True)
class Outcome:
    """What became of it. ``inventory`` is what the resource is responsible for now."""

    inventory: Inventory
    applied: list[Applied] = field(default_factory=list)
    removed: list[Removed] = field(default_factory=list)
    errors: list[ObjectError] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        return bool(self.removed) or any(a.action.is_write for a in self.applied)

    @property
    def pending(self) -> list[Removed]:
        """Deleted, and still there."""
        return [r for r in self.removed if r.removal is Removal.TERMINATING]

    @property
    def drifted(self) -> list[Entry]:
        """Found to differ, and left so."""
        return [a.entry for a in self.applied if a.action is Action.DRIFTED]

    @property
    def warnings(self) -> list[str]:
        return [f"{a.entry.key}: {text}" for a in self.applied for text in a.warnings]


async def apply_all(
    to: Destination, applier: Applier, resolved: Resolved, inventory: Inventory, who: Applicant
) -> Outcome:
    """Applies all of ``resolved``. ``inventory`` is the union that stands in the status already."""
    outcome = Outcome(dict(inventory), errors=list(resolved.errors))
    await _apply_stages(to, applier, resolved.wanted, outcome, who)
    if resolved.coming:
        known = set(resolved.wanted)
        await resolve_coming(to, resolved)
        outcome.errors += [error for error in resolved.errors if error not in outcome.errors]
        late = {key: wanted for key, wanted in resolved.wanted.items() if key not in known}
        await to.live.watch({wanted.resource for wanted in late.values()})
        await _apply_stages(to, applier, late, outcome, who)
    for error in outcome.errors:
        entry = outcome.inventory.get(error.key)
        if entry is not None:
            # Without a seal nobody takes it for the holder of the object: see :mod:`vidra.deploy.ownership`.
            seal = "" if error.problem is Problem.SIBLING_CONFLICT else entry.seal
            outcome.inventory[error.key] = replace(entry, message=error.message, seal=seal)
    return outcome


async def prune_all(pruner: Pruner, entries: Iterable[Entry], outcome: Outcome, who: Leaver) -> None:
    """Lets go of ``entries`` in reverse order; what is gone leaves ``outcome.inventory``."""
    going = {entry.key: entry for entry in entries}
    for keys in plan.reverse_stages(going):
        for run in plan.by_kind(keys):
            results = await _each(run, lambda key: pruner.let_go(going[key], who))
            for key, result in zip(run, results, strict=True):
                if isinstance(result, ObjectError):
                    outcome.errors.append(result)
                    outcome.inventory[key] = replace(going[key], message=result.message)
                    continue
                outcome.removed.append(result)
                if result.removal is Removal.TERMINATING:
                    outcome.inventory[key] = replace(going[key], message=result.note)
                else:
                    outcome.inventory.pop(key, None)


async def _apply_stages(
    to: Destination, applier: Applier, wanted: dict[ObjectKey, Wanted], outcome: Outcome, who: Applicant
) -> None:
    for stage, keys in plan.stages(wanted):
        if stage is plan.Stage.GATES and outcome.errors:
            first = outcome.errors[0]
            outcome.errors += [
                ObjectError(key, Problem.HELD_BACK, f"not applied before {first.key} is", where=wanted[key].where)
                for key in keys
                if not applier.is_done(wanted[key], outcome.inventory.get(key), who)
            ]
            continue
        for run in plan.by_kind(keys):
            await _apply_run(applier, [wanted[key] for key in run], outcome, who)
        definitions = [
            wanted[a.entry.key]
            for a in outcome.applied
            if a.entry.key in wanted and a.entry.key.kind == "CustomResourceDefinition" and a.action.is_write
        ]
        if stage is plan.Stage.DEFINITIONS and definitions:
            await _established(to, definitions, outcome)


async def _apply_run(applier: Applier, run: Sequence[Wanted], outcome: Outcome, who: Applicant) -> None:
    results = await _each(run, lambda w: applier.apply(w, outcome.inventory.get(w.key), who))
    for wanted, result in zip(run, results, strict=True):
        if isinstance(result, ObjectError):
            outcome.errors.append(result)
        else:
            outcome.applied.append(result)
            outcome.inventory[wanted.key] = result.entry


async def _each(items: Sequence[T], work: Callable[[T], Awaitable[R]]) -> list[R | ObjectError]:
    """Works on all items, a few at once. An ObjectError is a result; any other error ends the whole."""
    if len(items) == 1:
        return [await _caught(work, items[0])]
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(item: T) -> R | ObjectError:
        async with slots:
            return await _caught(work, item)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(item)) for item in items]
    return [task.result() for task in tasks]


async def _caught(work: Callable[[T], Awaitable[R]], item: T) -> R | ObjectError:
    try:
        return await work(item)
    except ObjectError as error:
        return error


async def _established(to: Destination, definitions: Sequence[Wanted], outcome: Outcome) -> None:
    """Waits until new kinds are served, then reads the server's kinds again."""
    waiting = AsyncRetrying(
        wait=wait_exponential(multiplier=0.05, max=1.0),
        stop=stop_after_delay(ESTABLISHED_WITHIN),
        retry=retry_if_result(lambda established: not established),
    )
    for wanted in definitions:
        try:
            await waiting(_is_established, to, wanted)
        except RetryError:
            message = f"not established within {ESTABLISHED_WITHIN:g} s"
            outcome.errors.append(ObjectError(wanted.key, Problem.NOT_SERVED, message, where=wanted.where))
        except KubeError as error:
            outcome.errors.append(ObjectError(wanted.key, Problem.NOT_SERVED, str(error), where=wanted.where))
    await to.discovery.refresh(now=True)


async def _is_established(to: Destination, wanted: Wanted) -> bool:
    obj = await to.client.get(wanted.resource, wanted.key.name)
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)

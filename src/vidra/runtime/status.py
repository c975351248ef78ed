"""The only writer of status.

Promises:

* It sends the difference between the status last known and the one wanted, and nothing when they are alike.
* It writes only over the very object state it was computed from: each patch carries a resourceVersion. An older
  answer is noticed by the server, the object is read again and the difference is computed anew, so that

  - a status of a newer generation, which another process wrote meanwhile, stays (``SUPERSEDED``);
  - an object that was deleted and made again under the same name gets nothing of its predecessor (``GONE``). A uid
    in the patch would not do: on a custom resource's /status the API server ignores it (seen on 1.36).

* Transient errors are tried again for :data:`TRY_FOR` seconds at the most, an object that is gone is no error, and
  every other refusal is the caller's at once.
* A status that the API server would have to refuse for its size is an error before anything is sent.

To save the second request that a conflict costs, pass the resourceVersion of the newest answer, which after a write
of one's own is that write's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_before_delay, wait_exponential, wait_random

from vidra.kube import codec
from vidra.kube.client import Client, Obj, PatchType
from vidra.kube.errors import ApiError, KubeError, Unreachable
from vidra.kube.resource import Resource

#: Seconds after which trying again is left to the caller's own queue.
TRY_FOR = 10.0
#: Bytes of JSON. etcd refuses objects beyond 1.5 MB, and the object has a spec too.
MAX_BYTES = 1_000_000

Status: TypeAlias = Mapping[str, Any]
#: Makes a smaller status of one that is too large; is told how many bytes it may have.
Shrink: TypeAlias = Callable[[Status, int], Status]


class StatusTooLarge(Exception):
    """The status can't be written in this size; nothing was sent."""


class Outcome(StrEnum):
    WRITTEN = "written"
    UNCHANGED = "unchanged"
    SUPERSEDED = "superseded"
    GONE = "gone"


class Answer(NamedTuple):
    """``object`` is the object as the server has it now; None where it is gone or where nothing had to be asked."""

    outcome: Outcome
    object: Obj | None


class StatusClient:
    """``field_manager`` is written into managedFields; ``try_for`` and ``max_bytes`` are as in the module's text."""

    def __init__(
        self, client: Client, *, field_manager: str, try_for: float = TRY_FOR, max_bytes: int = MAX_BYTES
    ) -> None:
        self._client = client
        self._field_manager = field_manager
        self._try_for = try_for
        self._max_bytes = max_bytes

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        desired: Status,
        last_known: Status | None,
        *,
        uid: str,
        resource_version: str | None = None,
        shrink: Shrink | None = None,
    ) -> Answer:
        """Makes the status of one object read ``desired``, whole: keys it doesn't have are removed.

        ``last_known`` is the status that came with ``resource_version``; without a version the object is read first.
        ``uid`` says which object of that name is meant. Raises StatusTooLarge, and the client's errors once they are
        final: refusals that waiting won't change at once, the others after ``try_for`` seconds.
        """
        known, version = last_known or {}, resource_version
        patch: Obj = {}
        if version is not None:
            desired, patch = self._difference(known, desired, shrink)
            if not patch:
                return Answer(Outcome.UNCHANGED, None)
        try:
            # The bound holds for requests that hang as well: what one of them did shows when it is tried again.
            async with asyncio.timeout(self._try_for):
                return await self._write(
                    resource, name, namespace, desired, known, patch, uid=uid, version=version, shrink=shrink
                )
        except TimeoutError as error:
            raise Unreachable(f"PATCH status of {resource.kind} {name}: no answer in {self._try_for:g} s") from error

    async def _write(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        desired: Status,
        known: Status,
        patch: Obj,
        *,
        uid: str,
        version: str | None,
        shrink: Shrink | None,
    ) -> Answer:
        async for attempt in self._attempts():
            with attempt:
                try:
                    if version is None:
                        current = await self._client.get(resource, name, namespace)
                        if current["metadata"].get("uid") != uid:
                            return Answer(Outcome.GONE, None)
                        known = current.get("status") or {}
                        if _generation(known) > _generation(desired):
                            return Answer(Outcome.SUPERSEDED, current)
                        desired, patch = self._difference(known, desired, shrink)
                        if not patch:
                            return Answer(Outcome.UNCHANGED, current)
                        version = current["metadata"]["resourceVersion"]
                    written = await self._client.patch(
                        resource,
                        name,
                        {"metadata": {"resourceVersion": version}, "status": patch},
                        PatchType.MERGE,
                        namespace=namespace,
                        subresource="status",
                        field_manager=self._field_manager,
                    )
                except ApiError as error:
                    if error.not_found:
                        return Answer(Outcome.GONE, None)
                    if error.conflict:
                        version = None
                    raise
                return Answer(Outcome.WRITTEN, written)
        raise AssertionError("tenacity ends by an answer or an error")

    def _difference(self, known: Status, desired: Status, shrink: Shrink | None) -> tuple[Status, Obj]:
        """The patch, and the wanted status it leads to, which is smaller than ``desired`` where it had to shrink."""
        patch = merge_patch(known, desired)
        if not patch:
            return desired, patch
        size = len(codec.dumps(desired))
        if size <= self._max_bytes:
            return desired, patch
        if shrink is None:
            raise StatusTooLarge(f"the status has {size} bytes, more than the {self._max_bytes} that may be written")
        smaller = shrink(desired, self._max_bytes)
        shrunk = len(codec.dumps(smaller))
        if shrunk > self._max_bytes:
            raise StatusTooLarge(
                f"the status has {size} bytes, {shrunk} after shrinking: more than {self._max_bytes} can't be written"
            )
        return smaller, merge_patch(known, smaller)

    def _attempts(self) -> AsyncRetrying:
        return AsyncRetrying(
            retry=retry_if_exception(_transient),
            wait=_Wait(),
            stop=stop_before_delay(self._try_for),
            reraise=True,
        )


def merge_patch(old: Status, new: Status) -> Obj:
    """The JSON merge patch (RFC 7386) that turns ``old`` into ``new``: empty where they are alike, null for what is
    gone, lists whole. None in ``new`` reads as absent, since a merge patch can't say anything else."""
    patch: Obj = {key: None for key, value in old.items() if value is not None and new.get(key) is None}
    for key, value in new.items():
        before = old.get(key)
        if value is None or value == before:
            continue
        if isinstance(value, Mapping):
            inner = merge_patch(before if isinstance(before, Mapping) else {}, value)
            # An empty object is a value too where there was none before.
            if inner or not isinstance(before, Mapping):
                patch[key] = inner
        else:
            patch[key] = value
    return patch


def _generation(status: Status) -> int:
    generation = status.get("observedGeneration")
    return generation if isinstance(generation, int) else 0


def _transient(error: BaseException) -> bool:
    return isinstance(error, KubeError) and error.retryable


class _Wait:
    """A conflict is computed anew at once; a busy server gets the time it asks for."""

    def __init__(self) -> None:
        self._backoff = wait_exponential(multiplier=0.1, max=2.0) + wait_random(0, 0.1)

    def __call__(self, state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, ApiError):
            if error.conflict and state.attempt_number == 1:
                return 0.0
            if error.retry_after is not None:
                return max(error.retry_after, self._backoff(state))
        return self._backoff(state)

"""The objects of one of Vidra's two kinds, as their reconciler handles them: read, given a finalizer, told about.

Each write is noted, so that no later pass decides by a copy that is older than it (:mod:`vidra.runtime.ownwrites`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, NoReturn

from vidra.api.states import Reason, State
from vidra.controllers import reporting
from vidra.controllers.reporting import Report
from vidra.kube.client import Client, Obj, PatchType
from vidra.kube.errors import ApiError, KubeError
from vidra.kube.resource import Resource
from vidra.runtime.controller import Result, RetryableError, RetryAfter, TerminalError
from vidra.runtime.finalizers import add_finalizer_patch, has_finalizer, remove_finalizer_patch
from vidra.runtime.ownwrites import CacheBehind, OwnWrites
from vidra.runtime.status import Outcome, Shrink, StatusClient, StatusTooLarge
from vidra.runtime.store import Key, Store


class Subjects:
    """``state_field`` is the kind's own name for its state. ``on_write`` is told of each object as a write left it."""

    def __init__(
        self,
        kind: Resource,
        *,
        state_field: str,
        finalizer: str,
        client: Client,
        statuses: StatusClient,
        store: Store[Obj],
        shrink: Shrink | None = None,
        on_write: Callable[[Obj], None] = lambda obj: None,
    ) -> None:
        self.kind = kind
        self.store = store
        self._state_field = state_field
        self._finalizer = finalizer
        self._client = client
        self._statuses = statuses
        self._shrink = shrink
        self._on_write = on_write
        self._own_writes: OwnWrites[str] = OwnWrites()

    # --- reading

    def current(self, name: str) -> Obj | None:
        """The object as the cache has it; None: there is none. Raises CacheBehind, see :meth:`check`."""
        self.check(name)
        return self.store.get(Key("", name))

    def check(self, name: str) -> None:
        """Raises CacheBehind while the cache hasn't seen our last write to this object."""
        self._own_writes.check(name, self.store.progress)

    def wrote(self, answer: Obj) -> None:
        """Notes a write by what the server answered to it."""
        self._own_writes.wrote(answer["metadata"]["name"], answer["metadata"]["resourceVersion"])

    def state(self, obj: Obj) -> str | None:
        return (obj.get("status") or {}).get(self._state_field)

    # --- the finalizer

    async def keep(self, obj: Obj) -> Obj:
        """Stores the finalizer, before anything is done that a deletion would have to undo. Raises RetryableError when
        the finalizers change at that very moment."""
        patch = add_finalizer_patch(obj, self._finalizer)
        if not patch:
            return obj
        answer = await self._patch_finalizers(obj, patch)
        if answer is None:
            raise RetryableError("it was deleted meanwhile")
        return answer

    def is_kept(self, obj: Obj) -> bool:
        return has_finalizer(obj, self._finalizer)

    async def release(self, obj: Obj) -> None:
        """Takes the finalizer away: everything is undone. Raises RetryableError as :meth:`keep`."""
        await self._patch_finalizers(obj, remove_finalizer_patch(obj, self._finalizer))

    async def _patch_finalizers(self, obj: Obj, patch: list[dict[str, Any]]) -> Obj | None:
        try:
            answer = await self._client.patch(self.kind, obj["metadata"]["name"], patch, PatchType.JSON)
        except ApiError as error:
            if error.not_found:
                return None
            if error.invalid:
                raise RetryableError("its finalizers have changed meanwhile") from error
            raise
        self.wrote(answer)
        return answer

    # --- the status

    async def write(self, obj: Obj, report: Report, changes: Mapping[str, Any] | None = None) -> Obj:
        """Writes the status; returns the object as it is now. ``changes`` are the kind's own fields, None removes.

        Raises RetryableError when the object is gone, and what the status client raises.
        """
        metadata = obj["metadata"]
        answer = await self._statuses.patch(
            self.kind,
            metadata["name"],
            None,
            reporting.next_status(obj, report, state_field=self._state_field, changes=changes or {}),
            obj.get("status"),
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
            shrink=self._shrink,
        )
        if answer.outcome is Outcome.GONE:
            raise RetryableError("it was deleted meanwhile")
        if answer.object is None:
            return obj
        self.wrote(answer.object)
        self._on_write(answer.object)
        return answer.object

    async def fail(
        self, obj: Obj, report: Report, changes: Mapping[str, Any] | None = None, *, pause: float | None = None
    ) -> NoReturn:
        """Writes the failure, then raises what makes the controller try again: after ``pause`` seconds, or, without
        one, after the back-off; or not at all, where the report says so."""
        try:
            await self.write(obj, report, changes)
        except StatusTooLarge as error:
            # What is said of the objects doesn't fit; that it failed does.
            short = Report(State.FAILED, Reason.STATUS_TOO_LARGE, f"{report.message}; {error}", will_retry=False)
            await self.write(obj, short)
            raise TerminalError(short.message) from error
        if not report.will_retry:
            raise TerminalError(report.message)
        if pause:
            raise RetryAfter(pause, report.message)
        raise RetryableError(report.message)

    async def told(self, name: str, reconcile: Callable[[str], Awaitable[Result]]) -> Result:
        """Reconciles, and sees to it that an error nobody foresaw stands in the status too, not in the log alone."""
        try:
            return await reconcile(name)
        except (RetryableError, RetryAfter, TerminalError, CacheBehind):
            raise
        except Exception as error:
            if isinstance(error, KubeError):
                reason, text = Reason.API_ERROR, str(error)
            else:
                reason, text = Reason.INTERNAL_ERROR, f"a fault in Vidra ({type(error).__name__}); the log has the rest"
            obj = self.store.get(Key("", name))
            # The first error is the one to raise, whatever becomes of telling it.
            with suppress(Exception):
                if obj is not None:
                    await self.write(obj, Report(State.FAILED, reason, text))
            raise

    async def suspended(self, obj: Obj) -> Result:
        """What was done stays, and so does what is said of it; one that never ran says why it doesn't."""
        if not (obj.get("status") or {}).get("observedGeneration"):
            await self.write(obj, Report(State.PENDING, Reason.SUSPENDED, "spec.suspend is true"))
        return Result()

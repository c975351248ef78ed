"""One Lease of an API server, and the rules of time that those who want it keep.

Everything about the wire form of coordination.k8s.io/v1 is here; who leads is :mod:`vidra.runtime.leader`'s.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from vidra.kube import config
from vidra.kube.breaker import Breaker
from vidra.kube.client import Client, Obj
from vidra.kube.errors import ApiError
from vidra.kube.resource import Resource
from vidra.kube.session import RequestObserver, Session
from vidra.kube.watch import watch
from vidra.runtime.timestamps import micro_time

LEASES: Final = Resource("coordination.k8s.io", "v1", "Lease", "leases", namespaced=True)
#: leaderelection.go's JitterFactor: the wait between two tries of a standby, and the slack that renewals need.
JITTER: Final = 1.2


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Seconds. The defaults are controller-runtime's. Raises ValueError for times that would let two lead at once.

    ``duration`` is how long others leave the lease alone after they saw it renewed; an int, since the API takes no
    fractions and a rounded one would be another promise. ``renew_deadline`` is how long its holder writes after the
    moment of the last renewal that went well. The time between is for what is still on its way to the server, and for
    clocks that run at different speeds. ``retry`` is the pause between two tries.
    """

    duration: int = 15
    renew_deadline: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline > self.retry * JITTER > 0:
            raise ValueError(
                f"need duration > renew_deadline > {JITTER} * retry > 0, "
                f"got {self.duration}, {self.renew_deadline} and {self.retry}"
            )
        if int(self.duration) != self.duration:
            raise ValueError(f"the duration of a lease is a whole number of seconds, got {self.duration}")

    @property
    def attempt(self) -> float:
        """How long one try may take: two that hang leave time for a third one before the deadline."""
        return self.renew_deadline / 3

    @property
    def patience(self) -> float:
        """How long after the deadline a write may still be on its way, and when a process that has not stopped is
        ended: half of what is left."""
        return (self.duration - self.renew_deadline) / 2


class LeaseStore(Protocol):
    """Where the record is. Its methods send one request each and raise KubeError."""

    async def get(self) -> Obj | None:
        """None: there is none."""

    async def create(self, spec: Obj) -> Obj:
        """Raises ApiError (already_exists) when somebody was faster."""

    async def update(self, lease: Obj) -> Obj:
        """Writes over exactly the version that was read. Raises ApiError (conflict, not_found) when it changed."""

    def changes(self) -> AbstractAsyncContextManager[AsyncIterator[Obj | None]]:
        """The record now and whenever it changes, None when it is deleted; ends when the server likes."""


class KubeLease:
    """The Lease ``namespace``/``name``. Its client must be without a guard; see :func:`lease_session`."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name

    async def get(self) -> Obj | None:
        try:
            return await self._client.get(LEASES, self._name, self._namespace)
        except ApiError as error:
            if error.not_found:
                return None
            raise

    async def create(self, spec: Obj) -> Obj:
        metadata = {"name": self._name, "namespace": self._namespace}
        body = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
        return await self._client.create(LEASES, body, namespace=self._namespace)

    async def update(self, lease: Obj) -> Obj:
        answer: Obj = await self._client.raw("PUT", LEASES.path(namespace=self._namespace, name=self._name), body=lease)
        return answer

    @asynccontextmanager
    async def changes(self) -> AsyncIterator[AsyncIterator[Obj | None]]:
        async with watch(
            self._client, LEASES, namespace=self._namespace, field_selector=f"metadata.name={self._name}"
        ) as events:
            yield (
                None if event.type == "DELETED" else event.object async for event in events if event.type != "BOOKMARK"
            )


def lease_session(loader: config.Loader, times: LeaseTimes, observer: RequestObserver | None = None) -> Session:
    """A session for nothing but the lease: a renewal waits behind nobody's requests, takes no connection of theirs,
    ends in time, and is tried however often it failed before."""
    return Session(loader, max_in_flight=2, timeout=times.renew_deadline, observer=observer, breaker=_NeverOpen())


class _NeverOpen(Breaker):
    def failed(self) -> None:
        pass


class Sighting:
    """A record as it was last seen, and since when it is seen so by our own ``clock``."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since = 0.0
        self.lease: Obj | None = None

    def see(self, lease: Obj) -> None:
        # Only the spec: somebody's label on the object is no renewal.
        if self.lease is None or self.lease.get("spec") != lease.get("spec"):
            self._since = self._clock()
        self.lease = lease

    @property
    def holder(self) -> str:
        return "" if self.lease is None else holder(self.lease)

    def belongs_to_other(self, identity: str, times: LeaseTimes) -> bool:
        """Whether somebody else may rely on it still. For as long as that one promised, not as we would."""
        if self.lease is None or self.holder in {"", identity}:
            return False
        return self._clock() < self._since + duration(self.lease, times.duration)


# --- the record


def holder(lease: Obj) -> str:
    """Whose it is; "" when it is free."""
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def duration(lease: Obj, default: float) -> float:
    """For how many seconds its holder may rely on it."""
    seconds = (lease.get("spec") or {}).get("leaseDurationSeconds")
    return float(seconds) if isinstance(seconds, int) and seconds > 0 else default


def first(identity: str, times: LeaseTimes) -> Obj:
    """The spec of a lease nobody had before."""
    now = micro_time()
    return {
        "holderIdentity": identity,
        "leaseDurationSeconds": int(times.duration),
        "acquireTime": now,
        "renewTime": now,
        "leaseTransitions": 0,
    }


def taken(lease: Obj, identity: str, times: LeaseTimes) -> Obj:
    """``lease`` as it is when ``identity`` takes it over from another."""
    spec = lease.get("spec") or {}
    return _with(lease, **{**first(identity, times), "leaseTransitions": (spec.get("leaseTransitions") or 0) + 1})


def renewed(lease: Obj, times: LeaseTimes) -> Obj:
    """``lease`` as its holder renews it: since when, and the how manieth, stay."""
    return _with(lease, leaseDurationSeconds=int(times.duration), renewTime=micro_time())


def released(lease: Obj) -> Obj:
    """``lease`` as its holder gives it up: nobody's, and over in a second for those who look at the time only."""
    now = micro_time()
    return _with(lease, holderIdentity="", leaseDurationSeconds=1, acquireTime=now, renewTime=now)


def _with(lease: Obj, **spec: object) -> Obj:
    changed = copy.deepcopy(lease)  # fields of a newer API stay, too
    changed["spec"] = {**(lease.get("spec") or {}), **spec}
    return changed

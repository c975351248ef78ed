"""Deletes one object and waits until it is gone: for recreating it. Pruning waits across reconciles instead."""

from __future__ import annotations

from tenacity import AsyncRetrying, retry_if_result, stop_after_delay, wait_exponential

from vidra.deploy.destination import Destination
from vidra.deploy.errors import ObjectError, Problem
from vidra.kube.errors import ApiError
from vidra.kube.resource import ObjectKey, Resource
from vidra.runtime.observed import Observed

#: Seconds. A pod's grace period is 30 by default.
GONE_WITHIN = 60.0


async def delete_and_wait(to: Destination, resource: Resource, key: ObjectKey, live: Observed) -> None:
    """Deletes exactly this object. Raises ObjectError naming the finalizers when it stays, and the client's errors."""
    try:
        await to.client.delete(resource, key.name, namespace=key.namespace, uid=live.uid)
    except ApiError as error:
        if not error.not_found:
            raise
    waiting = AsyncRetrying(
        wait=wait_exponential(multiplier=0.05, max=2.0),
        stop=stop_after_delay(GONE_WITHIN),
        retry=retry_if_result(lambda finalizers: finalizers is not None),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
    )
    finalizers: tuple[str, ...] | None = await waiting(_finalizers, to, resource, key, live.uid)
    if finalizers is not None:
        waits = f", waiting for {', '.join(finalizers)}" if finalizers else ""
        raise ObjectError(key, Problem.TERMINATING, f"it is still being deleted after {GONE_WITHIN:g} s{waits}")
    to.live.deleted(key, live.uid)


async def _finalizers(to: Destination, resource: Resource, key: ObjectKey, uid: str) -> tuple[str, ...] | None:
    """The finalizers of the object while it is there; None when it, or this one of its name, is gone."""
    try:
        obj = await to.client.get(resource, key.name, key.namespace)
    except ApiError as error:
        if error.not_found:
            return None
        raise
    if obj["metadata"].get("uid") != uid:
        return None
    return tuple(obj["metadata"].get("finalizers") or ())

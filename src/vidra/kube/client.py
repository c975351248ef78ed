"""The verbs of one API server on raw dicts: get, list, create, apply, patch, delete.

Every method sends exactly one request and raises the errors of :mod:`vidra.kube.errors`. ``warnings``, where it is
taken, collects what the server warned of (unknown fields, deprecated versions). Watches are :mod:`vidra.kube.watch`'s.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Any, TypeAlias

from vidra.kube import codec
from vidra.kube.errors import InvalidAnswer
from vidra.kube.resource import Resource
from vidra.kube.session import Session

Obj: TypeAlias = dict[str, Any]


class PatchType(StrEnum):
    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"


_APPLY = "application/apply-patch+yaml"


class Client:
    """Stateless over a :class:`Session`.

    ``service_account`` (namespace/name) is whom the server is to take us for: it then answers by that account's rights,
    and its refusals name it. Raises ValueError for another form.
    """

    def __init__(self, session: Session, *, service_account: str = "") -> None:
        self.session = session
        self._headers = _impersonation(service_account) if service_account else {}

    @property
    def server(self) -> str:
        return self.session.server

    async def raw(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        warnings: list[str] | None = None,
    ) -> Any:
        """One request to a path of one's own; returns the parsed JSON answer."""
        data = await self.session.request(
            method,
            path,
            params=params,
            body=None if body is None else codec.dumps(body),
            content_type=content_type,
            accept=accept,
            warnings=warnings,
            headers=self._headers,
        )
        try:
            return codec.loads(data)
        except ValueError as error:
            raise InvalidAnswer(f"{method} {path}: the answer is not JSON ({len(data)} bytes)") from error

    def stream(
        self, path: str, *, params: dict[str, str], idle_timeout: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The chunks of one long answer; see :meth:`Session.stream`."""
        return self.session.stream(path, params=params, idle_timeout=idle_timeout, headers=self._headers)

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Obj:
        return await self._object("GET", resource.path(namespace=namespace, name=name))

    async def list_page(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int | None = None,
        continue_token: str | None = None,
        resource_version: str | None = None,
        resource_version_match: str | None = None,
    ) -> Obj:
        """One page of a list: ``items`` without apiVersion and kind, as servers send them."""
        params = _params(
            labelSelector=label_selector,
            fieldSelector=field_selector,
            limit=None if limit is None else str(limit),
            resourceVersion=resource_version,
            resourceVersionMatch=resource_version_match,
        )
        if continue_token:
            params["continue"] = continue_token
        return await self._object("GET", resource.path(namespace=namespace), params=params)

    async def list_all(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        page_size: int = 500,
    ) -> AsyncIterator[Obj]:
        """Every object of a collection, page by page. For one-off reads; caches use the reflector."""
        token: str | None = None
        while True:
            page = await self.list_page(
                resource,
                namespace=namespace,
                label_selector=label_selector,
                limit=page_size,
                continue_token=token,
            )
            for item in page.get("items") or ():
                yield item
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return

    async def create(
        self,
        resource: Resource,
        body: Obj,
        *,
        namespace: str | None = None,
        field_manager: str | None = None,
        dry_run: bool = False,
        warnings: list[str] | None = None,
    ) -> Obj:
        """POST: fails with ``already_exists`` where the name is taken, which is the race-free way to ask."""
        params = _params(fieldManager=field_manager, dryRun="All" if dry_run else None)
        return await self._object(
            "POST", resource.path(namespace=namespace), params=params, body=body, warnings=warnings
        )

    async def apply(
        self,
        resource: Resource,
        body: Obj,
        name: str,
        *,
        namespace: str | None = None,
        field_manager: str,
        force: bool = False,
        dry_run: bool = False,
        subresource: str | None = None,
        warnings: list[str] | None = None,
    ) -> Obj:
        """Server-side apply. Without ``force``, other managers' fields make a 409 whose causes name them."""
        params = _params(fieldManager=field_manager, force="true" if force else None, dryRun="All" if dry_run else None)
        return await self._object(
            "PATCH",
            resource.path(namespace=namespace, name=name, subresource=subresource),
            params=params,
            body=body,
            content_type=_APPLY,
            warnings=warnings,
        )

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Obj | Sequence[Obj],
        kind: PatchType,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        field_manager: str | None = None,
        dry_run: bool = False,
    ) -> Obj:
        params = _params(fieldManager=field_manager, dryRun="All" if dry_run else None)
        return await self._object(
            "PATCH",
            resource.path(namespace=namespace, name=name, subresource=subresource),
            params=params,
            body=patch,
            content_type=kind.value,
        )

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str = "Background",
        dry_run: bool = False,
    ) -> Obj:
        """Deletes under preconditions: a 409 means the object is another one, or has changed, since it was read.

        The answer is the object when finalizers hold it, else a Status. ``propagation`` is always sent: a
        batch/v1 Job's pods would stay otherwise (kubernetes-client/python#234).
        """
        options: Obj = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        preconditions = _params(uid=uid, resourceVersion=resource_version)
        if preconditions:
            options["preconditions"] = preconditions
        if dry_run:
            options["dryRun"] = ["All"]
        return await self._object("DELETE", resource.path(namespace=namespace, name=name), body=options)

    async def _object(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        warnings: list[str] | None = None,
    ) -> Obj:
        answer = await self.raw(method, path, params=params, body=body, content_type=content_type, warnings=warnings)
        if not isinstance(answer, dict):
            raise InvalidAnswer(f"{method} {path}: the answer is no JSON object")
        return answer


def _params(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}


def _impersonation(service_account: str) -> dict[str, str]:
    """The server adds the groups of a service account by itself where none are asked for."""
    namespace, slash, name = service_account.partition("/")
    if not (slash and namespace and name) or "/" in name:
        raise ValueError(f"{service_account!r} is not the namespace/name of a service account")
    return {"Impersonate-User": f"system:serviceaccount:{namespace}:{name}"}

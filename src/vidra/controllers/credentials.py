"""Which Secret a sync logs in with.

The one that the sync names, else the newest that is labelled ``infrahub-api-url=<host>`` (host without scheme and
port, as the original has it). A Secret holds ``token``, or ``username`` and ``password``; a token is preferred.
"""

from __future__ import annotations

import base64
import binascii
from urllib.parse import urlsplit

from vidra.api import names
from vidra.api.infrahubsync import InfrahubSyncSpec
from vidra.api.states import Reason
from vidra.infrahub import Credentials
from vidra.kube.client import Obj
from vidra.runtime.store import Key, Store

#: Index of the Secrets' store: the host in the label.
BY_HOST = "host"


class CredentialsError(Exception):
    """No usable credentials. ``reason`` goes into the condition; the text names the Secrets looked at, no value."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def host_index(secret: Obj) -> list[str]:
    host = (secret["metadata"].get("labels") or {}).get(names.CREDENTIALS_LABEL)
    return [host] if host else []


def host_of(url: str) -> str:
    """As the label has it. A label value can't hold an IPv6 address' colons; they stand as dashes."""
    return (urlsplit(url).hostname or "").replace(":", "-")


def find_credentials(spec: InfrahubSyncSpec, secrets: Store[Obj], own_namespace: str) -> Credentials:
    """Raises CredentialsError."""
    reference = spec.source.credentials_secret_ref
    if reference is not None:
        key = Key(reference.namespace or own_namespace, reference.name)
        secret = secrets.get(key)
        if secret is None:
            raise CredentialsError(
                Reason.CREDENTIALS_NOT_FOUND,
                f"Secret {key} of spec.source.credentialsSecretRef is not there, or lacks the label "
                f"{names.CREDENTIALS_LABEL} by which the operator finds Secrets",
            )
        return _read(secret)
    host = host_of(spec.source.infrahub_api_url)
    found = secrets.by_index(BY_HOST, host)
    if not found:
        raise CredentialsError(
            Reason.CREDENTIALS_NOT_FOUND,
            f"no Secret labelled {names.CREDENTIALS_LABEL}={host}; make one with username and password, or token",
        )
    newest = max(found, key=lambda s: (s["metadata"].get("creationTimestamp") or "", _name(s)))
    return _read(newest)


def uses_secret(spec: InfrahubSyncSpec, secret: Obj, own_namespace: str) -> bool:
    """Whether a change of this Secret may matter to the sync."""
    reference = spec.source.credentials_secret_ref
    if reference is not None:
        metadata = secret["metadata"]
        return (metadata.get("namespace"), metadata["name"]) == (reference.namespace or own_namespace, reference.name)
    return host_of(spec.source.infrahub_api_url) in host_index(secret)


def _read(secret: Obj) -> Credentials:
    token, username, password = (_value(secret, field) for field in ("token", "username", "password"))
    try:
        if token:
            return Credentials(token=token)
        if username and password:
            return Credentials(username=username, password=password)
    except ValueError as error:
        raise CredentialsError(Reason.CREDENTIALS_INVALID, f"Secret {_name(secret)}: {error}") from error
    raise CredentialsError(
        Reason.CREDENTIALS_INVALID, f"Secret {_name(secret)} has neither token nor username and password"
    )


def _value(secret: Obj, field: str) -> str | None:
    encoded = (secret.get("data") or {}).get(field)
    if encoded is None:
        return None
    try:
        # A trailing newline is what `echo` and editors leave behind, and is part of no password that works.
        return base64.b64decode(encoded).decode().rstrip("\r\n")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise CredentialsError(
            Reason.CREDENTIALS_INVALID, f"Secret {_name(secret)}: {field} is not text in base64"
        ) from error


def _name(secret: Obj) -> str:
    return f"{secret['metadata'].get('namespace')}/{secret['metadata']['name']}"

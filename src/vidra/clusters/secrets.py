"""Finds the kubeconfig of a destination among the Secrets labelled ``cluster-kubeconfig=<host>``.

A label value can't hold a URL, so the label only says where to look: what counts is that the kubeconfig's own server
has scheme, host, port and path of the destination. Several Secrets may carry one host, for two clusters behind one
address; two for the very same server are one too many, since nobody could say which of them is meant.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from vidra.api import names
from vidra.clusters.server import host_label, normalise_server
from vidra.kube.client import Obj
from vidra.kube.kubeconfig import KubeconfigRefused, check_kubeconfig, parse_kubeconfig
from vidra.runtime.store import Key, Store

#: Index of the Secrets' store: the host in the label.
BY_HOST = "host"
#: Where in a Secret the kubeconfig stands.
FIELD = "kubeconfig"


class DestinationUnknown(Exception):
    """No way leads to this destination; the text names the Secrets looked at."""


@dataclass(frozen=True, slots=True)
class Found:
    """A Secret that leads to the destination. ``version`` changes when the Secret does."""

    key: Key
    version: str
    kubeconfig: Mapping[str, Any]


def host_index(secret: Obj) -> list[str]:
    host = (secret["metadata"].get("labels") or {}).get(names.KUBECONFIG_LABEL)
    return [host] if host else []


class KubeconfigSecrets:
    """``allowed`` are the words of :class:`vidra.kube.kubeconfig.Allow` that a Secret's kubeconfig may make use of."""

    def __init__(self, secrets: Store[Obj], allowed: Collection[str] = ()) -> None:
        self._secrets = secrets
        self._allowed = allowed
        #: What a Secret of this version was read as: parsing YAML takes longer than everything else a look costs.
        self._read: dict[Key, tuple[str, Mapping[str, Any] | KubeconfigRefused, str]] = {}

    def find(self, server: str) -> Found:
        """The Secret for a normalised, remote server. Raises DestinationUnknown."""
        host = host_label(server)
        looked_at: list[str] = []
        found: list[Found] = []
        for secret in sorted(self._secrets.by_index(BY_HOST, host), key=lambda s: str(_key(s))):
            key, version = _key(secret), secret["metadata"]["resourceVersion"]
            config, url = self._kubeconfig(key, version, secret)
            if isinstance(config, KubeconfigRefused):
                looked_at.append(f"{key} ({config})")
            elif url != server:
                looked_at.append(f"{key} (is for {url or 'the local cluster'})")
            else:
                looked_at.append(str(key))
                found.append(Found(key, version, config))
        if len(found) == 1:
            return found[0]
        if found:
            raise DestinationUnknown(
                f"several Secrets have a kubeconfig for {server}: {', '.join(str(each.key) for each in found)}; "
                "there must be one"
            )
        label = f"{names.KUBECONFIG_LABEL}={host}"
        if looked_at:
            raise DestinationUnknown(
                f"no Secret labelled {label} has a usable kubeconfig for {server}: {'; '.join(looked_at)}"
            )
        raise DestinationUnknown(f"there is no Secret labelled {label} with a kubeconfig for {server}")

    def _kubeconfig(self, key: Key, version: str, secret: Obj) -> tuple[Mapping[str, Any] | KubeconfigRefused, str]:
        """The kubeconfig and its server, normalised; or why it can't be used."""
        known = self._read.get(key)
        if known is not None and known[0] == version:
            return known[1], known[2]
        config: Mapping[str, Any] | KubeconfigRefused
        url = ""
        try:
            config = parse_kubeconfig(_text(secret))
            url = normalise_server(check_kubeconfig(config, self._allowed))
        except KubeconfigRefused as error:
            config = error
        except ValueError:
            config = KubeconfigRefused("is no http or https URL", field="cluster.server")
        self._read[key] = (version, config, url)
        return config, url


def _text(secret: Obj) -> str:
    encoded = (secret.get("data") or {}).get(FIELD)
    if not encoded:
        raise KubeconfigRefused(f"it has no {FIELD}")
    try:
        return base64.b64decode(encoded).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise KubeconfigRefused(f"{FIELD} is not text in base64") from error


def _key(secret: Obj) -> Key:
    return Key(secret["metadata"].get("namespace") or "", secret["metadata"]["name"])

"""One cluster, open: everything that its resources share."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from vidra.clusters.live import LiveCache
from vidra.kube.client import Client
from vidra.kube.discovery import Discovery

#: How a destination names the cluster that Vidra itself runs in.
_LOCAL_HOSTS = frozenset({"kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "kubernetes.default"})
_DEFAULT_PORTS = {"https": 443, "http": 80}


class DestinationUnknown(Exception):
    """No way leads to this destination; the text says what was looked for."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """``server`` is the normalised URL, "" for the local cluster."""

    server: str
    client: Client
    discovery: Discovery
    live: LiveCache


def normalise_server(url: str) -> str:
    """One spelling per server: lower-case scheme and host, default port left out, no slash at the end; "" is local.

    >>> normalise_server("HTTPS://K8s.Example.com:443/")
    'https://k8s.example.com'
    """
    if not url:
        return ""
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    port = parts.port
    if host in _LOCAL_HOSTS and parts.scheme == "https" and port in (None, 443):
        return ""
    shown = f"[{host}]" if ":" in host else host
    at = "" if port is None or port == _DEFAULT_PORTS.get(parts.scheme) else f":{port}"
    return f"{parts.scheme.lower()}://{shown}{at}{parts.path.rstrip('/')}"


class Clusters:
    """The destinations at hand. So far that is the local one."""

    def __init__(self, local: Cluster) -> None:
        self._local = local

    def get(self, server: str) -> Cluster:
        """The cluster of a destination's ``server``. Raises DestinationUnknown."""
        normalised = normalise_server(server)
        if normalised == "":
            return self._local
        raise DestinationUnknown(
            f"{normalised} is another cluster; this version deploys to the cluster it runs in only. Leave "
            "spec.destination.server empty"
        )

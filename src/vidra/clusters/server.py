"""How destinations are named: one spelling per API server."""

from __future__ import annotations

from urllib.parse import urlsplit

#: How a destination names the cluster that Vidra itself runs in.
_LOCAL_HOSTS = frozenset({"kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "kubernetes.default"})
_DEFAULT_PORTS = {"https": 443, "http": 80}


def normalise_server(url: str) -> str:
    """Lower-case scheme and host, default port left out, no slash at the end; "" is the local cluster.

    Raises ValueError for what is no http or https URL.

    >>> normalise_server("HTTPS://K8s.Example.com:443/")
    'https://k8s.example.com'
    """
    if not url:
        return ""
    parts = urlsplit(url)
    host, port = (parts.hostname or "").lower(), parts.port
    if parts.scheme not in _DEFAULT_PORTS or not host:
        raise ValueError(f"{url!r} is no http or https URL")
    if host in _LOCAL_HOSTS and parts.scheme == "https" and port in (None, 443):
        return ""
    shown = f"[{host}]" if ":" in host else host
    at = "" if port is None or port == _DEFAULT_PORTS[parts.scheme] else f":{port}"
    return f"{parts.scheme}://{shown}{at}{parts.path.rstrip('/')}"


def host_label(server: str) -> str:
    """The host as the label ``cluster-kubeconfig`` has it: without scheme, port and path; a label value can't hold an
    IPv6 address' colons, which stand as dashes."""
    return (urlsplit(server).hostname or "").lower().replace(":", "-")

"""Kubeconfigs that somebody else wrote: what they may make this process do, and the loader for one.

A kubeconfig can name programs to run and files to read, and switch certificate checks off. Out of a Secret that is
what whoever may write the Secret could make the operator do, so each is refused unless it was allowed by name. Only
what the current context uses counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from typing import Any

import yaml
from kubernetes_asyncio.client.configuration import Configuration
from kubernetes_asyncio.config import load_kube_config_from_dict

from vidra.kube.config import Loader
from vidra.kube.errors import ConfigError

#: Characters of a kubeconfig; a real one has some thousand.
MAX_SIZE = 1_000_000


class Allow(StrEnum):
    """What a kubeconfig does only where it is allowed."""

    EXEC = "exec"  # users[].user.exec: runs a program
    AUTH_PROVIDER = "auth-provider"  # users[].user.auth-provider: code of the client library, most of it retired
    FILES = "files"  # paths of certificates, keys and tokens: reads this process' own file system
    INSECURE = "insecure-tls"  # no certificate check, or no TLS at all


class KubeconfigRefused(ConfigError):
    """The kubeconfig can't or mustn't be used. ``field`` is the place in it, "" for the whole."""

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field


_FILES = {
    "cluster": ("certificate-authority",),
    "user": ("client-certificate", "client-key", "tokenFile"),
}
_INLINE = {
    "certificate-authority": "certificate-authority-data",
    "client-certificate": "client-certificate-data",
    "client-key": "client-key-data",
    "tokenFile": "token",
}
_IMPERSONATION = ("as", "as-uid", "as-groups", "as-user-extra")


def parse_kubeconfig(text: str) -> dict[str, Any]:
    """Raises KubeconfigRefused. The message holds nothing of the text: there are keys in it."""
    if len(text) > MAX_SIZE:
        raise KubeconfigRefused(f"it has {len(text)} characters, more than {MAX_SIZE}")
    try:
        config = yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        where = f" at line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise KubeconfigRefused(f"it is no YAML{where}: {error.problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise KubeconfigRefused("it is no YAML") from error
    if not isinstance(config, dict):
        raise KubeconfigRefused("it is no kubeconfig: not a map")
    return config


def check_kubeconfig(config: Mapping[str, Any], allowed: Collection[str] = ()) -> str:
    """The server URL that the current context leads to. Raises KubeconfigRefused, which names field and flag."""
    context = _named(config, "contexts", "context", str(config.get("current-context") or ""), "current-context")
    cluster = _named(config, "clusters", "cluster", str(context.get("cluster") or ""), "context.cluster")
    user = _named(config, "users", "user", str(context.get("user") or ""), "context.user")
    if user.get("exec") is not None:
        _need(Allow.EXEC, allowed, "user.exec", "it runs a program")
    if user.get("auth-provider") is not None:
        _need(Allow.AUTH_PROVIDER, allowed, "user.auth-provider", "it runs a login plugin")
    for part, section in (("cluster", cluster), ("user", user)):
        for field in _FILES[part]:
            if section.get(field) and not section.get(_INLINE[field]):
                why = f"it is a path; put the contents into {_INLINE[field]}"
                _need(Allow.FILES, allowed, f"{part}.{field}", why)
    if cluster.get("insecure-skip-tls-verify"):
        _need(Allow.INSECURE, allowed, "cluster.insecure-skip-tls-verify", "anybody could answer")
    for field in _IMPERSONATION:
        if user.get(field):
            raise KubeconfigRefused("is not supported; set spec.serviceAccountName instead", field=f"user.{field}")
    server = cluster.get("server")
    if not isinstance(server, str) or not server.startswith(("https://", "http://")):
        raise KubeconfigRefused("is no http or https URL", field="cluster.server")
    if server.startswith("http://"):
        _need(Allow.INSECURE, allowed, "cluster.server", "it has no TLS")
    return server


def kubeconfig_loader(read: Callable[[], Mapping[str, Any]]) -> Loader:
    """A session's loader; ``read`` gives the kubeconfig as it is now, checked already, and may raise ConfigError."""

    async def load() -> Configuration:
        configuration = Configuration()
        config = read()
        try:
            await load_kube_config_from_dict(config_dict=dict(config), client_configuration=configuration)
        # The library raises its own ConfigException, but also KeyError, TypeError, binascii's and yaml's errors. None
        # of their texts is handed on: some quote the value they choked on.
        except Exception as error:  # noqa: BLE001
            raise ConfigError(f"the kubeconfig can't be used ({type(error).__name__})") from None
        return configuration

    return load


def _named(config: Mapping[str, Any], group: str, part: str, name: str, field: str) -> Mapping[str, Any]:
    if not name:
        raise KubeconfigRefused("is missing", field=field)
    entries = config.get(group)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("name") == name:
            section = entry.get(part)
            return section if isinstance(section, dict) else {}
    raise KubeconfigRefused(f"names {name!r}, which is not in {group}", field=field)


def _need(what: Allow, allowed: Collection[str], field: str, why: str) -> None:
    if what not in allowed:
        raise KubeconfigRefused(f"{why}; the operator allows that only with --allow-in-kubeconfig {what}", field=field)

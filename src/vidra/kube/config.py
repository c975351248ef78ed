"""Where the API server is and who we are there: kubeconfig files, or the files a pod finds.

kubernetes-asyncio reads both. What it returns is its ``Configuration``; :mod:`vidra.kube.session` uses nothing else
of it, so that a change of theirs meets two small files of ours.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

from kubernetes_asyncio.client.configuration import Configuration
from kubernetes_asyncio.config import ConfigException, load_incluster_config, load_kube_config

from vidra.kube.errors import ConfigError

#: Makes a fresh configuration each time: tokens and certificates are read again (W11: the library itself never does).
Loader: TypeAlias = Callable[[], Awaitable[Configuration]]

# The library logs every response body at DEBUG, Secrets too (W9).
for _name in ("kubernetes_asyncio.client.rest", "client", "kubernetes_asyncio.config.kube_config"):
    logging.getLogger(_name).setLevel(logging.INFO)


def in_cluster() -> bool:
    """Whether this process runs as a pod with a service account."""
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST"))


def loader(kubeconfig: Path | None = None, context: str | None = None) -> Loader:
    """The kubeconfig named, else the pod's own files, else KUBECONFIG and ~/.kube/config.

    The loader raises :class:`ConfigError` when what it finds can't be used.
    """
    if kubeconfig is None and context is None and in_cluster():
        return _from_pod
    return _from_kubeconfig(kubeconfig, context)


async def _from_pod() -> Configuration:
    configuration = Configuration()
    try:
        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except (ConfigException, OSError) as error:
        raise ConfigError(f"the pod's service account can't be read: {error}") from error
    return configuration


def _from_kubeconfig(path: Path | None, context: str | None) -> Loader:
    async def load() -> Configuration:
        configuration = Configuration()
        where = str(path) if path is not None else os.environ.get("KUBECONFIG") or "~/.kube/config"
        try:
            await load_kube_config(
                config_file=None if path is None else str(path),
                context=context,
                client_configuration=configuration,
                persist_config=False,
            )
        # The library raises its own ConfigException, but also KeyError, TypeError, AssertionError and yaml's
        # errors for files of another shape.
        except Exception as error:
            raise ConfigError(f"kubeconfig {where} can't be used: {error}") from error
        return configuration

    return load

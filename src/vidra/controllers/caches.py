"""What the reconcilers read of the cluster that Vidra runs in: both kinds, the Secrets, the ConfigMaps, in memory."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass

from vidra.api import names
from vidra.clusters import secrets as kubeconfigs
from vidra.controllers import credentials, whereabouts
from vidra.controllers.kinds import BY_SYNC, RESOURCES, SYNCS, sync_index
from vidra.kube.client import Client, Obj
from vidra.kube.resource import Resource
from vidra.kube.watch import Collection
from vidra.runtime.informer import Informer
from vidra.runtime.store import Store, drop_managed_fields

SECRETS = Resource("", "v1", "Secret", "secrets", namespaced=True)
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)


@dataclass(frozen=True, slots=True)
class Cache:
    """One collection: ``store`` holds what ``informer`` keeps true."""

    store: Store[Obj]
    informer: Informer[Obj]


class Caches:
    """``namespace`` is Vidra's own; ``secrets_scope`` is where Secrets count, None for everywhere."""

    def __init__(self, client: Client, *, namespace: str, secrets_scope: str | None) -> None:
        self.syncs = _cache(Collection(client, SYNCS))
        self.resources = _cache(
            Collection(client, RESOURCES),
            {
                BY_SYNC: sync_index,
                whereabouts.BY_SERVER: whereabouts.server_index,
                whereabouts.BY_HOST: whereabouts.host_index,
            },
        )
        self.credentials = _cache(
            Collection(client, SECRETS, namespace=secrets_scope, label_selector=names.CREDENTIALS_LABEL),
            {credentials.BY_HOST: credentials.host_index},
        )
        self.kubeconfigs = _cache(
            Collection(client, SECRETS, namespace=secrets_scope, label_selector=names.KUBECONFIG_LABEL),
            {kubeconfigs.BY_HOST: kubeconfigs.host_index},
        )
        label = f"{names.CONFIG_LABEL}={names.CONFIG_LABEL_VALUE}"
        self.config_maps = _cache(Collection(client, CONFIG_MAPS, namespace=namespace, label_selector=label))

    def informers(self) -> dict[str, Informer[Obj]]:
        """By name, in the order in which they start: what decides how to reconcile comes before what is reconciled."""
        return {
            "credentials": self.credentials.informer,
            "kubeconfigs": self.kubeconfigs.informer,
            "config": self.config_maps.informer,
            "syncs": self.syncs.informer,
            "resources": self.resources.informer,
        }


def _cache(source: Collection, indexes: Mapping[str, Callable[[Obj], Iterable[Hashable]]] | None = None) -> Cache:
    store: Store[Obj] = Store(transform=drop_managed_fields, indexes=indexes)
    return Cache(store, Informer(source, store))

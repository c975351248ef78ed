"""Which event wakes whom: from what the caches saw to the keys in the queues.

Status and metadata writes wake nobody; that is the heart of Vidra's contract, and the two predicates below are it. What
does wake: a new generation (the spec), a new value of the reconcile-request annotation, a deletion.
"""

from __future__ import annotations

from collections.abc import Callable

from vidra.api import names
from vidra.api.infrahubsync import InfrahubSyncSpec
from vidra.clusters.secrets import host_index as kubeconfig_host
from vidra.controllers.credentials import uses_secret
from vidra.controllers.delivery import has_content
from vidra.controllers.kinds import is_deleting, owning_sync
from vidra.controllers.places import Places
from vidra.controllers.whereabouts import BY_HOST, BY_SERVER
from vidra.deploy.inventory import read_inventory
from vidra.kube.client import Obj
from vidra.kube.resource import ObjectKey
from vidra.runtime.informer import Informer
from vidra.runtime.predicates import annotation_changed, content_changed, deletion_started, generation_changed
from vidra.runtime.store import Change, ChangeType, Key, Store
from vidra.runtime.workqueue import Priority, WorkQueue

#: For both kinds.
WAKES = generation_changed | deletion_started | annotation_changed(names.RECONCILE_REQUEST_ANNOTATION)


class Routes:
    """Handlers of informers. They compute keys and add them to queues, and do nothing else."""

    def __init__(
        self,
        *,
        syncs: Store[Obj],
        resources: Store[Obj],
        sync_queue: WorkQueue[str],
        resource_queue: WorkQueue[str],
        places: Places,
        own_namespace: str,
        event_based: Callable[[], bool],
    ) -> None:
        self._syncs = syncs
        self._resources = resources
        self._sync_queue = sync_queue
        self._resource_queue = resource_queue
        self._places = places
        self._own_namespace = own_namespace
        self._event_based = event_based

    def connect(
        self,
        *,
        syncs: Informer[Obj],
        resources: Informer[Obj],
        credentials: Informer[Obj],
        kubeconfigs: Informer[Obj],
    ) -> None:
        syncs.add_handler(self._sync_changed, WAKES)
        resources.add_handler(self._inventory_changed)
        resources.add_handler(self._resource_changed, WAKES)
        credentials.add_handler(self._credentials_changed, content_changed)
        kubeconfigs.add_handler(self._kubeconfig_changed, content_changed)

    def object_changed(self, server: str, key: ObjectKey) -> None:
        """A managed object of a cluster was changed, or is gone, by somebody else's doing."""
        for name in self._places.books(server).ownership.claimants(key):
            resource = self._resources.get(Key("", name))
            if resource is not None and (self._wants_events(resource) or _waits_for(resource, key)):
                self._resource_queue.add(name)

    def cluster_is_back(self, server: str) -> None:
        """A cluster that did not answer answers again: nobody waits for the end of a back-off."""
        for key in self._resources.index_keys(BY_SERVER, server):
            self._resource_queue.add(key.name)

    def _sync_changed(self, change: Change[Obj]) -> None:
        self._sync_queue.add(change.key.name, priority=_priority(change))

    def _resource_changed(self, change: Change[Obj]) -> None:
        name = change.key.name
        if change.new is not None and change.old is not None:
            for books in self._places.all_books():
                books.ownership.unsettle(name)
        self._resource_queue.add(name, priority=_priority(change))
        self._wake_sync(change)

    def _inventory_changed(self, change: Change[Obj]) -> None:
        """Every status that comes by says what its resource is responsible for."""
        if change.new is not None:
            self._places.take_in(change.new)

    def _wake_sync(self, change: Change[Obj]) -> None:
        """A resource that vanished, or that somebody edited, is its sync's business; the sync's own writes aren't."""
        resource = change.new if change.new is not None else change.old
        owner = None if resource is None else owning_sync(resource)
        if owner is None or change.initial or resource is None:
            return
        if change.type is ChangeType.DELETED or (change.type is ChangeType.MODIFIED and not _is_as_delivered(resource)):
            self._sync_queue.add(owner[0])

    def _kubeconfig_changed(self, change: Change[Obj]) -> None:
        for secret in (change.old, change.new):
            for host in () if secret is None or change.initial else kubeconfig_host(secret):
                for key in self._resources.index_keys(BY_HOST, host):
                    self._resource_queue.add(key.name)

    def _credentials_changed(self, change: Change[Obj]) -> None:
        secret = change.new if change.new is not None else change.old
        if secret is None or change.initial:
            return
        for key, sync in self._syncs.items():
            try:
                spec = InfrahubSyncSpec.model_validate(sync.get("spec") or {})
            except ValueError:
                continue
            if uses_secret(spec, secret, self._own_namespace):
                self._sync_queue.add(key.name)

    def _wants_events(self, resource: Obj) -> bool:
        destination = (resource.get("spec") or {}).get("destination") or {}
        return bool(destination.get("reconcileOnEvents")) or self._event_based()


def _priority(change: Change[Obj]) -> Priority:
    return Priority.LOW if change.initial else Priority.NORMAL


def _is_as_delivered(resource: Obj) -> bool:
    """Whether the manifest is the one whose checksum stands beside it."""
    checksum = (resource["metadata"].get("annotations") or {}).get(names.CHECKSUM_ANNOTATION)
    return is_deleting(resource) or checksum is None or has_content(resource, checksum)


def _waits_for(resource: Obj, key: ObjectKey) -> bool:
    """Whether the resource's inventory holds the object only until it is gone."""
    if is_deleting(resource):
        return True
    entry = read_inventory((resource.get("status") or {}).get("managedResources") or ()).get(key)
    return entry is not None and bool(entry.message)

"""Every name Vidra writes into a cluster, in one place.

What the original operator wrote (group, kinds, label ``managed-by``, its annotations and finalizer, the labels of its
Secrets and ConfigMap) keeps its spelling and its meaning. What is new stands under Vidra's own prefix.
"""

from __future__ import annotations

import hashlib
from typing import Final

GROUP: Final = "infrahub.operators.com"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
SYNC_KIND: Final = "InfrahubSync"
RESOURCE_KIND: Final = "VidraResource"

#: On a resource: its objects must go, or be let go, before it does.
RESOURCE_FINALIZER: Final = f"vidraresource.{GROUP}/finalizer"
#: On a sync: its resources must go first.
SYNC_FINALIZER: Final = f"infrahubsync.{GROUP}/finalizer"

#: On every managed object. Caches select by it, so it stays on whatever Vidra keeps.
MANAGED_BY_LABEL: Final = "managed-by"
MANAGED_BY_VALUE: Final = "vidra"
#: Written by the original only; read to adopt what it made.
ORIGINAL_MANAGED_BY_ANNOTATION: Final = "managed-by"
ORIGINAL_OWNED_BY_ANNOTATION: Final = f"vidraresource.{GROUP}/owned-by"

#: Labels that find the operator's inputs.
CREDENTIALS_LABEL: Final = "infrahub-api-url"
KUBECONFIG_LABEL: Final = "cluster-kubeconfig"
CONFIG_LABEL: Final = "app"
CONFIG_LABEL_VALUE: Final = "vidra"

_PREFIX: Final = f"vidra.{GROUP}"
#: Annotations under this are words to Vidra, on whatever object they stand.
ANNOTATION_PREFIX: Final = f"{_PREFIX}/"
#: On a resource made by a sync.
SYNC_LABEL: Final = f"{_PREFIX}/sync"
ARTIFACT_ANNOTATION: Final = f"{_PREFIX}/artifact-id"
CHECKSUM_ANNOTATION: Final = f"{_PREFIX}/checksum"
TARGET_ANNOTATION: Final = f"{_PREFIX}/target"
#: On either kind: any new value asks for one reconcile now.
RECONCILE_REQUEST_ANNOTATION: Final = f"{_PREFIX}/reconcile-request"
#: On a managed object, live or in its manifest.
PRUNE_ANNOTATION: Final = f"{_PREFIX}/prune"
RECONCILE_ANNOTATION: Final = f"{_PREFIX}/reconcile"
APPLY_ANNOTATION: Final = f"{_PREFIX}/apply"
ADOPT_ANNOTATION: Final = f"{_PREFIX}/adopt"
FORCE_ANNOTATION: Final = f"{_PREFIX}/force"
#: Put by Vidra on an object that it took over, so that whoever has to do with it later lets go of it, and deletes it
#: never. It goes on with the takeover, in one request: no crash can lose it.
ADOPTED_ANNOTATION: Final = f"{_PREFIX}/adopted"
ADOPTED_VALUE: Final = "true"
DISABLED: Final = "disabled"
ENABLED: Final = "enabled"
ONCE: Final = "once"

#: Field managers of Vidra start with this; what follows is the sync's name, or nothing for resources without one.
MANAGER_PREFIX: Final = "vidra:"
#: metav1 refuses longer field managers.
MANAGER_MAX: Final = 128


def field_manager(sync: str | None) -> str:
    """The server-side-apply manager under which a sync's resources own their fields."""
    name = MANAGER_PREFIX + (sync or "")
    return name if len(name) <= MANAGER_MAX else f"{name[: MANAGER_MAX - 9]}-{short_hash(name)}"


def sync_label(sync: str) -> str:
    """A sync's name as a label value: names may have 253 characters, label values 63."""
    return sync if len(sync) <= 63 else f"{sync[:54]}-{short_hash(sync)}"


def resource_name(artifact_id: str) -> str:
    """The resource of an artifact is named by the artifact's id, as in the original."""
    return artifact_id.lower()


def resource_name_of_sync(artifact_id: str, sync: str) -> str:
    """The name to fall back to when :func:`resource_name` is taken: another branch shows the same id."""
    return f"{resource_name(artifact_id)}-{short_hash(sync)}"


def short_hash(text: str) -> str:
    """8 hex digits that tell long or colliding names apart."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]

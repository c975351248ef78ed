"""A real Kubernetes control plane on loopback, for tests, benchmarks and the demo.

    with ControlPlane() as plane:
        ...  # plane.kubeconfig_path, plane.url, plane.audit

`python -m controlplane up` does the same from a shell. Nothing of this ships in an image.
"""

from controlplane.audit import AuditLog, Entry, Mark
from controlplane.binaries import BinariesUnavailable, BuildFailed, Found, obtain
from controlplane.plane import ControlPlane, StartFailed

__all__ = [
    "AuditLog",
    "BinariesUnavailable",
    "BuildFailed",
    "ControlPlane",
    "Entry",
    "Found",
    "Mark",
    "StartFailed",
    "obtain",
]

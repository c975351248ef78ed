"""A real Infrahub, named by INFRAHUB_URL and INFRAHUB_TOKEN, and a control plane to bring its artifacts to.

INFRAHUB_ARTIFACT is the name of artifacts that are Kubernetes manifests, `App_Manifest` where it isn't set. Nothing is
written to the server.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from controlplane import ControlPlane, obtain


@dataclass(frozen=True)
class Server:
    url: str
    token: str
    artifact: str


@pytest.fixture(scope="session")
def server() -> Server:
    url, token = os.environ.get("INFRAHUB_URL"), os.environ.get("INFRAHUB_TOKEN")
    if not url or not token:
        pytest.skip("INFRAHUB_URL and INFRAHUB_TOKEN name no Infrahub")
    return Server(url, token, os.environ.get("INFRAHUB_ARTIFACT", "App_Manifest"))


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    with ControlPlane(binaries=obtain(report=print)) as plane:
        yield plane

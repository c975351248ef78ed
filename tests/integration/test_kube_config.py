"""Where the API server is and who we are there, and that nothing of what is sent and answered reaches a log."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from tests.integration.kube_support import connected, own_namespace

from controlplane import ControlPlane
from vidra.kube import config
from vidra.kube.client import Client
from vidra.kube.errors import ConfigError
from vidra.kube.resource import Resource
from vidra.kube.session import Session

SECRETS = Resource("", "v1", "Secret", "secrets", namespaced=True)


@pytest.fixture(autouse=True)
def _no_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)


async def test_a_kubeconfig_that_is_named_wins_over_the_pods_own_files(
    control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    assert config.in_cluster()
    async with Session(config.loader(control_plane.kubeconfig_path)) as session:
        assert session.server == control_plane.url
        assert (await Client(session).raw("GET", "/version"))["major"] == "1"


async def test_in_a_pod_its_own_files_are_read_and_say_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    with pytest.raises(ConfigError, match="the pod's service account can't be read: Service host/port"):
        await config.loader()()


async def test_outside_of_a_pod_the_variable_names_the_kubeconfig(
    control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The library looks the variable up once, when it is imported: what it found there is what counts.
    monkeypatch.setattr(
        "kubernetes_asyncio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(control_plane.kubeconfig_path)
    )
    assert not config.in_cluster()
    async with Session(config.loader()) as session:
        assert session.server == control_plane.url


@pytest.mark.parametrize("what", ["file", "context"])
async def test_what_is_not_there_is_named(control_plane: ControlPlane, tmp_path: Path, what: str) -> None:
    path = tmp_path / "nothing" if what == "file" else control_plane.kubeconfig_path
    with pytest.raises(ConfigError, match=f"kubeconfig {path} can't be used"):
        await config.loader(path, "no-such-context" if what == "context" else None)()


async def test_loading_never_writes_the_kubeconfig(control_plane: ControlPlane) -> None:
    before = await asyncio.to_thread(control_plane.kubeconfig_path.stat)
    text = await asyncio.to_thread(control_plane.kubeconfig_path.read_bytes)
    await config.loader(control_plane.kubeconfig_path)()
    assert await asyncio.to_thread(control_plane.kubeconfig_path.read_bytes) == text
    assert (await asyncio.to_thread(control_plane.kubeconfig_path.stat)).st_mtime_ns == before.st_mtime_ns


@pytest.mark.case("U19")
async def test_u19_at_debug_nothing_of_a_secret_is_logged(
    control_plane: ControlPlane, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with connected(control_plane.kubeconfig_path) as client, own_namespace(client) as namespace:
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": {"k": "hunter2"}}
        await client.create(SECRETS, body, namespace=namespace)
        read = await client.get(SECRETS, "a", namespace)
        assert read["data"]["k"] == "aHVudGVyMg=="
    assert "hunter2" not in caplog.text
    assert "aHVudGVyMg" not in caplog.text

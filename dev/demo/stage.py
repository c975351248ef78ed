"""The players: control plane, Infrahub stand-in and operator, started in this order and ended in the other."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from controlplane import ControlPlane
from demo.screen import Screen
from infrahub import Standin
from infrahub.seeds import webservers
from vidra.kube import config
from vidra.kube.client import Client, Obj
from vidra.kube.errors import ApiError
from vidra.kube.resource import Resource
from vidra.kube.session import Session

MANIFESTS = Path(__file__).parents[2] / "manifests"
NAMESPACE = "vidra-system"
CRDS = Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)
#: Seconds in which the operator ends by itself.
GRACE = 10.0


class Stage:
    """Use as ``async with Stage(screen) as stage``. Whatever ends it, nothing it started is left."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._stack = AsyncExitStack()
        self.plane: ControlPlane
        self.standin: Standin
        self.client: Client

    async def __aenter__(self) -> Stage:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @property
    def kubeconfig(self) -> Path:
        return self.plane.kubeconfig_path

    @property
    def log(self) -> Path:
        """What the operator logs; goes with the stage."""
        return self._folder / "vidra.log"

    def log_end(self) -> str:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return "\n".join(["the operator's last lines:", *lines[-15:]])

    async def _start(self) -> None:
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="vidra-demo-")))
        self.plane = self._stack.enter_context(ControlPlane())
        self._screen.done(f"API server ready at {self.plane.url}")
        self.standin = await self._stack.enter_async_context(Standin(seed=webservers(3)))
        self._screen.done(f"Infrahub stand-in with 3 web servers at {self.standin.url}")
        session = await self._stack.enter_async_context(Session(config.loader(self.kubeconfig)))
        self.client = Client(session)
        await self._install()
        self._screen.done("CustomResourceDefinitions installed")
        await self._operator()
        self._screen.done("operator started: python -m vidra run --kubeconfig ...")

    async def _install(self) -> None:
        for path in sorted((MANIFESTS / "crds").glob("infrahub*.yaml")):
            await self.client.create(CRDS, yaml.safe_load(path.read_text()))
        namespaces = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
        await self.client.create(namespaces, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        secrets = Resource("", "v1", "Secret", "secrets", namespaced=True)
        labels = {"infrahub-api-url": "127.0.0.1"}
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "infrahub", "namespace": NAMESPACE, "labels": labels},
            "stringData": {"username": self.standin.username, "password": self.standin.password},
        }
        await self.client.create(secrets, secret, namespace=NAMESPACE)

    async def _operator(self) -> None:
        foreign = ("VIDRA_", "POD_NAMESPACE", "KUBERNETES_SERVICE")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        command = ["-m", "vidra", "run", "--kubeconfig", str(self.kubeconfig), "--requeue-sync-after", "2s"]
        command += ["--event-based-reconcile", "--health-port", "0", "--metrics-port", "0", "--log-format", "console"]
        out = self._stack.enter_context(self.log.open("wb"))
        # A session of its own: Ctrl-C on the terminal is for the demo, which then ends the operator in order.
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdout=out, stderr=out, env=environment, start_new_session=True
        )
        self._stack.push_async_callback(_end, process)

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Obj | None:
        """None: there is none."""
        try:
            return await self.client.get(resource, name, namespace)
        except ApiError as error:
            if error.not_found:
                return None
            raise

    async def all(self, resource: Resource, **scope: Any) -> list[Obj]:
        try:
            return [obj async for obj in self.client.list_all(resource, **scope)]
        except ApiError as error:
            if error.not_found:  # a kind that isn't served yet
                return []
            raise


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), GRACE)
        except TimeoutError:
            process.kill()
            await process.wait()

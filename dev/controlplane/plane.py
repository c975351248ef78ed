"""One control plane: etcd, kube-apiserver and, unless declined, kube-controller-manager, on loopback only.

Ready in 2 to 4 seconds. When `stop` returns, or soon after the owning process is gone by whatever means, no process
and no file of it is left. Any number may run side by side.
"""

import shutil
import socket
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from controlplane import commands, kubeconfig, state
from controlplane.api import Api
from controlplane.audit import AuditLog, reader
from controlplane.binaries import REQUIRED, Found, obtain
from controlplane.certs import Authority, KeyPair, service_account_keys, write_private
from controlplane.processes import Server, Watchdog, identify

READY_WITHIN = 60.0  # seconds; a loaded machine takes far longer than the usual 3
LOOK_EVERY = 0.05  # seconds


class StartFailed(RuntimeError):
    """A server ended or was not ready in time; the message ends with its log's last lines."""


class ControlPlane:
    """A control plane to start, use and stop; also a context manager.

    `binaries` are those of `obtain`; without them they are looked for, and what has to be built is built silently.
    `start` raises StartFailed, BinariesUnavailable or BuildFailed, and leaves nothing behind then.
    """

    def __init__(self, *, controller_manager: bool = True, binaries: Mapping[str, Found] | None = None) -> None:
        self._wants_controllers = controller_manager
        self._binaries = binaries
        self._authority = Authority("controlplane")
        self._directory: Path | None = None
        self._watchdog: Watchdog | None = None
        self._port: socket.socket | None = None
        self._servers: dict[str, Server] = {}
        self._audit: AuditLog | None = None
        self._api: Api | None = None

    # What it offers

    @property
    def directory(self) -> Path:
        """The folder of everything: certificates, kubeconfigs, data, logs."""
        assert self._directory is not None, "the control plane is not started"
        return self._directory

    @property
    def url(self) -> str:
        """`https://127.0.0.1:PORT`; stays the same when the API server is restarted."""
        assert self._port is not None, "the control plane is not started"
        return f"https://127.0.0.1:{self._port.getsockname()[1]}"

    @property
    def ca_path(self) -> Path:
        """The certificate authority that vouches for the API server, PEM."""
        return self.directory / "ca.crt"

    @property
    def kubeconfig_path(self) -> Path:
        """An administrator's kubeconfig (user `admin` in `system:masters`, beyond RBAC)."""
        return self.directory / "kubeconfig"

    @property
    def audit(self) -> AuditLog:
        """The requests the API server has seen."""
        assert self._audit is not None, "the control plane is not started"
        return self._audit

    @property
    def etcd(self) -> Server:
        """The etcd process."""
        return self._servers["etcd"]

    @property
    def api_server(self) -> Server:
        """The kube-apiserver process; `restart_api_server` brings it back after `kill` or `terminate`."""
        return self._servers["kube-apiserver"]

    @property
    def controller_manager(self) -> Server:
        """The kube-controller-manager process. KeyError when it was declined."""
        return self._servers["kube-controller-manager"]

    @property
    def servers(self) -> tuple[Server, ...]:
        """All server processes, in the order of their start."""
        return tuple(self._servers.values())

    def user_kubeconfig(self, name: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig for a user by certificate. RBAC decides what it may do: without a binding, next to nothing."""
        credentials = self._authority.client(name, groups)
        folder = self.directory / "users"
        folder.mkdir(exist_ok=True)
        quoted = urllib.parse.quote("-".join((name, *groups)), safe="")[:100]
        path = folder / f"{len(list(folder.iterdir()))}-{quoted}.kubeconfig"
        return write_private(path, self._kubeconfig(name, credentials))

    # Its life

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start all servers and wait until they serve."""
        assert self._directory is None, "the control plane is started already"
        state.sweep()
        wanted = REQUIRED if self._wants_controllers else REQUIRED[:2]
        found = self._binaries or obtain(wanted, report=lambda _: None)
        binaries = {name: str(found[name].path) for name in wanted}
        try:
            self._prepare()
            self._start_api_server(binaries)
            if self._wants_controllers:
                self._start_controllers(binaries["kube-controller-manager"])
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all servers and remove the folder; harmless when it isn't started.

        By SIGKILL: nothing of the data is wanted any more, and an orderly end waits for every open watch.
        """
        for server in reversed(self.servers):
            server.kill()
        if self._port is not None:
            self._port.close()
        if self._directory is not None:
            shutil.rmtree(self._directory)
        if self._watchdog is not None:
            self._watchdog.release()
        self._servers, self._watchdog, self._port, self._directory = {}, None, None, None

    def restart_api_server(self) -> None:
        """Start the API server again on its port with its data, ending it first if it runs, and wait until ready."""
        self.api_server.kill()
        self.api_server.start()
        self._write_state()
        self._await_ready("kube-apiserver", lambda: self._client.answers("/readyz"))

    # How it is done

    @property
    def _client(self) -> Api:
        assert self._api is not None
        return self._api

    def _prepare(self) -> None:
        # Resolved, since state files and socket paths must not depend on how the temp folder is spelt.
        self._directory = directory = Path(tempfile.mkdtemp(prefix=state.PREFIX)).resolve()
        self._write_state()
        self._watchdog = Watchdog(directory)
        self._write_state()
        self._port = reserve_port()
        serving = self._authority.server(
            ["127.0.0.1", "localhost", "kubernetes.default.svc", "kubernetes.default", commands.FIRST_SERVICE]
        )
        admin = self._authority.client("admin", ["system:masters"])
        signing, verifying = service_account_keys()
        files = {
            "ca.crt": self._authority.certificate,
            "server.crt": serving.certificate,
            "server.key": serving.key,
            "admin.crt": admin.certificate,
            "admin.key": admin.key,
            "sa.key": signing,
            "sa.pub": verifying,
            "audit-policy.yaml": commands.AUDIT_POLICY.encode(),
            "kubeconfig": self._kubeconfig("admin", admin),
        }
        for name, content in files.items():
            write_private(directory / name, content)
        (directory / "logs").mkdir()
        port = self._port.getsockname()[1]
        self._api = Api(port, ca=self.ca_path, certificate=directory / "admin.crt", key=directory / "admin.key")
        client = self._api
        log = reader(directory / "audit.log")
        self._audit = AuditLog(log, lambda agent: client.answers("/version", user_agent=agent))

    def _kubeconfig(self, user: str, credentials: KeyPair) -> bytes:
        ca = self._authority.certificate
        return kubeconfig.render(url=self.url, ca=ca, user=user, credentials=credentials)

    def _start_api_server(self, binaries: Mapping[str, str]) -> None:
        self._launch("etcd", [binaries["etcd"], *commands.etcd(self.directory)])
        self._await_ready("etcd", (self.directory / "etcd.sock").is_socket)
        port = self._port.getsockname()[1] if self._port else 0
        self._launch("kube-apiserver", [binaries["kube-apiserver"], *commands.api_server(self.directory, port=port)])
        self._await_ready("kube-apiserver", lambda: self._client.answers("/readyz"))

    def _start_controllers(self, binary: str) -> None:
        credentials = self._authority.client("system:kube-controller-manager", ["system:masters"])
        path = self.directory / "controller-manager.kubeconfig"
        write_private(path, self._kubeconfig("system:kube-controller-manager", credentials))
        self._launch("kube-controller-manager", [binary, *commands.controller_manager(self.directory, kubeconfig=path)])
        # Its first visible work, and what a Pod in the default namespace needs.
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self._await_ready("kube-controller-manager", lambda: self._client.answers(account))

    def _launch(self, name: str, command: Sequence[str]) -> None:
        assert self._watchdog is not None
        log = self.directory / "logs" / f"{name}.log"
        server = Server(name, command, log=log, directory=self.directory, group=self._watchdog.group)
        self._servers[name] = server
        server.start()
        self._write_state()

    def _await_ready(self, name: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_WITHIN
        while not ready():
            # The others may have been ended on purpose.
            if dead := [server for server in (self.etcd, self._servers[name]) if not server.running]:
                raise StartFailed(f"{dead[0].name} ended while starting:\n{dead[0].log_tail()}")
            if time.monotonic() > deadline:
                tail = self._servers[name].log_tail()
                raise StartFailed(f"{name} was not ready within {READY_WITHIN:.0f} s:\n{tail}")
            time.sleep(LOOK_EVERY)

    def _write_state(self) -> None:
        pids = {server.name: server.pid for server in self.servers}
        if self._watchdog is not None:
            pids["watchdog"] = self._watchdog.group
        processes = {name: process for name, pid in pids.items() if (process := identify(pid))}
        state.State(self.directory, state.this_process(), processes).save()


def reserve_port() -> socket.socket:
    """A free port on loopback, kept while the socket is open.

    The socket is bound but doesn't listen, so connecting to it is refused; a server that sets SO_REUSEPORT, as the
    API server can, may bind the same port meanwhile. So nobody takes the port between two starts of the server.
    """
    reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved

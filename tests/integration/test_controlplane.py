"""The launcher on the real thing: what it starts, what it counts, and that nothing of it is left."""

import base64
import json
import os
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane import ControlPlane, Found
from controlplane.processes import Identity, alive, identify

DEV = Path(__file__).parents[2] / "dev"


class Client:
    """Requests of one kubeconfig's user, each on a connection of its own."""

    def __init__(self, kubeconfig: Path, *, token: str | None = None) -> None:
        document = yaml.safe_load(kubeconfig.read_text())
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        self.url = cluster["server"]
        ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self.context = ssl.create_default_context(cadata=ca)
        self.headers = {"Content-Type": "application/json", "User-Agent": f"test/{uuid.uuid4()}"}
        if token is not None:
            self.headers["Authorization"] = f"Bearer {token}"
            return
        with tempfile.NamedTemporaryFile() as pem:
            pem.write(base64.b64decode(user["client-certificate-data"]))
            pem.write(base64.b64decode(user["client-key-data"]))
            pem.flush()
            self.context.load_cert_chain(pem.name)

    @property
    def agent(self) -> str:
        """This client's own user agent."""
        return self.headers["User-Agent"]

    def open(self, path: str, body: Any = None) -> Any:
        """GET, or POST of a body; the response is the caller's to close."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=self.headers)
        return urllib.request.urlopen(request, timeout=20, context=self.context)

    def send(self, path: str, body: Any = None) -> tuple[int, Any]:
        """Status code and parsed answer."""
        try:
            with self.open(path, body) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)


def wait_until(condition: Callable[[], bool], *, seconds: float = 30.0) -> None:
    """Return as soon as it holds; fail when it doesn't in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.05)


def identities(plane: ControlPlane) -> list[Identity]:
    """All processes of a control plane."""
    found = [identify(server.pid) for server in plane.servers]
    return [process for process in found if process is not None]


@pytest.fixture
def admin(control_plane: ControlPlane) -> Client:
    return Client(control_plane.kubeconfig_path)


def test_the_shared_control_plane_serves_the_version_it_should(admin: Client) -> None:
    status, version = admin.send("/version")
    assert (status, version["major"]) == (200, "1")


def test_every_listening_socket_is_on_loopback(control_plane: ControlPlane) -> None:
    if sys.platform != "linux":
        pytest.skip("reads /proc")
    inodes = {
        os.readlink(link)[8:-1]
        for server in control_plane.servers
        for link in Path(f"/proc/{server.pid}/fd").iterdir()
        if link.is_symlink() and os.readlink(link).startswith("socket:")
    }
    listening = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{control_plane.api_server.pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                listening.append(fields[1])
    port = int(control_plane.url.rpartition(":")[2])
    assert listening == [f"0100007F:{port:04X}"]


def test_a_user_without_a_binding_is_denied(control_plane: ControlPlane) -> None:
    stranger = Client(control_plane.user_kubeconfig("stranger", ["nobodies"]))
    status, answer = stranger.send("/api/v1/namespaces/default/configmaps")
    assert status == 403
    assert 'User "stranger" cannot list resource "configmaps"' in answer["message"]


def test_a_binding_of_a_group_lets_its_users_in(control_plane: ControlPlane, admin: Client) -> None:
    group = f"readers-{uuid.uuid4()}"
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": group},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}],
    }
    assert admin.send("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)[0] == 201
    reader = Client(control_plane.user_kubeconfig("reader", [group]))
    # The authorizer reads bindings from a watch, so it learns of a new one a moment later.
    wait_until(lambda: reader.send("/api/v1/namespaces/default/configmaps")[0] == 200)
    assert reader.send("/api/v1/namespaces/default/secrets")[0] == 403


def test_a_service_account_token_names_its_account(control_plane: ControlPlane, admin: Client) -> None:
    namespace = f"sa-{uuid.uuid4().hex[:8]}"
    admin.send("/api/v1/namespaces", {"metadata": {"name": namespace}})
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    assert admin.send(accounts, {"metadata": {"name": "robot"}})[0] == 201
    status, answer = admin.send(f"{accounts}/robot/token", {"spec": {"expirationSeconds": 600}})
    assert status == 201
    robot = Client(control_plane.kubeconfig_path, token=answer["status"]["token"])
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    status, answer = robot.send("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    assert status == 201
    assert answer["status"]["userInfo"]["username"] == f"system:serviceaccount:{namespace}:robot"


def test_the_controllers_work(admin: Client) -> None:
    namespace = f"work-{uuid.uuid4().hex[:8]}"
    admin.send("/api/v1/namespaces", {"metadata": {"name": namespace}})
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}
    deployment = {
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    }
    assert admin.send(f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment)[0] == 201
    wait_until(lambda: len(admin.send(f"/api/v1/namespaces/{namespace}/pods")[1]["items"]) == 2)


def test_the_audit_log_counts_exactly_the_requests_made(control_plane: ControlPlane, admin: Client) -> None:
    admin.send("/api/v1/namespaces/default/configmaps")
    mark = control_plane.audit.mark()
    for _ in range(25):
        admin.send("/api/v1/namespaces/default/configmaps")
    for number in range(5):
        admin.send(f"/api/v1/namespaces/default/secrets/none-{number}")
    count, agent = control_plane.audit.count, admin.agent
    assert count(since=mark, user_agent_prefix=agent) == 30
    assert count(since=mark, user="admin", verb="list", resource="configmaps") == 25
    [first, *_] = control_plane.audit.entries(since=mark, verb="get", resource="secrets", user_agent_prefix=agent)
    assert (first.name, first.namespace, first.code) == ("none-0", "default", 404)
    assert "system:masters" in first.groups
    assert count(user_agent_prefix=agent) == 31


def test_answers_longer_than_the_servers_buffer_are_counted_too(control_plane: ControlPlane, admin: Client) -> None:
    mark = control_plane.audit.mark()
    for number in range(1, 21):
        admin.send("/openapi/v2")
        assert control_plane.audit.count(since=mark, user_agent_prefix=admin.agent) == number


def test_a_watch_is_counted_once_and_when_it_opens(control_plane: ControlPlane, admin: Client) -> None:
    mark = control_plane.audit.mark()
    watch = "/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=30"
    with admin.open(watch):
        assert control_plane.audit.count(since=mark, verb="watch", user_agent_prefix=admin.agent) == 1
        later = control_plane.audit.mark()
    with admin.open("/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=1") as short:
        short.read()  # to its end, whose line must not count
    assert control_plane.audit.count(since=later, verb="watch", user_agent_prefix=admin.agent) == 1


def test_two_control_planes_side_by_side_know_nothing_of_each_other(
    control_plane: ControlPlane, control_plane_binaries: Mapping[str, Found], temp_folder: Path
) -> None:
    with ControlPlane(controller_manager=False, binaries=control_plane_binaries) as other:
        assert other.url != control_plane.url
        ours, theirs = Client(control_plane.kubeconfig_path), Client(other.kubeconfig_path)
        name = f"only-{uuid.uuid4().hex[:8]}"
        assert ours.send("/api/v1/namespaces", {"metadata": {"name": name}})[0] == 201
        assert theirs.send(f"/api/v1/namespaces/{name}")[0] == 404
        ours.url = other.url
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            ours.open("/version")
        left = identities(other)
        assert len(left) == 2
    assert not any(alive(process) for process in left)
    assert list(temp_folder.iterdir()) == []


def test_a_killed_api_server_comes_back_on_its_port_with_its_data(
    control_plane_binaries: Mapping[str, Found], temp_folder: Path
) -> None:
    with ControlPlane(controller_manager=False, binaries=control_plane_binaries) as plane:
        client, url = Client(plane.kubeconfig_path), plane.url
        assert client.send("/api/v1/namespaces", {"metadata": {"name": "kept"}})[0] == 201
        mark = plane.audit.mark()
        plane.api_server.kill()
        with pytest.raises(urllib.error.URLError, match="refused"):
            client.send("/version")
        assert plane.audit.count(since=mark, user_agent_prefix="test/") == 0  # readable while it is down
        plane.restart_api_server()
        assert plane.url == url
        assert client.send("/api/v1/namespaces/kept")[0] == 200
        assert plane.audit.count(since=mark, user_agent_prefix="test/") == 1


def test_kill_9_of_the_owner_leaves_no_process_and_no_folder(
    control_plane_binaries: Mapping[str, Found], temp_folder: Path
) -> None:
    program = """
import json, sys, time
from controlplane import ControlPlane
plane = ControlPlane()
plane.start()
print(json.dumps([server.pid for server in plane.servers] + [plane._watchdog.group]), flush=True)
sys.stdin.read()
"""
    owner = subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(DEV)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with owner:
        assert owner.stdout is not None
        found = [identify(pid) for pid in json.loads(owner.stdout.readline())]
        left = [process for process in found if process is not None]
        assert len(left) == 4
        owner.kill()
    wait_until(lambda: not any(alive(process) for process in left), seconds=15)
    wait_until(lambda: list(temp_folder.iterdir()) == [], seconds=15)

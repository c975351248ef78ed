"""What of a manifest is sent and what comes of it: after one pass the next finds nothing to do."""

from __future__ import annotations

import base64
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.integration.deploy_support import (
    DEPLOYMENTS,
    SERVICES,
    again,
    assert_at_rest,
    delete_quietly,
    deploy,
    deployment,
    make,
    present,
    redeploy,
    remove,
    until_at_rest,
)
from tests.integration.kube_support import CONFIGMAPS, CRDS, own_kind, serve
from tests.integration.world import SECRETS, World, config_map, world

from controlplane import ControlPlane
from vidra.kube.client import Obj, PatchType
from vidra.kube.resource import Resource

HIDDEN = "hunter2-c3Bh"
_WEBHOOKS = "validatingwebhookconfigurations"
WEBHOOKS = Resource("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", _WEBHOOKS, namespaced=False)
#: Not one that a webhook would be called for: no test but its own sends such an object.
NOTHING = {"apiGroups": ["none.example"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothings"]}


@pytest.fixture
async def w(control_plane: ControlPlane) -> AsyncIterator[World]:
    async with world(control_plane) as w:
        yield w


def service(w: World, *ports: Obj) -> Obj:
    metadata = {"name": "web", "namespace": w.namespace}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": list(ports)}}


def encoded(text: str | bytes) -> str:
    return base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()


@pytest.mark.case("A01")
async def test_ports_without_protocol_are_tcp_and_at_rest(w: World) -> None:
    web = deployment("web", w.namespace)
    web["spec"]["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": 80}, {"containerPort": 81}]
    await deploy(w, "a", web, service(w, {"name": "http", "port": 80}, {"name": "more", "port": 81}))
    container = (await present(w, DEPLOYMENTS, "web", w.namespace))["spec"]["template"]["spec"]["containers"][0]
    assert [(port["containerPort"], port["protocol"]) for port in container["ports"]] == [(80, "TCP"), (81, "TCP")]
    await until_at_rest(w, "a")
    web["spec"]["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": 81}]
    await redeploy(w, "a", web, service(w, {"name": "more", "port": 81}))
    ports = (await present(w, SERVICES, "web", w.namespace))["spec"]["ports"]
    assert [port["port"] for port in ports] == [81]
    await until_at_rest(w, "a")


@pytest.mark.case("A02")
async def test_one_port_in_two_protocols_is_two_ports(w: World) -> None:
    udp: Obj = {"name": "udp", "port": 53, "protocol": "UDP"}
    tcp: Obj = {"name": "tcp", "port": 53, "protocol": "TCP"}
    for ports in ((tcp, udp), (udp, tcp), (udp,), (tcp, udp)):
        await (redeploy if await w.get(World.RESOURCES, "a") else deploy)(w, "a", service(w, *ports))
        found = (await present(w, SERVICES, "web", w.namespace))["spec"]["ports"]
        assert sorted(port["name"] for port in found) == sorted(port["name"] for port in ports)
        await assert_at_rest(w, "a")


@pytest.mark.case("A05")
async def test_a_variable_twice_is_an_error_that_names_container_and_variable(w: World) -> None:
    web = deployment("web", w.namespace)
    container = web["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "REPEATED", "value": "1"}, {"name": "REPEATED", "value": "2"}]
    found = await deploy(w, "a", web, state="Failed")
    assert "container web: env has REPEATED twice" in found["status"]["lastError"]
    assert await w.get(DEPLOYMENTS, "web", w.namespace) is None


@pytest.mark.case("A06")
@pytest.mark.parametrize("there", [False, True])
async def test_an_exported_object_applies_whether_it_is_there_or_not(w: World, there: bool) -> None:
    exported = await make(w, DEPLOYMENTS, deployment("web", w.namespace))
    exported["metadata"]["selfLink"] = "/apis/apps/v1/namespaces/x/deployments/web"
    assert {"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp"} <= exported["metadata"].keys()
    if not there:
        await w.client.delete(DEPLOYMENTS, "web", namespace=w.namespace)
        await w.until_gone(DEPLOYMENTS, "web", w.namespace)
    await deploy(w, "a", exported, adopt=True)
    found = await present(w, DEPLOYMENTS, "web", w.namespace)
    assert (found["metadata"]["uid"] == exported["metadata"]["uid"]) is there
    await until_at_rest(w, "a")


@pytest.mark.case("A08")
async def test_a_status_in_a_manifest_is_neither_sent_nor_drift(w: World) -> None:
    web = deployment("web", w.namespace) | {"status": {"replicas": 7, "observedGeneration": 9}}
    kind, definition = own_kind()
    definition["status"] = {
        "conditions": [],
        "storedVersions": ["v1beta1"],
        "acceptedNames": {"kind": "", "plural": ""},
    }
    thing = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x", "namespace": w.namespace}}
    await deploy(w, "a", web, definition, thing | {"status": {"phase": "Done"}})
    await until_at_rest(w, "a")
    assert (await present(w, CRDS, definition["metadata"]["name"]))["status"]["storedVersions"] == ["v1"]
    assert "status" not in await present(w, kind, "x", w.namespace)
    patch = {"status": {"phase": "Running"}}
    await w.client.patch(kind, "x", patch, PatchType.MERGE, namespace=w.namespace, subresource="status")
    await assert_at_rest(w, "a")
    await remove(w, "a")


@pytest.mark.case("A09")
async def test_a_secrets_plain_keys_go_when_they_leave_and_win_over_encoded_ones(w: World) -> None:
    metadata = {"name": "s", "namespace": w.namespace}
    secret: Obj = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    await deploy(w, "a", secret | {"stringData": {"user": "ada", "pass": HIDDEN}})
    await assert_at_rest(w, "a")
    both = {"stringData": {"user1": "ada", "pass": HIDDEN}, "data": {"pass": encoded("other"), "more": encoded("1")}}
    await redeploy(w, "a", secret | both)
    found = await present(w, SECRETS, "s", w.namespace)
    assert found["data"] == {"user1": encoded("ada"), "pass": encoded(HIDDEN), "more": encoded("1")}
    await assert_at_rest(w, "a")


@pytest.mark.case("A09")
async def test_no_value_of_a_secret_is_told_by_what_refuses_it(w: World, capfd: pytest.CaptureFixture[str]) -> None:
    metadata = {"name": "s", "namespace": w.namespace}
    secret: Obj = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls"}
    found = await deploy(w, "a", secret | {"stringData": {"tls.crt": HIDDEN}}, state="Failed")
    immutable = {"type": "Opaque", "immutable": True, "stringData": {"word": HIDDEN}}
    await redeploy(w, "a", secret | immutable)
    refused = await redeploy(w, "a", secret | immutable | {"stringData": {"word": f"{HIDDEN}!"}}, state="Failed")
    told = str(found["status"]) + str(refused["status"]) + capfd.readouterr().out
    assert "s" in told
    for value in (HIDDEN, encoded(HIDDEN), encoded(f"{HIDDEN}!")):
        assert value not in told


@pytest.mark.case("A11")
async def test_one_byte_of_binary_data_is_drift_and_a_change(w: World) -> None:
    raw = b"\x0d\x0a\x00\xff"
    body = config_map("x", w.namespace, text="1") | {"binaryData": {"raw": encoded(raw)}}
    await deploy(w, "a", body)
    await assert_at_rest(w, "a")
    await redeploy(w, "a", body | {"binaryData": {"raw": encoded(b"\x0d\x0a\x00\xfe")}})
    assert (await present(w, CONFIGMAPS, "x", w.namespace))["binaryData"]["raw"] == encoded(b"\x0d\x0a\x00\xfe")
    patch = {"binaryData": {"raw": encoded(raw)}}
    await w.client.patch(CONFIGMAPS, "x", patch, PatchType.MERGE, namespace=w.namespace, field_manager="somebody")
    await again(w, "a")
    assert (await present(w, CONFIGMAPS, "x", w.namespace))["binaryData"]["raw"] == encoded(b"\x0d\x0a\x00\xfe")
    both = body | {"binaryData": {"text": encoded(raw)}}
    refused = await redeploy(w, "a", both, state="Failed")
    assert "the key text is in data and in binaryData" in refused["status"]["lastError"]


@pytest.mark.case("A12")
async def test_a_large_object_applies_and_no_annotation_grows_with_it(w: World) -> None:
    for letter in "xy":
        body = config_map("large", w.namespace, text=letter * 400_000)
        await (redeploy if letter == "y" else deploy)(w, "a", body)
        found = await present(w, CONFIGMAPS, "large", w.namespace)
        assert found["data"]["text"][0] == letter
        assert "annotations" not in found["metadata"]
    resource = await present(w, World.RESOURCES, "a")
    assert sum(len(value) for value in (resource["metadata"].get("annotations") or {}).values()) < 200
    await assert_at_rest(w, "a")


@pytest.mark.case("A24")
async def test_quantities_that_the_server_writes_otherwise_are_no_drift(w: World) -> None:
    kind, definition = own_kind()
    await serve(w.client, kind, definition)
    web = deployment("web", w.namespace)
    limits = {"cpu": "1000m", "memory": "1024Mi"}
    requests = {"cpu": 0.5, "memory": "1Gi"}
    web["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": limits, "requests": requests}
    queue: dict[str, Any] = {"apiVersion": kind.api_version, "kind": kind.kind}
    queue |= {"metadata": {"name": "q", "namespace": w.namespace}, "spec": {"nominalQuota": "12000m"}}
    await deploy(w, "a", web, queue)
    found = (await present(w, DEPLOYMENTS, "web", w.namespace))["spec"]["template"]["spec"]["containers"][0]
    assert found["resources"]["limits"]["cpu"] == "1"
    await until_at_rest(w, "a")
    await w.change(World.RESOURCES, "a", driftPolicy="Detect")
    detected = await w.until_state(World.RESOURCES, "a", "Succeeded")
    assert "drifted" not in str(detected["status"])
    await remove(w, "a")
    await delete_quietly(w, CRDS, definition["metadata"]["name"])


@pytest.mark.case("A28")
@pytest.mark.parametrize("placeholder", [None, "", "Cg=="])
async def test_an_injected_ca_bundle_stays_and_is_no_drift(w: World, placeholder: str | None) -> None:
    _, definition = own_kind()
    bundle = encoded(w.plane.ca_path.read_bytes())
    client_config: Obj = {"url": "https://localhost:1/check"}
    if placeholder is not None:
        client_config["caBundle"] = placeholder
    conversion = {"clientConfig": client_config, "conversionReviewVersions": ["v1"]}
    definition["spec"]["conversion"] = {"strategy": "Webhook", "webhook": conversion}
    name = f"check-{uuid.uuid4().hex[:8]}.example.test"
    webhook = {"name": name, "clientConfig": client_config, "rules": [NOTHING], "sideEffects": "None"}
    hook: Obj = {"apiVersion": WEBHOOKS.api_version, "kind": WEBHOOKS.kind, "metadata": {"name": name}}
    hook["webhooks"] = [webhook | {"admissionReviewVersions": ["v1"]}]
    await deploy(w, "a", definition, hook)
    at = "/spec/conversion/webhook/clientConfig/caBundle"
    for resource, where, path in (
        (CRDS, definition["metadata"]["name"], at),
        (WEBHOOKS, name, "/webhooks/0/clientConfig/caBundle"),
    ):
        patch = [{"op": "add", "path": path, "value": bundle}]
        await w.client.patch(resource, where, patch, PatchType.JSON, field_manager="cainjector")
    await until_at_rest(w, "a")
    found = await present(w, CRDS, definition["metadata"]["name"])
    assert found["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] == bundle
    assert (await present(w, WEBHOOKS, name))["webhooks"][0]["clientConfig"]["caBundle"] == bundle
    await remove(w, "a")


@pytest.mark.case("P19")
async def test_an_unknown_field_at_the_top_is_sent_and_warned_of_on_every_kind_of_write(w: World) -> None:
    body = config_map("x", w.namespace) | {"x-common": {"tier": "web"}}
    found = await deploy(w, "a", body)
    assert 'unknown field "x-common"' in str(found["status"]["conditions"])
    await assert_at_rest(w, "a")
    found = await redeploy(w, "a", body | {"data": {"a": "2"}})
    assert 'unknown field "x-common"' in str(found["status"]["conditions"])
    assert (await present(w, CONFIGMAPS, "x", w.namespace))["data"] == {"a": "2"}
    await assert_at_rest(w, "a")

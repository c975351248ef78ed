"""Which Secret leads to a destination. The label says where to look, the kubeconfig what it is for."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import yaml

from vidra.clusters.secrets import BY_HOST, DestinationUnknown, KubeconfigSecrets, host_index
from vidra.config import Settings
from vidra.kube.client import Obj
from vidra.kube.kubeconfig import Allow
from vidra.runtime.store import ChangeType, Store

SERVER = "https://10.0.0.1:6443"


def kubeconfig(server: str = SERVER, **user: Any) -> str:
    return yaml.safe_dump(
        {
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": user or {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


def secret(name: str, text: str, *, host: str = "10.0.0.1", version: str = "1", field: str = "kubeconfig") -> Obj:
    metadata = {
        "name": name,
        "namespace": "vidra",
        "uid": name,
        "resourceVersion": version,
        "labels": {"cluster-kubeconfig": host},
    }
    return {"metadata": metadata, "data": {field: base64.b64encode(text.encode()).decode()}}


def store(*secrets: Obj) -> Store[Obj]:
    filled: Store[Obj] = Store(indexes={BY_HOST: host_index})
    for one in secrets:
        filled.apply(ChangeType.ADDED, one)
    return filled


def found(*secrets: Obj, server: str = SERVER) -> str:
    return str(KubeconfigSecrets(store(*secrets)).find(server).key)


def refusal(*secrets: Obj, server: str = SERVER) -> str:
    with pytest.raises(DestinationUnknown) as raised:
        KubeconfigSecrets(store(*secrets)).find(server)
    return str(raised.value)


def test_the_secret_whose_kubeconfig_names_the_server_is_found_whatever_its_spelling() -> None:
    assert found(secret("a", kubeconfig("https://10.0.0.1:6443/"))) == "vidra/a"


def test_two_clusters_behind_one_host_are_told_apart() -> None:
    secrets = secret("a", kubeconfig("https://10.0.0.1:6443")), secret("b", kubeconfig("https://10.0.0.1:6444"))
    assert found(*secrets) == "vidra/a"
    assert found(*secrets, server="https://10.0.0.1:6444") == "vidra/b"


def test_a_longer_host_is_another_host() -> None:
    other = secret("a", kubeconfig("https://10.0.0.10:6443"), host="10.0.0.10")
    assert "cluster-kubeconfig=10.0.0.1 " in refusal(other)


def test_an_ipv6_host_stands_in_the_label_with_dashes() -> None:
    server = "https://[2001:db8::1]:6443"
    assert found(secret("a", kubeconfig(server), host="2001-db8--1"), server=server) == "vidra/a"


def test_a_secret_for_another_port_is_named_with_what_it_is_for() -> None:
    text = refusal(secret("a", kubeconfig("https://10.0.0.1:1")))
    assert "vidra/a (is for https://10.0.0.1:1)" in text


def test_two_for_one_server_are_both_named() -> None:
    text = refusal(secret("a", kubeconfig()), secret("b", kubeconfig()))
    assert "vidra/a, vidra/b" in text


@pytest.mark.parametrize(
    ("text", "field", "told"),
    [
        ("{", "kubeconfig", "YAML"),
        ("just words", "kubeconfig", "not a map"),
        (kubeconfig(), "config", "no kubeconfig"),
        (kubeconfig(exec={"command": "sh"}), "kubeconfig", "--allow-in-kubeconfig exec"),
        (kubeconfig("http://10.0.0.1:6443"), "kubeconfig", "insecure-tls"),
    ],
)
def test_an_unusable_one_is_named_with_the_reason(text: str, field: str, told: str) -> None:
    answer = refusal(secret("a", text, field=field))
    assert "vidra/a" in answer
    assert told in answer


def test_what_is_allowed_by_name_is_used() -> None:
    secrets = store(secret("a", kubeconfig(exec={"command": "sh"})))
    assert KubeconfigSecrets(secrets, {Allow.EXEC}).find(SERVER).key.name == "a"


def test_a_changed_secret_is_read_again() -> None:
    secrets = store(secret("a", kubeconfig()))
    finder = KubeconfigSecrets(secrets)
    assert finder.find(SERVER).version == "1"
    secrets.apply(ChangeType.MODIFIED, secret("a", kubeconfig(token="new"), version="2"))
    again = finder.find(SERVER)
    assert (again.version, again.kubeconfig["users"][0]["user"]["token"]) == ("2", "new")
    secrets.apply(ChangeType.MODIFIED, secret("a", kubeconfig("https://10.0.0.1:9"), version="3"))
    with pytest.raises(DestinationUnknown):
        finder.find(SERVER)


def test_the_setting_knows_the_same_words() -> None:
    words = ",".join(Allow)
    assert Settings.load({"allow_in_kubeconfig": words}, {}).allow_in_kubeconfig == frozenset(Allow)

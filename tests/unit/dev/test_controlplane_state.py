"""What is written down of a control plane, and how a process is told from another of the same pid."""

import os
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from controlplane import commands, kubeconfig
from controlplane.certs import Authority, KeyPair
from controlplane.processes import Identity, alive, parse_stat
from controlplane.state import State, this_process

STATE = State(Path("/plane"), Identity(10, "boot:1"), {"etcd": Identity(11, "boot:2")})


def test_the_state_survives_its_file() -> None:
    assert State.from_json(STATE.to_json()) == STATE


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"directory": "/", "owner": {"pid": 1}, "processes": {}}'])
def test_anything_else_is_not_a_state_file(text: str) -> None:
    with pytest.raises(ValueError, match=r"Expecting value|not a state file"):
        State.from_json(text)


def test_a_program_name_with_blanks_and_brackets_does_not_shift_the_fields() -> None:
    numbers = " ".join(str(number) for number in range(4, 23))
    assert parse_stat(f"7 (a) b (c)) S {numbers} 23 24") == ("S", "22")


def test_a_process_of_the_same_pid_that_started_at_another_time_is_another() -> None:
    here = this_process()
    assert here.pid == os.getpid()
    assert alive(here)
    assert not alive(Identity(here.pid, "earlier"))


def test_a_user_certificate_names_user_and_groups() -> None:
    pair = Authority("ca").client("jo", ["dev", "ops"])
    subject = x509.load_pem_x509_certificate(pair.certificate).subject
    assert sorted(str(field.value) for field in subject) == ["dev", "jo", "ops"]


def test_a_serving_certificate_is_for_names_and_addresses() -> None:
    pair = Authority("ca").server(["127.0.0.1", "localhost"])
    names = x509.load_pem_x509_certificate(pair.certificate).extensions
    alternative = names.get_extension_for_class(x509.SubjectAlternativeName).value
    assert alternative.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(address) for address in alternative.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]


def test_a_kubeconfig_points_its_current_context_at_the_user() -> None:
    text = kubeconfig.render(url="https://127.0.0.1:1", ca=b"ca", user="jo", credentials=KeyPair(b"crt", b"key"))
    document = yaml.safe_load(text)
    [context] = document["contexts"]
    assert document["current-context"] == context["name"]
    assert context["context"] == {"cluster": document["clusters"][0]["name"], "user": "jo"}
    assert document["users"][0]["user"] == {"client-certificate-data": "Y3J0", "client-key-data": "a2V5"}


def test_the_api_server_listens_on_loopback_with_rbac_and_a_service_range_of_12_bits() -> None:
    flags = commands.api_server(Path("/plane"), port=7)
    assert {"--bind-address=127.0.0.1", "--secure-port=7", "--authorization-mode=Node,RBAC"} <= set(flags)
    assert "--service-cluster-ip-range=10.96.0.0/12" in flags
    assert not [flag for flag in flags if flag.startswith("--feature-gates")]

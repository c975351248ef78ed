"""What a kubeconfig that somebody else wrote may make this process do."""

from __future__ import annotations

import asyncio
import base64
import copy
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidra.kube.errors import ConfigError
from vidra.kube.kubeconfig import (
    MAX_SIZE,
    Allow,
    KubeconfigRefused,
    check_kubeconfig,
    kubeconfig_loader,
    parse_kubeconfig,
)

SOUND: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "here",
    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [{"name": "c", "cluster": {"server": "https://example:6443"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
}


def with_user(**fields: Any) -> dict[str, Any]:
    config = copy.deepcopy(SOUND)
    config["users"][0]["user"] = fields
    return config


def with_cluster(**fields: Any) -> dict[str, Any]:
    config = copy.deepcopy(SOUND)
    config["clusters"][0]["cluster"].update(fields)
    return config


def test_a_sound_one_says_where_it_leads() -> None:
    assert check_kubeconfig(SOUND) == "https://example:6443"


@pytest.mark.parametrize(
    ("config", "field", "allow"),
    [
        (with_user(exec={"command": "sh"}), "user.exec", Allow.EXEC),
        (with_user(**{"auth-provider": {"name": "oidc"}}), "user.auth-provider", Allow.AUTH_PROVIDER),
        (with_user(tokenFile="/etc/passwd"), "user.tokenFile", Allow.FILES),
        (with_user(**{"client-certificate": "/x"}), "user.client-certificate", Allow.FILES),
        (with_user(**{"client-key": "/x"}), "user.client-key", Allow.FILES),
        (with_cluster(**{"certificate-authority": "/x"}), "cluster.certificate-authority", Allow.FILES),
        (with_cluster(**{"insecure-skip-tls-verify": True}), "cluster.insecure-skip-tls-verify", Allow.INSECURE),
        (with_cluster(server="http://example"), "cluster.server", Allow.INSECURE),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_reaches_into_this_process_is_refused_unless_it_is_allowed_by_name(
    config: dict[str, Any], field: str, allow: Allow
) -> None:
    others = set(Allow) - {allow}
    with pytest.raises(KubeconfigRefused, match=f"{field}: .*--allow-in-kubeconfig {allow}") as refused:
        check_kubeconfig(config, others)
    assert refused.value.field == field
    assert check_kubeconfig(config, {allow})


@pytest.mark.parametrize("field", ["as", "as-uid", "as-groups", "as-user-extra"])
def test_acting_for_others_is_not_done_by_kubeconfig_whatever_is_allowed(field: str) -> None:
    with pytest.raises(KubeconfigRefused, match="serviceAccountName"):
        check_kubeconfig(with_user(**{field: "x"}), set(Allow))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("current-context", ""),
        ("current-context", "elsewhere"),
        ("contexts", None),
        ("contexts", "x"),
        ("contexts", [None, {"name": "here"}]),
        ("clusters", []),
        ("users", {}),
        ("clusters", [{"name": "c", "cluster": {"server": "ftp://x"}}]),
        ("clusters", [{"name": "c", "cluster": {"server": 7}}]),
        ("clusters", [{"name": "c", "cluster": "x"}]),
    ],
)
def test_what_leads_nowhere_is_refused(name: str, value: Any) -> None:
    with pytest.raises(KubeconfigRefused):
        check_kubeconfig({**SOUND, name: value}, set(Allow))


def test_only_what_the_current_context_uses_counts() -> None:
    config = copy.deepcopy(SOUND)
    config["users"].append({"name": "other", "user": {"exec": {"command": "sh"}}})
    assert check_kubeconfig(config)


JSON = st.recursive(
    st.none() | st.booleans() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=5,
)


@given(field=st.sampled_from(["contexts", "clusters", "users", "current-context"]), value=JSON)
def test_whatever_its_shape_it_leads_somewhere_or_is_refused(field: str, value: Any) -> None:
    with suppress(KubeconfigRefused):
        assert check_kubeconfig({**SOUND, field: value}).startswith("https://")


@pytest.mark.parametrize(
    "text",
    [
        "a: [SECRET",
        "- SECRET",
        "SECRET",
        "",
        "a: !!python/object/apply:os.system [SECRET]",
        "&a [*a, SECRET",
        "a: 2026-99-99 # SECRET",
        "[" * 100_000 + "SECRET",
        "x" * (MAX_SIZE + 1) + "SECRET",
    ],
    ids=["cut", "list", "text", "empty", "python", "alias", "date", "deep", "large"],
)
def test_what_is_no_kubeconfig_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(KubeconfigRefused) as refused:
        parse_kubeconfig(text)
    assert "SECRET" not in str(refused.value)


def test_yaml_and_json_are_both_read() -> None:
    assert parse_kubeconfig("{current-context: a}") == parse_kubeconfig('{"current-context": "a"}')


def test_the_loader_reads_anew_each_time_and_hands_on_no_text() -> None:
    tokens = iter(["one", "two"])

    async def load() -> list[str]:
        loader = kubeconfig_loader(lambda: with_user(token=next(tokens)))
        return [(await loader()).api_key["BearerToken"] for _ in range(2)]

    assert asyncio.run(load()) == ["Bearer one", "Bearer two"]

    broken = with_user(**{"client-certificate-data": "SECRET!", "client-key-data": base64.b64encode(b"k").decode()})
    with pytest.raises(ConfigError) as error:
        asyncio.run(_loaded(broken))
    assert "SECRET" not in str(error.value)


async def _loaded(config: dict[str, Any]) -> None:
    await kubeconfig_loader(lambda: config)()

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from vidra.config import (
    LiveConfig,
    Settings,
    SettingsError,
    choose_config_map,
    parse_config_map,
)
from vidra.kube.kubeconfig import Allow
from vidra.options import OPTIONS, Option, table

BASE = LiveConfig()


def load(flags: dict[str, object] | None = None, **environ: str) -> Settings:
    return Settings.load(flags or {}, environ)


# -- Settings -------------------------------------------------------------------------------------------------------


def test_without_flags_and_variables_the_defaults_hold() -> None:
    settings = load()
    assert (settings.workers_sync, settings.workers_resource, settings.grace) == (16, 16, 25.0)
    assert (settings.health_port, settings.metrics_port) == (8081, 8080)
    assert settings.namespace == "vidra-system"
    assert settings.live == LiveConfig(60.0, 600.0, "", False)


def test_a_flag_wins_over_its_variable_and_that_over_the_default() -> None:
    assert load(VIDRA_WORKERS_SYNC="7").workers_sync == 7
    assert load({"workers_sync": "9"}, VIDRA_WORKERS_SYNC="7").workers_sync == 9
    assert load({"workers_sync": None}, VIDRA_WORKERS_SYNC="7").workers_sync == 7


def test_a_flag_wins_over_a_wrong_variable() -> None:
    assert load({"workers_sync": "9"}, VIDRA_WORKERS_SYNC="many").workers_sync == 9


def test_an_empty_variable_counts_as_unset() -> None:
    assert load(VIDRA_WORKERS_SYNC="", POD_NAMESPACE="", VIDRA_NAMESPACE="here").namespace == "here"


def test_the_pod_s_namespace_wins_over_the_variable_and_a_flag_over_both() -> None:
    assert load(POD_NAMESPACE="pod", VIDRA_NAMESPACE="own").namespace == "pod"
    assert load({"namespace": "flag"}, POD_NAMESPACE="pod").namespace == "flag"


def test_probes_are_on_all_addresses_in_a_cluster_and_on_loopback_elsewhere() -> None:
    assert load().bind_address == "127.0.0.1"
    assert load(KUBERNETES_SERVICE_HOST="10.96.0.1").bind_address == ""
    assert load({"bind_address": "::"}, KUBERNETES_SERVICE_HOST="10.96.0.1").bind_address == "::"


def test_what_kubernetes_sets_for_a_service_of_that_name_is_no_setting() -> None:
    settings = load(VIDRA_METRICS_PORT="tcp://10.96.0.7:8080", VIDRA_HEALTH_PORT="tcp://[fd00::7]:8081")
    assert (settings.metrics_port, settings.health_port) == (8080, 8081)


@pytest.mark.parametrize(
    ("given", "scope"), [("", "own"), ("*", None), ("other", "other")], ids=["own by default", "all", "another"]
)
def test_secrets_come_from_one_namespace_unless_all_are_asked_for(given: str, scope: str | None) -> None:
    assert load({"namespace": "own", "secrets_namespace": given}).secrets_scope == scope


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("workers_sync", "0"),
        ("workers_resource", "many"),
        ("health_port", "65536"),
        ("metrics_port", "-1"),
        ("log_level", "loud"),
        ("log_format", "xml"),
        ("grace", "25"),
        ("grace", "-1s"),
        ("bind_address", "localhost:80"),
        ("namespace", "Not_A_Name"),
        ("secrets_namespace", "a,b"),
        ("requeue_sync_after", "1ms"),
        ("requeue_sync_after", "soon"),
        ("requeue_resources_after", "9" * 400 + "h"),
        ("event_based_reconcile", "maybe"),
    ],
)
def test_a_wrong_value_is_refused_in_one_line_with_flag_variable_and_value(field: str, value: str) -> None:
    variable, flag = f"VIDRA_{field.upper()}", f"--{field.replace('_', '-')}"
    for flags, environ, first in (({field: value}, {}, flag), ({}, {variable: value}, variable)):
        with pytest.raises(SettingsError) as caught:
            Settings.load(flags, environ)
        text = str(caught.value)
        assert text.startswith(f"{first} (or ")
        assert flag in text
        assert variable in text
        assert repr(value) in text
        assert "\n" not in text


def test_all_wrong_values_are_named_at_once() -> None:
    with pytest.raises(SettingsError, match=r"--workers-sync.*; VIDRA_GRACE"):
        load({"workers_sync": "x"}, VIDRA_GRACE="x")


def test_values_are_read_as_people_write_them() -> None:
    settings = load(
        {"grace": "1m30s", "log_level": "DEBUG", "requeue_sync_after": "0", "event_based_reconcile": "True"},
        VIDRA_KUBECONFIG="~/kube",
        VIDRA_REQUEUE_RESOURCES_AFTER="1h30m",
        VIDRA_QUERY_NAME="ArtifactIDs",
    )
    assert settings.grace == 90.0
    assert settings.log_level == "debug"
    assert settings.kubeconfig == Path.home() / "kube"
    assert settings.live == LiveConfig(None, 5400.0, "ArtifactIDs", True)


def test_what_kubeconfigs_may_be_allowed_is_what_they_can_be_refused() -> None:
    assert load({"allow_in_kubeconfig": ", ".join(Allow)}).allow_in_kubeconfig == set(Allow)
    with pytest.raises(SettingsError, match="insecure: not one of auth-provider, exec, files, insecure-tls"):
        load({"allow_in_kubeconfig": "exec,insecure"})


@pytest.mark.parametrize("account", ["", "team/deployer", "team/deployer.v2"])
def test_a_service_account_is_named_with_its_namespace(account: str) -> None:
    assert load({"default_service_account": account}).default_service_account == account
    with pytest.raises(SettingsError, match="--default-service-account"):
        load({"default_service_account": f"{account}/"})


def test_settings_can_t_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        load().grace = 1.0  # type: ignore[misc]


# -- the words ------------------------------------------------------------------------------------------------------


def test_every_setting_has_its_words_and_every_word_a_setting() -> None:
    assert list(OPTIONS) == list(Settings.model_fields)


@pytest.mark.parametrize(
    "option", [option for option in OPTIONS.values() if not option.default.startswith("(")], ids=lambda each: each.name
)
def test_a_default_that_is_written_down_is_the_one_that_holds(option: Option) -> None:
    assert getattr(load({option.name: option.default}), option.name) == getattr(load(), option.name)


def test_a_setting_that_is_live_has_a_key_and_no_other_has() -> None:
    live = {name for name, option in OPTIONS.items() if option.key}
    assert live == set(LiveConfig.__slots__)


def test_the_documented_table_is_the_code_s() -> None:
    text = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    assert "\n".join(table()) in text, "\n".join(table())


# -- the ConfigMap --------------------------------------------------------------------------------------------------


def test_the_config_map_wins_over_flags_and_missing_keys_fall_back_to_them() -> None:
    base = LiveConfig(requeue_sync_after=5.0, query_name="FromFlag")
    live, problems = parse_config_map({"requeueSyncAfter": "30s"}, BASE, base)
    assert live == LiveConfig(requeue_sync_after=30.0, query_name="FromFlag")
    assert problems == ()


def test_all_keys_of_the_original_are_understood() -> None:
    data = {
        "requeueSyncAfter": "2m",
        "requeueResourcesAfter": "1h30m",
        "queryName": "ArtifactIDs",
        "eventBasedReconcile": "true",
    }
    assert parse_config_map(data, BASE, BASE) == (LiveConfig(120.0, 5400.0, "ArtifactIDs", True), ())


@pytest.mark.parametrize("zero", ["0", "0s", "0m0s"])
def test_zero_turns_an_interval_off(zero: str) -> None:
    live, problems = parse_config_map({"requeueSyncAfter": zero}, BASE, BASE)
    assert live.requeue_sync_after is None
    assert problems == ()


@pytest.mark.parametrize("wrong", ["1ms", "999ms", "10", "-1m", "", "1 m", "soon", "9" * 400 + "h"])
def test_a_wrong_interval_keeps_the_last_good_one_and_is_named(wrong: str) -> None:
    previous = LiveConfig(requeue_sync_after=30.0, requeue_resources_after=40.0)
    live, problems = parse_config_map({"requeueSyncAfter": wrong, "queryName": "Q"}, previous, BASE)
    assert live == LiveConfig(requeue_sync_after=30.0, query_name="Q")
    assert len(problems) == 1
    assert "requeueSyncAfter" in problems[0]
    assert repr(wrong) in problems[0]


def test_an_interval_turned_off_stays_off_while_the_new_value_is_wrong() -> None:
    live, _ = parse_config_map({"requeueSyncAfter": "soon"}, LiveConfig(requeue_sync_after=None), BASE)
    assert live.requeue_sync_after is None


def test_the_shortest_interval_is_a_second() -> None:
    live, problems = parse_config_map({"requeueSyncAfter": "1s"}, BASE, BASE)
    assert live.requeue_sync_after == 1.0
    assert problems == ()


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("True", True), ("1", True), ("false", False), ("0", False)]
)
def test_a_switch_is_read_as_go_reads_it(text: str, value: bool) -> None:
    base = LiveConfig(event_based_reconcile=not value)
    assert parse_config_map({"eventBasedReconcile": text}, base, base)[0].event_based_reconcile is value


def test_a_wrong_switch_keeps_the_last_good_one_and_is_named() -> None:
    live, problems = parse_config_map({"eventBasedReconcile": "maybe"}, LiveConfig(event_based_reconcile=True), BASE)
    assert live.event_based_reconcile
    assert "eventBasedReconcile" in problems[0]


def test_an_empty_query_name_means_the_built_in_query() -> None:
    live, _ = parse_config_map({"queryName": " "}, BASE, LiveConfig(query_name="FromFlag"))
    assert live.query_name == ""


def test_an_unknown_key_is_named_with_the_ones_there_are() -> None:
    live, problems = parse_config_map({"requeueSyncafter": "30s"}, BASE, BASE)
    assert live == BASE
    assert "requeueSyncafter" in problems[0]
    assert "requeueSyncAfter" in problems[0]


@pytest.mark.parametrize("data", [None, {}])
def test_a_config_map_without_data_or_none_at_all_gives_the_base(data: dict[str, str] | None) -> None:
    base = LiveConfig(query_name="FromFlag")
    assert parse_config_map(data, LiveConfig(query_name="Previous"), base) == (base, ())


def config_map(name: str, created: str, namespace: str = "vidra-system") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace, "creationTimestamp": created}}


def test_of_several_config_maps_the_oldest_counts_and_the_others_are_named() -> None:
    old, new, newest = (config_map(name, f"2026-01-0{day}T00:00:00Z") for name, day in (("z", 1), ("b", 2), ("a", 3)))
    chosen, problems = choose_config_map([newest, old, new])
    assert chosen is old
    assert len(problems) == 1
    assert "vidra-system/a" in problems[0]
    assert "vidra-system/b" in problems[0]


def test_of_equally_old_config_maps_the_first_by_name_counts_in_any_order() -> None:
    first, second = config_map("a", "2026-01-01T00:00:00Z"), config_map("b", "2026-01-01T00:00:00Z")
    assert choose_config_map([first, second])[0] is first
    assert choose_config_map([second, first])[0] is first


def test_one_config_map_or_none_is_no_problem() -> None:
    only = config_map("a", "2026-01-01T00:00:00Z")
    assert choose_config_map([only]) == (only, ())
    assert choose_config_map([]) == (None, ())

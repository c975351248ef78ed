"""The watcher of the labelled ConfigMap: what holds, who is told, and what is logged of it."""

from __future__ import annotations

from typing import Any

import structlog

from vidra.config import LiveConfig
from vidra.live_config import ConfigWatcher

BASE = LiveConfig(requeue_sync_after=60.0, query_name="FromFlag")


def config_map(name: str = "vidra-config", created: str = "2026-01-01T00:00:00Z", **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "vidra-system", "creationTimestamp": created}
    return {"metadata": metadata, "data": data}


def watcher() -> tuple[ConfigWatcher, list[LiveConfig]]:
    told: list[LiveConfig] = []

    def tell(new: LiveConfig, old: LiveConfig) -> None:
        assert old == (told[-1] if told else BASE)
        told.append(new)

    return ConfigWatcher(BASE, tell), told


def test_without_a_config_map_the_settings_hold_and_nobody_is_told() -> None:
    config, told = watcher()
    config.look([])
    assert config.current == BASE
    assert told == []


def test_a_change_holds_at_once_and_is_told_once() -> None:
    config, told = watcher()
    for _ in range(2):
        config.look([config_map(requeueSyncAfter="1m30s")])
    assert told == [config.current] == [LiveConfig(requeue_sync_after=90.0, query_name="FromFlag")]


def test_zero_turns_an_interval_off() -> None:
    config, _ = watcher()
    config.look([config_map(requeueSyncAfter="0")])
    assert config.current.requeue_sync_after is None


def test_a_wrong_value_keeps_the_last_good_one_and_is_named_once() -> None:
    config, told = watcher()
    config.look([config_map(requeueSyncAfter="30s")])
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            config.look([config_map(requeueSyncAfter="often")])
    assert config.current.requeue_sync_after == 30.0
    assert len(told) == 1
    (line,) = logs
    assert (line["event"], line["log_level"]) == ("configuration has problems", "warning")
    assert "requeueSyncAfter: 'often'" in line["problems"][0]


def test_other_keys_of_a_config_map_with_a_wrong_value_hold() -> None:
    config, told = watcher()
    config.look([config_map(requeueSyncAfter="often", queryName="Mine")])
    assert told == [LiveConfig(requeue_sync_after=60.0, query_name="Mine")]


def test_the_same_fault_is_named_again_after_it_was_mended() -> None:
    config, _ = watcher()
    with structlog.testing.capture_logs() as logs:
        for text in ("often", "30s", "often"):
            config.look([config_map(requeueSyncAfter=text)])
    problems = [line for line in logs if line["event"] == "configuration has problems"]
    assert len(problems) == 2


def test_a_config_map_that_goes_gives_the_settings_back() -> None:
    config, told = watcher()
    config.look([config_map(requeueSyncAfter="30s", queryName="Mine")])
    config.look([])
    assert config.current == BASE
    assert told[-1] == BASE


def test_of_two_config_maps_the_older_counts_and_the_other_is_named() -> None:
    config, _ = watcher()
    newer = config_map("newer", "2026-01-02T00:00:00Z", requeueSyncAfter="10s")
    with structlog.testing.capture_logs() as logs:
        config.look([newer, config_map(requeueSyncAfter="20s")])
    assert config.current.requeue_sync_after == 20.0
    assert "vidra-system/newer" in logs[0]["problems"][0]

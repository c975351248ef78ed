from __future__ import annotations

import asyncio
import timeit
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from tests.scripted.virtual_time import run

from vidra.runtime.controller import Controller, Outcome, Result
from vidra.runtime.metrics import Metrics, new_registry
from vidra.runtime.workqueue import WorkQueue


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(CollectorRegistry())


def value(metrics: Metrics, series: str, /, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(series, labels)


def test_every_series_is_there_with_0_before_anything_happens(metrics: Metrics) -> None:
    metrics.queue("sync")
    metrics.controller("sync", workers=4)
    queue = ["depth", "adds_total", "retries_total", "unfinished_work_seconds", "longest_running_processor_seconds"]
    queue += ["queue_duration_seconds_count", "work_duration_seconds_count"]
    for name in queue:
        assert value(metrics, f"workqueue_{name}", name="sync") == 0, name
    for name in ("errors_total", "time_seconds_count", "timeouts_total"):
        assert value(metrics, f"controller_runtime_reconcile_{name}", controller="sync") == 0, name
    assert value(metrics, "controller_runtime_terminal_reconcile_errors_total", controller="sync") == 0
    assert value(metrics, "controller_runtime_active_workers", controller="sync") == 0
    assert value(metrics, "controller_runtime_max_concurrent_reconciles", controller="sync") == 4
    for result in ("success", "error", "requeue", "requeue_after"):
        assert value(metrics, "controller_runtime_reconcile_total", controller="sync", result=result) == 0, result


def test_no_series_tells_when_it_was_made(metrics: Metrics) -> None:
    metrics.queue("sync")
    metrics.requests("api")("200", "GET")
    assert b"_created" not in generate_latest(metrics.registry)


def test_a_queue_is_counted_as_it_goes(metrics: Metrics) -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue(observer=metrics.queue("sync"))
        metrics.watch("sync", queue)
        queue.add("a")
        queue.add("b")
        assert value(metrics, "workqueue_depth", name="sync") == 2
        assert await queue.get() == "a"
        assert value(metrics, "workqueue_depth", name="sync") == 1
        queue.add_rate_limited("c")
        queue.done("a")

    run(story())
    assert value(metrics, "workqueue_adds_total", name="sync") == 3
    assert value(metrics, "workqueue_retries_total", name="sync") == 1
    assert value(metrics, "workqueue_queue_duration_seconds_count", name="sync") == 1
    assert value(metrics, "workqueue_work_duration_seconds_count", name="sync") == 1


def test_work_under_way_ages_between_two_readings(metrics: Metrics) -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue(observer=metrics.queue("sync"))
        metrics.watch("sync", queue)
        assert value(metrics, "workqueue_longest_running_processor_seconds", name="sync") == 0
        queue.add("a")
        await queue.get()
        await asyncio.sleep(60)
        queue.add("b")
        await queue.get()
        await asyncio.sleep(5)
        assert value(metrics, "workqueue_longest_running_processor_seconds", name="sync") == 65
        assert value(metrics, "workqueue_unfinished_work_seconds", name="sync") == 70

    run(story())


@pytest.mark.parametrize(
    ("outcome", "result", "also"),
    [
        (Outcome.SUCCESS, "success", None),
        (Outcome.REQUEUE_AFTER, "requeue_after", None),
        (Outcome.ERROR, "error", None),
        (Outcome.TERMINAL, "error", "controller_runtime_terminal_reconcile_errors_total"),
        (Outcome.TIMEOUT, "error", "controller_runtime_reconcile_timeouts_total"),
    ],
)
def test_each_outcome_is_counted_where_dashboards_look_for_it(
    metrics: Metrics, outcome: Outcome, result: str, also: str | None
) -> None:
    observer = metrics.controller("sync", workers=1)
    observer.started()
    assert value(metrics, "controller_runtime_active_workers", controller="sync") == 1
    observer.finished(outcome, 0.2)
    assert value(metrics, "controller_runtime_active_workers", controller="sync") == 0
    assert value(metrics, "controller_runtime_reconcile_time_seconds_sum", controller="sync") == 0.2
    for each in ("success", "error", "requeue", "requeue_after"):
        expected = 1 if each == result else 0
        assert value(metrics, "controller_runtime_reconcile_total", controller="sync", result=each) == expected
    assert value(metrics, "controller_runtime_reconcile_errors_total", controller="sync") == (result == "error")
    for name in (
        "controller_runtime_terminal_reconcile_errors_total",
        "controller_runtime_reconcile_timeouts_total",
    ):
        assert value(metrics, name, controller="sync") == (name == also)


def test_a_reconcile_cut_short_by_the_shutdown_is_no_result(metrics: Metrics) -> None:
    observer = metrics.controller("sync", workers=1)
    observer.started()
    observer.finished(Outcome.CANCELLED, 9.0)
    assert value(metrics, "controller_runtime_active_workers", controller="sync") == 0
    assert value(metrics, "controller_runtime_reconcile_time_seconds_count", controller="sync") == 0


def test_a_controller_takes_the_observer(metrics: Metrics) -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue(observer=metrics.queue("sync"))

        async def reconcile(key: str) -> Result:
            controller.stop()
            return Result()

        controller = Controller(
            "sync", reconcile, queue, workers=1, timeout=None, observer=metrics.controller("sync", workers=1)
        )
        queue.add("a")
        await controller.run()

    run(story())
    assert value(metrics, "controller_runtime_reconcile_total", controller="sync", result="success") == 1


def test_requests_are_counted_by_code_method_and_host(metrics: Metrics) -> None:
    observe, other = metrics.requests("https://a:6443"), metrics.requests("https://b:6443")
    for _ in range(2):
        observe("200", "GET")
    observe("<error>", "GET")
    other("200", "GET")
    name = "rest_client_requests_total"
    assert value(metrics, name, code="200", method="GET", host="https://a:6443") == 2
    assert value(metrics, name, code="<error>", method="GET", host="https://a:6443") == 1
    assert value(metrics, name, code="200", method="GET", host="https://b:6443") == 1


def test_a_new_registry_says_what_the_process_uses() -> None:
    assert b"process_resident_memory_bytes" in generate_latest(new_registry())


def test_an_observation_costs_a_few_microseconds(metrics: Metrics) -> None:
    queue, controller, request = metrics.queue("q"), metrics.controller("c", 1), metrics.requests("h")

    def reconcile() -> None:
        controller.started()
        controller.finished(Outcome.ERROR, 0.01)

    observations: list[tuple[int, Callable[[], object]]] = [
        (1, queue.added),
        (1, lambda: queue.depth_changed(3)),
        (1, lambda: queue.taken(0.01)),
        (1, lambda: request("200", "GET")),
        (2, reconcile),
    ]
    for count, observe in observations:
        # The quickest of many short runs: what it costs, whatever else the machine does.
        assert min(timeit.repeat(observe, number=100, repeat=50)) / 100 / count < 5e-6


def test_a_process_leads_or_does_not(metrics: Metrics) -> None:
    tell = metrics.leader("vidra")
    assert value(metrics, "leader_election_master_status", name="vidra") == 0
    tell(True)
    assert value(metrics, "leader_election_master_status", name="vidra") == 1
    tell(False)
    assert value(metrics, "leader_election_master_status", name="vidra") == 0

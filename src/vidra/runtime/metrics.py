"""Counts what queues, controllers and sessions do, under the names existing dashboards know.

The names and labels are those of client-go and controller-runtime: workqueue_*, controller_runtime_*,
rest_client_requests_total and leader_election_master_status. Every series of a queue or controller exists, with 0, as
soon as its observer does, so that a rate over its first minutes is right. An observation costs a few microseconds at
the most: label sets are looked up once, when the observer is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)

from vidra.runtime.controller import Outcome
from vidra.runtime.workqueue import WorkQueue

# Each counter and histogram would have a second series, with the time it was made, which nobody reads.
disable_created_metrics()  # type: ignore[no-untyped-call]

#: Seconds. From a key that found a worker idle to one that waited for half an hour.
QUEUE_BUCKETS: Final = (0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0, 1800.0)
#: Seconds. A reconcile is milliseconds when nothing is to be done, and seconds when much is.
RECONCILE_BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

#: What controller_runtime_reconcile_total calls an outcome. A reconcile cut short by the shutdown has none.
_RESULTS: Final = {
    Outcome.SUCCESS: "success",
    Outcome.REQUEUE_AFTER: "requeue_after",
    Outcome.ERROR: "error",
    Outcome.TERMINAL: "error",
    Outcome.TIMEOUT: "error",
}
#: controller-runtime has this one too. Ours never comes, and a panel that asks for it finds 0.
_OTHER_RESULTS: Final = ("requeue",)


def new_registry() -> CollectorRegistry:
    """A registry that already says what every process does: memory, CPU, open files, garbage collection."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


class QueueMetrics:
    """A QueueObserver. Made by :meth:`Metrics.queue`."""

    def __init__(self, depth: Gauge, adds: Counter, waited: Histogram, worked: Histogram, retries: Counter) -> None:
        # The library's own methods, not ours around them: each call saved is half of what an observation costs.
        self.added: Callable[[], None] = adds.inc
        self.depth_changed: Callable[[int], None] = depth.set
        self.taken: Callable[[float], None] = waited.observe
        self.finished: Callable[[float], None] = worked.observe
        self.retried: Callable[[], None] = retries.inc


class ControllerMetrics:
    """A ControllerObserver. Made by :meth:`Metrics.controller`."""

    def __init__(
        self,
        active: Gauge,
        seconds: Histogram,
        results: dict[Outcome, Counter],
        errors: Counter,
        terminal: Counter,
        timeouts: Counter,
    ) -> None:
        self._active = active
        self._seconds = seconds
        self._results = results
        self._errors = errors
        self._also = {Outcome.TERMINAL: terminal, Outcome.TIMEOUT: timeouts}

    def started(self) -> None:
        self._active.inc()

    def finished(self, outcome: Outcome, seconds: float) -> None:
        self._active.dec()
        result = self._results.get(outcome)
        if result is None:
            return
        result.inc()
        self._seconds.observe(seconds)
        if _RESULTS[outcome] == "error":
            self._errors.inc()
        also = self._also.get(outcome)
        if also is not None:
            also.inc()


class Metrics:
    """Makes the observers of one process; all their series are in ``registry``. One Metrics per registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, labels, registry=registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(name, text, labels, buckets=buckets, registry=registry)

        self._depth = gauge("workqueue_depth", "Keys ready for a worker", "name")
        self._adds = counter("workqueue_adds_total", "Keys that came in", "name")
        self._waited = histogram(
            "workqueue_queue_duration_seconds", "How long ready keys waited for a worker", QUEUE_BUCKETS, "name"
        )
        self._worked = histogram(
            "workqueue_work_duration_seconds", "How long workers kept a key", QUEUE_BUCKETS, "name"
        )
        self._unfinished = gauge(
            "workqueue_unfinished_work_seconds", "How long all work under way has taken so far, added up", "name"
        )
        self._longest = gauge(
            "workqueue_longest_running_processor_seconds", "How long the longest work under way has taken", "name"
        )
        self._retries = counter("workqueue_retries_total", "Keys that came back after their back-off", "name")

        self._total = counter(
            "controller_runtime_reconcile_total", "Reconciles that ended, by result", "controller", "result"
        )
        self._errors = counter("controller_runtime_reconcile_errors_total", "Reconciles that failed", "controller")
        self._terminal = counter(
            "controller_runtime_terminal_reconcile_errors_total", "Reconciles that failed for good", "controller"
        )
        self._timeouts = counter(
            "controller_runtime_reconcile_timeouts_total", "Reconciles that took too long", "controller"
        )
        self._seconds = histogram(
            "controller_runtime_reconcile_time_seconds", "How long reconciles took", RECONCILE_BUCKETS, "controller"
        )
        self._workers = gauge("controller_runtime_max_concurrent_reconciles", "Workers a controller has", "controller")
        self._active = gauge("controller_runtime_active_workers", "Workers that reconcile now", "controller")

        self._requests = counter(
            "rest_client_requests_total",
            "Requests to API servers, by HTTP code (<error>: no answer), method and host",
            "code",
            "method",
            "host",
        )
        self._leads = gauge("leader_election_master_status", "1 while this process leads, else 0", "name")

    def queue(self, name: str) -> QueueMetrics:
        """The observer of the queue ``name``. Call :meth:`watch` too, once the queue exists."""
        self._unfinished.labels(name)
        self._longest.labels(name)
        return QueueMetrics(
            self._depth.labels(name),
            self._adds.labels(name),
            self._waited.labels(name),
            self._worked.labels(name),
            self._retries.labels(name),
        )

    def watch(self, name: str, queue: WorkQueue[Any]) -> None:
        """Has the ages of the work under way read from ``queue`` whenever somebody reads the metrics."""

        def longest() -> float:
            running = queue.longest_running()
            return running.seconds if running is not None else 0.0

        self._unfinished.labels(name).set_function(queue.unfinished_work)
        self._longest.labels(name).set_function(longest)

    def controller(self, name: str, workers: int) -> ControllerMetrics:
        """The observer of the controller ``name``, which has so many ``workers``."""
        self._workers.labels(name).set(workers)
        for result in _OTHER_RESULTS:
            self._total.labels(name, result)
        return ControllerMetrics(
            self._active.labels(name),
            self._seconds.labels(name),
            {outcome: self._total.labels(name, result) for outcome, result in _RESULTS.items()},
            self._errors.labels(name),
            self._terminal.labels(name),
            self._timeouts.labels(name),
        )

    def leader(self, name: str) -> Callable[[bool], None]:
        """Told whether this process leads by the lease ``name``."""
        status = self._leads.labels(name)
        return lambda leads: status.set(int(leads))

    def requests(self, host: str) -> Callable[[str, str], None]:
        """Told code and method of each request to ``host``; a session takes it as its observer."""
        known: dict[tuple[str, str], Counter] = {}

        def observe(code: str, method: str) -> None:
            counter = known.get((code, method))
            if counter is None:
                counter = known[code, method] = self._requests.labels(code, method, host)
            counter.inc()

        return observe

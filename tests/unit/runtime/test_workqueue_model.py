"""The work queue against a plain model of it, under whatever sequence of calls hypothesis comes up with."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.scripted.virtual_time import VirtualTimeLoop, settle

from vidra.runtime.backoff import ExponentialBackoff, KeyedBackoff
from vidra.runtime.workqueue import Priority, QueueShutDown, WorkQueue

KEYS = st.sampled_from("abcd")
PRIORITIES = st.sampled_from(Priority)
SECONDS = st.integers(-1, 12)  # whole numbers, so that times are equal often and sums exact
LONG_ENOUGH = 15


@dataclass
class Waiting:
    """A key that waits: from ``when`` on somebody may take it, in the order of ``came``."""

    key: str
    when: float
    priority: Priority
    came: tuple[float, int]


class Model:
    """What the queue promises, said as plainly as possible and with no thought of cost."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waiting: list[Waiting] = []
        self.processing: dict[str, tuple[float, Priority]] = {}
        self.failures: dict[str, int] = {}
        self._count = 0

    def _next(self) -> int:
        self._count += 1
        return self._count

    def put(self, key: str, delay: float, priority: Priority | None) -> None:
        if priority is None:
            priority = self.processing[key][1] if key in self.processing else Priority.NORMAL
        when = self.now + max(delay, 0)
        entry = next((entry for entry in self.waiting if entry.key == key), None)
        if entry is None:
            self.waiting.append(Waiting(key, when, priority, (when, self._next())))
            return
        was_ready = entry.when <= self.now
        earlier = not was_ready and when < entry.when
        raised = was_ready and priority > entry.priority
        if earlier or raised:
            entry.when = min(entry.when, when)
            entry.came = (max(entry.when, self.now), self._next())
        entry.priority = max(entry.priority, priority)

    def ready(self) -> list[Waiting]:
        return [entry for entry in self.waiting if entry.when <= self.now and entry.key not in self.processing]

    def take(self) -> str:
        entry = min(self.ready(), key=lambda entry: (-entry.priority, entry.came))
        self.waiting.remove(entry)
        self.processing[entry.key] = (self.now, entry.priority)
        return entry.key

    def done(self, key: str) -> None:
        del self.processing[key]
        for entry in self.waiting:
            if entry.key == key and entry.when <= self.now:
                entry.came = (self.now, self._next())  # to the tail


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualTimeLoop()
        self.model = Model()
        rule = ExponentialBackoff(base=1, cap=8, jitter=0)
        self.queue: WorkQueue[str] = WorkQueue(backoff=KeyedBackoff(rule), clock=self.loop)
        self.getters: list[asyncio.Task[str]] = []
        self.shut = False
        self.steps = 0

    def teardown(self) -> None:
        for getter in self.getters:
            getter.cancel()
        self.loop.run_until_complete(settle())
        self.loop.close()

    def follow(self) -> None:
        """Lets waiting getters have what they can have, here and in the model."""
        self.steps += 1
        self.loop.run_until_complete(settle())
        self.compare_getters()

    def compare_getters(self) -> None:
        expected: list[str] = []
        while self.model.ready() and len(expected) < len(self.getters):
            expected.append(self.model.take())
        done = [getter for getter in self.getters if getter.done()]
        assert sorted(getter.result() for getter in done) == sorted(expected)
        self.getters = [getter for getter in self.getters if not getter.done()]

    @rule(key=KEYS, priority=PRIORITIES)
    def add(self, key: str, priority: Priority) -> None:
        self.queue.add(key, priority=priority)
        if not self.shut:
            self.model.put(key, 0, priority)
        self.follow()

    @rule(key=KEYS, delay=SECONDS, priority=st.none() | PRIORITIES)
    def add_after(self, key: str, delay: int, priority: Priority | None) -> None:
        self.queue.add_after(key, delay, priority=priority)
        if not self.shut:
            self.model.put(key, delay, priority)
        self.follow()

    @rule(key=KEYS)
    def add_rate_limited(self, key: str) -> None:
        failures = self.model.failures.get(key, 0)
        self.model.failures[key] = failures + 1
        assert self.queue.add_rate_limited(key) == min(8, 2**failures)
        if not self.shut:
            self.model.put(key, min(8, 2**failures), None)
        self.follow()

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.queue.forget(key)
        self.model.failures.pop(key, None)

    @rule()
    def get(self) -> None:
        if self.shut or self.model.ready() or len(self.getters) < 2:
            getter = self.loop.create_task(self.queue.get())
            if self.shut:
                self.loop.run_until_complete(settle())
                assert isinstance(getter.exception(), QueueShutDown)
                return
            self.getters.append(getter)
            self.follow()

    @precondition(lambda self: not self.shut and not self.getters)
    @rule(key=KEYS, priority=PRIORITIES)
    def work_on_something(self, key: str, priority: Priority) -> None:
        self.add(key, priority)
        self.get()

    @precondition(lambda self: self.model.processing)
    @rule(data=st.data(), delay=st.just(0) | SECONDS)
    def look_again_at_what_is_worked_on(self, data: st.DataObject, delay: int) -> None:
        self.add_after(data.draw(st.sampled_from(sorted(self.model.processing))), delay, None)

    @precondition(lambda self: self.model.processing)
    @rule()
    def finish_all_work(self) -> None:
        for key in sorted(self.model.processing):
            self.queue.done(key)
            self.model.done(key)
            self.follow()

    @precondition(lambda self: self.getters)
    @rule(which=st.integers(0, 1), woken=st.booleans(), key=KEYS)
    def cancel_a_getter(self, which: int, woken: bool, key: str) -> None:
        """Also one that was just woken for a key, which then must go to another."""
        getter = self.getters.pop(which % len(self.getters))
        if woken:
            self.queue.add(key)
            self.model.put(key, 0, Priority.NORMAL)
        getter.cancel()
        self.follow()
        assert getter.cancelled()

    @precondition(lambda self: self.model.processing)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.model.processing)))
        self.queue.done(key)
        self.model.done(key)
        self.follow()

    @rule(seconds=st.integers(1, 10))
    def time_passes(self, seconds: int) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))
        until = self.model.now + seconds
        taken: list[str] = []
        for when in sorted({entry.when for entry in self.model.waiting if entry.when <= until} | {until}):
            self.model.now = max(when, self.model.now)
            while self.model.ready() and len(taken) < len(self.getters):
                taken.append(self.model.take())
        done = [getter for getter in self.getters if getter.done()]
        assert sorted(getter.result() for getter in done) == sorted(taken)
        self.getters = [getter for getter in self.getters if not getter.done()]
        self.follow()

    @precondition(lambda self: self.steps > LONG_ENOUGH)
    @rule()
    def shut_down(self) -> None:
        self.queue.shut_down()
        self.shut = True
        self.model.waiting.clear()
        self.loop.run_until_complete(settle())
        assert all(isinstance(getter.exception(), QueueShutDown) for getter in self.getters)
        self.getters = []

    @invariant()
    def the_counts_agree(self) -> None:
        model, queue = self.model, self.queue
        assert len(queue) == len(model.ready())
        assert queue.delayed == sum(entry.when > model.now for entry in model.waiting)
        assert queue.in_progress == len(model.processing)
        assert [queue.retries(key) for key in "abcd"] == [model.failures.get(key, 0) for key in "abcd"]

    @invariant()
    def the_oldest_work_agrees(self) -> None:
        running = self.queue.longest_running()
        seconds = [self.model.now - since for since, _ in self.model.processing.values()]
        assert (running.seconds if running else None) == (max(seconds) if seconds else None)
        assert self.queue.unfinished_work() == sum(seconds)


QueueMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
TestTheQueueBehavesAsItsModel = QueueMachine.TestCase

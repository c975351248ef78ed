"""How leading ends: asked to, by the work itself, or by force; in virtual time."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs
from tests.scripted.lease_store import Process, Record, cut, hang
from tests.scripted.virtual_time import run, settle

from vidra.runtime.leader import LeaseLost
from vidra.runtime.tasks import Part, PartEnded, run_parts


def now() -> float:
    return asyncio.get_running_loop().time()


class Drain:
    """Work that takes its time when it is asked to end."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.started = asyncio.Event()
        self.ended_at: float | None = None

    async def __call__(self) -> None:
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(self.seconds)
            self.ended_at = now()


@pytest.mark.case("U26")
def test_u26_an_orderly_end_gives_the_lease_up_and_says_nothing_worse_than_info() -> None:
    async def story() -> None:
        record = Record()
        a = Process(record, "a")
        a.start()
        await a.started.wait()
        await asyncio.sleep(5)
        before = record.spec
        assert isinstance(await a.stop(), asyncio.CancelledError)
        assert record.spec["holderIdentity"] == ""
        assert record.spec["leaseDurationSeconds"] == 1
        assert record.spec["leaseTransitions"] == before["leaseTransitions"]
        assert a.told == [False, True, False]
        assert not a.fence.is_open

    with capture_logs() as logs:
        run(story())
    assert {entry["log_level"] for entry in logs} == {"info"}


def test_a_standby_leads_as_soon_as_the_lease_is_given_up() -> None:
    async def story() -> None:
        record = Record()
        a, b = Process(record, "a"), Process(record, "b")
        a.start()
        await a.started.wait()
        b.start()
        await asyncio.sleep(31)
        asked = now()
        await a.stop()
        await b.started.wait()
        assert now() - asked < 0.01
        assert record.spec["leaseTransitions"] == 1
        await b.stop()

    run(story())


def test_a_standby_that_can_watch_nothing_still_asks_now_and_then() -> None:
    async def story() -> None:
        record = Record()
        a, b = Process(record, "a"), Process(record, "b")
        a.start()
        await a.started.wait()
        b.line.watches = False
        b.start()
        await asyncio.sleep(31)
        asked = now()
        await a.stop()
        await b.started.wait()
        assert now() - asked <= 2 * 2.2
        await b.stop()

    run(story())


def test_the_lease_is_kept_until_the_guarded_work_has_ended_and_no_shorter() -> None:
    async def story() -> None:
        record = Record()
        work = Drain(40)
        a, b = Process(record, "a"), Process(record, "b")
        a.start(work)
        await work.started.wait()
        b.start()
        await asyncio.sleep(7)
        await a.stop()
        assert work.ended_at == now() == pytest.approx(47)
        assert record.spec["holderIdentity"] in {"", "b"}
        await b.started.wait()
        assert now() - 47 < 0.01
        held = [spec["holderIdentity"] for spec in record.specs]
        assert held == ["a"] * (len(held) - 2) + ["", "b"]
        await b.stop()

    run(story())


def test_a_release_that_meets_a_newer_record_is_tried_again_on_it() -> None:
    async def story() -> None:
        record = Record()
        a = Process(record, "a")
        a.start()
        await a.started.wait()
        await record.edit(strategy="somebody's")
        await a.stop()
        assert a.line.requests[-3:] == ["update", "get", "update"]
        assert record.spec["holderIdentity"] == ""
        assert record.spec["strategy"] == "somebody's"

    run(story())


def test_what_is_somebody_elses_by_then_is_not_released() -> None:
    async def story() -> None:
        record = Record()
        a = Process(record, "a")
        a.start()
        await a.started.wait()
        await record.edit(holderIdentity="c")
        await a.stop()
        assert record.spec["holderIdentity"] == "c"

    run(story())


@pytest.mark.parametrize("fault", [cut, hang])
def test_a_release_that_does_not_get_through_holds_nobody_up_for_long(fault: object) -> None:
    async def story() -> None:
        record = Record()
        a = Process(record, "a")
        a.start()
        await a.started.wait()
        a.line.there = fault  # type: ignore[assignment]
        assert isinstance(await a.stop(), asyncio.CancelledError)
        assert now() <= 5
        assert record.spec["holderIdentity"] == "a"

    run(story())


def test_a_standby_that_ends_writes_nothing() -> None:
    async def story() -> None:
        record = Record()
        await record.create({"holderIdentity": "x", "leaseDurationSeconds": 15})
        a = Process(record, "a")
        a.start()
        await asyncio.sleep(5)
        assert isinstance(await a.stop(), asyncio.CancelledError)
        assert set(a.line.requests) == {"get"}

    run(story())


def test_who_is_asked_to_end_while_it_takes_the_lease_gives_it_back() -> None:
    async def story() -> None:
        record = Record()
        a = Process(record, "a")
        a.line.back = hang
        a.line.there = lambda: asyncio.sleep(0)

        async def only_creates() -> None:
            if a.line.requests[-1] == "create":
                await hang()

        a.line.back = only_creates
        a.start()
        await settle()
        assert record.spec["holderIdentity"] == "a", "it leads, and can't know"
        await a.stop()
        assert record.spec["holderIdentity"] == ""

    run(story())


def test_an_error_of_the_work_is_what_run_raises_and_the_lease_is_given_up() -> None:
    async def story() -> None:
        record = Record()

        async def work() -> None:
            await asyncio.sleep(3)
            raise RuntimeError("the work is broken")

        a = Process(record, "a")
        a.start(work)
        assert str(await a.ended()) == "the work is broken"
        assert record.spec["holderIdentity"] == ""

    run(story())


def test_lost_means_no_grace_for_the_work() -> None:
    """Parts in order, each with a grace of a minute: the second and third call cut it short."""

    async def story() -> None:
        record = Record()
        slow = Drain(60)

        async def work() -> None:
            await run_parts([Part("first", slow), Part("second", Drain(60)), Part("third", Drain(60))])

        a = Process(record, "a")
        a.start(work)
        await slow.started.wait()
        await asyncio.sleep(0.5)
        a.line.there = cut
        assert isinstance(await a.ended(), LeaseLost)
        assert now() < 10.0 + 1.0

    run(story())


def test_as_a_part_it_ends_the_process_when_the_lease_is_lost() -> None:
    async def story() -> None:
        record = Record()
        a = Process(record, "a")
        running = asyncio.create_task(run_parts([Part("leader", lambda: a.elector.run(a.work))]))
        await a.started.wait()
        a.line.there = cut
        with pytest.raises(PartEnded, match="leader ended: LeaseLost") as ended:
            await running
        assert isinstance(ended.value.__cause__, LeaseLost)

    run(story())


@pytest.mark.case("U24")
def test_u24_a_standby_says_that_it_is_one_and_who_leads() -> None:
    async def story() -> None:
        record = Record()
        a, b = Process(record, "a"), Process(record, "b")
        a.start()
        await a.started.wait()
        b.start()
        await asyncio.sleep(60)
        assert b.elector.standing() == "standby, a leads"
        await b.stop()
        await a.stop()

    with capture_logs() as logs:
        run(story())
    said = [entry["standing"] for entry in logs if entry["event"] == "not leading"]
    assert said == ["standby, a leads"], "once, not every two seconds"


def test_a_leader_whose_lease_must_be_over_is_overdue() -> None:
    async def story() -> None:
        record = Record()
        a = Process(record, "a")

        async def deaf() -> None:
            while True:
                try:
                    await asyncio.sleep(1000)
                except asyncio.CancelledError:
                    if now() > 100:
                        raise

        a.start(deaf)
        await asyncio.sleep(1)
        assert a.elector.overdue() is None
        a.line.there = cut
        await asyncio.sleep(13)
        assert "was not renewed" in (a.elector.overdue() or "")
        assert isinstance(await a.ended(), LeaseLost)
        assert a.elector.overdue() is None

    run(story())

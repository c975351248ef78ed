"""Leader election in virtual time: L1 to L5 of client-go's rules, and that no two processes ever may write."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.scripted.lease_store import Process, Record, cut, hang
from tests.scripted.virtual_time import run, settle

from vidra.runtime.leader import LeaseLost, new_identity
from vidra.runtime.lease import LeaseTimes


def now() -> float:
    return asyncio.get_running_loop().time()


async def leader(record: Record, name: str = "a", **options: Any) -> Process:
    process = Process(record, name, **options)
    process.start()
    await process.started.wait()
    return process


async def kill(process: Process) -> None:
    """As kill -9: it says nothing to anybody any more."""
    process.line.there = hang
    process.line.watches = False
    assert process.task is not None
    process.task.cancel()
    await settle()
    process.task.cancel()


def test_the_first_one_makes_the_lease_and_leads() -> None:
    async def story() -> None:
        record = Record()
        process = await leader(record)
        assert process.elector.leads
        assert process.elector.standing() == "leading"
        assert process.told == [False, True]
        assert now() == 0.0
        spec = record.spec
        assert spec["holderIdentity"] == "a"
        assert spec["leaseDurationSeconds"] == 15
        assert spec["leaseTransitions"] == 0
        assert spec["acquireTime"] == spec["renewTime"]
        await process.stop()

    run(story())


def test_a_renewal_keeps_since_when_and_how_often_and_whatever_else_the_record_holds() -> None:
    async def story() -> None:
        record = Record()
        await record.create({"holderIdentity": "", "leaseTransitions": 6, "strategy": "OldestEmulationVersion"})
        process = await leader(record)
        taken = record.spec
        assert taken["leaseTransitions"] == 7
        await asyncio.sleep(61)
        assert record.spec == {**taken, "renewTime": record.spec["renewTime"]}
        assert record.spec["renewTime"] > taken["renewTime"]
        assert record.spec["strategy"] == "OldestEmulationVersion"
        assert process.line.requests == ["get", *["update"] * 31], "every 2 seconds, with one request each"
        await process.stop()

    run(story())


def test_two_that_start_together_are_one_leader_and_one_standby() -> None:
    async def story() -> None:
        record = Record()
        a, b = Process(record, "a"), Process(record, "b")
        a.line.there = b.line.there = lambda: asyncio.sleep(0.05)  # both look before either has written
        a.start()
        b.start()
        await asyncio.sleep(30)
        assert [a.working, b.working].count(True) == 1
        standby = b if a.working else a
        assert standby.elector.standing() == f"standby, {record.spec['holderIdentity']} leads"
        assert standby.line.requests[:2] == ["get", "create"], "the one who came second had tried"
        assert standby.told == [False]
        await a.stop()
        await b.stop()

    run(story())


@pytest.mark.parametrize("stamp", ["1999-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z", None])
def test_no_timestamp_of_a_record_is_believed_only_that_it_no_longer_changes(stamp: str | None) -> None:
    async def story() -> None:
        record = Record()
        spec = {"holderIdentity": "x", "leaseDurationSeconds": 15, "leaseTransitions": 3}
        await record.create({**spec, "renewTime": stamp} if stamp else spec)
        await asyncio.sleep(1000)
        b = Process(record, "b")
        b.start()
        await asyncio.sleep(14.9)
        assert not b.working
        await b.started.wait()
        assert 1015 <= now() <= 1015 + 2 * 2.2
        assert record.spec["holderIdentity"] == "b"
        assert record.spec["leaseTransitions"] == 4
        await b.stop()

    run(story())


def test_a_holder_is_trusted_for_as_long_as_it_promised_not_as_we_would() -> None:
    async def story() -> None:
        record = Record()
        await record.create({"holderIdentity": "x", "leaseDurationSeconds": 60})
        b = Process(record, "b")
        b.start()
        await b.started.wait()
        assert 60 <= now() <= 65
        await b.stop()

    run(story())


def test_somebodys_label_on_the_lease_is_no_renewal() -> None:
    async def story() -> None:
        record = Record()
        a = await leader(record)
        b = Process(record, "b")
        b.start()
        await settle()
        await kill(a)
        for _ in range(40):
            await asyncio.sleep(0.5)
            await record.edit()  # a new version, the same spec
            if b.working:
                break
        assert b.working
        await b.stop()

    run(story())


def test_a_dead_leader_is_followed_when_its_lease_is_over_and_not_before() -> None:
    async def story() -> None:
        record = Record()
        a = await leader(record)
        b = Process(record, "b")
        b.start()
        await asyncio.sleep(30.5)
        await kill(a)
        last = 30.0  # when it renewed
        await b.started.wait()
        assert last + 15 <= now() <= last + 15 + 4.4
        await b.stop()

    run(story())


@pytest.mark.case("R05")
@pytest.mark.parametrize("fault", [cut, hang])
def test_r05_who_cannot_renew_stops_before_its_lease_is_over(fault: Any) -> None:
    async def story() -> None:
        record = Record()
        a = await leader(record)
        b = Process(record, "b")
        b.start()
        await asyncio.sleep(20.5)
        a.line.there = fault
        await asyncio.sleep(9.4)
        assert a.working
        assert a.fence.is_open
        error = await a.ended()
        assert isinstance(error, LeaseLost)
        assert a.told == [False, True, False]
        assert not a.working
        # Counted from before the last renewal that was answered. What is left is for what was on its way.
        assert now() == pytest.approx(30.0 + (5.0 if fault is hang else 0.0)), "giving up the lease is tried for 5 s"
        assert not a.fence.is_open
        assert not b.working
        await b.started.wait()
        assert now() >= 35.0
        a.line.there = lambda: asyncio.sleep(0)
        again = a.start()
        await asyncio.sleep(30)
        assert b.working
        assert a.elector.standing() == "standby, b leads"
        again.cancel()
        await b.stop()

    run(story())


def test_an_outage_shorter_than_the_deadline_is_survived() -> None:
    async def story() -> None:
        record = Record()
        a = await leader(record)
        await asyncio.sleep(10.5)
        a.line.there = hang
        await asyncio.sleep(6)
        a.line.there = lambda: asyncio.sleep(0.5)
        await asyncio.sleep(60)
        assert a.working
        await a.stop()

    run(story())


def test_a_renewal_that_was_done_though_its_answer_got_lost_is_recognised() -> None:
    async def story() -> None:
        record = Record()
        a = await leader(record)
        a.line.back = cut
        await asyncio.sleep(5)
        a.line.back = lambda: asyncio.sleep(0)
        del a.line.requests[:]
        await asyncio.sleep(1.5)
        assert a.line.requests == ["update", "get", "update"]
        await asyncio.sleep(60)
        assert a.working
        assert record.spec["leaseTransitions"] == 0
        await a.stop()

    run(story())


def test_a_try_that_was_done_though_its_answer_got_lost_is_ours() -> None:
    async def story() -> None:
        record = Record()
        a = Process(record, "a")
        a.line.back = lambda: cut() if a.line.requests[-1] == "create" else asyncio.sleep(0)
        a.start()
        await a.started.wait()
        assert now() < 5
        assert record.spec["leaseTransitions"] == 0
        await a.stop()

    run(story())


def test_who_finds_another_holder_stops_at_once() -> None:
    async def story() -> None:
        record = Record()
        a = await leader(record)
        await asyncio.sleep(2.5)
        await record.edit(holderIdentity="by hand")
        await asyncio.sleep(1.6)
        error = await a.ended()
        assert str(error) == "by hand has the lease"
        assert now() == pytest.approx(4.1)
        assert record.spec["holderIdentity"] == "by hand", "it is not ours to release"
        assert len(a.line.requests) == 5, "get, create, renewed, conflict, look"

    run(story())


def test_a_deleted_lease_is_its_holders_still() -> None:
    async def story() -> None:
        record = Record()
        a = await leader(record)
        b = Process(record, "b")
        b.start()
        for _ in range(5):
            await asyncio.sleep(7.3)
            await record.delete()
        await asyncio.sleep(7.3)
        assert a.working
        assert not b.working
        assert record.spec["holderIdentity"] == "a"
        await a.stop()
        await b.stop()

    run(story())


def test_an_identity_is_had_by_one_process_only() -> None:
    assert new_identity() != new_identity()


@pytest.mark.parametrize(
    "wrong",
    [
        {"duration": 10},
        {"duration": 15.5},
        {"renew_deadline": 2.4},
        {"retry": 0},
        {"retry": -1},
        {"duration": 1, "renew_deadline": 0.0, "retry": 0.0},
    ],
)
def test_times_by_which_two_could_lead_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"need duration|whole number"):
        LeaseTimes(**wrong)

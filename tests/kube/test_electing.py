"""Elections by Lease: pure decisions, and several electors against a small API server over real HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from typing import Self

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observer.kube.client import ApiClient, ClientTuning
from observer.kube.electing import (
    LeaseRecord,
    Standing,
    Step,
    Timing,
    call_limit,
    held,
    micro_time,
    next_step,
    pause,
    released,
    seen,
    spec_of,
)
from observer.kube.elector import Elector
from tests.fakes.kube_api import FakeKube
from tests.kube.steady import PlainCredentials, TurnedClock, until

TIMING = Timing()
THEIRS = LeaseRecord(
    holder_identity="b", lease_duration_seconds=15, acquire_time="t0", renew_time="t1", lease_transitions=4
)
OURS = msgspec.structs.replace(THEIRS, holder_identity="a")
FREE = msgspec.structs.replace(THEIRS, holder_identity="")


@pytest.mark.parametrize(
    ("record", "age", "step"),
    [
        (None, 0.0, Step.CREATE),
        (FREE, 0.0, Step.TAKE),
        (msgspec.structs.replace(THEIRS, holder_identity=None), 0.0, Step.TAKE),
        (LeaseRecord(), 0.0, Step.TAKE),
        (OURS, 0.0, Step.RENEW),
        (OURS, 99.0, Step.RENEW),
        (THEIRS, 0.0, Step.WAIT),
        (THEIRS, 14.99, Step.WAIT),
        (THEIRS, 15.0, Step.TAKE),
        (msgspec.structs.replace(THEIRS, lease_duration_seconds=1), 1.0, Step.TAKE),
    ],
)
def test_what_may_be_done_about_a_lease(record: LeaseRecord | None, age: float, step: Step) -> None:
    standing = seen(Standing(identity="a"), record, "7", 100.0)
    assert next_step(standing, 100.0 + age) is step


def test_a_renew_time_far_in_the_past_or_future_means_nothing() -> None:
    """Wall clocks differ: only that the record changed, and when we saw it, counts."""
    for time in ("1999-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"):
        standing = seen(Standing(identity="a"), msgspec.structs.replace(THEIRS, renew_time=time), "7", 100.0)
        assert next_step(standing, 114.0) is Step.WAIT
        assert next_step(standing, 115.0) is Step.TAKE


def test_only_a_changed_record_restarts_the_clock() -> None:
    standing = seen(Standing(identity="a"), THEIRS, "7", 100.0)
    same = seen(standing, THEIRS, "8", 110.0)
    assert (same.seen_at, same.version) == (100.0, "8")
    assert seen(same, msgspec.structs.replace(THEIRS, renew_time="t2"), "9", 111.0).seen_at == 111.0


def test_a_leader_stops_before_others_may_take_over() -> None:
    standing = Standing(identity="a", record=OURS, renewed_at=100.0)
    assert standing.leads(109.9, TIMING)
    assert not standing.leads(110.0, TIMING)
    assert TIMING.deadline < TIMING.duration


def test_who_reads_that_another_holds_it_leads_no_more() -> None:
    leader = Standing(identity="a", record=OURS, renewed_at=100.0)
    assert seen(leader, OURS, "8", 101.0).leads(101.0, TIMING)
    assert not seen(leader, THEIRS, "8", 101.0).leads(101.0, TIMING)
    assert not seen(leader, None, "", 101.0).leads(101.0, TIMING)


def test_a_take_over_counts_one_transition_and_a_renewal_none() -> None:
    taken = held(Standing(identity="a", record=THEIRS), 1_700_000_000.5, TIMING)
    assert (taken.holder_identity, taken.lease_transitions, taken.lease_duration_seconds) == ("a", 5, 15)
    assert taken.acquire_time == taken.renew_time == "2023-11-14T22:13:20.500000Z"
    renewed = held(Standing(identity="a", record=OURS), 1_700_000_001.0, TIMING)
    assert (renewed.lease_transitions, renewed.acquire_time) == (4, "t0")
    created = held(Standing(identity="a"), 1_700_000_001.0, TIMING)
    assert created.lease_transitions == 0


def test_giving_up_leaves_nothing_to_wait_for() -> None:
    record = released(Standing(identity="a", record=OURS), 1_700_000_000.0)
    assert record is not None
    assert (record.holder_identity, record.lease_duration_seconds, record.lease_transitions) == ("", 1, 4)
    assert released(Standing(identity="a", record=THEIRS), 0.0) is None
    assert released(Standing(identity="a"), 0.0) is None


@pytest.mark.parametrize("wall", [1_700_000_000.0, 1_700_000_000.25, 0.0, 1_700_000_000.9999996])
def test_renewtime_without_microseconds(wall: float) -> None:
    """A moment on the whole second still has its six digits: the API answers 400 to one without a fraction."""
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", micro_time(wall))


def test_candidates_ask_apart_and_leaders_in_time() -> None:
    leader, candidate = Standing(identity="a", record=OURS, renewed_at=100.0), Standing(identity="b")
    assert pause(leader, 101.0, TIMING, 0.9) == 2.0
    assert [pause(candidate, 101.0, TIMING, chance) for chance in (0.0, 0.5)] == [2.0, 3.2]


def test_no_call_of_a_leader_outlives_its_deadline() -> None:
    leader = Standing(identity="a", record=OURS, renewed_at=100.0)
    assert call_limit(leader, 103.0, TIMING) == 7.0
    assert call_limit(leader, 111.0, TIMING) == TIMING.retry, "past it, it is a candidate like others"
    assert call_limit(Standing(identity="a"), 103.0, TIMING) == 10.0


@pytest.mark.parametrize(
    "times", [{"duration": 10.0}, {"deadline": 2.4}, {"retry": 0.0}, {"duration": 15.5}, {"duration": 9.0}]
)
def test_times_that_would_let_two_lead_are_refused(times: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="wanted"):
        Timing(**times)


def test_what_others_keep_in_the_lease_stays() -> None:
    spec = spec_of(OURS, {"strategy": "OldestEmulationVersion", "holderIdentity": "b"})
    assert (spec["strategy"], spec["holderIdentity"], spec["leaseTransitions"]) == ("OldestEmulationVersion", "a", 4)


class Simulated:
    """A participant on a clock of its own whose calls take time: begun, then done at the server, then heard of."""

    def __init__(self, identity: str, offset: float) -> None:
        self.standing = Standing(identity=identity)
        self.offset = offset
        self.call: tuple[str, LeaseRecord | None, str, float] | None = None
        self.answer: tuple[bool, LeaseRecord | None, str] | None = None

    def step(self, now: float, server: list[tuple[LeaseRecord | None, int]]) -> None:
        """The next thing that happens to this participant at a true moment."""
        mine = now + self.offset
        if self.call is None:
            step = next_step(self.standing, mine)
            write = step is not Step.WAIT and self.standing.version != ""
            record = held(self.standing, 1e9 + self.offset + now, TIMING) if write else None
            self.call = ("write" if write else "read", record, self.standing.version, mine)
        elif self.answer is None:
            verb, record, version, _ = self.call
            stored, count = server[0]
            if verb == "write" and version == str(count):
                server[0] = stored, count = (record, count + 1)
                self.answer = (True, stored, str(count))
            else:
                self.answer = (verb == "read", stored, str(count))
        else:
            verb, _, _, begun = self.call
            ok, stored, version = self.answer
            if ok:
                self.standing = seen(self.standing, stored, version, mine)
                if verb == "write":
                    self.standing = msgspec.structs.replace(self.standing, renewed_at=begun)
            else:
                self.standing = msgspec.structs.replace(self.standing, version="")
            self.call = self.answer = None


@given(
    st.lists(st.floats(-1e4, 1e4), min_size=2, max_size=3),
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 7), st.sampled_from([0.0, 0.1, 1.0, 4.0, 9.9, 15.0])),
        min_size=2,
        max_size=30,
    ),
)
@settings(max_examples=400, deadline=None)
def test_no_order_of_events_lets_two_lead_at_once(offsets: list[float], events: list[tuple[int, int, float]]) -> None:
    """Whatever calls take, whoever pauses, however far apart the clocks are."""
    everyone = [Simulated(f"p{number}", offset) for number, offset in enumerate(offsets)]
    server: list[tuple[LeaseRecord | None, int]] = [(None, 1)]
    now = 0.0
    for number, steps, passed in events:
        now += passed
        for _ in range(steps):
            everyone[number % len(everyone)].step(now, server)
            leaders = [each.standing.identity for each in everyone if each.standing.leads(now + each.offset, TIMING)]
            assert len(leaders) <= 1, f"{leaders} at {now}"


def test_the_simulation_does_elect_somebody() -> None:
    everyone = [Simulated("a", 5.0), Simulated("b", -3.0)]
    server: list[tuple[LeaseRecord | None, int]] = [(None, 1)]
    for tick in range(6):
        everyone[0].step(float(tick), server)
    assert everyone[0].standing.leads(11.0, TIMING)
    for tick in range(60):
        everyone[1].step(6.0 + tick, server)
    assert everyone[1].standing.leads(66.0 - 3.0, TIMING)


QUICK = Timing(duration=1.0, deadline=0.6, retry=0.05)
LEASE = ("/apis/coordination.k8s.io/v1/leases", "ns", "shard-0")


class Taking:
    """A participant that runs, and what it was told."""

    def __init__(self, kube: FakeKube, identity: str) -> None:
        self.told: list[bool] = []
        self.clock = TurnedClock()
        self.client = ApiClient(PlainCredentials(kube.url), self.clock, ClientTuning(seconds=5.0))
        self.elector = Elector(
            self.client,
            self.clock,
            namespace="ns",
            name="shard-0",
            identity=identity,
            on_change=self.told.append,
            chance=lambda: 0.0,
            timing=QUICK,
        )
        self.task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.client.__aenter__()
        self.task = asyncio.create_task(self.elector.run())
        return self

    async def stop(self) -> None:
        assert self.task is not None
        if not self.task.cancelled():
            assert not self.task.done(), f"the elector ended: {self.task}"
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
        await self.client.__aexit__(None, None, None)


@pytest.fixture
async def kube() -> AsyncIterator[FakeKube]:
    async with FakeKube() as fake:
        yield fake


def spec(kube: FakeKube) -> dict[str, object]:
    return kube.objects[LEASE]["spec"]


async def test_one_of_three_leads_and_keeps_it(kube: FakeKube) -> None:
    async with Taking(kube, "a") as a, Taking(kube, "b") as b, Taking(kube, "c") as c:
        everyone = (a, b, c)
        await until(lambda: any(each.elector.leads for each in everyone))
        leader = next(each for each in everyone if each.elector.leads)
        first = spec(kube)["renewTime"]
        for _ in range(60):
            assert [each for each in everyone if each.elector.leads] == [leader]
            await asyncio.sleep(0.02)
        assert spec(kube)["renewTime"] != first
        assert spec(kube)["leaseTransitions"] == 0
        assert {each.elector.holder for each in everyone} == {leader.elector._standing.identity}


async def test_a_leader_that_dies_is_followed_after_the_duration_and_never_before(kube: FakeKube) -> None:
    async with Taking(kube, "a") as a:
        await until(lambda: a.elector.leads)
        async with Taking(kube, "b") as b:
            await until(lambda: b.elector.holder == "a")
            await a.stop()
            died = a.clock.now().mono
            await until(lambda: b.elector.leads)
            assert not a.elector.leads
            assert 0.9 <= b.clock.now().mono - died <= 3.0
            assert (spec(kube)["holderIdentity"], spec(kube)["leaseTransitions"]) == ("b", 1)


async def test_a_lease_given_up_is_taken_at_once(kube: FakeKube) -> None:
    async with Taking(kube, "a") as a, Taking(kube, "b") as b:
        await until(lambda: a.elector.leads or b.elector.leads)
        leader, other = (a, b) if a.elector.leads else (b, a)
        await until(lambda: other.elector.holder)
        await leader.stop()
        assert await leader.elector.release()
        gone = other.clock.now().mono
        await until(lambda: other.elector.leads)
        assert other.clock.now().mono - gone < 0.9
        assert leader.told == [True, False]
        assert not await leader.elector.release()


async def test_a_lease_is_given_up_even_if_a_renewal_was_cancelled_on_its_way(kube: FakeKube) -> None:
    async with Taking(kube, "a") as a:
        await until(lambda: a.elector.leads)
        kube.hang.clear()
        sent = len(kube.log)
        await until(lambda: len(kube.log) > sent)
        await a.stop()
        version = kube.version
        kube.hang.set()
        await until(lambda: kube.version > version)
        assert await a.elector.release()
        assert spec(kube)["holderIdentity"] == ""


async def test_a_renewal_counts_from_before_its_call(kube: FakeKube) -> None:
    """The server may have taken it at once, and others count from then."""
    async with Taking(kube, "a") as a:
        await until(lambda: a.elector.leads)
        kube.hang.clear()
        sent = len(kube.log)
        await until(lambda: len(kube.log) > sent)
        asked, before = a.clock.now().mono, a.elector._standing.renewed_at
        await asyncio.sleep(0.2)
        kube.hang.set()
        await until(lambda: a.elector._standing.renewed_at != before)
        renewed = a.elector._standing.renewed_at
        assert renewed is not None
        assert renewed <= asked


async def test_a_leader_whose_api_hangs_stops_within_the_deadline(kube: FakeKube) -> None:
    async with Taking(kube, "a") as a:
        await until(lambda: a.elector.leads)
        kube.hang.clear()
        hung = a.clock.now().mono
        await until(lambda: a.told == [True, False])
        assert a.clock.now().mono - hung < 1.0, "before the duration ends for others"
        assert "Silent" in a.elector.trouble
        kube.hang.set()
        await until(lambda: a.elector.leads)
        await until(lambda: a.told == [True, False, True])
        assert a.elector.trouble == ""


async def test_leading_ends_by_the_clock_even_if_nothing_runs(kube: FakeKube) -> None:
    async with Taking(kube, "a") as a:
        await until(lambda: a.elector.leads)
        a.clock.turned += QUICK.deadline
        assert not a.elector.leads


async def test_a_lease_that_somebody_deletes_is_made_again(kube: FakeKube) -> None:
    async with Taking(kube, "a") as a:
        await until(lambda: a.elector.leads)
        kube.delete("leases", "shard-0", base="/apis/coordination.k8s.io/v1")
        await until(lambda: LEASE in kube.objects and spec(kube)["holderIdentity"] == "a")


async def test_an_answer_that_is_no_lease_is_trouble_and_no_leadership(kube: FakeKube) -> None:
    kube.faults.append(("GET", 200, "surprise"))
    async with Taking(kube, "a") as a:
        await until(lambda: a.elector.trouble or a.elector.leads)
        assert "cannot be read" in a.elector.trouble
        await until(lambda: a.elector.leads)

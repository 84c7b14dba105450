"""Replicas by their Leases against a small API server: who owns, who may write, who is there, and who left."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from observer.kube.client import ApiClient, ClientTuning
from observer.kube.electing import Timing
from observer.kube.elector import Elector
from observer.kube.membership import OF_SHARD, Member, Membership, labels_of, lease_name, member_of
from observer.kube.shards import shard_of
from observer.kube.sharing import ShardOwnership
from tests.fakes.kube_api import FakeKube
from tests.kube.steady import QUICK as WATCH
from tests.kube.steady import PlainCredentials, TurnedClock, until

QUICK = Timing(duration=1.0, deadline=0.6, retry=0.05)
LEASES = "/apis/coordination.k8s.io/v1/leases"
UID = "uid-of-a-deployment"


class Replica:
    """One replica of a shard, joined as the observer joins it."""

    def __init__(self, kube: FakeKube, identity: str, shard: int = 0, count: int = 1) -> None:
        self.clock = TurnedClock()
        self.client = ApiClient(PlainCredentials(kube.url), self.clock, ClientTuning(seconds=5.0, rate=1e4, burst=1e4))
        self.changes: list[bool] = []
        self.membership = Membership(
            self.client,
            self.clock,
            namespace="ns",
            name="observer",
            me=Member(identity=identity, shard=shard, api=f"https://{identity}", http=f"http://{identity}"),
            timing=QUICK,
            chance=lambda: 0.0,
            heard=self._heard,
            tuning=WATCH,
        )
        self.elector = Elector(
            self.client,
            self.clock,
            namespace="ns",
            name=lease_name("observer", shard),
            identity=identity,
            on_change=lambda _: self.ownership.look(),
            chance=lambda: 0.0,
            timing=QUICK,
            labels=labels_of("observer", shard, OF_SHARD),
        )
        self.ownership = ShardOwnership(self.elector, self.membership, self.clock, shard=shard, count=count)
        self.ownership.subscribe(lambda: self.changes.append(self.ownership.holds))
        self._tasks: list[asyncio.Task[None]] = []

    def _heard(self) -> None:
        self.ownership.heard()

    async def start(self) -> None:
        await self.client.__aenter__()
        runs = [*(run for _, run in self.membership.runs), self.ownership.run, self.elector.run]
        self._tasks = [asyncio.ensure_future(run()) for run in runs]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks = []
        await self.client.__aexit__(None, None, None)


@pytest.fixture
async def kube() -> AsyncIterator[FakeKube]:
    async with FakeKube() as fake:
        yield fake


@asynccontextmanager
async def replicas(kube: FakeKube, *told: tuple[str, int], count: int = 1) -> AsyncIterator[list[Replica]]:
    made = [Replica(kube, identity, shard, count) for identity, shard in told]
    try:
        for each in made:
            await each.start()
            await until(lambda each=each: each.ownership.holds or each.membership.known(each.membership.me.shard))
        yield made
    finally:
        for each in made:
            if each._tasks:
                await each.stop()


async def test_one_owns_and_the_other_knows_who_and_where(kube: FakeKube) -> None:
    async with replicas(kube, ("a", 0), ("b", 0)) as (a, b):
        await until(lambda: b.ownership.owner(UID) == "a" and b.membership.member("a") and a.membership.member("b"))
        assert (a.ownership.owns(UID), a.ownership.writes(), a.ownership.owner(UID)) == (True, True, None)
        assert (b.ownership.owns(UID), b.ownership.writes()) == (False, False)
        found = b.membership.member("a")
        assert found is not None
        assert (found.api, found.http, found.draining) == ("https://a", "http://a", False)
        assert (b.ownership.owners(), a.ownership.owners()) == ({"a"}, frozenset())
        assert b.ownership.standing() == (True, "shard 0 is owned by a")


async def test_a_replica_that_gives_up_is_followed_at_once(kube: FakeKube) -> None:
    async with replicas(kube, ("a", 0), ("b", 0)) as (a, b):
        await until(lambda: b.ownership.owner(UID) == "a")
        a.ownership.give_up()
        assert (a.ownership.owns(UID), a.ownership.writes()) == (False, False)
        assert a.changes[-1] is False
        assert not b.ownership.holds, "not before the Lease is free"
        a._tasks.pop().cancel()  # its election
        assert await a.elector.release()
        begun = b.clock.now().mono
        await until(lambda: b.ownership.owns(UID))
        assert b.clock.now().mono - begun < QUICK.duration
        await until(lambda: a.ownership.owner(UID) == "b")


async def test_a_replica_that_dies_is_followed_after_its_lease_and_never_before(kube: FakeKube) -> None:
    async with replicas(kube, ("a", 0), ("b", 0)) as (a, b):
        await until(lambda: b.ownership.owner(UID) == "a")
        await a.stop()
        died = b.clock.now().mono
        await until(lambda: b.ownership.owns(UID))
        assert b.clock.now().mono - died > 0.8 * QUICK.duration
        await until(lambda: b.membership.members() == ())


async def test_while_the_api_is_away_the_owner_writes_no_more_and_observes_on(kube: FakeKube) -> None:
    """Nobody can take over then, and an outage of the control plane must not blind us."""
    async with replicas(kube, ("a", 0), ("b", 0)) as (a, b):
        await until(lambda: b.ownership.owner(UID) == "a")
        kube.hang.clear()  # no call is answered any more
        kube.cut_watches()
        await until(lambda: not a.ownership.writes())
        await asyncio.sleep(2 * QUICK.duration)
        assert (a.ownership.owns(UID), a.ownership.writes()) == (True, False)
        assert not b.ownership.owns(UID)
        kube.hang.set()
        await until(lambda: a.ownership.writes() or b.ownership.writes())
        await until(lambda: [a.ownership.holds, b.ownership.holds].count(True) == 1)


async def test_an_owner_that_stood_still_writes_nothing_when_it_wakes(kube: FakeKube) -> None:
    async with replicas(kube, ("a", 0), ("b", 0)) as (a, b):
        await until(lambda: b.ownership.owner(UID) == "a")
        for task in a._tasks:
            task.cancel()  # nothing of it runs, as under SIGSTOP
        await until(lambda: b.ownership.owns(UID))
        assert (a.ownership.holds, a.ownership.writes()) == (True, False), (
            "by its clock alone, before it hears anything"
        )


async def test_shards_are_divided_and_each_is_found(kube: FakeKube) -> None:
    uids = [f"deployment-{number}" for number in range(40)]
    async with replicas(kube, ("a", 0), ("b", 1), count=2) as (a, b):
        await until(lambda: a.ownership.holds and b.ownership.holds)
        await until(lambda: a.ownership.owners() == {"b"} and b.ownership.owners() == {"a"})
        for uid in uids:
            assert (a.ownership.owns(uid), b.ownership.owns(uid)) in {(True, False), (False, True)}
            assert a.ownership.owner(uid) == (None if shard_of(uid, 2) == 0 else "b")
        assert 10 < sum(map(a.ownership.owns, uids)) < 30


async def test_before_anybody_holds_the_lease_it_is_not_known_who_does(kube: FakeKube) -> None:
    alone = Replica(kube, "a")
    good, why = alone.ownership.standing()
    assert (good, "not known who owns shard 0" in why) == (False, True)


async def test_leases_of_replicas_that_died_are_swept_and_of_one_that_ends_go(kube: FakeKube) -> None:
    async with replicas(kube, ("a", 0)) as (a,):
        kube.put(
            "leases", "observer-0-old", base="/apis/coordination.k8s.io/v1",
            metadata={"labels": labels_of("observer", 0, "member")}, spec={"holderIdentity": "old"},
        )  # fmt: skip
        await until(lambda: a.membership.member("old"))
        await a.membership.sweep()
        assert (LEASES, "ns", "observer-0-old") in kube.objects, "it may only be slow"
        a.clock.turned += 1000.0
        assert a.membership.member("old") is None
        await a.membership.sweep()
        assert (LEASES, "ns", "observer-0-old") not in kube.objects
        await until(lambda: (LEASES, "ns", "observer-0-a") in kube.objects)
        a._tasks[1].cancel()  # what keeps its Lease
        await a.membership.leave()
        assert (LEASES, "ns", "observer-0-a") not in kube.objects


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"metadata": {"labels": labels_of("observer", 0, OF_SHARD)}, "spec": {"holderIdentity": "a"}},
        {"metadata": {"labels": labels_of("observer", 0, "member")}, "spec": {}},
        {"metadata": {"labels": labels_of("observer", 0, "member") | {"observer.modeldeployment.io/shard": "x"}}},
    ],
    ids=["nothing", "a shard's", "nobody's", "no shard"],
)
def test_a_lease_that_is_no_replicas(body: dict[str, object]) -> None:
    assert member_of(body) is None


def test_names_of_leases_are_names() -> None:
    assert lease_name("observer", 2) == "observer-2"
    assert lease_name("observer", 0, "Node_1.local") == "observer-0-node-1.local"
    assert len(lease_name("observer", 0, "x" * 300)) == 253

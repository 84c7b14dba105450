"""A replica that ends hands over to the next; what claims to be one and is not is refused. Over real HTTP."""

from __future__ import annotations

import asyncio
import hashlib
import io
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
import pytest

from exporters.listening import Listen
from exporters.server import Server
from observer.app.direct import Direct
from observer.app.handover import MOST_BYTES, kept_reads, pack
from observer.app.relay import HANDOVER_PATH, HttpRelay
from observer.app.replicas import SENDER, Replicas, ShardError, reachable, shard_told
from observer.clock import SystemClock
from observer.collect.fetch import Fetcher
from observer.collect.options import ScrapeSettings
from observer.kube.client import ApiClient, ClientTuning
from observer.kube.options import KubernetesSettings
from observer.kube.replica_options import LeaseSettings
from observer.measure.exposition import Limits
from observer.settings import Settings
from observer.store import Store
from observer.supervise import Supervisor
from router_contract.readings import Instant
from tests.fakes.kube_api import FakeKube
from tests.fleets import POLICY, Scores, body, deployment, target
from tests.kube.steady import PlainCredentials, until

BOTH = deployment("a", "b")
SETTINGS = Settings(
    scrape=ScrapeSettings(period=0.2, timeout=0.1),
    kubernetes=KubernetesSettings(lease=LeaseSettings(duration=2.0, deadline=1.5, retry=0.1)),
)
LISTEN = Listen(port=0, token="shared", stop_seconds=0.1)
LEASES = "/apis/coordination.k8s.io/v1/leases"


class Replica:
    """One replica without an observer around it: a store, a listener, its Leases."""

    def __init__(self, kube: FakeKube, name: str) -> None:
        self.clock = SystemClock()
        self.name = name
        self.client = ApiClient(PlainCredentials(kube.url), self.clock, ClientTuning(rate=1e4, burst=1e4))
        self.store = Store(self.clock, POLICY, Limits(), Scores())
        self.supervisor = Supervisor(self.clock)
        self.server = Server([], LISTEN)
        self.let_go = 0

    async def start(self, stack: AsyncExitStack) -> None:
        await stack.enter_async_context(self.client)
        await self.server.start()
        stack.push_async_callback(self.server.stop)
        self.replicas = Replicas(
            self.client, self.clock, SETTINGS, self.store,
            shard=0, identity=self.name, namespace="ns", plain=self.server.url, listen=LISTEN, chance=lambda: 0.0,
        )  # fmt: skip
        fetcher = await stack.enter_async_context(Fetcher(self.clock, SETTINGS.body_limits))
        direct = Direct(self.clock, SETTINGS, fetcher, lambda _: None, lambda: ())
        relay = HttpRelay(self.replicas, direct, LISTEN, self.replicas.take_over, 0)
        self.server.relay = await stack.enter_async_context(relay)
        await stack.enter_async_context(self.supervisor)
        self.replicas.start(self.supervisor)

    async def watch(self) -> None:
        """What `Cluster` does when it owns."""
        self.store.set_deployments((BOTH,), self.clock.now())

    async def release(self) -> None:
        self.let_go += 1
        self.store.set_deployments((), self.clock.now())

    async def post(self, data: bytes | io.BytesIO, sender: str) -> tuple[int, str]:
        headers = {SENDER: sender, "Authorization": "Bearer shared"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.server.url + HANDOVER_PATH, data=data, headers=headers) as answer,
        ):
            return answer.status, await answer.text()


@asynccontextmanager
async def pair() -> AsyncIterator[tuple[FakeKube, Replica, Replica]]:
    """The owner first."""
    async with FakeKube() as kube, AsyncExitStack() as stack:
        made = Replica(kube, "a"), Replica(kube, "b")
        for each in made:
            await each.start(stack)
        await until(lambda: any(each.replicas.owns_shard() for each in made))
        owner = next(each for each in made if each.replicas.owns_shard())
        other = next(each for each in made if each is not owner)
        await until(lambda: other.replicas.active() == owner.name and owner.replicas.membership.member(other.name))
        await until(lambda: other.replicas.membership.member(owner.name))
        yield kube, owner, other


async def test_the_last_reads_are_with_the_next_owner_before_it_owns() -> None:
    async with pair() as (kube, owner, other):
        await owner.watch()
        ending = asyncio.create_task(owner.replicas.hand_over(owner.release, owner.supervisor))
        await until(lambda: owner.store.kept is not None)
        assert owner.replicas.owns_shard(), "it reads and writes on until everything was read once more"
        for tokens in (100, 250):
            now = owner.clock.now()
            owner.store.on_body(target(BOTH, "a"), body(tokens=tokens), "text/plain", now, 0.01)
            await asyncio.sleep(0.01)
        await ending
        assert owner.let_go == 1
        assert not owner.replicas.owns_shard()
        await until(other.replicas.owns_shard)
        assert {key.member_uid for key in other.store.handed} == {"uid-a"}
        await other.watch()
        assert other.store.handed == {}
        record = other.store.record(target(BOTH, "a").key)
        assert record is not None
        assert (record.reads, len(record.chain.links)) == (1, 1)
        lease = kube.objects[LEASES, "ns", f"observer-0-{owner.name}"]
        assert lease["metadata"]["annotations"]["observer.modeldeployment.io/draining"] == "true"
        await owner.replicas.membership.leave()
        await until(lambda: other.replicas.membership.members() == ())


async def test_a_standby_that_ends_hands_nothing_over_and_takes_nothing() -> None:
    async with pair() as (_, owner, other):
        await other.replicas.hand_over(other.release, other.supervisor)
        assert (other.let_go, owner.replicas.owns_shard(), owner.store.handed) == (1, True, {})


def message() -> bytes:
    kept = Store(SystemClock(), POLICY, Limits(), Scores())
    kept.set_deployments((BOTH,), Instant(0, 0))
    kept.kept = {}
    kept.on_body(target(BOTH, "a"), body(), "text/plain", Instant(1, 1), 0.1)
    return pack(kept_reads(kept, 60.0), Instant(2, 2)).data


async def test_only_what_the_senders_lease_names_is_taken() -> None:
    async with pair() as (_, owner, other):
        data = message()
        assert (await other.post(data, "stranger"))[0] == 403
        assert (await other.post(data, owner.name))[0] == 403, "its Lease says nothing of it"
        lease = owner.replicas.membership
        await lease.announce(handed=hashlib.sha256(data).hexdigest())
        assert (await other.post(data, owner.name))[0] == 403, "who does not end hands nothing over"
        await lease.announce(draining=True)
        assert (await other.post(data + b"x", owner.name))[0] == 403
        assert other.store.handed == {}
        assert (await other.post(data, owner.name))[0] == 200
        assert len(other.store.handed) == 1
        assert (await owner.post(data, other.name))[0] == 403
        await lease.announce(handed=hashlib.sha256(b"nonsense").hexdigest())
        status, words = await other.post(b"nonsense", owner.name)
        assert (status, "cannot be read" in words) == (400, True)
        assert (await other.post(io.BytesIO(bytes(MOST_BYTES + 1)), owner.name))[0] == 413


async def test_an_owner_takes_nothing_over() -> None:
    async with pair() as (_, owner, other):
        data = message()
        await other.replicas.membership.announce(draining=True, handed=hashlib.sha256(data).hexdigest())
        assert (await owner.post(data, other.name))[0] == 409


@pytest.mark.parametrize(
    ("told", "shards", "shard"), [("", 1, None), ("0", 1, 0), ("2", 3, 2)], ids=["alone", "of one", "of three"]
)
def test_the_shard_is_the_one_that_was_told(told: str, shards: int, shard: int | None) -> None:
    assert shard_told(KubernetesSettings(shards=shards), {"OBSERVER_SHARD": told} if told else {}) == shard


@pytest.mark.parametrize(("told", "shards"), [("", 2), ("1", 1), ("3", 3), ("-1", 3), ("x", 3)])
def test_a_shard_that_cannot_be_is_named(told: str, shards: int) -> None:
    with pytest.raises(ShardError, match=r"OBSERVER_SHARD.*wanted"):
        shard_told(KubernetesSettings(shards=shards), {"OBSERVER_SHARD": told})


@pytest.mark.parametrize(
    ("url", "address", "found"),
    [
        ("http://0.0.0.0:9480", "10.0.0.7", "http://10.0.0.7:9480"),
        ("https://[::]:10250", "fd00::7", "https://[fd00::7]:10250"),
        ("http://10.1.1.1:9480", "10.0.0.7", "http://10.1.1.1:9480"),
        ("http://0.0.0.0:9480", "", "http://0.0.0.0:9480"),
    ],
)
def test_others_reach_a_listener_by_the_pods_address(url: str, address: str, found: str) -> None:
    assert reachable(url, {"POD_IP": address}) == found

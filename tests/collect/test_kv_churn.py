"""Publishers that die and return at the same ports, and whatever else answers there meanwhile: no stream stays dead."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable

import msgspec
import pytest
import zmq

from observer.collect.kv_collector import KvCollector, KvLimits
from observer.simulate.kv_publisher import PublisherOptions
from router_contract.kv_streams import Approximation, KvStreamSummary, StreamState
from tests.fakes import kv_scenarios as scenes
from tests.fakes.kv_scenarios import DEPLOYMENT, Served, collecting, live, until

QUICK = msgspec.structs.replace(
    scenes.FAST,
    tick=0.02,
    stream=msgspec.structs.replace(scenes.FAST.stream, stuck=0.3, stuck_max=0.6, apart=0.1, replay_timeout=0.2),
)


def port_of(endpoint: str) -> int:
    return int(endpoint.rpartition(":")[2])


def sent_back(listener: socket.socket) -> None:
    """Send everything back, as a socket that connected to itself does; end when the other side does."""
    listener.settimeout(5)
    connection, _ = listener.accept()
    connection.settimeout(5)
    with connection:
        try:
            while data := connection.recv(4096):
                connection.sendall(data)
        except OSError:
            return


def beside(port: int) -> socket.socket:
    """A listener on a port that a publisher holds while it is down."""
    return socket.create_server(("127.0.0.1", port), reuse_port=True)


async def wrong_echo(port: int, broken: Callable[[], bool]) -> None:
    with beside(port) as listener:
        await asyncio.to_thread(sent_back, listener)
        await seen(broken)


async def wrong_kind(port: int, broken: Callable[[], bool]) -> None:
    context = zmq.Context()
    rep = context.socket(zmq.REP)
    try:
        rep.setsockopt(zmq.USE_FD, beside(port).detach())
        rep.bind(f"tcp://127.0.0.1:{port}")
        await seen(broken)
    finally:
        rep.close(linger=0)
        context.term()


async def seen(wanted: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not wanted():
            await asyncio.sleep(0.005)


def ended_early(collector: KvCollector, before: int) -> Callable[[], bool]:
    """A connection to a stranger ended: one more than the one to the publisher itself."""
    return lambda: collector.summaries()[0].counters.disconnects > before


@pytest.mark.parametrize("stranger", [wrong_echo, wrong_kind], ids=["itself", "another kind of socket"])
async def test_a_stranger_at_the_port_does_not_kill_the_stream_for_good(stranger):
    served = Served()
    try:
        async with collecting(QUICK) as collector:
            collector.sync([served.source()])
            served.chain(1, 3)
            await until(collector, live(3))
            served.do(lambda publisher: publisher.stop())
            await until(collector, lambda found: bool(found.detail))
            await stranger(port_of(served.publisher.endpoint), ended_early(collector, 1))
            served.do(lambda publisher: publisher.start())
            summary = await until(collector, live(0))
            assert summary.counters.reconnects >= 1
            served.chain(1, 2)
            assert not (await until(collector, live(2))).approximate
    finally:
        served.close()


async def test_a_message_beyond_the_limit_costs_the_connection_and_not_the_stream():
    small = msgspec.structs.replace(
        QUICK.receiver, sockets=msgspec.structs.replace(QUICK.receiver.sockets, max_message_bytes=2000)
    )
    served = Served(PublisherOptions(buffer_steps=2))
    try:
        async with collecting(msgspec.structs.replace(QUICK, receiver=small)) as collector:
            collector.sync([served.source()])
            await until(collector, live(0))
            served.do(lambda publisher: publisher.stored(list(range(1000, 2000)), None, [], 4))
            await until(collector, lambda found: found.counters.disconnects > 0)
            served.chain(1, 3)
            summary = await until(collector, live(2))  # all that the publisher's buffer still holds
            assert (summary.last_sequence, summary.counters.reconnects >= 1) == (3, True)
    finally:
        served.close()


@pytest.mark.parametrize("replay", [True, False], ids=["replay", "no replay"])
async def test_blocks_of_a_publisher_that_is_away_are_not_complete_and_return_confirmed_or_doubted(replay):
    served = Served(PublisherOptions(replay=replay))
    try:
        async with collecting(QUICK) as collector:
            collector.sync([served.source()])
            await until(collector, lambda found: found.state is StreamState.LIVE)
            served.chain(1, 3)
            await until(collector, live(3))
            served.do(lambda publisher: publisher.stop())
            summary = await until(collector, lambda found: bool(found.approximate))
            assert (summary.state, summary.blocks) == (StreamState.CONNECTING, 3)
            assert summary.approximate == (Approximation.DISCONNECTED,)
            (holding,) = collector.lookup(DEPLOYMENT, [1, 2, 3]).holdings
            assert holding.approximate == (Approximation.DISCONNECTED,)
            assert collector.lookup(DEPLOYMENT, [9]).unknown == (summary.key,)
            collector.restarted(DEPLOYMENT, summary.key.member_uid)
            assert collector.summaries()[0].blocks == 0
            assert collector.lookup(DEPLOYMENT, [1]).unknown == (summary.key,)
            served.do(lambda publisher: publisher.start())
            summary = await until(collector, live(0))
            served.chain(1, 2)
            summary = await until(collector, live(2))
            assert Approximation.DISCONNECTED not in summary.approximate
    finally:
        served.close()


def held(summaries: tuple[KvStreamSummary, ...]) -> list[tuple[str, int]]:
    return [(found.state.value, found.blocks) for found in summaries]


@pytest.mark.parametrize("seed", [1, 2])
async def test_publishers_that_die_and_return_at_any_moment_are_always_found_again(seed):
    chance = random.Random(seed)
    publishers = [Served(PublisherOptions(replay=number % 4 != 3)) for number in range(4)]
    counts = [0] * len(publishers)
    try:
        async with collecting(QUICK) as collector:
            collector.sync([served.source(f"pod-{number}") for number, served in enumerate(publishers)])
            for _ in range(60):
                number = chance.randrange(len(publishers))
                served = publishers[number]
                served.do(lambda publisher: publisher.stop())
                await asyncio.sleep(chance.choice((0.0, 0.005, 0.03, 0.06)))
                served.do(lambda publisher: publisher.start())
                counts[number] = chance.randrange(4)
                served.chain(1, counts[number])
                if chance.random() < 0.3:
                    collector.restarted(DEPLOYMENT, f"uid-pod-{number}")
            counts = [count + 1 for count in counts]
            async with asyncio.timeout(8):
                while any(found.state is not StreamState.LIVE for found in collector.summaries()):
                    await asyncio.sleep(0.01)
                for served, count in zip(publishers, counts, strict=True):
                    served.chain(count, count)
                # The fourth has no replay: what it sent before it was heard again cannot be known.
                wanted = [(StreamState.LIVE.value, count) for count in counts[:3]]
                while held(collector.summaries())[:3] != wanted:
                    await asyncio.sleep(0.01)
            exact = [found.approximate for found in collector.summaries()[:3]]
            assert exact == [()] * 3
    finally:
        for served in publishers:
            served.close()


def test_the_default_bounds_leave_no_stream_dead_for_longer_than_a_minute():
    limits = KvLimits()
    sockets = limits.receiver.sockets
    assert limits.stream.stuck_max <= 60
    assert limits.stream.stuck * 1000 >= sockets.reconnect_max_ms + sockets.connect_timeout_ms

"""Connecting again is ours: when, how often, never with messages left, and never by libzmq, which can abort the process."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from observer.clock import SystemClock
from observer.collect.kv_collector import KvCollector
from observer.collect.kv_redial import Redials
from observer.collect.kv_socket import Lot, Receiver, ReceiverLimits
from observer.collect.kv_zmq import CONNECTED, DISCONNECTED, RETRIED, SocketLimits, connect_again, monitor_event
from observer.collect.kv_zmq import subscriber as subscribing
from observer.simulate.kv_publisher import PublisherOptions
from router_contract.kv_streams import StreamState
from tests.fakes import kv_scenarios as scenes
from tests.fakes.kv_scenarios import DEPLOYMENT, Served, collecting, live, until

QUICK = SocketLimits(reconnect_ms=1, reconnect_max_ms=5)


def test_the_wait_doubles_to_its_bound_and_is_short_again_after_a_connection():
    redials, now, waits = Redials(1.0, 10.0), 0.0, []
    for _ in range(6):
        redials.lost(0, now)
        waits.append(redials.wait(now, 1e9))
        now += waits[-1]
        assert redials.due(now) == [0]
    assert waits == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    redials.connected(0)
    redials.lost(0, now)
    assert redials.wait(now, 1e9) == 1.0


def test_streams_lost_together_come_apart():
    redials = Redials(1.0, 10.0)
    for sid in range(100):
        redials.lost(sid, 0.0)
    counts = [len(redials.due(1.0 + tenth / 10)) for tenth in range(11)]
    assert sum(counts) == 100
    assert max(counts) <= 12


def test_a_forgotten_stream_is_neither_due_nor_waited_for():
    redials = Redials(1.0, 10.0)
    redials.lost(0, 0.0)
    redials.forget(0)
    assert redials.wait(0.0, 7.0) == 7.0
    assert redials.due(100.0) == []


@given(st.lists(st.tuples(st.sampled_from(["lost", "connected", "forget"]), st.integers(0, 3)), max_size=40))
def test_who_is_due_was_lost_and_not_forgotten_since_and_is_told_once(steps):
    redials, wanted = Redials(0.5, 4.0), set[int]()
    for now, (what, sid) in enumerate(steps):
        if what == "lost":
            redials.lost(sid, float(now))
            wanted.add(sid)
        elif what == "connected":
            redials.connected(sid)
        else:
            redials.forget(sid)
            wanted.discard(sid)
    assert redials.wait(0.0, 1e9) == 1e9 or wanted
    assert sorted(redials.due(1e9)) == sorted(wanted)
    assert redials.due(1e9) == []


@contextmanager
def publishing(context: zmq.Context[zmq.Socket[bytes]], port: int = 0) -> Iterator[tuple[zmq.Socket[bytes], int]]:
    """A bound PUB socket; gone with its connections afterwards."""
    pub = context.socket(zmq.PUB)
    try:
        pub.setsockopt(zmq.LINGER, 1000)
        pub.bind(f"tcp://127.0.0.1:{port or '*'}")
        yield pub, int(pub.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2])
    finally:
        pub.close()


def told(monitor: zmq.Socket[bytes], last: str) -> list[str | None]:
    """Words of the monitor up to and with ``last``."""
    words: list[str | None] = []
    while not words or words[-1] != last:
        assert monitor.poll(5000), words
        words.append(monitor_event(monitor.recv_multipart())[0])
    return words


def test_libzmq_never_connects_a_lost_socket_again_and_we_do_once_its_messages_are_read():
    context = zmq.Context()
    socket = monitor = None
    try:
        with publishing(context) as (pub, port):
            endpoint = f"tcp://127.0.0.1:{port}"
            socket, monitor = subscribing(context, endpoint, QUICK)
            told(monitor, CONNECTED)
            while not socket.poll(10):
                pub.send(b"last")
        assert told(monitor, RETRIED) == [DISCONNECTED, RETRIED]
        with publishing(context, port) as (pub, _):
            assert monitor.poll(200) == 0  # two hundred times as long as libzmq was to wait
            assert not connect_again(socket, endpoint)
            while socket.poll(0):
                assert socket.recv() == b"last"
            assert connect_again(socket, endpoint)
            told(monitor, CONNECTED)
            while not socket.poll(10):
                pub.send(b"first")
            assert socket.recv() == b"first"
    finally:
        if socket is not None and monitor is not None:
            socket.disable_monitor()
            monitor.close(linger=0)
            socket.close(linger=0)
        context.term()


@contextmanager
def receiving(limits: ReceiverLimits) -> Iterator[Receiver]:
    receiver = Receiver(SystemClock(), lambda: None, limits)
    receiver.start()
    try:
        yield receiver
    finally:
        receiver.stop()


def words(receiver: Receiver, wanted: int, seconds: float = 10.0) -> list[tuple[int, str]]:
    """At least ``wanted`` changes, in order."""
    found: list[tuple[int, str]] = []
    end = time.monotonic() + seconds
    while len(found) < wanted:
        lot: Lot | None = receiver.take()
        if lot is None:
            assert time.monotonic() < end, found
            time.sleep(0.002)
            continue
        found += [(sid, word) for sid, word, _ in lot.changes]
    return found


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_publishers_that_stay_away_cost_no_descriptors_and_no_busy_loop():
    limits = ReceiverLimits(linger=0.001, sockets=SocketLimits(reconnect_ms=5, reconnect_max_ms=20))
    closed = []
    for _ in range(20):
        with publishing(zmq.Context.instance()) as (_, port):
            closed.append(port)
    with receiving(limits) as receiver:
        for sid, port in enumerate(closed):
            receiver.open(sid, f"tcp://127.0.0.1:{port}")
        words(receiver, 100)
        before = descriptors()
        rounds = receiver._rounds
        begun = time.monotonic()
        found = words(receiver, 400)
        took = time.monotonic() - begun
        assert {word for _, word in found} == {RETRIED}
        assert took >= 0.2  # each of the twenty waits 20 ms before each attempt
        assert receiver._rounds - rounds < 8 * len(found)
        assert descriptors() <= before + len(closed)  # attempts under way
        receiver.close(0)


async def heard(collector: KvCollector, served: Served) -> None:
    """Publish until something arrives: all that waited before it was applied or dropped."""
    number = 1000
    async with asyncio.timeout(20):
        while not collector.lookup(DEPLOYMENT, [number]).holdings:
            number += 1
            served.chain(number, number)
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("replay", [True, False], ids=["replay", "no replay"])
async def test_a_full_queue_and_a_publisher_that_restarts_again_and_again_end_in_a_repaired_stream(replay):
    """Nothing is read while publishers come, fill the queue and go: as when the loop stands still."""
    sockets = SocketLimits(high_water_mark=10, kernel_buffer=16 << 10, reconnect_ms=5, reconnect_max_ms=20)
    limits = msgspec.structs.replace(scenes.FAST, receiver=ReceiverLimits(capacity_bytes=1 << 10, sockets=sockets))
    served = Served(PublisherOptions(replay=replay))
    try:
        async with collecting(limits) as collector:
            collector.sync([served.source()])
            await until(collector, live(0))
            for _ in range(6):
                served.chain(1, 60)
                time.sleep(0.03)  # the loop stands still; its receiving thread soon does too
                served.do(lambda publisher: publisher.stop())
                time.sleep(0.03)
                served.do(lambda publisher: publisher.start())
                served.chain(1, 60)
                await asyncio.sleep(0.03)
            await heard(collector, served)
            served.do(lambda publisher: publisher.stop())
            await until(collector, lambda found: found.state is StreamState.CONNECTING)
            assert collector.receiver_summary().pauses > 0
            served.do(lambda publisher: publisher.start())
            await until(collector, live(0) if replay else lambda found: found.state is StreamState.LIVE)
            served.chain(1, 5)
            summary = await until(collector, live(5))
            assert summary.counters.disconnects >= 2
    finally:
        served.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "kv-receive"]

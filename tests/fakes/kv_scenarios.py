"""The scenes of KV events over real ZMQ sockets on loopback; each plays, asserts, and returns its figure as one line.

Tests and `scripts/prove_kv.py` play the same scenes. Silence is an injected clock unless a scene says real time.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import zmq

from observer.clock import SystemClock
from observer.collect.kv_collector import KvCollector, KvLimits
from observer.collect.kv_socket import ReceiverLimits
from observer.collect.kv_zmq import SocketLimits
from observer.measure.kv_recording import Judge, rows
from observer.measure.stream_values import StreamLimits
from observer.simulate.kv_publisher import KvPublisher, PublisherOptions
from router_contract.kv_events import read_live
from router_contract.kv_streams import History, KvStreamSummary, StreamKey, StreamSource, StreamState
from router_contract.readings import Instant
from router_contract.targets import DeploymentKey, KvEventSource

DEPLOYMENT = DeploymentKey("default", "demo")
FAST = KvLimits(receiver=ReceiverLimits(sockets=SocketLimits(reconnect_ms=20, reconnect_max_ms=100)))
TOKENS = list(range(4))


class ShiftedClock:
    """The machine's clocks, and a jump forward when told."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self.shift = 0.0

    def now(self) -> Instant:
        at = self._clock.now()
        return Instant(at.mono + self.shift, at.wall + self.shift)


class Served:
    """A publisher served by a thread of its own, as in an engine, so that a blocked event loop does not stop it."""

    def __init__(self, options: PublisherOptions | None = None) -> None:
        self.publisher = KvPublisher(options or PublisherOptions(), time.time)
        self._jobs: list[Callable[[], None]] = []
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.publisher.start()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self._stop.wait(0.002):
            with self._lock:
                self.publisher.pump()

    def do(self, job: Callable[[KvPublisher], None]) -> None:
        """Run something on the publisher between two rounds of its thread."""
        with self._lock:
            job(self.publisher)

    def chain(self, first: int, last: int) -> None:
        """Blocks first..last, each the parent of the next, one a batch."""
        for number in range(first, last + 1):
            self.do(lambda publisher, n=number: publisher.stored([n], n - 1 or None, TOKENS, 4))

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self.publisher.close()

    def source(self, name: str = "pod-0") -> StreamSource:
        endpoints = KvEventSource(
            endpoint=self.publisher.endpoint,
            replay_endpoint=self.publisher.replay_endpoint,
            rank=self.publisher.options.rank,
        )
        key = StreamKey(DEPLOYMENT, f"uid-{name}", endpoints.rank)
        return StreamSource(
            key=key, member=name, role="server", source=endpoints, engine="vllm", version="0.32.0", model="tiny"
        )


@asynccontextmanager
async def collecting(limits: KvLimits = FAST, clock: ShiftedClock | None = None) -> AsyncIterator[KvCollector]:
    """A collector with its task running."""
    async with KvCollector(clock or ShiftedClock(), limits) as collector, asyncio.TaskGroup() as tasks:
        tasks.create_task(collector.run())
        try:
            yield collector
        finally:
            collector.stop()


async def until(
    collector: KvCollector, wanted: Callable[[KvStreamSummary], bool], seconds: float = 10.0
) -> KvStreamSummary:
    """The one stream's summary once it is as wanted; raises ``AssertionError`` with what it was instead."""
    end = time.monotonic() + seconds
    while True:
        summary = collector.summaries()[0]
        if wanted(summary):
            return summary
        assert time.monotonic() < end, summary
        await asyncio.sleep(0.005)


def live(blocks: int) -> Callable[[KvStreamSummary], bool]:
    return lambda summary: summary.state is StreamState.LIVE and summary.blocks == blocks


async def slow_joiner(batches: int = 1000, buffer_steps: int = 10_000) -> str:
    """1,000 batches before anyone listens: known within a second of connecting, else the history is partial."""
    served = Served(PublisherOptions(buffer_steps=buffer_steps))
    try:
        served.chain(1, batches)
        async with collecting() as collector:
            begun = time.monotonic()
            collector.sync([served.source()])
            held = min(batches, buffer_steps)
            summary = await until(collector, live(held))
            took = time.monotonic() - begun
        whole = batches <= buffer_steps
        assert summary.history is (History.COMPLETE if whole else History.PARTIAL), summary
        assert summary.approximate == (), summary
        if whole:
            assert took < 1.0, took
        return f"{held} of {batches} blocks known {took * 1000:.0f} ms after subscribing, history {summary.history}"
    finally:
        served.close()


STALLED = KvLimits(
    stream=StreamLimits(),
    receiver=ReceiverLimits(
        capacity_bytes=64 << 10,
        share=64,
        sockets=SocketLimits(high_water_mark=1000, kernel_buffer=32 << 10, reconnect_ms=20, reconnect_max_ms=100),
    ),
)


async def stalled_consumer(buffer_steps: int, *, real_time: bool = False) -> str:
    """The consumer's loop stands still for 2.5 s while 2,000 batches a second arrive; then nothing more is sent."""
    options = PublisherOptions(buffer_steps=buffer_steps, high_water_mark=1000, kernel_buffer=32 << 10)
    served, clock = Served(options), ShiftedClock()
    event = served.publisher.stored_event([0], None, [1] * 256, 16)

    def publish() -> None:
        begun = time.monotonic()
        for number in range(1, 5001):
            batch = event | {"block_hashes": [number], "parent_block_hash": number - 1 or None}
            served.do(lambda publisher, b=batch: publisher.publish([b]))
            ahead = begun + number / 2000 - time.monotonic()
            if ahead > 0:
                time.sleep(ahead)

    try:
        async with collecting(STALLED, clock) as collector:
            collector.sync([served.source()])
            # The replay that follows a sync is over, so that nothing but silence can find what is lost from here on.
            await until(collector, lambda found: dict(found.counters.replays).get("ended", 0) == 2)
            sender = threading.Thread(target=publish)
            sender.start()
            time.sleep(2.5)
            await asyncio.to_thread(sender.join)
            arrived = await settled(collector)
            lost = 5000 - arrived.counters.batches
            assert lost >= 2000, lost
            assert arrived.counters.gaps == 0, "the lost batches are a tail: no gap is to be seen"
            assert collector.receiver_summary().pauses > 0
            begun = time.monotonic()
            if real_time:
                whole = await until(collector, lambda summary: summary.blocks == 5000, 90.0)
                return f"{lost} batches lost as a tail, found by real silence and repaired after {time.monotonic() - begun:.1f} s"
            if buffer_steps >= 5000:
                whole = await later(collector, clock, lambda summary: summary.blocks == 5000)
                assert (whole.state, whole.history, whole.approximate) == (StreamState.LIVE, History.COMPLETE, ()), (
                    whole
                )
                return f"{lost} batches lost as a tail, all repaired by replay with no further event"
            whole = await later(collector, clock, lambda summary: summary.state is StreamState.UNREPAIRED)
            assert whole.counters.missed == 5000 - arrived.counters.batches - buffer_steps, whole
            return (
                f"{lost} batches lost as a tail, buffer {buffer_steps}: {whole.state}, {whole.counters.missed} missed"
            )
    finally:
        served.close()


async def settled(collector: KvCollector) -> KvStreamSummary:
    """The summary once nothing has arrived for half a second."""
    before = -1
    while (summary := collector.summaries()[0]).counters.batches != before:
        before = summary.counters.batches
        await asyncio.sleep(0.5)
    return summary


async def later(
    collector: KvCollector, clock: ShiftedClock, wanted: Callable[[KvStreamSummary], bool]
) -> KvStreamSummary:
    """Let 62 s pass at once, then a second at a time, until it is as wanted."""
    clock.shift += 62
    for _ in range(40):
        try:
            return await until(collector, wanted, 0.5)
        except AssertionError:
            clock.shift += 1.1
    return await until(collector, wanted, 0.1)


async def restarted(*, traffic: bool, silent: bool = False) -> str:
    """The publisher is killed and started on the same port. No block of the old life remains."""
    served, clock = Served(), ShiftedClock()
    try:
        served.chain(1, 50)
        async with collecting(clock=clock) as collector:
            collector.sync([served.source()])
            await until(collector, live(50))
            begun = time.monotonic()
            served.do(lambda publisher: publisher.start())
            if traffic:
                # Sent again and again until one arrives: the connection is being made meanwhile.
                number = 1000
                while not any(summary.last_batch and summary.counters.resets for summary in collector.summaries()):
                    number += 1
                    served.chain(number, number)
                    await asyncio.sleep(0.005)
                summary = await until(collector, lambda found: found.state is StreamState.LIVE)
                held = collector.lookup(DEPLOYMENT, [1]).holdings
                assert held == (), held
                summary = await until(collector, lambda found: found.blocks == number - 1000)
            else:
                summary = await until(collector, lambda found: found.counters.resets == 1 and live(0)(found))
            assert summary.history is History.COMPLETE, summary
            assert summary.approximate == (), summary
            return f"no block of the old life {(time.monotonic() - begun) * 1000:.0f} ms after the restart, new life has {summary.blocks}"
    finally:
        served.close()


async def slow_replay_reader(batches: int = 9000) -> str:
    """A replay socket that drops beyond its high-water mark and so loses batches and its end marker.

    A quick reader on an idle machine may lose nothing: then the buffer is made longer, until something is lost.
    """
    for number in (batches, 3 * batches, 9 * batches):
        asked = await _read_slowly(number)
        if asked > 1:
            return f"{number} batches read whole by {asked} requests over dropped batches and missing end markers"
    raise AssertionError(f"a replay of {number} batches lost nothing, so nothing was shown")


async def _read_slowly(batches: int) -> int:
    """How many requests it took to read the whole buffer."""
    options = PublisherOptions(replay_high_water_mark=300, kernel_buffer=16 << 10, buffer_steps=max(10_000, batches))
    served = Served(options)
    sockets = SocketLimits(replay_high_water_mark=200, kernel_buffer=16 << 10, reconnect_ms=20, reconnect_max_ms=100)
    limits = KvLimits(stream=StreamLimits(replay_timeout=0.5), receiver=ReceiverLimits(sockets=sockets))
    event = served.publisher.stored_event([0], None, [1] * 256, 16)

    def fill(publisher: KvPublisher) -> None:
        for number in range(1, batches + 1):
            publisher.publish([event | {"block_hashes": [number], "parent_block_hash": number - 1 or None}])

    try:
        served.do(fill)
        async with collecting(limits) as collector:
            collector.sync([served.source()])
            summary = await until(collector, live(batches), 60.0)
        assert summary.history is History.COMPLETE, summary
        assert summary.approximate == (), summary
        return dict(summary.counters.replays)["asked"]
    finally:
        served.close()


async def recorded_frames(path: Path) -> str:
    """Frames recorded from a real engine, sent over a real PUB socket and answered from a real ROUTER."""
    messages = [row["frames"] for _, row in rows(path.read_bytes().splitlines())]
    context = zmq.Context()
    pub, router = context.socket(zmq.PUB), context.socket(zmq.ROUTER)
    for one in (pub, router):
        one.setsockopt(zmq.LINGER, 0)
    source = StreamSource(
        key=StreamKey(DEPLOYMENT, "uid", 0),
        source=KvEventSource(
            endpoint=f"tcp://127.0.0.1:{pub.bind_to_random_port('tcp://127.0.0.1')}",
            replay_endpoint=f"tcp://127.0.0.1:{router.bind_to_random_port('tcp://127.0.0.1')}",
        ),
        engine=path.parent.name.partition("-")[0],
    )
    half = len(messages) // 2
    judge = Judge()
    for frames in messages:
        judge.see(read_live(frames))
    try:
        async with collecting() as collector:
            collector.sync([source])
            async with asyncio.timeout(10):
                while not router.poll(0):
                    await asyncio.sleep(0.005)
            client, _, _ = router.recv_multipart()
            for topic, sequence, payload in messages[:half]:
                router.send_multipart([client, b"", topic, sequence, payload])
            router.send_multipart([client, b"", b"", b"\xff" * 8, b""])
            await until(collector, lambda found: found.state is StreamState.LIVE)
            for frames in messages[half:]:
                pub.send_multipart(frames)
            last = int.from_bytes(messages[-1][1], "big")
            summary = await until(collector, lambda found: found.last_sequence == last)
        wanted = sum(medium.blocks for medium in judge.blocks.media_blocks())
        assert (summary.counters.batches, summary.counters.gaps, summary.blocks) == (len(messages), 0, wanted), summary
        return (
            f"{len(messages)} recorded batches of {path.parent.name}: half by replay, half live, {wanted} blocks held"
        )
    finally:
        pub.close(linger=0)
        router.close(linger=0)
        context.term()

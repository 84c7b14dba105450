"""The collector over real ZMQ sockets: joining late, standing still, restarts, slow replays, members that leave."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path

import msgspec
import pytest
import zmq

from observer.clock import SystemClock
from observer.collect.kv_collector import KvCollector, KvLimits
from observer.collect.kv_socket import Lot
from observer.judge.attachment import kv_events_live
from observer.measure.stream_values import StreamLimits
from observer.simulate.kv_engine import FAULTS, KvEventPublishers
from observer.simulate.kv_publisher import Encoding, PublisherOptions
from router_contract.kv_streams import Approximation, History, StreamKey, StreamSource, StreamState
from router_contract.targets import KvEventSource
from router_contract.verdicts import Status
from tests.fakes import kv_scenarios as scenes
from tests.fakes.kv_scenarios import DEPLOYMENT, Served, collecting, live, until


async def test_a_slow_joiner_knows_every_block_within_a_second():
    await scenes.slow_joiner()


async def test_a_join_beyond_the_buffer_is_partial():
    await scenes.slow_joiner(1000, buffer_steps=200)


@pytest.mark.parametrize("buffer_steps", [10_000, 1_000])
async def test_a_consumer_that_stood_still_finds_its_lost_tail_or_says_unrepaired(buffer_steps):
    await scenes.stalled_consumer(buffer_steps)


@pytest.mark.parametrize("traffic", [False, True], ids=["idle", "with traffic"])
async def test_a_restart_leaves_no_block_of_the_old_life(traffic):
    await scenes.restarted(traffic=traffic)


async def test_a_slow_replay_is_completed_by_asking_again():
    await scenes.slow_replay_reader(3000)


@pytest.mark.parametrize("encoding", list(Encoding))
@pytest.mark.parametrize("byte_hashes", [False, True])
@pytest.mark.parametrize("topic_frame", [False, True])
async def test_every_encoding_arrives_live_and_by_replay(encoding, byte_hashes, topic_frame):
    options = PublisherOptions(encoding=encoding, byte_hashes=byte_hashes, replay_topic_frame=topic_frame)
    served = Served(options)
    try:
        served.chain(1, 5)
        async with collecting() as collector:
            collector.sync([served.source()])
            await until(collector, live(5))
            served.chain(6, 9)
            summary = await until(collector, live(9))
            assert summary.unanchored == 0
            asked = [number.to_bytes(32, "big") if byte_hashes else number for number in range(1, 12)]
            (holding,) = collector.lookup(DEPLOYMENT, asked).holdings
            assert (holding.blocks, holding.tokens, holding.media) == (9, 36, (("GPU", 9),))
            assert holding.age_seconds < 5
    finally:
        served.close()


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback")
async def test_ipv6_addresses_are_dialled():
    served = Served(PublisherOptions(host="::1"))
    try:
        assert "[::1]" in served.publisher.endpoint
        served.chain(1, 3)
        async with collecting() as collector:
            collector.sync([served.source()])
            await until(collector, live(3))
    finally:
        served.close()


async def test_a_member_that_leaves_with_events_queued_leaves_nothing():
    served = Served()
    try:
        async with collecting() as collector:
            collector.sync([served.source()])
            await until(collector, live(0))
            served.chain(1, 100)
            collector.sync([])
            await asyncio.sleep(0.2)
            assert collector.summaries() == ()
            assert collector.lookup(DEPLOYMENT, [1]).holdings == ()
            assert collector.index_summary(DEPLOYMENT).estimated_bytes == 0
            collector.sync([served.source()])
            await until(collector, live(100))
    finally:
        served.close()


async def test_an_address_where_nothing_listens_is_connecting_and_says_so_then_recovers():
    served = Served()
    source = served.source()
    served.do(lambda publisher: publisher.stop())
    try:
        async with collecting() as collector:
            collector.sync([source])
            summary = await until(collector, lambda found: bool(found.detail))
            assert summary.state is StreamState.CONNECTING
            assert summary.detail == "nothing answers there; trying again"
            served.do(lambda publisher: publisher.start())
            await until(collector, live(0))
    finally:
        served.close()


@pytest.mark.parametrize("endpoint", ["tcp://*:5557", "nonsense", "tcp://127.0.0.1:99999"])
async def test_an_address_that_cannot_be_dialled_is_broken_and_named(endpoint):
    key = StreamKey(DEPLOYMENT, "uid", 0)
    async with collecting() as collector:
        collector.sync([StreamSource(key=key, source=KvEventSource(endpoint=endpoint))])
        summary = await until(collector, lambda found: found.state is StreamState.BROKEN)
        assert endpoint in summary.detail


async def test_messages_that_are_no_batches_are_counted_and_dropped():
    context = zmq.Context()
    pub = context.socket(zmq.PUB)
    pub.setsockopt(zmq.LINGER, 0)
    port = pub.bind_to_random_port("tcp://127.0.0.1")
    try:
        async with collecting() as collector:
            key = StreamKey(DEPLOYMENT, "uid", 0)
            collector.sync([StreamSource(key=key, source=KvEventSource(endpoint=f"tcp://127.0.0.1:{port}"))])
            await until(collector, lambda found: found.state is StreamState.LIVE)
            good = msgspec.msgpack.encode([1.0, [{"type": "BlockStored", "block_hashes": [1]}]])
            summary = collector.summaries()[0]
            while summary.blocks != 1:
                pub.send_multipart([b"a"])
                pub.send_multipart([b"", b"7", good])
                pub.send_multipart([b"", b"\xff" * 8, b""])
                pub.send_multipart([b"", bytes(8), good])
                await asyncio.sleep(0.01)
                summary = collector.summaries()[0]
            assert set(dict(summary.counters.malformed)) == {"frames", "sequence", "end-marker"}
    finally:
        pub.close(linger=0)
        context.term()


async def test_every_frame_counts_against_what_may_wait_and_long_topics_are_dropped():
    limits = msgspec.structs.replace(
        scenes.FAST, receiver=msgspec.structs.replace(scenes.FAST.receiver, capacity_bytes=64 << 10)
    )
    context = zmq.Context()
    pub = context.socket(zmq.PUB)
    pub.setsockopt(zmq.LINGER, 0)
    port = pub.bind_to_random_port("tcp://127.0.0.1")
    try:
        async with collecting(limits) as collector:
            key = StreamKey(DEPLOYMENT, "uid", 0)
            collector.sync([StreamSource(key=key, source=KvEventSource(endpoint=f"tcp://127.0.0.1:{port}"))])
            await until(collector, lambda found: found.state is StreamState.LIVE)
            malformed: dict[str, int] = {}
            while not ({"topic", "frames"} <= set(malformed) and collector.receiver_summary().pauses):
                for _ in range(4):
                    pub.send_multipart([b"t" * (32 << 10), bytes(8), b""])
                    # the last three alone would be a message
                    pub.send_multipart([b""] * 17 + [b"", bytes(7) + b"\x01", b"x"])
                time.sleep(0.05)  # the loop does not keep up
                await asyncio.sleep(0.01)
                malformed = dict(collector.summaries()[0].counters.malformed)
            assert set(malformed) == {"topic", "frames"}
            assert collector.summaries()[0].counters.batches == 0
    finally:
        pub.close(linger=0)
        context.term()


async def test_a_loop_that_does_not_keep_up_pauses_receiving_and_loses_nothing_that_replay_has():
    served = Served()
    limits = msgspec.structs.replace(
        scenes.FAST, receiver=msgspec.structs.replace(scenes.FAST.receiver, capacity_bytes=4096)
    )
    try:
        async with collecting(limits) as collector:
            collector.sync([served.source()])
            await until(collector, live(0))
            served.chain(1, 500)
            time.sleep(0.3)
            served.chain(501, 600)
            await until(collector, live(600))
            assert collector.receiver_summary().pauses > 0
    finally:
        served.close()


async def test_times_pass_and_stop_is_heard_while_more_arrives_than_is_applied():
    limits = KvLimits(tick=0.02, stream=StreamLimits(stuck=0.05, stuck_max=0.05))
    collector = KvCollector(SystemClock(), limits)
    at, message = SystemClock().now(), [b"", bytes(8), b"x" * (128 << 10)]
    async with collector, asyncio.timeout(20), asyncio.TaskGroup() as tasks:
        collector.sync(
            [StreamSource(key=StreamKey(DEPLOYMENT, "uid", 0), source=KvEventSource(endpoint="tcp://127.0.0.1:1"))]
        )
        collector._receiver.take = lambda: Lot(at, [], [(max(collector._by_sid), [message])], [], 0)
        tasks.create_task(collector.run())
        while not collector.summaries()[0].counters.reconnects:
            await asyncio.sleep(0.01)
        collector.stop()


async def test_streams_beyond_the_limit_are_shed_and_counted():
    async with collecting(KvLimits(streams=2)) as collector:
        sources = [
            StreamSource(
                key=StreamKey(DEPLOYMENT, f"uid-{n}", 0), source=KvEventSource(endpoint=f"tcp://127.0.0.1:{n}")
            )
            for n in range(1, 6)
        ]
        collector.sync(sources)
        summaries = collector.summaries()
        assert [each.key for each in summaries] == sorted(each.key for each in sources)
        left_out = [each for each in summaries if each.state is StreamState.DETACHED]
        assert [each.key for each in left_out] == [each.key for each in sources[2:]]
        assert collector.shed == 3
        assert "2 streams are followed" in left_out[0].detail
        assert set(collector.lookup(DEPLOYMENT, [1]).unknown) == {each.key for each in sources}
        condition = kv_events_live(left_out, {}, collector._clock.now())
        assert (condition.status, condition.reason) == (Status.UNKNOWN, "NotSubscribed")
        assert "room for no more" in condition.message
        collector.sync(sources[2:4])
        assert collector.shed == 0
        assert all(each.state is not StreamState.DETACHED for each in collector.summaries())


async def test_a_changed_source_is_a_new_subscription():
    first, second = Served(), Served()
    try:
        first.chain(1, 4)
        second.chain(1, 2)
        async with collecting() as collector:
            collector.sync([first.source()])
            await until(collector, live(4))
            collector.sync([second.source()])
            summary = await until(collector, live(2))
            assert summary.counters.batches == 2
    finally:
        first.close()
        second.close()


async def test_dp_ranks_are_streams_of_their_own_and_a_silent_one_shows():
    engine = KvEventPublishers.for_engine(2, time.time)
    engine.started()
    try:
        async with collecting() as collector:
            collector.sync(
                StreamSource(key=StreamKey(DEPLOYMENT, "uid", found.rank), member="pod", source=found, engine="vllm")
                for found in engine.sources()
            )
            while any(found.state is not StreamState.LIVE for found in collector.summaries()):
                await asyncio.sleep(0.005)
            engine.stored(0, [1, 2], None, [1] * 8, 4)
            summary = await until(collector, live(2))
            silent = collector.summaries()[1]
            assert (summary.key.rank, silent.key.rank) == (0, 1)
            assert silent.last_event is None
    finally:
        engine.closed()


@pytest.mark.parametrize("fault", ["kv-lose", "kv-reorder", "kv-encoding", "kv-clear", "kv-restart"])
async def test_faults_by_name_end_in_what_the_publisher_holds(fault):
    engine = KvEventPublishers.for_engine(1, time.time)
    engine.started()
    try:
        async with collecting() as collector:
            (found,) = engine.sources()
            key = StreamKey(DEPLOYMENT, "uid", 0)
            collector.sync([StreamSource(key=key, source=found, engine="vllm")])
            for number in range(1, 11):
                engine.stored(0, [number], number - 1 or None, [1] * 4, 4)
            await until(collector, live(10))
            FAULTS[fault](engine)
            for number in range(11, 21):
                engine.stored(0, [number], number - 1, [1] * 4, 4)
            held = 10 if fault in ("kv-clear", "kv-restart") else 20
            summary = await until(collector, live(held))
            assert summary.history is History.COMPLETE
            assert summary.approximate == ()
    finally:
        engine.closed()


async def test_a_publisher_that_connects_outwards_is_never_live_until_healed():
    engine = KvEventPublishers.for_engine(1, time.time)
    engine.started()
    try:
        async with collecting() as collector:
            (found,) = engine.sources()
            FAULTS["kv-connect"](engine)
            collector.sync([StreamSource(key=StreamKey(DEPLOYMENT, "uid", 0), source=found, engine="vllm")])
            summary = await until(collector, lambda stream: bool(stream.detail))
            assert summary.state is StreamState.CONNECTING
            FAULTS["kv-heal"](engine)
            await until(collector, live(0))
    finally:
        engine.closed()


async def test_a_dead_replay_endpoint_leaves_history_partial_and_is_counted():
    served = Served(PublisherOptions(replay=False))
    source = served.source()
    dead = msgspec.structs.replace(source.source, replay_endpoint="tcp://127.0.0.1:9")
    quick = msgspec.structs.replace(scenes.FAST, stream=msgspec.structs.replace(scenes.FAST.stream, replay_timeout=0.1))
    try:
        async with collecting(quick) as collector:
            collector.sync([msgspec.structs.replace(source, source=dead)])
            summary = await until(collector, lambda found: found.state is StreamState.LIVE)
            assert summary.history is History.PARTIAL
            assert dict(summary.counters.replays)["given-up"] == 1
            assert Approximation.UNREPAIRED not in summary.approximate
    finally:
        served.close()


@pytest.mark.parametrize("name", ["vllm-0.32.0/kv-events-real-int.jsonl", "sglang-0.5.23/kv-events-real.jsonl"])
async def test_recorded_frames_of_real_engines_over_real_sockets(name):
    await scenes.recorded_frames(Path(__file__).parents[1] / "recordings" / name)


async def test_the_bytes_of_streams_that_hold_the_same_blocks_are_those_of_the_index():
    first, second = Served(), Served()
    try:
        first.chain(1, 50)
        second.chain(1, 50)
        async with collecting() as collector:
            collector.sync([first.source("a"), second.source("b")])
            while [each.blocks for each in collector.summaries()] != [50, 50]:
                await asyncio.sleep(0.01)
            told = [medium.estimated_bytes for each in collector.summaries() for medium in each.media]
            assert sum(told) == collector.index_size(DEPLOYMENT).estimated_bytes
    finally:
        first.close()
        second.close()

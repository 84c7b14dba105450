"""The simulated publishers speak the real wire: frames, replays, ports by rank, and the engine's hook."""

from __future__ import annotations

import time

import pytest
import zmq

from observer.simulate.kv_engine import FAULTS, KvEventPublishers
from observer.simulate.kv_hook import KvEventHook
from observer.simulate.kv_publisher import Encoding, KvPublisher, PublisherOptions
from router_contract.kv_events import LiveMessage, ReplayEnd, decode_batch, neutral, read_reply


def replay(publisher: KvPublisher, request: list[bytes]) -> list[list[bytes]]:
    """Ask a replay and read until the end marker, or nothing for half a second."""
    context = zmq.Context()
    dealer = context.socket(zmq.DEALER)
    dealer.setsockopt(zmq.LINGER, 0)
    assert publisher.replay_endpoint is not None
    dealer.connect(publisher.replay_endpoint)
    dealer.send_multipart(request)
    found: list[list[bytes]] = []
    end = time.monotonic() + 0.5
    try:
        while time.monotonic() < end:
            publisher.pump()
            if dealer.poll(5):
                found.append(dealer.recv_multipart())
                if isinstance(read_reply(found[-1]), ReplayEnd):
                    break
    finally:
        dealer.close(linger=0)
        context.term()
    return found


@pytest.fixture
def publisher():
    made = KvPublisher(PublisherOptions(buffer_steps=4), time.time)
    made.start()
    yield made
    made.close()


@pytest.mark.parametrize("topic_frame", [True, False])
def test_a_replay_begins_at_the_oldest_held_and_ends_with_the_marker(topic_frame):
    publisher = KvPublisher(PublisherOptions(buffer_steps=4, replay_topic_frame=topic_frame), time.time)
    publisher.start()
    try:
        for number in range(1, 8):
            publisher.stored([number], None, [1, 2], 2)
        found = replay(publisher, [b"", (1).to_bytes(8, "big")])
        assert {len(frames) for frames in found} == {4 if topic_frame else 3}
        messages = [read_reply(frames) for frames in found]
        assert [message.sequence for message in messages if isinstance(message, LiveMessage)] == [3, 4, 5, 6]
        assert isinstance(messages[-1], ReplayEnd)
    finally:
        publisher.close()


def test_a_malformed_request_is_answered_by_nothing(publisher):
    publisher.stored([1], None, [1], 1)
    assert replay(publisher, [b"bad"]) == []


def test_a_start_in_the_future_is_the_marker_alone(publisher):
    publisher.stored([1], None, [1], 1)
    assert len(replay(publisher, [b"", (55).to_bytes(8, "big")])) == 1


@pytest.mark.parametrize("encoding", list(Encoding))
@pytest.mark.parametrize("byte_hashes", [False, True])
def test_events_decode_the_same_in_every_encoding(encoding, byte_hashes):
    options = PublisherOptions(encoding=encoding, byte_hashes=byte_hashes)
    publisher = KvPublisher(options, time.time)
    publisher.start()
    try:
        publisher.stored([1, 2], None, [1, 2, 3, 4], 2, medium="CPU", group=1)
        publisher.removed([1], medium="CPU")
        publisher.cleared()
        messages = [read_reply(frames) for frames in replay(publisher, [b"", bytes(8)])[:-1]]
        events = [neutral(decode_batch(message.payload).events[0], tokens=True) for message in messages]
        one = (1).to_bytes(32, "big") if byte_hashes else 1
        assert [event["type"] for event in events] == ["BlockStored", "BlockRemoved", "AllBlocksCleared"]
        assert events[0]["block_hashes"][0] == one
        assert (events[0]["token_ids"], events[0]["medium"], events[0]["group_idx"]) == ([1, 2, 3, 4], "CPU", 1)
        assert events[1]["block_hashes"] == [one]
    finally:
        publisher.close()


def test_a_new_life_begins_at_zero_on_the_same_ports(publisher):
    publisher.stored([1], None, [1], 1)
    before = publisher.endpoint, publisher.replay_endpoint
    publisher.start()
    assert (publisher.endpoint, publisher.replay_endpoint) == before
    assert publisher.sequence == -1
    assert len(replay(publisher, [b"", bytes(8)])) == 1


def test_silence_does_not_even_number(publisher):
    publisher.silent = True
    publisher.stored([1], None, [1], 1)
    assert publisher.sequence == -1


async def test_an_engine_has_one_publisher_a_rank_behind_the_hook():
    engine = KvEventPublishers.for_engine(3, time.time)
    hook: KvEventHook = engine
    hook.started()
    try:
        sources = hook.sources()
        assert [source.rank for source in sources] == [0, 1, 2]
        assert len({source.endpoint for source in sources}) == 3
        hook.stored(1, [5], None, [1], 1)
        hook.removed(1, [5])
        hook.cleared(1)
        assert [publisher.sequence for publisher in engine.publishers] == [-1, 2, -1]
        for fault in FAULTS.values():
            fault(engine)
    finally:
        hook.closed()


def test_stated_ports_count_upwards_by_rank():
    engine = KvEventPublishers.for_engine(2, time.time, PublisherOptions(port=5557, replay_port=5657))
    assert [(item.options.port, item.options.replay_port) for item in engine.publishers] == [(5557, 5657), (5558, 5658)]

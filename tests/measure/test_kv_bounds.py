"""What one publisher can make us hold and publish: media, groups, sizes, numbers, topics; reaching a bound is said."""

from __future__ import annotations

import msgspec
import pytest

from exporters.encoding import encode
from exporters.kv import stream_document
from observer.measure.blocks import MAX_GROUPS, MAX_MEDIA, MAX_SIZES
from observer.measure.ledger import Ledger
from observer.measure.stream_values import StreamLimits
from observer.measure.streams import Stream
from router_contract.kv_events import (
    MAX_FRAMES,
    MAX_SEQUENCE,
    MAX_TOPIC,
    LiveMessage,
    Rejected,
    read_live,
    read_reply,
)
from router_contract.kv_streams import MAX_COUNTED, OTHER_GROUP, OTHER_MEDIUM, Approximation
from router_contract.readings import Instant
from tests.fakes.kv_world import DEPLOYMENT, source

NOW = Instant(100.0, 1.8e9)


def batch(*events: dict, rank: object = 0) -> bytes:
    return msgspec.msgpack.encode([1.0, list(events), rank])


def stored(number: int, **more: object) -> dict:
    return {"type": "BlockStored", "block_hashes": [number], "parent_block_hash": None, "block_size": 16} | more


def removed(number: int, **more: object) -> dict:
    return {"type": "BlockRemoved", "block_hashes": [number]} | more


def joined():
    ledger = Ledger()
    blocks = ledger.join(source())
    return ledger, blocks, Stream(blocks, NOW, replay=False, limits=StreamLimits())


def told(blocks, *payloads: bytes) -> set[Approximation]:
    found: set[Approximation] = set()
    for payload in payloads:
        applied = blocks.apply(payload, NOW)
        found |= set(applied.spoiled) if applied else set()
    return found


def test_media_above_the_bound_are_one_and_that_is_said():
    _, blocks, stream = joined()
    few = [batch(stored(number, medium=f"m{number}")) for number in range(MAX_MEDIA)]
    assert told(blocks, *few) == set()
    many = [batch(stored(number, medium=f"m{number}")) for number in range(MAX_MEDIA, 3000)]
    assert told(blocks, *many) == {Approximation.MERGED}
    media = {item.medium: item.blocks for item in blocks.media_blocks()}
    assert len(media) == MAX_MEDIA + 1
    assert media[OTHER_MEDIUM] == 3000 - MAX_MEDIA
    assert len(blocks.holder.holds) == MAX_MEDIA + 1
    assert sum(media.values()) == 3000
    told(blocks, batch(removed(2999, medium="m2999"), removed(1, medium="m1")))
    media = {item.medium: item.blocks for item in blocks.media_blocks()}
    assert (media[OTHER_MEDIUM], media["m1"]) == (3000 - MAX_MEDIA - 1, 0)
    assert len(blocks._holds) <= MAX_MEDIA * MAX_GROUPS
    blocks.forget()
    assert told(blocks, batch(stored(1, medium="new"))) == {Approximation.MERGED}
    assert blocks.summary(stream, NOW).blocks == 1


@pytest.mark.parametrize("medium", ["x" * 65, "GPU\n", "a\x00b"])
def test_a_medium_that_is_no_name_is_another_medium(medium):
    _, blocks, _ = joined()
    assert told(blocks, batch(stored(1, medium=medium))) == {Approximation.MERGED}
    assert [item.medium for item in blocks.media_blocks()] == [OTHER_MEDIUM]


def test_groups_and_block_sizes_above_their_bounds_are_one():
    ledger, blocks, _ = joined()
    payloads = [batch(stored(number, group_idx=number)) for number in range(500)]
    payloads += [batch(stored(number, group_idx=-number)) for number in range(2, 50)]
    payloads += [batch(stored(1000 + size, block_size=size)) for size in range(1, 300)]
    assert told(blocks, *payloads) == {Approximation.MERGED}
    planes = ledger.index_summary(DEPLOYMENT).residency
    assert len({item.group for item in planes}) == MAX_GROUPS + 1
    assert OTHER_GROUP in {item.group for item in planes}
    assert len({item.space.block_size for item in planes}) == MAX_SIZES + 1


@pytest.mark.parametrize("size", [2**63, -1, 2**24 + 1])
def test_a_block_size_that_is_none_costs_its_event_only(size):
    _, blocks, stream = joined()
    assert told(blocks, batch(stored(1, block_size=size), stored(2))) == {Approximation.EVENT_DAMAGED}
    summary = blocks.summary(stream, NOW)
    assert (summary.blocks, summary.block_size) == (1, 16)
    assert encode(stream_document(summary, NOW))


@pytest.mark.parametrize("rank", [2**63, -5, 70_000])
def test_a_rank_that_is_none_is_not_believed_and_costs_no_event(rank):
    _, blocks, stream = joined()
    told(blocks, batch(stored(1), rank=rank))
    summary = blocks.summary(stream, NOW)
    assert (summary.blocks, summary.wrong_rank) == (1, None)


def test_what_was_missed_stops_at_the_largest_counter():
    _, blocks, stream = joined()
    stream.attach(NOW)
    stream.connected(NOW)
    sequences = [0, MAX_SEQUENCE - 1]
    for number in range(3):
        stream.message(number % 2, batch(stored(number + 10)), NOW)
        for sequence in sequences:
            stream.message(sequence, batch(stored(number)), NOW)
    assert 0 < stream.counts["missed"] <= MAX_COUNTED
    assert encode(stream_document(blocks.summary(stream, NOW), NOW))


def sequence(number: int) -> bytes:
    return number.to_bytes(8, "big")


MESSAGES = {
    "largest sequence": ([b"", sequence(MAX_SEQUENCE), b"x"], LiveMessage(MAX_SEQUENCE, b"x")),
    "sequence above it": ([b"", sequence(MAX_SEQUENCE + 1), b"x"], Rejected("sequence")),
    "largest topic": ([b"t" * MAX_TOPIC, sequence(1), b"x"], LiveMessage(1, b"x")),
    "topic above it": ([b"t" * (MAX_TOPIC + 1), sequence(1), b"x"], Rejected("topic")),
}


@pytest.mark.parametrize(("frames", "want"), MESSAGES.values(), ids=MESSAGES)
def test_numbers_and_topics_of_messages_are_bounded(frames, want):
    assert read_live(frames) == want
    assert read_reply(frames) == want


def test_a_message_of_many_frames_is_no_reply():
    frames = [b""] * MAX_FRAMES + [sequence(1), b"x"]
    assert read_reply(frames) == Rejected("frames")

"""Every recorded encoding of KV events decodes to what was recorded; damage costs no neighbours and never raises."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router_contract.kv_events import (
    UNREADABLE,
    Batch,
    BlockRemoved,
    BlockStored,
    LiveMessage,
    Rejected,
    ReplayEnd,
    Undecodable,
    decode_batch,
    decoder_like,
    hash_text,
    neutral,
    parse_hash,
    read_live,
    read_reply,
)

RECORDINGS = Path(__file__).parents[1] / "recordings" / "kv-events"
STORED = (
    "block_hashes",
    "parent_block_hash",
    "token_ids",
    "block_size",
    "lora_id",
    "medium",
    "lora_name",
    "extra_keys",
    "group_idx",
    "kv_cache_spec_kind",
    "kv_cache_spec_sliding_window",
)
REMOVED = ("block_hashes", "medium", "group_idx")


def rows() -> list:
    found = []
    for path in sorted(RECORDINGS.glob("*.jsonl")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            row = json.loads(line)
            if row.get("decoded") is not None:
                found.append(pytest.param(row, id=f"{path.stem}:{number}"))
    return found


def as_map(event: list | dict) -> dict:
    """A recorded event by field names, from the positions that wire facts state."""
    if isinstance(event, dict):
        return event
    named = {"type": event[0]}
    for name, value in zip(STORED if event[0] == "BlockStored" else REMOVED, event[1:], strict=False):
        named |= value if name == "lora_name" and isinstance(value, dict) else {name: value}
    return named


def as_json(value: object) -> object:
    if isinstance(value, bytes):
        return f"hex:{value.hex()}"
    if isinstance(value, list):
        return [as_json(item) for item in value]
    return {name: as_json(item) for name, item in value.items()} if isinstance(value, dict) else value


def test_there_are_recordings_of_every_version():
    assert len(rows()) == 519


@pytest.mark.parametrize("row", rows())
def test_a_recorded_batch_decodes_to_what_was_recorded(row):
    frames = [base64.b64decode(frame) for frame in row["frames"]]
    message = read_live(frames) if row["kind"] == "pub" else read_reply(frames)
    assert isinstance(message, LiveMessage)
    batch = decode_batch(message.payload)
    assert isinstance(batch, Batch)
    ts, events, *rank = row["decoded"]
    assert batch.ts == ts
    assert batch.rank == (rank[0] if rank else None)
    assert batch.skipped == ()
    assert [as_json(neutral(event, tokens=True)) for event in batch.events] == [as_map(event) for event in events]


def batch(*events: object, rank: object = 0, extra: tuple = ()) -> Batch | Undecodable:
    return decode_batch(msgspec.msgpack.encode([1.0, list(events), rank, *extra]))


GOOD = {"type": "BlockStored", "block_hashes": [7], "parent_block_hash": None, "token_ids": [1], "block_size": 1}
BAD = [
    ({"type": "BlockPromoted", "block_hashes": [1]}, True),
    (["BlockPromoted", [1]], True),
    ({"block_hashes": [1]}, False),
    ({"type": "BlockStored", "block_hashes": "x"}, False),
    ({"type": "BlockStored", "block_hashes": [1.5]}, False),
    ({"type": "BlockStored"}, False),
    (["BlockStored"], False),
    ([], False),
    ({}, False),
    (None, False),
    ("BlockStored", False),
    (7, False),
    ({"type": 7}, False),
    ({"type": "BlockRemoved", "block_hashes": [1], "medium": 3}, False),
]


@pytest.mark.parametrize(("bad", "unknown"), BAD, ids=[str(bad)[:50] for bad, _ in BAD])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_bad_event_costs_that_event_only(bad, unknown, place):
    events = [GOOD, ["BlockRemoved", [9], "GPU"]]
    events.insert(place, bad)
    found = batch(*events)
    assert [type(event).__name__ for event in found.events] == ["MapStored", "ArrayRemoved"]
    assert [(damage.index, damage.unknown_kind) for damage in found.skipped] == [(place, unknown)]


def test_damage_is_named():
    assert batch({"type": "BlockPromoted"}).skipped[0].detail.startswith("BlockPromoted: Invalid value")


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"", "truncated"),
        (b"\x93", "truncated"),
        (b"\xc1garbage", "malformed"),
        (msgspec.msgpack.encode({"ts": 1.0, "events": []}), "Expected `array`"),
        (msgspec.msgpack.encode([1.0]), "length 2"),
        (msgspec.msgpack.encode([1.0, [GOOD], 0]) + b"\xc1", "trailing"),
        (b"\x93\xcb" + bytes(8) + b"\x91" * 100_000, "recursion"),
    ],
    ids=["empty", "cut", "never-valid", "map", "one-element", "trailing", "deep"],
)
def test_a_batch_that_cannot_be_read_says_why(payload, why):
    found = decode_batch(payload)
    assert isinstance(found, Undecodable)
    assert why in found.detail


@given(st.binary(max_size=200))
def test_no_payload_raises(payload):
    assert isinstance(decode_batch(payload), Batch | Undecodable)


@given(st.data())
def test_no_mutation_of_a_batch_raises(data):
    payload = bytearray(msgspec.msgpack.encode([1.0, [GOOD, ["BlockRemoved", [2**64 - 1, -5, b"x" * 32]]], 0]))
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    assert isinstance(decode_batch(bytes(payload)), Batch | Undecodable)


ARRAY = ["BlockStored", [8], None, [1], 1]
LIKE = [None, batch(GOOD), batch(ARRAY), batch(GOOD, ARRAY), batch()]


@given(
    st.sampled_from(LIKE),
    st.lists(st.sampled_from([GOOD, ARRAY, *(bad for bad, _ in BAD)]), max_size=3),
    st.sampled_from([None, 0, 1, "x"]),
    st.one_of(st.none(), st.tuples(st.integers(0, 200), st.integers(0, 255))),
)
def test_reading_a_batch_as_the_one_before_gives_what_looking_first_gives_or_nothing(like, events, rank, flip):
    payload = bytearray(msgspec.msgpack.encode([1.0, events, rank]))
    if flip is not None:
        payload[flip[0] % len(payload)] = flip[1]
    wanted = decode_batch(bytes(payload))
    try:
        found = decoder_like(like)(bytes(payload))
    except UNREADABLE:
        return
    assert (repr(found.ts), list(found.events), found.rank) == (repr(wanted.ts), list(wanted.events), wanted.rank)
    assert isinstance(wanted, Batch)
    assert not wanted.skipped


def test_a_publisher_of_arrays_is_read_as_one_after_its_first_batch():
    payload = msgspec.msgpack.encode([1.0, [ARRAY], 0])
    with pytest.raises(UNREADABLE):
        decoder_like(None)(payload)
    assert decoder_like(decode_batch(payload))(payload) == decode_batch(payload)


def test_tokens_stay_undecoded_unless_asked_for():
    event = batch(GOOD | {"token_ids": [1, 2, 3]}).events[0]
    assert isinstance(event.token_ids, msgspec.Raw)
    assert neutral(event)["token_count"] == 3
    assert neutral(event, tokens=True)["token_ids"] == [1, 2, 3]


def test_future_fields_and_elements_are_ignored():
    found = batch(GOOD | {"future": {"k": [1]}}, extra=("later", 9))
    assert found.events[0].block_hashes == [7]


@pytest.mark.parametrize("rank", [None, "two", [1]])
def test_a_rank_that_is_none_or_unreadable_is_none(rank):
    found = batch(GOOD, rank=rank)
    assert found.rank is None
    assert len(found.events) == 1


def test_hashes_of_every_kind_are_kept_as_they_are():
    hashes = [2**64 - 1, -(2**63), 0, b"\x01" * 32]
    assert batch({"type": "BlockRemoved", "block_hashes": hashes}).events[0].block_hashes == hashes


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        ([b"x"], "frames"),
        ([b"", bytes(8)], "frames"),
        ([b"", bytes(8), b"p", b"x"], "frames"),
        ([b"", bytes(4), b"p"], "sequence"),
        ([b"", b"\xff" * 8, b""], "end-marker"),
        ([], "frames"),
    ],
)
def test_a_live_message_has_exactly_three_frames_and_a_sequence(frames, reason):
    assert read_live(frames) == Rejected(reason)


@pytest.mark.parametrize(
    ("frames", "found"),
    [
        ([b"", (5).to_bytes(8, "big"), b"p"], LiveMessage(5, b"p")),
        ([b"", b"topic", (5).to_bytes(8, "big"), b"p"], LiveMessage(5, b"p")),
        ([(5).to_bytes(8, "big"), b"p"], LiveMessage(5, b"p")),
        ([b"", b"\xff" * 8, b""], ReplayEnd()),
        ([b"", b"", b"\xff" * 8, b""], ReplayEnd()),
        ([b"", b"\xff" * 8, b"p"], Rejected("end-marker")),
        ([b"", b"7", b"p"], Rejected("sequence")),
        ([b"p"], Rejected("frames")),
    ],
)
def test_a_reply_is_read_from_the_end(frames, found):
    assert read_reply(frames) == found


@given(st.one_of(st.integers(-(2**63), 2**64 - 1), st.binary(max_size=40)))
def test_a_hash_survives_json(value):
    assert parse_hash(hash_text(value)) == value


@pytest.mark.parametrize("text", ["", "x", "hex:0", "hex:zz", "1.5"])
def test_a_text_that_is_no_hash_is_refused_by_name(text):
    with pytest.raises(ValueError, match="wanted a decimal integer or hex:"):
        parse_hash(text)


def test_missing_optional_fields_are_missing_not_null():
    stored = batch({"type": "BlockStored", "block_hashes": [1]}).events[0]
    assert isinstance(stored, BlockStored)
    assert neutral(stored) == {"type": "BlockStored", "block_hashes": [1], "parent_block_hash": None}
    removed = batch(["BlockRemoved", [1]]).events[0]
    assert isinstance(removed, BlockRemoved)
    assert neutral(removed) == {"type": "BlockRemoved", "block_hashes": [1]}

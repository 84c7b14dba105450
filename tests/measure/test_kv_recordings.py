"""Recorded messages through a stream: every mutation has its checked-in outcome, real streams apply whole."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from observer.measure.kv_recording import BadRecordingError, decode_rows, rows
from router_contract.kv_streams import Approximation, History, StreamState
from tests.fakes.kv_world import World

RECORDINGS = Path(__file__).parents[1] / "recordings"
OUTCOMES = json.loads((RECORDINGS / "kv-events-outcomes.json").read_text())
_TRUNCATED = {
    "47": "truncated-2nd",
    "71": "truncated-3rd",
    "142": "truncated-4th",
    "44": "truncated-2nd",
    "66": "truncated-3rd",
    "131": "truncated-4th",
}


def lines(name: str) -> list[bytes]:
    return (RECORDINGS / name).read_bytes().splitlines()


@pytest.mark.parametrize("name", ["mut-vllm-0.32.0-map", "mut-sglang-0.5.23-map"])
def test_every_mutation_has_its_outcome(name):
    found = {row["name"]: row["outcome"] for row in decode_rows(lines(f"kv-events/{name}.jsonl"))}
    named = {
        f"truncated-{number}": OUTCOMES[which] for number, which in _TRUNCATED.items() if f"truncated-{number}" in found
    }
    wanted = {key: value for key, value in OUTCOMES.items() if key not in {"note", *_TRUNCATED.values()}} | named
    assert len(found) == 29
    assert found == wanted


@pytest.mark.parametrize(
    ("name", "batches", "partial"),
    [("vllm-0.32.0/kv-events-real-int.jsonl", 60, False), ("sglang-0.5.23/kv-events-real.jsonl", 51, True)],
)
def test_a_real_stream_applies_without_a_gap(name, batches, partial):
    found = list(decode_rows(lines(name)))
    assert [row["outcome"] for row in found] == [["applied"]] * batches
    assert not any("skipped" in row or "undecodable" in row for row in found)
    # SGLang's warm-up takes the first sequences before anyone can subscribe; vLLM's first request is sequence 0.
    assert (found[0]["sequence"] > 0) is partial


@pytest.mark.parametrize(
    "name", ["vllm-0.32.0/replay-from0.jsonl", "vllm-0.32.0/replay-beyond.jsonl", "sglang-0.5.23/replay-from0.jsonl"]
)
def test_real_replays_are_read_whole(name):
    found = list(decode_rows(lines(name)))
    assert found[0]["kind"] == "replay-request"
    assert found[-1] == {"line": len(found), "kind": "replay-response", "end": True}
    sequences = [row["sequence"] for row in found[1:-1]]
    assert sequences == list(range(sequences[0], sequences[0] + len(sequences))) if sequences else True


def test_a_recorded_late_join_with_its_recorded_replay_is_complete():
    world = World()
    for _, row in rows(lines("kv-events/scn-late-join.jsonl")):
        world.stream.message(int.from_bytes(row["frames"][1], "big"), row["frames"][2], world.now)
    world.connect()
    (ask,) = world.asks
    assert ask.start == 0
    for _, row in rows(lines("kv-events/scn-late-join-replay-0.jsonl")):
        if row["kind"] == "replay-response" and row["frames"][-1]:
            world.stream.reply(ask.token, int.from_bytes(row["frames"][-2], "big"), row["frames"][-1], world.now)
    world.stream.reply_end(ask.token, world.now)
    assert world.stream.state is StreamState.LIVE
    assert world.stream.history is History.COMPLETE
    assert sorted(key for key, _, _ in world.held()) == list(range(1000, 1008))
    assert world.blocks.holder.loose == {}


def test_an_event_damaged_in_a_recording_makes_the_member_approximate():
    world = World(replay=False)
    world.connect()
    for _, row in rows(lines("kv-events/mut-vllm-0.32.0-map.jsonl")):
        if row["name"] in ("ok-0", "ok-1"):
            world.stream.message(int.from_bytes(row["frames"][1], "big"), row["frames"][2], world.now)
        if row["name"] == "bad-types":
            world.stream.message(2, row["frames"][2], world.now)
    assert world.stream.approximate == {Approximation.EVENT_DAMAGED}


def test_decoding_prints_hashes_as_text_and_counts_tokens():
    found = next(iter(decode_rows(lines("kv-events/vllm-0.32.0-bytes.jsonl"))))
    assert found["events"][0]["block_hashes"][0].startswith("hex:")
    assert found["events"][0]["token_count"] == 8
    assert "token_ids" not in found["events"][0]


@pytest.mark.parametrize("line", [b"{", b"[]", b'{"frames": ["*"]}', b'{"kind": "pub"}', b'{"frames": 1}'])
def test_a_line_that_is_no_row_is_named(line):
    good = json.dumps({"frames": [base64.b64encode(b"x").decode()]}).encode()
    with pytest.raises(BadRecordingError, match=r"^line 2: .*want a JSON object with base64 frames"):
        list(decode_rows([good, line]))

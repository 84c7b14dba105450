"""`observer kv`: a recording decoded without an observer, a deployment's streams as tables."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from aiohttp import web
from click.testing import CliRunner
from rich.console import Console

from observer.cli import main
from observer.cli.kv import holdings_picture, kv, residency_table, stale_lines, streams_table
from tests.cli.serving import served

RECORDINGS = Path(__file__).parents[1] / "recordings"


def decode(*arguments: str) -> tuple[int, str]:
    found = CliRunner().invoke(kv, ["decode", *arguments])
    return found.exit_code, found.output


def test_a_recording_becomes_one_object_a_row():
    code, output = decode(str(RECORDINGS / "kv-events/vllm-0.32.0-int.jsonl"), "-o", "json")
    rows = [json.loads(line) for line in output.splitlines()]
    assert code == 0
    assert len(rows) == 13
    assert rows[0]["events"][0]["block_hashes"] == ["11400714819323198485", "4354685564936845354"]
    assert rows[0]["events"][0]["token_count"] == 8
    assert rows[7] == {"line": 9, "kind": "replay-request", "start": 3}
    assert rows[-1]["end"] is True


def test_tokens_are_printed_when_asked_for():
    _, output = decode(str(RECORDINGS / "kv-events/vllm-0.32.0-int.jsonl"), "--tokens")
    assert json.loads(output.splitlines()[0])["events"][0]["token_ids"] == list(range(8))


def test_damage_is_named_and_judged():
    _, output = decode(str(RECORDINGS / "kv-events/mut-vllm-0.32.0-map.jsonl"))
    rows = {row["name"]: row for row in map(json.loads, output.splitlines())}
    assert rows["unknown-tag"]["skipped"][0]["unknownKind"] is True
    assert rows["bad-types"]["skipped"][0]["detail"].startswith("BlockStored: Expected `array`")
    assert rows["not-msgpack"]["undecodable"]
    assert rows["two-frames"]["rejected"] == "frames"
    assert rows["back-0"]["outcome"] == ["duplicate"]


def test_a_table_has_a_line_for_each_row():
    _, output = decode(str(RECORDINGS / "kv-events/mut-vllm-0.32.0-map.jsonl"), "-o", "table")
    assert len(output.splitlines()) == 29
    assert "gap; applied" in output


def test_a_file_that_is_no_recording_is_refused_by_line(tmp_path):
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"frames": []}\nnot json\n')
    code, output = decode(str(bad))
    assert code == 1
    assert "line 2" in output
    assert decode(str(tmp_path / "missing.jsonl"))[0] == 2


def test_a_word_that_is_no_command_is_a_deployments_name():
    found = CliRunner().invoke(kv, ["my-model", "--server", "127.0.0.1:1"])
    assert found.exit_code in (1, 3)
    assert "no observer answers" in found.output


@pytest.mark.parametrize("wide", [False, True])
def test_streams_and_residency_are_drawn(wide):
    stream = {
        "pod": "pod-0",
        "rank": 0,
        "state": "Live",
        "history": "complete",
        "approximate": [],
        "endpoint": "tcp://h:1",
        "counters": {"events": {"stored": 3}, "gaps": 1, "missed": 0, "repaired": 2, "resets": 0},
        "media": [{"medium": "GPU", "blocks": 5}],
        "unanchored": 0,
    }
    residency = {
        "space": {"engine": "vllm", "version": "0.32.0", "hashType": "uint64", "blockSize": 16},
        "medium": "GPU",
        "group": 0,
        "unique": 5,
        "total": 5,
        "shared": 0,
    }
    out = StringIO()
    console = Console(file=out, width=200)
    console.print(streams_table([stream], wide=wide), residency_table([residency]), streams_table([], wide=wide))
    text = out.getvalue()
    assert "GPU:5" in text
    assert ("tcp://h:1" in text) is wide
    assert "unknown" in text
    assert "no KV-event publisher is subscribed to" in text


def drawn(picture, width: int) -> list[str]:
    out = StringIO()
    Console(file=out, width=width, force_terminal=True, color_system=None).print(picture)
    return [line.rstrip() for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("width", [80, 100])
def test_streams_at_80_columns_keep_history_and_numbers_whole(width: int) -> None:
    counters = {"events": {"stored": 1_234_567}, "gaps": 12, "missed": 345, "repaired": 2, "resets": 0}
    streams = [
        {
            "pod": f"llama-3-70b-instruct-{role}-worker-0-7d9f6c",
            "rank": 0,
            "state": "Disconnected",
            "history": "incomplete",
            "approximate": ["medium", "evictions"],
            "endpoint": "tcp://h:1",
            "counters": counters,
            "media": [{"medium": "GPU", "blocks": 1_234_567}],
            "unanchored": 0,
        }
        for role in ("prefill", "decode")
    ]
    lines = drawn(streams_table(streams, wide=False, width=width), width)
    assert len(lines) == 3
    assert all(len(line) <= width for line in lines)
    assert {"POD", "STATE", "HISTORY", "BLOCKS"} <= set(lines[0].split())
    assert all("incomplete" in line and "GPU:1234567" in line for line in lines[1:])
    assert lines[1].split()[0] != lines[2].split()[0]


HOLDING = {
    "pod": "pod-0",
    "rank": 0,
    "blocks": 2,
    "tokens": 32,
    "media": {"GPU": 2},
    "ageSeconds": 3.2,
    "state": "Live",
    "history": "complete",
    "approximate": [],
}


def test_a_lookup_asks_for_the_hashes_and_shows_who_holds_them(capsys) -> None:
    asked: list[dict[str, str]] = []

    async def lookup(request: web.Request) -> web.Response:
        asked.append(dict(request.query))
        return web.json_response({"asked": 3, "holdings": [HOLDING], "unknown": [{"uid": "u", "rank": 0}]})

    path = "/api/v1/namespaces/default/modeldeployments/chat/kv/lookup"
    with served(None, web.get(path, lookup)) as url:
        hashes = ("--hash", "1", "--hash", "2", "--hash", "3")
        assert main(("kv", "lookup", "chat", *hashes, "--model", "m", "--server", url)) == 0
    assert asked == [{"hashes": "1,2,3", "model": "m"}]
    out = capsys.readouterr().out
    assert ["pod-0", "0", "2/3", "32", "GPU:2", "3", "s", "Live", "complete", "-"] in [
        x.split() for x in out.splitlines()
    ]
    assert "not known what is held by the streams of 1 more Pod or rank" in out


def test_a_lookup_that_nobody_holds_is_said() -> None:
    lines = drawn(holdings_picture({"asked": 1, "holdings": [], "unknown": []}), 80)
    assert lines == ["No Pod is known to hold any."]


def test_a_lookup_needs_a_hash(capsys) -> None:
    assert main(("kv", "lookup", "chat")) == 2
    assert "--hash" in capsys.readouterr().err


SPACE = {"engine": "vllm", "version": "0.32.0", "hashType": "uint64", "blockSize": 16}


@pytest.mark.parametrize(
    ("counted", "cells"),
    [
        ({"unique": 5, "total": 6, "shared": 1, "redundancy": 1.2}, ["5", "6", "1", "1.20", "7"]),
        ({"total": 6}, ["-", "6", "-", "unknown", "7"]),
        ({}, ["-", "-", "-", "unknown", "7"]),
    ],
    ids=["connected ones", "too many to tell apart", "none is connected"],
)
def test_stale_blocks_have_a_column_and_a_sentence_of_their_own(counted, cells) -> None:
    stale = [
        {"pod": "pod-0", "uid": "u", "rank": rank, "blocks": 3 + rank, "since": {"at": "t", "ageSeconds": 54.2}}
        for rank in (0, 1)
    ]
    item = {"space": SPACE, "medium": "GPU", "group": 0, "stale": stale} | counted
    lines = drawn(residency_table([item]), 120)
    assert lines[1].split()[-5:] == cells
    said = [text.plain for text in stale_lines([item, item])]
    assert said[0] == "Not counted: 6 blocks of pod-0 rank 0, whose stream lost its connection 54 s ago."
    assert said[1].startswith("Not counted: 8 blocks of pod-0 rank 1")
    assert stale_lines([item | {"stale": []}]) == []
    many = [item | {"stale": [stale[0] | {"rank": rank} for rank in range(12)]}]
    assert stale_lines(many)[-1].plain == "Nor are those of 2 more streams without a connection."

"""Recordings of KV-event messages: what each row holds, in a neutral shape, and what it does to a stream.

A row is JSON: ``frames`` in base64 and ``kind`` ``pub``, ``replay-request`` or ``replay-response`` (older recordings say
``dir`` for replays and nothing for live messages); a first row may be ``meta``. Rows are judged in order by a stream
without a replay endpoint, as a subscriber that saw nothing before would.
"""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from observer.measure.ledger import Ledger
from observer.measure.stream_values import StreamLimits
from observer.measure.streams import Stream
from router_contract.kv_events import (
    Batch,
    LiveMessage,
    Rejected,
    ReplayEnd,
    Undecodable,
    decode_batch,
    hash_text,
    neutral,
    read_live,
    read_reply,
)
from router_contract.kv_streams import StreamKey, StreamSource
from router_contract.readings import Instant
from router_contract.targets import DeploymentKey, KvEventSource

_HASHES = frozenset({"block_hashes", "parent_block_hash"})
_OUTCOMES = (
    ("resets", "new life"),
    ("gaps", "gap"),
    ("duplicates", "duplicate"),
)


class BadRecordingError(ValueError):
    """A line that is no row; the text names the line (from 1), what was found and what was wanted."""


def rows(lines: Iterable[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number from 1, row with ``frames`` as bytes) of each row that has frames. Raises `BadRecordingError`."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = msgspec.json.decode(line, type=dict[str, Any])
            if row.get("kind") == "meta":
                continue
            row["frames"] = [base64.b64decode(frame, validate=True) for frame in row["frames"]]
        except (msgspec.DecodeError, binascii.Error, KeyError, TypeError) as error:
            why = f"{type(error).__name__}: {error}"
            raise BadRecordingError(
                f"line {number}: {why}; want a JSON object with base64 frames, as in a recording"
            ) from error
        row["kind"] = row.get("kind") or {"request": "replay-request", "response": "replay-response"}.get(
            row.get("dir", ""), "pub"
        )
        yield number, row


def decode_rows(lines: Iterable[bytes], *, tokens: bool = False) -> Iterator[dict[str, Any]]:
    """One object a row: its sequence, its events in the neutral shape, what was damaged, what it did to the stream."""
    judge = Judge()
    for number, row in rows(lines):
        found: dict[str, Any] = {"line": number, "kind": row["kind"]}
        if "name" in row:
            found["name"] = row["name"]
        if row["kind"] == "replay-request":
            found["start"] = int.from_bytes(row["frames"][-1], "big") if len(row["frames"]) == 2 else None
            yield found
            continue
        live = row["kind"] == "pub"
        message = read_live(row["frames"]) if live else read_reply(row["frames"])
        if isinstance(message, LiveMessage):
            found["sequence"] = message.sequence
            found |= describe(decode_batch(message.payload), tokens=tokens)
        elif isinstance(message, ReplayEnd):
            found["end"] = True
        else:
            found["rejected"] = message.reason
        if live:
            found["outcome"] = judge.see(message)
        yield found


def describe(batch: Batch | Undecodable, *, tokens: bool) -> dict[str, Any]:
    """A decoded batch for JSON: hashes as text, damage named."""
    if isinstance(batch, Undecodable):
        return {"undecodable": batch.detail}
    found: dict[str, Any] = {
        "ts": batch.ts,
        "rank": batch.rank,
        "events": [_plain(neutral(event, tokens=tokens)) for event in batch.events],
    }
    if batch.skipped:
        found["skipped"] = [
            {"index": damage.index, "unknownKind": damage.unknown_kind, "detail": damage.detail}
            for damage in batch.skipped
        ]
    return found


def _plain(event: dict[str, Any]) -> dict[str, Any]:
    return {
        name: [hash_text(item) for item in value]
        if name in _HASHES and isinstance(value, list)
        else hash_text(value)
        if name in _HASHES and value is not None
        else _text(value)
        for name, value in event.items()
    }


def _text(value: Any) -> Any:
    if isinstance(value, bytes):
        return f"hex:{value.hex()}"
    if isinstance(value, list):
        return [_text(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _text(item) for key, item in value.items()}
    return value


class Judge:
    """Says of each live message what it did: ``applied``, ``duplicate``, ``gap``, ``new life``, ``event skipped``,
    ``batch lost``, ``ignored``; several where several hold.
    """

    def __init__(self) -> None:
        source = StreamSource(
            key=StreamKey(DeploymentKey("", "recording"), "", 0), source=KvEventSource(endpoint="recording")
        )
        now = Instant(0.0, 0.0)
        self.blocks = Ledger().join(source)
        self.stream = Stream(self.blocks, now, replay=False, limits=StreamLimits())
        self.stream.attach(now)
        self.stream.connected(now)
        self._now = now

    def _counts(self) -> Counter[str]:
        counts = Counter(self.stream.counts)
        counts["batches"] = self.stream.batches
        counts["undecodable"] = self.blocks.counts["undecodable"]
        counts["skipped"] = self.blocks.events["unknown"] + self.blocks.events["damaged"]
        return counts

    def see(self, message: LiveMessage | Rejected | ReplayEnd) -> list[str]:
        """What this message did."""
        if not isinstance(message, LiveMessage):
            return ["ignored"]
        before = self._counts()
        self.stream.message(message.sequence, message.payload, self._now)
        moved = self._counts() - before
        said = [word for count, word in _OUTCOMES if moved[count]]
        if moved["undecodable"]:
            said.append("batch lost")
        elif moved["batches"]:
            said.append("applied")
        if moved["skipped"]:
            said.append("event skipped")
        return said

"""The blocks that one stream reports: its batches decoded and applied to its deployment's index, and what they said.

Nothing is decided here about sockets or sequences (`streams` does). Past a budget the index refuses new blocks and the
stream is told that its blocks are approximate.
"""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

from observer.measure.planes import Hold
from observer.measure.residency import LOG_BYTES, UNIQUE_BYTES, BlockIndex
from observer.measure.stream_values import Applied
from observer.measure.streams import Stream
from router_contract.kv_events import BlockRemoved, BlockStored, Undecodable, decode_batch
from router_contract.kv_media import DEFAULT_MEDIUM, signed_hashes
from router_contract.kv_streams import (
    OTHER_GROUP,
    OTHER_MEDIUM,
    Approximation,
    HashSpace,
    KvCounters,
    KvStreamSummary,
    MediumBlocks,
    StreamSource,
)
from router_contract.readings import Instant

MAX_MEDIA = 16
MAX_GROUPS = 64
MAX_SIZES = 8
"""Media, groups and block sizes that are told apart on one stream; the rest counts as one, and that is said."""
MAX_MEDIUM = 64
"""Characters of a medium's name."""
_MAX_GROUP = 65_535
_MAX_CACHED = MAX_MEDIA * MAX_GROUPS
_BUCKET_SECONDS = 10.0
_BUCKETS = 6


_Name = TypeVar("_Name", str, int)


class StreamBlocks:
    """What one stream's batches say: its holder in the index and its counters. A `Sink` of `Stream`."""

    def __init__(self, source: StreamSource, index: BlockIndex) -> None:
        self.source = source
        self.index = index
        self.holder = index.join(self)
        self.counts: Counter[str] = Counter()
        self.events: Counter[str] = Counter()
        self.last_event: Instant | None = None
        self.block_size: int | None = None
        self.wrong_rank: int | None = None
        self.stored_events = 0
        self.stored_blocks = 0
        self._media: dict[str, tuple[int, Instant]] = {}
        self._rank = source.key.rank
        self._signed = signed_hashes(source.engine)
        self._holds: dict[tuple[bool, object, object, object], Hold] = {}
        self._names: set[str] = set()
        self._groups: set[int] = set()
        self._sizes: set[int] = set()
        self._removed_in = [0] * _BUCKETS
        self._bucket = 0

    def apply(self, payload: bytes, now: Instant) -> Applied | None:
        """Decode and apply one batch."""
        batch = decode_batch(payload)
        if isinstance(batch, Undecodable):
            self.counts["undecodable"] += 1
            return Applied(spoiled=(Approximation.UNDECODABLE,))
        rank = batch.rank
        if rank is not None and rank != self._rank:
            self.wrong_rank = rank
        cleared = False
        spoiled: list[Approximation] = []
        for event in batch.events:
            if isinstance(event, BlockStored):
                self._store(event, now, spoiled)
            elif isinstance(event, BlockRemoved):
                self._remove(event, now)
            else:
                self.events["cleared"] += 1
                self.forget()
                cleared, spoiled = True, []
        if batch.events:
            self.last_event = now
        for damage in batch.skipped:
            self.events["unknown" if damage.unknown_kind else "damaged"] += 1
            if not damage.unknown_kind:
                spoiled.append(Approximation.EVENT_DAMAGED)
        return Applied(cleared, tuple(spoiled)) if cleared or spoiled else None

    def forget(self) -> None:
        """Nothing is held any more."""
        if self.holder.holds:
            self._media = {medium: (count, at) for medium, (count, at) in self._announced().items() if at is not None}
            self.index.retire(self.holder)
            self.holder = self.index.join(self)
            self._holds.clear()

    def _store(self, event: BlockStored, now: Instant, spoiled: list[Approximation]) -> None:
        self.stored_events += 1
        hashes = event.block_hashes
        if not hashes:
            return
        is_bytes = isinstance(hashes[0], bytes)
        key = (is_bytes, event.block_size, event.medium, event.group_idx)
        hold = self._holds.get(key)
        if hold is None:
            hold, merged = self._hold(event, is_bytes=is_bytes)
            if merged:
                spoiled.append(Approximation.MERGED)
            if len(self._holds) < _MAX_CACHED:
                self._holds[key] = hold
        self.stored_blocks += len(hashes)
        hold.events += 1
        hold.last = now
        if not self.index.store(hold, hashes, event.parent_block_hash):
            spoiled.append(Approximation.BUDGET)

    def _announced(self) -> dict[str, tuple[int, Instant | None]]:
        """Stored events by medium with the instant of the last, over all lives."""
        found: dict[str, tuple[int, Instant | None]] = dict(self._media)
        for hold in self.holder.holds.values():
            count, at = found.get(hold.plane.medium, (0, None))
            at = hold.last if at is None or (hold.last is not None and hold.last > at) else at
            found[hold.plane.medium] = (count + hold.events, at)
        return found

    def _hold(self, event: BlockStored, *, is_bytes: bool) -> tuple[Hold, bool]:
        """Where the event's blocks are kept, and whether that is together with others that should be told apart."""
        if isinstance(event.block_size, int):
            self.block_size = event.block_size
        told, of_group, tokens = _medium(event.medium), _group(event.group_idx), self.block_size or 0
        medium = self._known(self._names, told, MAX_MEDIA, OTHER_MEDIUM)
        group = self._known(self._groups, of_group, MAX_GROUPS, OTHER_GROUP)
        size = self._known(self._sizes, tokens, MAX_SIZES, 0)
        merged = (told, of_group, tokens) != (medium, group, size) or medium == OTHER_MEDIUM or group == OTHER_GROUP
        hash_type = "bytes" if is_bytes else "int64" if self._signed else "uint64"
        source = self.source
        space = HashSpace(source.engine, source.version or "", hash_type, source.model or "", size)
        signed = is_bytes or self._signed
        return self.index.hold(self.holder, space, medium, group, signed=signed), merged

    @staticmethod
    def _known(names: set[_Name], name: _Name, limit: int, other: _Name) -> _Name:
        """The name where it is told apart (a new one is while there is room), else the one that stands for the rest."""
        if name not in names and name != other:
            if len(names) >= limit:
                return other
            names.add(name)
        return name

    def _remove(self, event: BlockRemoved, now: Instant) -> None:
        self.events["removed"] += 1
        hashes = event.block_hashes
        if not hashes:
            return
        medium, group = _medium(event.medium), _group(event.group_idx)
        if medium not in self._names and len(self._names) >= MAX_MEDIA:
            medium = OTHER_MEDIUM
        if group not in self._groups and len(self._groups) >= MAX_GROUPS:
            group = OTHER_GROUP
        is_bytes = isinstance(hashes[0], bytes)
        gone = 0
        for (space, on, of_group), hold in self.holder.holds.items():
            if on == medium and of_group == group and (space.hash_type == "bytes") is is_bytes:
                gone += self.index.remove(hold, hashes)
        self.counts["removed_blocks"] += gone
        self._turn(now)
        self._removed_in[self._bucket % _BUCKETS] += gone

    def _turn(self, now: Instant) -> None:
        bucket = int(now.mono // _BUCKET_SECONDS)
        for passed in range(max(self._bucket + 1, bucket - _BUCKETS + 1), bucket + 1):
            self._removed_in[passed % _BUCKETS] = 0
        self._bucket = max(self._bucket, bucket)

    def churn(self, now: Instant) -> float:
        """Blocks removed per second over the last minute."""
        self._turn(now)
        return sum(self._removed_in) / (_BUCKETS * _BUCKET_SECONDS)

    def media_blocks(self) -> tuple[MediumBlocks, ...]:
        """Blocks by medium, media without any held block included once one was announced."""
        blocks: Counter[str] = Counter()
        size: Counter[str] = Counter()
        for hold in self.holder.holds.values():
            blocks[hold.plane.medium] += hold.held
            size[hold.plane.medium] += hold.held * (UNIQUE_BYTES + LOG_BYTES)
        return tuple(
            MediumBlocks(
                medium=medium,
                blocks=blocks[medium],
                estimated_bytes=size[medium],
                stored_events=count,
                last_stored=at,
            )
            for medium, (count, at) in sorted(self._announced().items())
        )

    def summary(self, stream: Stream, now: Instant) -> KvStreamSummary:
        """The stream as reports show it."""
        counts, mine = stream.counts, self.counts
        return KvStreamSummary(
            source=self.source,
            state=stream.state,
            since=stream.since,
            history=stream.history,
            approximate=tuple(sorted(stream.approximate)),
            detail=stream.detail,
            counters=KvCounters(
                batches=stream.batches,
                events=tuple(sorted({**self.events, "stored": self.stored_events}.items())),
                stored_blocks=self.stored_blocks,
                removed_blocks=mine["removed_blocks"],
                gaps=counts["gaps"],
                missed=counts["missed"],
                repaired=counts["repaired"],
                replays=tuple(sorted(stream.replays.items())),
                resets=counts["resets"],
                duplicates=counts["duplicates"],
                undecodable=mine["undecodable"],
                damaged_events=self.events["damaged"],
                held_dropped=counts["held_dropped"],
                malformed=tuple(sorted(stream.malformed.items())),
                disconnects=counts["disconnects"],
                reconnects=counts["reconnects"],
            ),
            last_sequence=stream.last if stream.last >= 0 else None,
            last_event=self.last_event,
            last_batch=stream.last_batch,
            confirmed=stream.confirmed,
            probe_failures=stream.probe_failures,
            media=self.media_blocks(),
            unanchored=len(self.holder.loose),
            churn_blocks_per_second=self.churn(now),
            block_size=self.block_size,
            wrong_rank=self.wrong_rank,
            stale_since=stream.stale_since,
        )


def _medium(medium: object) -> str:
    """The medium of an event; a name that is too long to be one, or cannot be written, is some other medium."""
    if not isinstance(medium, str) or not medium:
        return DEFAULT_MEDIUM
    return medium if len(medium) <= MAX_MEDIUM and medium.isprintable() else OTHER_MEDIUM


def _group(group: object) -> int:
    """The group of an event; a number that is no group is some other one."""
    if not isinstance(group, int):
        return 0
    return group if 0 <= group <= _MAX_GROUP else OTHER_GROUP

"""The blocks that one stream reports: its batches decoded and applied to its deployment's index, and what they said.

Nothing is decided here about sockets or sequences (`streams` does). Past a budget the index refuses new blocks and the
stream is told that its blocks are approximate.
"""

from __future__ import annotations

from collections import Counter

from observer.measure.planes import Hold
from observer.measure.residency import LOG_BYTES, UNIQUE_BYTES, BlockIndex
from observer.measure.stream_values import Applied
from observer.measure.streams import Stream
from router_contract.kv_events import BlockRemoved, BlockStored, Undecodable, decode_batch
from router_contract.kv_media import DEFAULT_MEDIUM, signed_hashes
from router_contract.kv_streams import (
    Approximation,
    HashSpace,
    KvCounters,
    KvStreamSummary,
    MediumBlocks,
    StreamSource,
)
from router_contract.readings import Instant

_BUCKET_SECONDS = 10.0
_BUCKETS = 6


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
                if not self._store(event, now):
                    spoiled.append(Approximation.BUDGET)
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

    def _store(self, event: BlockStored, now: Instant) -> bool:
        self.stored_events += 1
        hashes = event.block_hashes
        if not hashes:
            return True
        is_bytes = isinstance(hashes[0], bytes)
        key = (is_bytes, event.block_size, event.medium, event.group_idx)
        hold = self._holds.get(key)
        if hold is None:
            hold = self._hold(event, is_bytes=is_bytes)
            self._holds[key] = hold
        self.stored_blocks += len(hashes)
        hold.events += 1
        hold.last = now
        return self.index.store(hold, hashes, event.parent_block_hash)

    def _announced(self) -> dict[str, tuple[int, Instant | None]]:
        """Stored events by medium with the instant of the last, over all lives."""
        found: dict[str, tuple[int, Instant | None]] = dict(self._media)
        for hold in self.holder.holds.values():
            count, at = found.get(hold.plane.medium, (0, None))
            at = hold.last if at is None or (hold.last is not None and hold.last > at) else at
            found[hold.plane.medium] = (count + hold.events, at)
        return found

    def _hold(self, event: BlockStored, *, is_bytes: bool) -> Hold:
        if isinstance(event.block_size, int):
            self.block_size = event.block_size
        hash_type = "bytes" if is_bytes else "int64" if self._signed else "uint64"
        source = self.source
        space = HashSpace(source.engine, source.version or "", hash_type, source.model or "", self.block_size or 0)
        group = event.group_idx if isinstance(event.group_idx, int) else 0
        signed = is_bytes or self._signed
        return self.index.hold(self.holder, space, _medium(event.medium), group, signed=signed)

    def _remove(self, event: BlockRemoved, now: Instant) -> None:
        self.events["removed"] += 1
        hashes = event.block_hashes
        if not hashes:
            return
        medium = _medium(event.medium)
        group = event.group_idx if isinstance(event.group_idx, int) else 0
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
        )


def _medium(medium: object) -> str:
    return medium if isinstance(medium, str) and medium else DEFAULT_MEDIUM

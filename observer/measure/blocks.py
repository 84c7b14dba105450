"""The blocks that one stream reports: its batches decoded and applied to its deployment's index, and what they said.

Nothing is decided here about sockets or sequences (`streams` does). Past a budget the index refuses new blocks and the
stream is told that its blocks are approximate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from observer.measure.planes import Hold
from observer.measure.residency import LOG_BYTES, UNIQUE_BYTES, BlockIndex
from observer.measure.stream_values import Applied
from observer.measure.streams import Stream
from router_contract.kv_events import (
    UNREADABLE,
    AllBlocksCleared,
    ArrayCleared,
    ArrayRemoved,
    ArrayStored,
    Batch,
    BlockRemoved,
    BlockStored,
    DamagedBatch,
    Event,
    MapCleared,
    MapRemoved,
    MapStored,
    Undecodable,
    decode_batch,
    decoder_like,
)
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
        self.removed_events = 0
        self.removed_blocks = 0
        self._media: dict[str, tuple[int, Instant]] = {}
        self._rank = source.key.rank
        self._signed = signed_hashes(source.engine)
        self._holds: dict[tuple[bool, object, object, object], Hold] = {}
        self._removals: dict[tuple[bool, object, object], tuple[Hold, ...]] = {}
        self._names: set[str] = set()
        self._groups: set[int] = set()
        self._sizes: set[int] = set()
        self._removed_in = [0] * _BUCKETS
        self._bucket = 0
        self._turns = 0.0
        self._decode = decoder_like(None)

    def apply(self, payload: bytes, now: Instant, *, late: bool = False) -> Applied | None:
        """Decode and apply one batch; what a ``late`` one stored and removed is as old as its publisher says."""
        batch: Batch | Undecodable
        try:
            batch = self._decode(payload)
        except UNREADABLE:
            batch = decode_batch(payload)
            if type(batch) is Undecodable:
                self.counts["undecodable"] += 1
                return Applied(spoiled=(Approximation.UNDECODABLE,))
            # A publisher writes all its batches alike, so the next one is first read as this one was.
            self._decode = decoder_like(batch)
        rank = batch.rank
        if rank != self._rank and rank is not None:
            self.wrong_rank = rank
        cleared = False
        spoiled: list[Approximation] = []
        events = batch.events
        handlers = self._HANDLERS
        at = _said(batch.ts, now) if late else now
        for event in events:
            if handlers[type(event)](self, event, at, spoiled):
                cleared = True
        if events:
            self.last_event = now
        if type(batch) is DamagedBatch:
            self._count_damage(batch, spoiled)
        return Applied(cleared, tuple(spoiled)) if cleared or spoiled else None

    def _count_damage(self, batch: DamagedBatch, spoiled: list[Approximation]) -> None:
        for damage in batch.damage:
            self.events["unknown" if damage.unknown_kind else "damaged"] += 1
            if not damage.unknown_kind:
                spoiled.append(Approximation.EVENT_DAMAGED)

    def forget(self) -> None:
        """Another life: nothing is held any more, nor is what the former one said of its rank."""
        self.wrong_rank = None
        self._drop()

    def _drop(self) -> None:
        if self.holder.holds:
            self._media = {medium: (count, at) for medium, (count, at) in self._announced().items() if at is not None}
            self.index.retire(self.holder)
            self.holder = self.index.join(self)
            self._holds.clear()
            self._removals.clear()

    def _clear(self, _: AllBlocksCleared, __: Instant, spoiled: list[Approximation]) -> bool:
        self.events["cleared"] += 1
        self._drop()
        spoiled.clear()
        return True

    def _store(self, event: BlockStored, now: Instant, spoiled: list[Approximation]) -> bool:
        self.stored_events += 1
        hashes = event.block_hashes
        if not hashes:
            return False
        is_bytes = type(hashes[0]) is bytes
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
        return False

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
        self._removals.clear()
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

    def _remove(self, event: BlockRemoved, now: Instant, _: list[Approximation]) -> bool:
        self.removed_events += 1
        hashes = event.block_hashes
        if not hashes:
            return False
        key = (isinstance(hashes[0], bytes), event.medium, event.group_idx)
        holds = self._removals.get(key)
        if holds is None:
            holds = self._holds_of(*key)
            if len(self._removals) < _MAX_CACHED:
                self._removals[key] = holds
        for hold in holds:
            gone = self.index.remove(hold, hashes)
            self.removed_blocks += gone
            if now.mono >= self._turns:
                self._turn(now)
            self._removed_in[self._bucket % _BUCKETS] += gone
        return False

    _HANDLERS: ClassVar[dict[type[Event], Callable[[StreamBlocks, Any, Instant, list[Approximation]], bool]]] = {
        **dict.fromkeys((BlockStored, MapStored, ArrayStored), _store),
        **dict.fromkeys((BlockRemoved, MapRemoved, ArrayRemoved), _remove),
        **dict.fromkeys((AllBlocksCleared, MapCleared, ArrayCleared), _clear),
    }
    """What each kind of event does, by exact type: to ask for an instance of a base costs as much as a look-up. The
    answer is whether all was cleared.
    """

    def _holds_of(self, is_bytes: bool, said: object, of_group: object) -> tuple[Hold, ...]:
        """Where blocks are kept that were stored with such a medium and group."""
        medium, group = _medium(said), _group(of_group)
        if medium not in self._names and len(self._names) >= MAX_MEDIA:
            medium = OTHER_MEDIUM
        if group not in self._groups and len(self._groups) >= MAX_GROUPS:
            group = OTHER_GROUP
        return tuple(
            hold
            for (space, on, at), hold in self.holder.holds.items()
            if on == medium and at == group and (space.hash_type == "bytes") is is_bytes
        )

    def _turn(self, now: Instant) -> None:
        bucket = int(now.mono // _BUCKET_SECONDS)
        for passed in range(max(self._bucket + 1, bucket - _BUCKETS + 1), bucket + 1):
            self._removed_in[passed % _BUCKETS] = 0
        self._bucket = max(self._bucket, bucket)
        self._turns = (self._bucket + 1) * _BUCKET_SECONDS

    def churn(self, now: Instant) -> float:
        """Blocks removed per second over the last minute."""
        self._turn(now)
        return sum(self._removed_in) / (_BUCKETS * _BUCKET_SECONDS)

    def media_blocks(self, share: float = 1.0) -> tuple[MediumBlocks, ...]:
        """Blocks by medium, media without any held block included once one was announced; ``share`` scales their bytes."""
        blocks: Counter[str] = Counter()
        size: Counter[str] = Counter()
        for hold in self.holder.holds.values():
            blocks[hold.plane.medium] += hold.held
            size[hold.plane.medium] += hold.held * (UNIQUE_BYTES + LOG_BYTES)
        return tuple(
            MediumBlocks(
                medium=medium,
                blocks=blocks[medium],
                estimated_bytes=round(size[medium] * share),
                stored_events=count,
                last_stored=at,
            )
            for medium, (count, at) in sorted(self._announced().items())
        )

    def _events(self) -> tuple[tuple[str, int], ...]:
        """Events by kind; those that never came are left out, except stored ones."""
        counts = {**self.events, "stored": self.stored_events}
        if self.removed_events:
            counts["removed"] = self.removed_events
        return tuple(sorted(counts.items()))

    def summary(self, stream: Stream, now: Instant, share: float = 1.0) -> KvStreamSummary:
        """The stream as reports show it. With the `share` of its index the bytes of all streams add up to the index."""
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
                events=self._events(),
                stored_blocks=self.stored_blocks,
                removed_blocks=self.removed_blocks,
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
            media=self.media_blocks(share),
            unanchored=len(self.holder.loose),
            churn_blocks_per_second=self.churn(now),
            block_size=self.block_size,
            wrong_rank=self.wrong_rank,
            stale_since=stream.stale_since,
        )


def _said(ts: float, now: Instant) -> Instant:
    """When a publisher says that something was; ``now`` where its clock is ahead or tells no time."""
    age = min(now.wall - ts, now.wall)
    return Instant(now.mono - age, now.wall - age) if age > 0 else now


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

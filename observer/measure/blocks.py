"""The blocks that streams report: each stream's batches decoded and applied to its deployment's index.

`Ledger` owns every index and every stream's `StreamBlocks`; one task feeds it. It decides nothing about sockets or
sequences (`streams` does) and keeps to its budgets: past one, new blocks are refused and the stream says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from observer.measure.planes import Hold, Plane
from observer.measure.residency import LOG_BYTES, UNIQUE_BYTES, BlockIndex
from observer.measure.stream_values import Applied
from observer.measure.streams import Stream
from router_contract.kv_events import BlockRemoved, BlockStored, Hash, Undecodable, decode_batch
from router_contract.kv_media import DEFAULT_MEDIUM, signed_hashes
from router_contract.kv_streams import (
    Approximation,
    HashSpace,
    Holding,
    KvCounters,
    KvIndexSummary,
    KvLookup,
    KvStreamSummary,
    MediumBlocks,
    Residency,
    StreamSource,
)
from router_contract.readings import Instant
from router_contract.targets import DeploymentKey

_BUCKET_SECONDS = 10.0
_BUCKETS = 6


class Budget:
    """Bytes of all indexes together, and how many they may be."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0


class StreamBlocks:
    """What one stream's batches say: its holder in the index and its counters. A `Sink` of `Stream`."""

    def __init__(self, source: StreamSource, index: BlockIndex, budget: Budget) -> None:
        self.source = source
        self.index = index
        self.holder = index.join(self)
        self.counts: Counter[str] = Counter()
        self.events: Counter[str] = Counter()
        self.last_event: Instant | None = None
        self.block_size: int | None = None
        self.wrong_rank: int | None = None
        self.media: dict[str, tuple[int, Instant]] = {}
        self._budget = budget
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
        if batch.rank is not None:
            self.wrong_rank = batch.rank if batch.rank != self.source.key.rank else None
        index, before = self.index, self.index.bytes
        index.full = self._budget.used > self._budget.limit
        cleared, spoiled = False, []
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
        self._budget.used += index.bytes - before
        return Applied(cleared, tuple(spoiled)) if cleared or spoiled else None

    def forget(self) -> None:
        """Nothing is held any more."""
        if self.holder.holds:
            self.index.retire(self.holder)
            self.holder = self.index.join(self)
            self._holds.clear()

    def _store(self, event: BlockStored, now: Instant) -> bool:
        self.events["stored"] += 1
        hashes = event.block_hashes
        if not hashes:
            return True
        is_bytes = isinstance(hashes[0], bytes)
        key = (is_bytes, event.block_size, event.medium, event.group_idx)
        hold = self._holds.get(key)
        if hold is None:
            hold = self._hold(event, is_bytes=is_bytes)
            self._holds[key] = hold
        self.counts["stored_blocks"] += len(hashes)
        medium = hold.plane.medium
        count, _ = self.media.get(medium, (0, now))
        self.media[medium] = (count + 1, now)
        return self.index.store(hold, hashes, event.parent_block_hash)

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
                stored_events=self.media.get(medium, (0, None))[0],
                last_stored=self.media.get(medium, (0, None))[1],
            )
            for medium in sorted({*blocks, *self.media})
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
                batches=counts["batches"],
                events=tuple(sorted(self.events.items())),
                stored_blocks=mine["stored_blocks"],
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


class Ledger:
    """Every deployment's index and the streams that feed it."""

    def __init__(self, *, deployment_bytes: int = 512 << 20, process_bytes: int = 2 << 30) -> None:
        self._deployment_bytes = deployment_bytes
        self.budget = Budget(process_bytes)
        self._indexes: dict[DeploymentKey, BlockIndex] = {}
        self._live: Counter[DeploymentKey] = Counter()

    def join(self, source: StreamSource) -> StreamBlocks:
        """A new stream's part of its deployment's index."""
        key = source.key.deployment
        index = self._indexes.get(key)
        if index is None:
            index = self._indexes[key] = BlockIndex(self._deployment_bytes)
        self._live[key] += 1
        return StreamBlocks(source, index, self.budget)

    def leave(self, blocks: StreamBlocks) -> None:
        """A stream is gone: none of its blocks is seen from now on."""
        blocks.index.retire(blocks.holder)
        self._live[blocks.source.key.deployment] -= 1

    def clean(self, entries: int) -> bool:
        """Take up to ``entries`` blocks of departed lives out of the indexes; True while more remain."""
        more = False
        for key, index in list(self._indexes.items()):
            before = index.bytes
            more = index.clean(entries) or more
            self.budget.used += index.bytes - before
            if not index.planes and not self._live[key] and not index.cleaning:
                self.budget.used -= index.bytes
                del self._indexes[key], self._live[key]
        return more

    def index_summary(self, key: DeploymentKey) -> KvIndexSummary:
        """The index of one deployment; empty where there is none."""
        index = self._indexes.get(key)
        if index is None:
            return KvIndexSummary(budget_bytes=self._deployment_bytes)
        return KvIndexSummary(
            residency=tuple(_residency(index, plane) for _, plane in sorted(index.planes.items())),
            estimated_bytes=index.bytes,
            budget_bytes=index.budget_bytes,
            cleaning=index.cleaning,
        )

    def lookup(
        self,
        key: DeploymentKey,
        hashes: Sequence[Hash],
        streams: Iterable[tuple[StreamBlocks, Stream]],
        now: Instant,
        *,
        model: str | None = None,
    ) -> KvLookup:
        """Who holds how long a prefix of ``hashes`` (of one hash type), longest first."""
        known = {blocks.source.key: (blocks, stream) for blocks, stream in streams}
        unknown = tuple(sorted(k for k, (_, stream) in known.items() if stream.last < 0 and stream.confirmed is None))
        index = self._indexes.get(key)
        if index is None or not hashes:
            return KvLookup(asked=len(hashes), unknown=unknown)
        is_bytes = isinstance(hashes[0], bytes)
        families: dict[tuple[HashSpace, int], list[Plane]] = {}
        for plane in index.planes.values():
            space = plane.space
            if (space.hash_type == "bytes") is is_bytes and model in (None, space.model):
                families.setdefault((space, plane.group), []).append(plane)
        holdings: list[Holding] = []
        for (space, group), planes in families.items():
            media = {plane.medium: dict(index.prefixes([plane], hashes)) for plane in planes}
            whole = next(iter(media.values())) if len(planes) == 1 else dict(index.prefixes(planes, hashes))
            for blocks, length in whole.items():
                if isinstance(blocks, StreamBlocks) and blocks.source.key in known:
                    on = tuple((medium, found[blocks]) for medium, found in sorted(media.items()) if blocks in found)
                    holdings.append(_holding(*known[blocks.source.key], space, group, length, on, now))
        holdings.sort(key=lambda holding: (-holding.blocks, holding.key, holding.group))
        return KvLookup(asked=len(hashes), holdings=tuple(holdings), unknown=unknown)


def _holding(
    blocks: StreamBlocks,
    stream: Stream,
    space: HashSpace,
    group: int,
    length: int,
    media: tuple[tuple[str, int], ...],
    now: Instant,
) -> Holding:
    return Holding(
        key=blocks.source.key,
        member=blocks.source.member,
        space=space,
        group=group,
        blocks=length,
        tokens=length * space.block_size,
        media=media,
        age_seconds=now.mono - blocks.last_event.mono if blocks.last_event is not None else None,
        state=stream.state,
        history=stream.history,
        approximate=tuple(sorted(stream.approximate)),
    )


def _residency(index: BlockIndex, plane: Plane) -> Residency:
    total, unique = index.total(plane), len(plane.masks)
    holders = [hold.holder.name for hold in plane.holds.values()]
    alike = len(holders) < 2 or plane.shared > 0
    alike = alike or all(isinstance(name, StreamBlocks) and name.source.seeded is True for name in holders)
    return Residency(
        space=plane.space,
        medium=plane.medium,
        group=plane.group,
        unique=unique,
        total=total,
        shared=plane.shared,
        redundancy=total / unique if alike and unique else None,
    )

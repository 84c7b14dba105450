"""Every deployment's block index and the streams that feed it: joining and leaving, budgets, look-ups, residency."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from observer.measure.blocks import StreamBlocks
from observer.measure.planes import Plane
from observer.measure.residency import BlockIndex
from observer.measure.resident import residency
from observer.measure.streams import Stream
from router_contract.kv_events import Hash
from router_contract.kv_streams import (
    HashSpace,
    History,
    Holding,
    KvIndexSummary,
    KvLookup,
    StreamSource,
    StreamState,
)
from router_contract.readings import Instant
from router_contract.targets import DeploymentKey

_CATCHING_UP = frozenset({StreamState.SYNCING, StreamState.GAP, StreamState.REPLAYING})


class Ledger:
    """Every deployment's index and the streams that feed it."""

    def __init__(self, *, deployment_bytes: int = 512 << 20, process_bytes: int = 2 << 30) -> None:
        self._deployment_bytes = deployment_bytes
        self._process_bytes = process_bytes
        self._indexes: dict[DeploymentKey, BlockIndex] = {}
        self._live: Counter[DeploymentKey] = Counter()

    def join(self, source: StreamSource) -> StreamBlocks:
        """A new stream's part of its deployment's index."""
        key = source.key.deployment
        index = self._indexes.get(key)
        if index is None:
            index = self._indexes[key] = BlockIndex(self._deployment_bytes)
        self._live[key] += 1
        return StreamBlocks(source, index)

    def leave(self, blocks: StreamBlocks) -> None:
        """A stream is gone: none of its blocks is seen from now on."""
        blocks.index.retire(blocks.holder)
        self._live[blocks.source.key.deployment] -= 1

    def clean(self, entries: int) -> bool:
        """Take up to ``entries`` blocks of departed lives out of the indexes; True while more remain.

        It also enforces the process budget, so call it after each lot of batches: over it no index takes new blocks.
        """
        more = False
        for key, index in list(self._indexes.items()):
            more = index.clean(entries) or more
            if not index.planes and not self._live[key] and not more:
                del self._indexes[key], self._live[key]
        full = sum(index.bytes for index in self._indexes.values()) > self._process_bytes
        for index in self._indexes.values():
            index.limit = -1 if full else index.budget_bytes
        return more

    def index_size(self, key: DeploymentKey) -> KvIndexSummary:
        """What the index of one deployment takes, without residency; empty where there is none."""
        index = self._indexes.get(key)
        if index is None:
            return KvIndexSummary(budget_bytes=self._deployment_bytes)
        return KvIndexSummary(estimated_bytes=index.bytes, budget_bytes=index.budget_bytes, cleaning=index.cleaning)

    def index_summary(self, key: DeploymentKey, streams: Iterable[tuple[StreamBlocks, Stream]] = ()) -> KvIndexSummary:
        """The same with residency. Of ``streams`` those apart from their publishers are told and not counted."""
        found, index = self.index_size(key), self._indexes.get(key)
        if index is None:
            return found
        since = ((blocks, stream.stale_since) for blocks, stream in streams)
        apart = {blocks: at for blocks, at in since if at is not None}
        planes = (residency(index, plane, apart) for _, plane in sorted(index.planes.items()))
        return msgspec.structs.replace(found, residency=tuple(plane for plane in planes if plane is not None))

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
        unknown = {key for key, (_, stream) in known.items() if _unknown(stream)}
        index = self._indexes.get(key)
        if index is None or not hashes:
            return KvLookup(asked=len(hashes), unknown=tuple(sorted(unknown)))
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
        unknown -= {holding.key for holding in holdings}
        return KvLookup(asked=len(hashes), holdings=tuple(holdings), unknown=tuple(sorted(unknown)))


def _unknown(stream: Stream) -> bool:
    """Whether nothing follows from a block's absence: not all that the publisher said is known, or not yet applied."""
    whole = stream.synced and stream.history is History.COMPLETE and not stream.approximate
    return not whole or stream.state in _CATCHING_UP


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

"""What is known of KV-event streams and of the blocks members hold: the frozen values reports are made of.

A stream is one publisher: a member and a data-parallel rank. Counters count from the start of the observer's
subscription and never go back. ``mono`` and ``wall`` of an `Instant` are in seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from router_contract.readings import Instant
from router_contract.targets import DeploymentKey, KvEventSource


class StreamState(StrEnum):
    """Where a stream stands. ``Gap`` asked for what is missing, ``Replaying`` receives it."""

    DETACHED = "Detached"
    CONNECTING = "Connecting"
    SYNCING = "Syncing"
    LIVE = "Live"
    GAP = "Gap"
    REPLAYING = "Replaying"
    UNREPAIRED = "Unrepaired"
    BROKEN = "Broken"


class History(StrEnum):
    """Whether everything since the publisher's start (or last clear) is known, or only a later part."""

    COMPLETE = "complete"
    PARTIAL = "partial"


class Approximation(StrEnum):
    """Why a member's blocks may differ from what it holds. A clear or a new life that was read whole removes them."""

    UNREPAIRED = "Unrepaired"
    UNDECODABLE = "Undecodable"
    EVENT_DAMAGED = "EventDamaged"
    BUDGET = "Budget"
    MERGED = "Merged"
    """More media, groups or block sizes than are told apart: the rest is kept as one (`OTHER_MEDIUM`)."""
    UNVERIFIED = "Unverified"
    """A reconnection without a replay endpoint: what was sent meanwhile, and by which life, cannot be known; or a member
    known to have restarted whose stream has not shown by replay which life it reads."""
    DISCONNECTED = "Disconnected"
    """The connection was lost and nothing has been confirmed by replay since: the member may hold other blocks now."""


class StreamKey(msgspec.Struct, frozen=True, order=True, gc=False):
    """Identity of a stream: deployment, member UID and rank. A replaced Pod has another UID, so another stream."""

    deployment: DeploymentKey
    member_uid: str
    rank: int


class StreamSource(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One publisher to subscribe to, and what its block hashes are made by.

    ``seeded`` says whether equal blocks are known to hash equally on every member (`kv_media.equal_hashes`);
    ``None`` is not known.
    """

    key: StreamKey
    member: str = ""
    role: str = ""
    source: KvEventSource
    engine: str = ""
    version: str | None = None
    model: str | None = None
    seeded: bool | None = None


OTHER_MEDIUM = "other"
"""The medium of blocks whose medium is not told apart."""
OTHER_GROUP = -1
MAX_COUNTED = 2**63 - 1
"""Where counters stop."""


class HashSpace(msgspec.Struct, frozen=True, order=True, gc=False):
    """Where block hashes may be compared: nowhere but inside one of these."""

    engine: str
    version: str
    hash_type: str
    model: str
    block_size: int


class MediumBlocks(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Blocks a stream holds on one medium (every group and space), and what the events said of that medium.

    ``estimated_bytes`` is its part of our index: over the media and streams of a deployment they add up to the whole.
    """

    medium: str
    blocks: int
    estimated_bytes: int = 0
    stored_events: int = 0
    last_stored: Instant | None = None


class KvCounters(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What happened on a stream since it was subscribed to. ``missed`` counts batches that never arrived and could
    not be read again; ``repaired`` those that came by replay; ``held_dropped`` live batches dropped from a full
    buffer (they are asked for again); ``malformed`` messages that were no batch, by reason; ``reconnects`` sockets
    made anew because they stayed unconnected for long.
    """

    batches: int = 0
    events: tuple[tuple[str, int], ...] = ()
    stored_blocks: int = 0
    removed_blocks: int = 0
    gaps: int = 0
    missed: int = 0
    repaired: int = 0
    replays: tuple[tuple[str, int], ...] = ()
    resets: int = 0
    duplicates: int = 0
    undecodable: int = 0
    damaged_events: int = 0
    held_dropped: int = 0
    malformed: tuple[tuple[str, int], ...] = ()
    disconnects: int = 0
    reconnects: int = 0


class KvStreamSummary(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One stream at one instant.

    ``last_event`` is the instant the last batch with events was applied ("how old"), ``last_batch`` that of any
    batch, ``confirmed`` when a replay last said that nothing is missing. ``since`` is when ``state`` was entered.
    ``churn_blocks_per_second`` is removed blocks over the last minute. ``wrong_rank`` is a rank the publisher states
    that differs from the one its port was said to be, ``None`` when none does. ``stale_since`` is when a connection was
    lost after which nothing was confirmed: what ``media`` counts is of then. ``None`` of any other stream.
    """

    source: StreamSource
    state: StreamState
    since: Instant
    history: History
    approximate: tuple[Approximation, ...] = ()
    detail: str = ""
    counters: KvCounters = KvCounters()
    last_sequence: int | None = None
    last_event: Instant | None = None
    last_batch: Instant | None = None
    confirmed: Instant | None = None
    probe_failures: int = 0
    media: tuple[MediumBlocks, ...] = ()
    unanchored: int = 0
    churn_blocks_per_second: float = 0.0
    block_size: int | None = None
    wrong_rank: int | None = None
    stale_since: Instant | None = None

    @property
    def key(self) -> StreamKey:
        """Deployment, member and rank."""
        return self.source.key

    @property
    def synced(self) -> bool:
        """Whether anything is known of the life that runs; if not, ``media`` counts nothing and nobody knows what is held."""
        return self.last_sequence is not None or self.confirmed is not None

    @property
    def blocks(self) -> int:
        """Blocks held over all media; a block on two media counts twice. Means nothing of a stream that is not `synced`."""
        return sum(medium.blocks for medium in self.media)


def not_followed(source: StreamSource, since: Instant, why: str) -> KvStreamSummary:
    """A publisher that is known of and that nobody follows: what it holds is not known."""
    return KvStreamSummary(source=source, state=StreamState.DETACHED, since=since, history=History.PARTIAL, detail=why)


class StaleBlocks(msgspec.Struct, frozen=True, kw_only=True, order=True, gc=False):
    """What a stream without a connection held when it was last heard, ``since`` when it is apart."""

    key: StreamKey
    member: str
    blocks: int
    since: Instant


class Residency(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Blocks of one hash space, medium and group over the members of a deployment whose streams are connected.

    ``unique`` distinct hashes, ``total`` (hash, holder) pairs, ``shared`` hashes with two or more holders;
    ``redundancy`` is total over unique, ``None`` where members may hash equal blocks differently or nothing is held.
    ``stale`` has the streams without a connection; none of their blocks is counted. All counts are ``None`` where no
    connected stream has told of such blocks, ``unique`` and ``shared`` also where too many stale ones are to be told apart.
    What only departed lives told of has no residency.
    """

    space: HashSpace
    medium: str
    group: int
    unique: int | None = None
    total: int | None = None
    shared: int | None = None
    redundancy: float | None = None
    stale: tuple[StaleBlocks, ...] = ()


class KvIndexSummary(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The whole index: residency by space, medium and group; estimated bytes beside their budget.

    ``cleaning`` counts entries of departed lives that no answer sees any more and that still await removal; until it
    is 0 ``unique`` and ``shared`` may include some of them, never more than ``total`` allows.
    """

    residency: tuple[Residency, ...] = ()
    estimated_bytes: int = 0
    budget_bytes: int = 0
    cleaning: int = 0


class Holding(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How long a prefix of the asked hashes one stream holds in one group.

    ``blocks`` counts from the first hash over all media together, ``media`` the same on each medium alone.
    ``age_seconds`` is the age of the last applied event of that stream.
    """

    key: StreamKey
    member: str
    space: HashSpace
    group: int
    blocks: int
    tokens: int
    media: tuple[tuple[str, int], ...]
    age_seconds: float | None
    state: StreamState
    history: History
    approximate: tuple[Approximation, ...] = ()


class KvLookup(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The answer to a look-up: holdings, longest first. A stream that holds not even the first block is absent.

    ``unknown`` lists the streams of which not every block is known (not subscribed to, never synced, of a partial history,
    approximate, or reading what was missed), so that absence is not read as "not held"; one with a holding is not in it.
    """

    asked: int
    holdings: tuple[Holding, ...] = ()
    unknown: tuple[StreamKey, ...] = ()


class ReceiverSummary(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The receiving side: what waits between the sockets and the index, and how often it had to hold back."""

    streams: int = 0
    queued_messages: int = 0
    queued_bytes: int = 0
    capacity_bytes: int = 0
    pauses: int = 0
    received_messages: int = 0
    received_bytes: int = 0
    discarded_messages: int = 0


def also_unknown(found: KvLookup, keys: Iterable[StreamKey]) -> KvLookup:
    """An answer that says of these streams too that nothing follows from a block's absence."""
    lost = set(keys)
    return msgspec.structs.replace(found, unknown=tuple(sorted(lost | set(found.unknown)))) if lost else found

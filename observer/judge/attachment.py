"""CacheAttached and KVEventsLive: whether the KV cache is seen to be in effect, and whether its events arrive.

Both decide on what was seen, never on a flag. ``KVEventsPublishing`` is about configuration; its reading of a command
line is `publisher_configured`. Evidence is gathered by `cache_evidence`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from router_contract.kv_media import is_store_medium
from router_contract.kv_streams import KvStreamSummary, StreamKey, StreamState
from router_contract.readings import Instant
from router_contract.verdicts import Condition, Provenance, Status

CACHE_ATTACHED = "CacheAttached"
KV_EVENTS_LIVE = "KVEventsLive"
SILENT_BLOCKS = 64
"""Blocks a rank may compute without an event before it counts as silent."""
_UNKNOWN_BLOCK_SIZE = 128


SUCCESSES = ("ok", "partial_failure")
"""The statuses of store operations that prove that the store is used."""


class EngineAccount(msgspec.Struct, frozen=True, kw_only=True):
    """What one ready replica's leader says of its operations on the attached store, over the window.

    ``operations`` are increases by status; ``hit_tokens`` tokens found in the store, where the series measures it.
    Both ``None``: no answer or no such family. ``age`` is of the read, in seconds.
    """

    replica: str
    operations: tuple[tuple[str, float], ...] | None = None
    hit_tokens: float | None = None
    age: float | None = None


class StoreLevel(msgspec.Struct, frozen=True, kw_only=True):
    """A level that says how much the store holds for the deployment's domain, and when it last grew.

    ``unproven`` says why no recording of the real program exercises its name (empty when one does).
    """

    source: str
    name: str
    value: float
    grew_at: Instant | None = None
    unproven: str = ""


class CacheEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """Everything CacheAttached decides on. ``attached`` is ``None`` where nobody said whether a cache is declared.

    ``unmanaged`` is the first role that replaced its command. ``ready_replicas`` counts whole, ready, non-terminating
    replicas; ``None`` is not known. ``store_account`` is the store's own, ``binding`` the binding's figures.
    """

    attached: bool | None
    unmanaged: str = ""
    ready_replicas: int | None = None
    accounts: tuple[EngineAccount, ...] = ()
    streams: tuple[KvStreamSummary, ...] = ()
    pool_is_disk: bool = False
    store_account: tuple[StoreLevel, ...] = ()
    binding: tuple[StoreLevel, ...] = ()


class CachePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds: how old an event stored to the pool may be, and how long ago a level may have grown, to decide."""

    events_within: float = 300.0
    level_within: float = 600.0


def cache_attached(evidence: CacheEvidence, now: Instant, policy: CachePolicy | None = None) -> Condition:
    """Whether the cache is seen to be in effect. The strongest evidence decides and is named with its age."""
    policy = policy or CachePolicy()
    if evidence.attached is None:
        return _cache(Status.UNKNOWN, "NotObservable", "whether a cache is declared was not observed")
    if not evidence.attached:
        return _cache(Status.TRUE, "NotApplicable", "no cache is declared")
    if evidence.unmanaged:
        return _cache(Status.UNKNOWN, "Unmanaged", f"role {evidence.unmanaged} replaced its command")
    if evidence.ready_replicas is None:
        return _cache(Status.UNKNOWN, "NotObservable", "which replicas are ready was not observed")
    if evidence.ready_replicas == 0:
        return _cache(Status.UNKNOWN, "NoReplicaReady", "no replica is ready to be asked")
    return (
        _by_accounts(evidence)
        or _by_events(evidence, now, policy)
        or _by_levels("store-account", evidence.store_account, now, policy)
        or _by_levels("binding", evidence.binding, now, policy)
        or _nothing(evidence)
    )


def _cache(status: Status, reason: str, message: str, *evidence: tuple[str, str]) -> Condition:
    provenance = Provenance.NOT_OBSERVABLE if reason == "NotObservable" else Provenance.COMPUTED
    return Condition(
        type=CACHE_ATTACHED, status=status, reason=reason, message=message, provenance=provenance, evidence=evidence
    )


def _succeeded(account: EngineAccount) -> bool:
    done = dict(account.operations or ())
    return any(done.get(status, 0.0) > 0 for status in SUCCESSES) or (account.hit_tokens or 0.0) > 0


def _by_accounts(evidence: CacheEvidence) -> Condition | None:
    ready = evidence.ready_replicas
    active = [account for account in evidence.accounts if _succeeded(account)]
    failing = [
        account
        for account in evidence.accounts
        if not _succeeded(account) and sum(count for _, count in account.operations or ()) > 0
    ]
    decided = active or failing
    if not decided:
        return None
    ages = [account.age for account in decided if account.age is not None]
    details = (
        ("decidedBy", "engine-account"),
        ("attribution", "Replica"),
        ("ageSeconds", f"{min(ages):.0f}" if ages else "unknown"),
        ("replicas", f"{len(decided)}/{ready}"),
    )
    if active:
        message = f"{len(active)} of {ready} ready replicas used the store in the window"
        return _cache(Status.TRUE, "CacheActive", message, *details)
    message = f"every store operation of {len(failing)} of {ready} ready replicas failed: they serve without the cache"
    return _cache(Status.FALSE, "CacheOperationsFailing", message, *details)


def _by_events(evidence: CacheEvidence, now: Instant, policy: CachePolicy) -> Condition | None:
    stored = [
        (now.mono - medium.last_stored.mono, medium.medium, stream.source.member)
        for stream in evidence.streams
        for medium in stream.media
        if medium.last_stored is not None
        and is_store_medium(stream.source.engine, medium.medium, pool_is_disk=evidence.pool_is_disk)
    ]
    recent = sorted(found for found in stored if found[0] <= policy.events_within)
    if not recent:
        return None
    age, medium, member = recent[0]
    members = len({name for _, _, name in recent})
    return _cache(
        Status.TRUE,
        "CacheActive",
        f"{member} stored blocks on {medium} {age:.0f} s ago",
        ("decidedBy", "kv-events"),
        ("attribution", "Replica"),
        ("ageSeconds", f"{age:.0f}"),
        ("medium", medium),
        ("members", str(members)),
    )


def _by_levels(kind: str, levels: Sequence[StoreLevel], now: Instant, policy: CachePolicy) -> Condition | None:
    for level in levels:
        if level.value > 0 and level.grew_at is not None and now.mono - level.grew_at.mono <= policy.level_within:
            age = now.mono - level.grew_at.mono
            unproven = (("unproven", level.unproven),) if level.unproven else ()
            return _cache(
                Status.TRUE,
                "CacheActive",
                f"{level.source}: {level.name} grew {age:.0f} s ago; this is the shared domain, not one replica",
                ("decidedBy", kind),
                ("attribution", "SharedDomain"),
                ("ageSeconds", f"{age:.0f}"),
                (level.name, f"{level.value:.0f}"),
                *unproven,
            )
    return None


def _nothing(evidence: CacheEvidence) -> Condition:
    silent = sum(1 for account in evidence.accounts if account.operations is None and account.hit_tokens is None)
    shown = tuple((level.name, f"{level.value:.0f}") for level in (*evidence.store_account, *evidence.binding))
    message = (
        f"{silent} of {evidence.ready_replicas} ready replicas say nothing of store operations and no other evidence "
        "moved; an idle cache looks the same"
    )
    return _cache(Status.UNKNOWN, "NoObservationAvailable", message, *shown)


def publisher_configured(arguments: Iterable[str]) -> bool | None:
    """Whether an engine's rendered arguments configure a KV-event publisher; ``None`` when the value is no JSON object.

    vLLM needs ``enable_kv_cache_events``; SGLang publishes whenever a configuration names a publisher.
    """
    found: bool | None = False
    arguments = list(arguments)
    for position, argument in enumerate(arguments):
        flag, equals, value = argument.partition("=")
        if flag != "--kv-events-config":
            continue
        text = value if equals else next(iter(arguments[position + 1 : position + 2]), "")
        try:
            config = msgspec.json.decode(text.encode())
        except msgspec.DecodeError:
            config = None
        if not isinstance(config, dict):
            found = None
            continue
        enabled = config.get("enable_kv_cache_events", "publisher" in config)
        found = enabled is True and config.get("publisher", "zmq") != "null"
    return found


_SYNCING = {StreamState.SYNCING, StreamState.GAP, StreamState.REPLAYING}
_ORDER = (
    (Status.FALSE, ("Silent", "GapUnrepaired")),
    (Status.UNKNOWN, ("Broken", "Unreachable", "NotSubscribed", "NoReplay", "Syncing")),
    (Status.TRUE, ("Idle", "Receiving")),
)


class LivePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds: silence after which a replay is asked, how long one may take, how long connecting is unremarkable."""

    silence: float = 60.0
    probe: float = 15.0
    connecting: float = 10.0


def stream_live(
    stream: KvStreamSummary, computed_tokens: float | None, now: Instant, policy: LivePolicy
) -> tuple[Status, str, str]:
    """(status, reason, message) of one stream; ``computed_tokens`` are those computed since its last batch."""
    name = f"{stream.source.member or stream.key.member_uid} rank {stream.key.rank}"
    state = stream.state
    if state is StreamState.DETACHED:
        return Status.UNKNOWN, "NotSubscribed", f"{name}: {stream.detail or 'not subscribed'}"
    if state is StreamState.BROKEN:
        return Status.UNKNOWN, "Broken", f"{name}: {stream.detail}"
    if state is StreamState.CONNECTING:
        long = now.mono - stream.since.mono > policy.connecting
        reason = "Unreachable" if long or stream.detail else "Syncing"
        return Status.UNKNOWN, reason, f"{name}: connecting to {stream.source.source.endpoint}; {stream.detail}"
    if state in _SYNCING:
        return Status.UNKNOWN, "Syncing", f"{name}: {state}"
    if state is StreamState.UNREPAIRED:
        return Status.FALSE, "GapUnrepaired", f"{name}: {stream.counters.missed} batches lost beyond the replay buffer"
    threshold = SILENT_BLOCKS * (stream.block_size or _UNKNOWN_BLOCK_SIZE)
    if computed_tokens is not None and computed_tokens >= threshold:
        return Status.FALSE, "Silent", f"{name}: {computed_tokens:.0f} tokens computed without an event"
    quiet = now.mono - stream.last_batch.mono if stream.last_batch is not None else None
    if quiet is not None and quiet <= policy.silence:
        return Status.TRUE, "Receiving", f"{name}: last batch {quiet:.0f} s ago"
    if stream.source.source.replay_endpoint is None:
        return Status.UNKNOWN, "NoReplay", f"{name}: silent, and no replay endpoint could tell why"
    if stream.confirmed is not None and now.mono - stream.confirmed.mono <= policy.silence + policy.probe:
        return (
            Status.TRUE,
            "Idle",
            f"{name}: a replay said {now.mono - stream.confirmed.mono:.0f} s ago that nothing is missing",
        )
    if stream.probe_failures:
        return Status.UNKNOWN, "NoReplay", f"{name}: silent, and its replay endpoint did not answer"
    return Status.UNKNOWN, "Syncing", f"{name}: silent, a replay is being asked"


def kv_events_live(
    streams: Sequence[KvStreamSummary],
    computed_tokens: Mapping[StreamKey, float],
    now: Instant,
    policy: LivePolicy | None = None,
) -> Condition:
    """Whether events arrive from every subscribed publisher; the worst stream decides: False, Unknown, then True."""
    policy = policy or LivePolicy()
    answers = [stream_live(stream, computed_tokens.get(stream.key), now, policy) for stream in streams]
    partial = sum(1 for stream in streams if stream.history != "complete")
    approximate = sum(1 for stream in streams if stream.approximate)
    evidence = (
        ("streams", str(len(streams))),
        ("partialHistory", str(partial)),
        ("approximate", str(approximate)),
        ("missedBatches", str(sum(stream.counters.missed for stream in streams))),
    )
    for status, reasons in _ORDER:
        for reason in reasons:
            found = [message for at, why, message in answers if at is status and why == reason]
            if found:
                more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
                return Condition(
                    type=KV_EVENTS_LIVE, status=status, reason=reason, message=found[0] + more, evidence=evidence
                )
    return Condition(
        type=KV_EVENTS_LIVE,
        status=Status.UNKNOWN,
        reason="NotSubscribed",
        message="no publisher is known to subscribe to",
        evidence=evidence,
    )

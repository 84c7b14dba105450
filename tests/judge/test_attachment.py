"""CacheAttached decides on the strongest evidence and names it; KVEventsLive on the worst stream."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from observer.judge.attachment import (
    CacheEvidence,
    EngineAccount,
    StoreLevel,
    cache_attached,
    kv_events_live,
    publisher_configured,
)
from observer.judge.cache_evidence import engine_account, follow_computed, follow_levels, store_levels
from router_contract.kv_streams import (
    Approximation,
    History,
    KvCounters,
    KvStreamSummary,
    MediumBlocks,
    StreamKey,
    StreamSource,
    StreamState,
)
from router_contract.readings import Instant, SignalValue, State, Window
from router_contract.targets import Component, DeploymentKey, KvEventSource, TargetKey
from router_contract.verdicts import Provenance, Status, TargetReport, TargetState, TargetStatus

NOW = Instant(10_000.0, 1.8e9)
RECORDINGS = Path(__file__).parents[1] / "recordings"
KEY = StreamKey(DeploymentKey("ns", "d"), "uid", 0)


def ago(seconds: float) -> Instant:
    return Instant(NOW.mono - seconds, NOW.wall - seconds)


def stream(
    state: StreamState = StreamState.LIVE, *, engine: str = "vllm", replay: bool = True, **fields: object
) -> KvStreamSummary:
    source = KvEventSource(endpoint="tcp://h:1", replay_endpoint="tcp://h:2" if replay else None)
    known: dict[str, object] = {"since": ago(500), "history": History.COMPLETE, **fields}
    return KvStreamSummary(
        source=StreamSource(key=KEY, member="pod-0", source=source, engine=engine), state=state, **known
    )


def stored(medium: str, seconds: float) -> tuple[MediumBlocks, ...]:
    return (MediumBlocks(medium=medium, blocks=4, stored_events=1, last_stored=ago(seconds)),)


OK = EngineAccount(replica="a", operations=(("ok", 3.0),), age=4.0)
FAILING = EngineAccount(replica="b", operations=(("error", 2.0),), age=2.0)
IDLE = EngineAccount(replica="c", operations=(("ok", 0.0),), age=2.0)
SILENT = EngineAccount(replica="d")
LEVEL = StoreLevel(source="pool", name="store-keys", value=9.0, grew_at=ago(60))

CASES = [
    ("nobody said", {"attached": None}, "Unknown", "NotObservable", None),
    ("no cache", {"attached": False}, "True", "NotApplicable", None),
    ("take-over outranks evidence", {"unmanaged": "decode", "accounts": (OK,)}, "Unknown", "Unmanaged", None),
    ("none ready", {"ready_replicas": 0, "store_account": (LEVEL,)}, "Unknown", "NoReplicaReady", None),
    ("readiness unknown", {"ready_replicas": None, "accounts": (OK,)}, "Unknown", "NotObservable", None),
    ("one succeeds", {"accounts": (FAILING, OK)}, "True", "CacheActive", "engine-account"),
    (
        "hit tokens",
        {"accounts": (EngineAccount(replica="a", hit_tokens=16.0),)},
        "True",
        "CacheActive",
        "engine-account",
    ),
    ("all fail", {"accounts": (FAILING, IDLE)}, "False", "CacheOperationsFailing", "engine-account"),
    (
        "failing outranks events",
        {"accounts": (FAILING,), "streams": (stream(media=stored("STORAGE", 5)),)},
        "False",
        "CacheOperationsFailing",
        "engine-account",
    ),
    ("idle in the window", {"accounts": (IDLE, SILENT)}, "Unknown", "NoObservationAvailable", None),
    ("events to the store", {"streams": (stream(media=stored("STORAGE", 5)),)}, "True", "CacheActive", "kv-events"),
    (
        "sglang external",
        {"streams": (stream(engine="sglang", media=stored("EXTERNAL", 5)),)},
        "True",
        "CacheActive",
        "kv-events",
    ),
    (
        "host tier proves nothing",
        {"streams": (stream(media=stored("CPU", 5)),)},
        "Unknown",
        "NoObservationAvailable",
        None,
    ),
    (
        "a disk that is not the pool",
        {"streams": (stream(engine="sglang", media=stored("DISK", 5)),)},
        "Unknown",
        "NoObservationAvailable",
        None,
    ),
    (
        "a disk that is the pool",
        {"pool_is_disk": True, "streams": (stream(engine="sglang", media=stored("DISK", 5)),)},
        "True",
        "CacheActive",
        "kv-events",
    ),
    ("old events", {"streams": (stream(media=stored("STORAGE", 900)),)}, "Unknown", "NoObservationAvailable", None),
    ("store account moved", {"store_account": (LEVEL,)}, "True", "CacheActive", "store-account"),
    (
        "store account still",
        {"store_account": (msgspec.structs.replace(LEVEL, grew_at=ago(700)),)},
        "Unknown",
        "NoObservationAvailable",
        None,
    ),
    (
        "store level never seen to grow",
        {"store_account": (msgspec.structs.replace(LEVEL, grew_at=None),)},
        "Unknown",
        "NoObservationAvailable",
        None,
    ),
    ("binding moved", {"binding": (LEVEL,)}, "True", "CacheActive", "binding"),
    (
        "events outrank levels",
        {"streams": (stream(media=stored("STORAGE", 5)),), "binding": (LEVEL,)},
        "True",
        "CacheActive",
        "kv-events",
    ),
]


@pytest.mark.parametrize(
    ("fields", "status", "reason", "decided"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_cache_attached(fields, status, reason, decided):
    found = cache_attached(CacheEvidence(**{"attached": True, "ready_replicas": 2, **fields}), NOW)
    assert (found.status, found.reason) == (Status(status), reason)
    evidence = dict(found.evidence)
    assert evidence.get("decidedBy") == decided
    if decided:
        shared = decided in ("store-account", "binding")
        assert evidence["attribution"] == ("SharedDomain" if shared else "Replica")
        assert "ageSeconds" in evidence
    if reason == "NotObservable":
        assert found.provenance is Provenance.NOT_OBSERVABLE


def test_levels_that_do_not_decide_are_shown():
    level = msgspec.structs.replace(LEVEL, grew_at=ago(900))
    found = cache_attached(CacheEvidence(attached=True, ready_replicas=1, store_account=(level,)), NOW)
    assert dict(found.evidence) == {"store-keys": "9"}


LIVE = [
    ("detached", stream(StreamState.DETACHED), None, "Unknown", "NotSubscribed"),
    ("broken", stream(StreamState.BROKEN, detail="bad"), None, "Unknown", "Broken"),
    ("connecting", stream(StreamState.CONNECTING, since=ago(1)), None, "Unknown", "Syncing"),
    ("connecting long", stream(StreamState.CONNECTING, since=ago(30)), None, "Unknown", "Unreachable"),
    ("refused", stream(StreamState.CONNECTING, since=ago(1), detail="nothing"), None, "Unknown", "Unreachable"),
    ("syncing", stream(StreamState.SYNCING), None, "Unknown", "Syncing"),
    ("gap", stream(StreamState.GAP), None, "Unknown", "Syncing"),
    ("replaying", stream(StreamState.REPLAYING), None, "Unknown", "Syncing"),
    ("unrepaired", stream(StreamState.UNREPAIRED, counters=KvCounters(missed=7)), None, "False", "GapUnrepaired"),
    ("receiving", stream(last_batch=ago(5)), 10.0, "True", "Receiving"),
    ("receiving without replay", stream(last_batch=ago(5), replay=False), None, "True", "Receiving"),
    ("idle", stream(last_batch=ago(500), confirmed=ago(30)), 0.0, "True", "Idle"),
    ("idle, never a batch", stream(confirmed=ago(30)), None, "True", "Idle"),
    ("silent while computing", stream(last_batch=ago(5), block_size=16), 64 * 16, "False", "Silent"),
    ("computing less", stream(last_batch=ago(5), block_size=16), 64 * 16 - 1, "True", "Receiving"),
    ("silent before any batch", stream(confirmed=ago(5)), 64 * 128, "False", "Silent"),
    ("quiet without replay", stream(last_batch=ago(61), replay=False), None, "Unknown", "NoReplay"),
    ("quiet, replay dead", stream(last_batch=ago(200), probe_failures=1), None, "Unknown", "NoReplay"),
    ("quiet, being asked", stream(last_batch=ago(61)), None, "Unknown", "Syncing"),
    ("confirmed long ago", stream(last_batch=ago(900), confirmed=ago(200)), None, "Unknown", "Syncing"),
]


@pytest.mark.parametrize(
    ("summary", "tokens", "status", "reason"), [case[1:] for case in LIVE], ids=[c[0] for c in LIVE]
)
def test_kv_events_live(summary, tokens, status, reason):
    found = kv_events_live([summary], {} if tokens is None else {KEY: tokens}, NOW)
    assert (found.status, found.reason) == (Status(status), reason)
    assert "pod-0 rank 0" in found.message


def test_the_worst_stream_decides():
    good, unknown, bad = stream(last_batch=ago(1)), stream(StreamState.SYNCING), stream(StreamState.UNREPAIRED)
    assert kv_events_live([good, unknown], {}, NOW).reason == "Syncing"
    assert kv_events_live([good, unknown, bad], {}, NOW).reason == "GapUnrepaired"
    assert kv_events_live([], {}, NOW).reason == "NotSubscribed"
    partial = stream(last_batch=ago(1), history=History.PARTIAL, approximate=(Approximation.BUDGET,))
    evidence = dict(kv_events_live([good, partial], {}, NOW).evidence)
    assert (evidence["streams"], evidence["partialHistory"], evidence["approximate"]) == ("2", "1", "1")


@pytest.mark.parametrize(
    ("arguments", "configured"),
    [
        ((), False),
        (("--kv-events-config", '{"enable_kv_cache_events":true,"publisher":"zmq"}'), True),
        (('--kv-events-config={"enable_kv_cache_events":true}',), True),
        (("--kv-events-config", '{"enable_kv_cache_events":false,"publisher":"zmq"}'), False),
        (("--kv-events-config", '{"enable_kv_cache_events":true,"publisher":"null"}'), False),
        (("--kv-events-config", '{"publisher":"zmq","topic":"t"}'), True),
        (("--kv-events-config", '{"enable_kv_events":true}'), False),
        (("--kv-events-config", "not json"), None),
        (("--kv-events-config",), None),
        (("--model", "x"), False),
    ],
)
def test_a_publisher_is_configured_by_arguments(arguments, configured):
    assert publisher_configured(arguments) is configured


def report(values: list[SignalValue], member: str = "pod-0") -> TargetReport:
    status = TargetStatus(
        key=TargetKey(DeploymentKey("ns", "d"), "uid", "engine", 1),
        component=Component.ENGINE,
        software="vllm",
        version=None,
        role="r",
        member=member,
        url="http://h",
        state=TargetState.UP,
        age_seconds=3.0,
    )
    return TargetReport(status=status, values=tuple(values))


def moved(signal: str, increase: float, **labels: str) -> SignalValue:
    return SignalValue(
        signal=signal,
        labels=tuple(labels.items()),
        value=100.0,
        state=State.FRESH,
        window=Window(increase=increase, seconds=60.0),
    )


def test_an_engines_account_is_what_moved_in_the_window():
    values = [moved("store-operations", 2.0, status="ok"), moved("external-cache-hits", 32.0)]
    assert engine_account(report(values), measures_store=True) == EngineAccount(
        replica="pod-0", operations=(("ok", 2.0),), hit_tokens=32.0, age=3.0
    )
    assert engine_account(report(values), measures_store=False).hit_tokens is None
    assert engine_account(report([]), measures_store=True) == EngineAccount(replica="pod-0", age=3.0)
    modes = [
        moved("effective-prefill-tokens", 5.0, mode="input"),
        moved("effective-prefill-tokens", 7.0, mode="storage_hit"),
    ]
    assert engine_account(report(modes), measures_store=True).hit_tokens == 7.0


def test_operations_are_added_over_ranks_and_none_has_failed_while_a_success_may_be_hidden():
    def told(*values: SignalValue) -> tuple[tuple[str, float], ...] | None:
        return engine_account(report(list(values)), measures_store=False).operations

    ranks = [moved("store-operations", count, status="ok", rank=rank) for rank, count in (("0", 5.0), ("1", 0.0))]
    failed = moved("store-operations", 3.0, status="failed")
    assert told(*ranks, failed) == (("failed", 3.0), ("ok", 5.0))
    begun = msgspec.structs.replace(ranks[0], window=None)
    assert told(begun, failed) is None
    assert told(begun, failed, moved("store-operations", 1.0, status="partial_failure")) is not None
    assert told(failed) == (("failed", 3.0),)


MOONCAKE = {"store-keys": "master_key_count", "store-allocated-bytes": "master_allocated_bytes"}
LMCACHE = {"store-allocated-bytes": "lmcache_mp_l1_memory_usage_bytes"}


def recorded(path: str, names: dict[str, str]) -> TargetReport:
    """A store's levels as its recording says them."""
    wanted = {name: signal for signal, name in names.items()}
    values = [
        SignalValue(signal=wanted[sample.name], value=sample.value, state=State.FRESH)
        for family in text_string_to_metric_families((RECORDINGS / path).read_text())
        for sample in family.samples
        if sample.name in wanted
    ]
    return report(values)


def judged(paths: list[str], names: dict[str, str]) -> str:
    levels: tuple[StoreLevel, ...] = ()
    for number, path in enumerate(paths):
        at = ago(60.0 * (len(paths) - number))
        levels = follow_levels(levels, "pool", store_levels(recorded(path, names), None), at)
    return cache_attached(CacheEvidence(attached=True, ready_replicas=1, store_account=levels), NOW).reason


@pytest.mark.parametrize(
    ("paths", "names", "reason"),
    [
        (["mooncake-0.3.13.post1/metrics-01-fresh.prom"], MOONCAKE, "NoObservationAvailable"),
        (["mooncake-0.3.13.post1/metrics-02-one-client-data.prom"], MOONCAKE, "NoObservationAvailable"),
        (
            ["mooncake-0.3.13.post1/metrics-01-fresh.prom", "mooncake-0.3.13.post1/metrics-02-one-client-data.prom"],
            MOONCAKE,
            "CacheActive",
        ),
        (
            [
                "mooncake-0.3.13.post1/metrics-04-client-killed-3s.prom",
                "mooncake-0.3.13.post1/metrics-05-client-killed-18s.prom",
            ],
            MOONCAKE,
            "NoObservationAvailable",
        ),
        (["lmcache-0.5.6/metrics-02-after-store.prom"], LMCACHE, "NoObservationAvailable"),
        (["lmcache-0.5.6/metrics-01-fresh.prom", "lmcache-0.5.6/metrics-02-after-store.prom"], LMCACHE, "CacheActive"),
    ],
    ids=["fresh", "first reading", "filled", "client killed", "lmcache first reading", "lmcache filled"],
)
def test_recorded_stores_prove_only_what_grew(paths, names, reason):
    assert judged(paths, names) == reason


def test_tenant_levels_are_of_that_tenant_and_unproven():
    values = [
        SignalValue(signal="store-tenant-charged-bytes", labels=(("tenant", name),), value=value, state=State.FRESH)
        for name, value in {"mine, too": 5.0, "other": 9.0}.items()
    ]
    assert store_levels(report(values), "mine, too") == (
        ("store-tenant-charged-bytes", 5.0, "no recording has tenants"),
    )
    level = StoreLevel(source="p", name="n", value=5.0, grew_at=ago(5), unproven="no recording has tenants")
    found = cache_attached(CacheEvidence(attached=True, ready_replicas=1, store_account=(level,)), NOW)
    assert ("unproven", "no recording has tenants") in found.evidence


def test_tokens_since_the_last_batch_begin_again_with_a_batch_or_a_reset():
    track = follow_computed(None, 3, 100.0)
    assert track.tokens == 0
    track = follow_computed(track, 3, 180.0)
    assert track.tokens == 80
    assert follow_computed(track, 4, 200.0).tokens == 0
    assert follow_computed(track, 3, 10.0).tokens == 0

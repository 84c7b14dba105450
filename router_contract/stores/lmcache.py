"""The LMCache server table (its own process; OpenTelemetry names on its HTTP port).

Counters appear at their first event. ``model_name`` is the model's path, not the served name, so models are not kept
apart. The in-process mode writes ``lmcache:`` families into the engine's exposition instead and was not run.
"""

from router_contract.targets import Component
from router_contract.vocabulary import Absence, Labels, Term, Vocabulary


def _later(signal: str, name: str) -> Term:
    """A counter that appears at its first event; the memory gauge, there from the start, is its pair."""
    return Term(signal=signal, name=name, absence=Absence.NOT_YET, paired="store-allocated-bytes")


_TERMS = (
    Term(signal="store-allocated-bytes", name="lmcache_mp_l1_memory_usage_bytes"),
    Term(
        signal="store-allocated-bytes",
        name="lmcache:local_cache_usage",
        preference=1,
        unproven="the in-process mode was not run",
    ),
    Term(signal="store-usage", name="lmcache_mp_l1_usage_ratio"),
    Term(signal="store-secondary-bytes", name="lmcache_mp_l2_usage_bytes"),
    _later("store-lookups", "lmcache_mp_lookups_requests_total"),
    _later("store-lookup-tokens", "lmcache_mp_lookup_requested_tokens_total"),
    _later("store-hit-tokens", "lmcache_mp_lookup_hit_tokens_total"),
    _later("store-memory-hit-tokens", "lmcache_mp_lookup_hit_l1_tokens_total"),
    _later("store-secondary-hit-tokens", "lmcache_mp_lookup_hit_l2_tokens_total"),
    _later("store-written-chunks", "lmcache_mp_l1_write_chunks_total"),
    _later("store-read-chunks", "lmcache_mp_l1_read_chunks_total"),
    Term(signal="process-start-time", name="process_start_time_seconds"),
)

_IGNORED = """
lmcache_mp_l1_eviction_loop_ticks_total lmcache_mp_event_bus_queue_depth lmcache_mp_event_bus_drain_lag_seconds
lmcache_mp_event_bus_dropped_events_total lmcache_mp_l1_staging_bytes lmcache_mp_l2_store_adapters
lmcache_mp_l2_prefetch_adapters lmcache_mp_active_prefetch_jobs lmcache_mp_active_p2p_lookup_jobs
lmcache_mp_kv_events_log_depth lmcache_mp_l2_prefetch_lookup_requests_total
lmcache_mp_l2_prefetch_lookup_objects_chunks_total lmcache_mp_l2_store_submitted_requests_total
lmcache_mp_l2_store_submitted_objects_chunks_total lmcache_mp_l2_store_completed_requests_total
lmcache_mp_l2_store_completed_objects_chunks_total lmcache_mp_lookup_hit_l1_keys_total
lmcache_mp_lookup_hit_l2_keys_total lmcache_mp_l2_store_throughput_GB_per_second
"""

VOCABULARY = Vocabulary(
    name="lmcache",
    component=Component.STORE,
    aliases=("lmcache-server", "lmcache-mp"),
    labels=Labels(),
    terms=_TERMS,
    prefixes=("lmcache_mp_", "lmcache:"),
    ignored=tuple(_IGNORED.split()),
)

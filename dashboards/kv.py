"""Dashboard 4: KV-event streams, the block index made from them, and whether caches are in effect."""

from __future__ import annotations

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import Panel

from dashboards.frame import dashboard, variables
from dashboards.look import NO_TRAFFIC, STATUS, YES_NO, lines, states
from dashboards.overview import condition_value, hit_ratio
from dashboards.queries import (
    BY_DEPLOYMENT,
    BY_POD,
    BY_RANK,
    DEPLOYMENT,
    DEPLOYMENT_IS,
    POD,
    POD_IS,
    RANK,
    Query,
    age,
    best,
    holds,
    rate,
    ratio,
)

UID = "observer-kv"
PREFIX = "modeldeployment_kv_event"
NOTHING = "no publisher is known, or not known"
MISSING_IS_FINE = "nothing of this kind happened"


def _per_second(name: str, by: str = BY_RANK) -> str:
    return rate(by, f"{name}{{{POD_IS}}}")


def _effect() -> list[Builder[Panel]]:
    conditions = f'modeldeployment_status_condition{{{DEPLOYMENT_IS}, condition=~"CacheAttached|KVEventsPublishing|KVEventsLive"}}'
    reasons = f'modeldeployment_status_condition{{{DEPLOYMENT_IS}, condition="KVEventsLive", reason!=""}} == 1'
    return [
        states("Cache attached, events published and live", "modeldeployment_status_condition CacheAttached, KVEventsPublishing, KVEventsLive.", Query(condition_value(conditions, f"{BY_DEPLOYMENT}, condition"), f"{DEPLOYMENT} {{{{condition}}}}"), texts=STATUS),
        states("Why events are live or not", "modeldeployment_status_condition KVEventsLive: the reason that holds.", Query(best(f"{BY_DEPLOYMENT}, status, reason", reasons), f"{DEPLOYMENT} {{{{status}}}} {{{{reason}}}}")),
        lines("Prefix cache hits, as engines count them", "modeldeployment_prefix_hit_tokens_total against modeldeployment_prefix_query_tokens_total.", Query(hit_ratio(BY_POD, POD_IS), f"{{{{{POD}}}}}"), unit="percentunit", most=1.0, nothing=NO_TRAFFIC, width=24),
    ]  # fmt: skip


def _streams() -> list[Builder[Panel]]:
    complete = best(BY_RANK, f"{PREFIX}_history_complete{{{POD_IS}}}")
    return [
        states("Stream states", f"{PREFIX}_stream_state: where each subscription stands.", Query(holds(BY_RANK, "state", f"{PREFIX}_stream_state", POD_IS), f"{RANK} {{{{state}}}}"), nothing=NOTHING),
        states("Whole history known", f"{PREFIX}_history_complete: everything since the publisher's start or last clear.", Query(complete, RANK), texts=YES_NO, nothing=NOTHING),
        lines("Batches", f"{PREFIX}_batches_total: batches applied per second.", Query(_per_second(f"{PREFIX}_batches_total"), RANK), unit="ops", nothing=NOTHING, width=8),
        lines("Events by type", "modeldeployment_kv_events_total: stored, removed, cleared, and what could not be understood.", Query(_per_second("modeldeployment_kv_events_total", f"{BY_DEPLOYMENT}, type"), f"{DEPLOYMENT} {{{{type}}}}"), unit="ops", stacked=True, nothing=NOTHING, width=8),
        lines("Since the last event", f"{PREFIX}_lag_seconds as the observer counts it, and by {PREFIX}_last_timestamp_seconds against the clock of the store: apart, clocks differ or scrapes are late. An idle engine publishes nothing, so age alone is no fault.", Query(best(BY_RANK, f"{PREFIX}_lag_seconds{{{POD_IS}}}"), RANK), Query(age(BY_RANK, f"{PREFIX}_last_timestamp_seconds{{{POD_IS}}}"), f"{RANK} by this clock"), unit="s", nothing=NOTHING, width=8),
        lines("Sequence", f"{PREFIX}_last_sequence: falls when a publisher restarts.", Query(best(BY_RANK, f"{PREFIX}_last_sequence{{{POD_IS}}}"), RANK), least=None, nothing=NOTHING, width=8),
        lines("New lives of publishers", f"{PREFIX}_resets_total.", Query(best(BY_RANK, f"{PREFIX}_resets_total{{{POD_IS}}}"), RANK), nothing=NOTHING, width=8),
        lines("Sockets made anew", f"{PREFIX}_reconnects_total: a subscription stayed without a connection for long.", Query(best(BY_RANK, f"{PREFIX}_reconnects_total{{{POD_IS}}}"), RANK), nothing=NOTHING, width=8),
        lines("Replays by result", f"{PREFIX}_replays_total: requests for what was missed.", Query(best(f"{BY_RANK}, result", f"{PREFIX}_replays_total{{{POD_IS}}}"), f"{RANK} {{{{result}}}}"), nothing=NOTHING, width=8),
    ]  # fmt: skip


def _losses() -> list[Builder[Panel]]:
    def counted(title: str, text: str, name: str) -> Builder[Panel]:
        query = Query(best(BY_RANK, f"{PREFIX}_{name}_total{{{POD_IS}}}"), RANK)
        return lines(title, f"{PREFIX}_{name}_total: {text}", query, nothing=NOTHING, width=8)

    malformed = best(f"{BY_RANK}, reason", f"{PREFIX}_malformed_total{{{POD_IS}}}")
    return [
        counted("Gaps", "gaps seen in the sequence of batches.", "gaps"),
        counted("Repaired batches", "missing batches that replays brought.", "repaired"),
        counted("Lost batches", "batches lost beyond the publisher's replay buffer.", "missed"),
        counted("Duplicates", "batches received again.", "duplicates"),
        counted("Undecodable batches", "batches that could not be decoded.", "undecodable"),
        lines("Malformed messages", f"{PREFIX}_malformed_total: messages that were no batch, by reason.", Query(malformed, f"{RANK} {{{{reason}}}}"), nothing=MISSING_IS_FINE, width=8),
    ]  # fmt: skip


def _index() -> list[Builder[Panel]]:
    blocks = best(f"{BY_RANK}, tier", f"modeldeployment_kv_index_blocks{{{POD_IS}}}")
    size = (
        f"sum by ({BY_DEPLOYMENT}) ({best(f'{BY_RANK}, tier', f'modeldeployment_kv_index_bytes{{{DEPLOYMENT_IS}}}')})"
    )
    stale = best(f"{BY_RANK}, tier", f"modeldeployment_kv_index_stale_blocks{{{POD_IS}}}")
    lost = age(BY_RANK, f"{PREFIX}_stale_since_timestamp_seconds{{{POD_IS}}}")
    budget = best(BY_DEPLOYMENT, f"modeldeployment_kv_index_budget_bytes{{{DEPLOYMENT_IS}}}")
    approximate = best(f"{BY_RANK}, reason", f"modeldeployment_kv_index_approximate{{{POD_IS}}}")
    return [
        lines("Blocks held by tier", "modeldeployment_kv_index_blocks by Pod, rank and medium, of the streams that are connected.", Query(blocks, f"{RANK} {{{{tier}}}}"), nothing=NOTHING, width=8),
        lines("Stale blocks by tier", "modeldeployment_kv_index_stale_blocks: what a stream without a connection held when it was last heard. No count has it.", Query(stale, f"{RANK} {{{{tier}}}}"), nothing="every stream is connected", width=8),
        lines("Without a connection for", f"{PREFIX}_stale_since_timestamp_seconds: the age of what is stale.", Query(lost, RANK), unit="s", nothing="every stream is connected", width=8),
        lines("Index against its budget", "modeldeployment_kv_index_bytes of a deployment over modeldeployment_kv_index_budget_bytes; past it the index is approximate.", Query(ratio(size, budget), DEPLOYMENT), unit="percentunit", nothing=NOTHING, width=8),
        lines("Index bytes by tier", "modeldeployment_kv_index_bytes: estimated size of our own index.", Query(f"sum by ({BY_DEPLOYMENT}, tier) ({best(f'{BY_RANK}, tier', f'modeldeployment_kv_index_bytes{{{POD_IS}}}')})", f"{DEPLOYMENT} {{{{tier}}}}"), unit="bytes", stacked=True, nothing=NOTHING, width=8),
        lines("Unanchored blocks", "modeldeployment_kv_index_unanchored_blocks: blocks whose parent is not known.", Query(best(BY_RANK, f"modeldeployment_kv_index_unanchored_blocks{{{POD_IS}}}"), RANK), nothing=NOTHING),
        states("Why blocks may differ", "modeldeployment_kv_index_approximate: the reasons that hold.", Query(approximate, f"{RANK} {{{{reason}}}}"), nothing="no index is approximate"),
    ]  # fmt: skip


def build() -> str:
    """The dashboard's JSON."""
    return dashboard(
        UID,
        "Observer / KV cache and events",
        "KV-event streams with what was lost and repaired, the block index, and whether caches are in effect.",
        [
            ("In effect", _effect()),
            ("Streams", _streams()),
            ("Losses and repairs", _losses()),
            ("Block index", _index()),
        ],
        variables(pods=True),
    )

"""Our metric families about KV events and the block index, and about the receiving side.

A family's rows come from the source at the moment of the scrape, so a stream that is gone takes its series along.
``port`` is the publisher's; ``tier`` is the medium as the engine writes it. What is not known has no series.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from exporters.family import DEPLOYMENT, RANK, Family, FamilyType, Row, state_set
from exporters.kv import KvSource
from router_contract.kv_streams import KvStreamSummary, StreamState

_EVENT_TYPES = ("stored", "removed", "cleared", "unknown", "damaged")
Numbers = Callable[[KvStreamSummary], Iterable[tuple[tuple[str, ...], float]]]


def _labels(stream: KvStreamSummary) -> tuple[str, ...]:
    source = stream.source
    key = source.key
    port = source.source.endpoint.rpartition(":")[2]
    return (key.deployment.namespace, key.deployment.name, source.role, source.member, port, str(key.rank))


def kv_families(source: KvSource) -> tuple[Family, ...]:
    """Every family over one source; append them to the table."""

    def family(name: str, text: str, numbers: Numbers, *labels: str, kind: FamilyType = FamilyType.COUNTER) -> Family:
        def rows(_: object) -> Iterator[Row]:
            for stream in source.kv_streams():
                for extra, number in numbers(stream):
                    yield (*_labels(stream), *extra), number

        return Family(name=name, help=text, type=kind, labels=(*RANK, *labels), rows=rows)

    gauge = FamilyType.GAUGE
    return (
        family("modeldeployment_kv_events_total", "KV-cache events applied, by type.", _events, "type"),
        family("modeldeployment_kv_event_batches_total", "Event batches applied.", _one("batches")),
        family("modeldeployment_kv_event_gaps_total", "Gaps seen in the sequence of batches.", _one("gaps")),
        family("modeldeployment_kv_event_missed_total", "Batches lost beyond the replay buffer.", _one("missed")),
        family("modeldeployment_kv_event_repaired_total", "Missing batches that replays brought.", _one("repaired")),
        family("modeldeployment_kv_event_duplicates_total", "Batches received again.", _one("duplicates")),
        family("modeldeployment_kv_event_resets_total", "New lives of a publisher.", _one("resets")),
        family(
            "modeldeployment_kv_event_reconnects_total",
            "Sockets made anew because they stayed unconnected for long.",
            _one("reconnects"),
        ),
        family("modeldeployment_kv_event_undecodable_total", "Batches that could not be decoded.", _one("undecodable")),
        family("modeldeployment_kv_event_replays_total", "Replay requests by what became of them.", _replays, "result"),
        family(
            "modeldeployment_kv_event_malformed_total", "Messages that were no batch, by reason.", _malformed, "reason"
        ),
        family("modeldeployment_kv_event_last_sequence", "The last sequence applied.", _sequence, kind=gauge),
        family(
            "modeldeployment_kv_event_last_timestamp_seconds", "When the last event was applied.", _last, kind=gauge
        ),
        family("modeldeployment_kv_event_lag_seconds", "Age of the last applied event.", _lag(source), kind=gauge),
        family(
            "modeldeployment_kv_event_stale_since_timestamp_seconds",
            "When the connection was lost, of a stream without one that nothing has confirmed since.",
            _stale_since,
            kind=gauge,
        ),
        family("modeldeployment_kv_event_stream_state", "1 at the state of the stream.", _state, "state", kind=gauge),
        family(
            "modeldeployment_kv_event_history_complete", "1 when the whole history is known.", _complete, kind=gauge
        ),
        *_index_families(source, family),
        *_receiver_families(source),
    )


def _index_families(source: KvSource, family: Callable[..., Family]) -> tuple[Family, ...]:
    """What is held, by stream, and what it takes."""
    gauge = FamilyType.GAUGE
    return (
        family(
            "modeldeployment_kv_index_blocks",
            "Blocks held, by tier, of a stream that is connected.",
            _blocks,
            "tier",
            kind=gauge,
        ),
        family(
            "modeldeployment_kv_index_stale_blocks",
            "Blocks last heard of, by tier, of a stream without a connection.",
            _stale_blocks,
            "tier",
            kind=gauge,
        ),
        family("modeldeployment_kv_index_bytes", "Estimated size in our index, by tier.", _bytes, "tier", kind=gauge),
        family("modeldeployment_kv_index_unanchored_blocks", "Blocks whose parent is unknown.", _loose, kind=gauge),
        family(
            "modeldeployment_kv_index_approximate",
            "1 by reason why blocks may differ.",
            _approximate,
            "reason",
            kind=gauge,
        ),
        Family(
            name="modeldeployment_kv_index_budget_bytes",
            help="What a deployment's block index may take; past it the index is approximate.",
            labels=DEPLOYMENT,
            rows=lambda _: _budgets(source),
        ),
    )


def _one(name: str) -> Numbers:
    def numbers(stream: KvStreamSummary) -> Iterator[tuple[tuple[str, ...], float]]:
        yield (), getattr(stream.counters, name)

    return numbers


def _events(stream: KvStreamSummary) -> Iterator[tuple[tuple[str, ...], float]]:
    counts = dict(stream.counters.events)
    for kind in _EVENT_TYPES:
        yield (kind,), counts.get(kind, 0)


def _replays(stream: KvStreamSummary) -> Iterator[tuple[tuple[str, ...], float]]:
    for result, count in stream.counters.replays:
        if result != "asked":  # what was asked is the sum of what became of it
            yield (result,), count


def _malformed(stream: KvStreamSummary) -> Iterator[tuple[tuple[str, ...], float]]:
    for reason, count in stream.counters.malformed:
        yield (reason,), count


def _sequence(stream: KvStreamSummary) -> Iterator[tuple[tuple[str, ...], float]]:
    if stream.last_sequence is not None:
        yield (), stream.last_sequence


def _last(stream: KvStreamSummary) -> Iterator[tuple[tuple[str, ...], float]]:
    if stream.last_event is not None:
        yield (), stream.last_event.wall


def _lag(source: KvSource) -> Numbers:
    def numbers(stream: KvStreamSummary) -> Iterator[tuple[tuple[str, ...], float]]:
        if stream.last_event is not None:
            yield (), max(source.now().mono - stream.last_event.mono, 0.0)

    return numbers


def _state(stream: KvStreamSummary) -> Iterator[tuple[tuple[str, ...], float]]:
    return state_set((), StreamState, stream.state)


def _complete(stream: KvStreamSummary) -> Iterator[tuple[tuple[str, ...], float]]:
    yield (), float(stream.history == "complete")


def _blocks(stream: KvStreamSummary) -> Iterator[tuple[tuple[str, ...], float]]:
    if stream.stale_since is None:
        yield from _held(stream)


def _stale_blocks(stream: KvStreamSummary) -> Iterator[tuple[tuple[str, ...], float]]:
    if stream.stale_since is not None:
        yield from _held(stream)


def _stale_since(stream: KvStreamSummary) -> Iterator[tuple[tuple[str, ...], float]]:
    if stream.stale_since is not None:
        yield (), stream.stale_since.wall


def _held(stream: KvStreamSummary) -> Iterator[tuple[tuple[str, ...], float]]:
    """Of a life of which nothing is known there is no number; what an older one announced is no zero."""
    if stream.synced:
        for medium in stream.media:
            yield (medium.medium,), medium.blocks


def _bytes(stream: KvStreamSummary) -> Iterator[tuple[tuple[str, ...], float]]:
    for medium in stream.media:
        yield (medium.medium,), medium.estimated_bytes


def _loose(stream: KvStreamSummary) -> Iterator[tuple[tuple[str, ...], float]]:
    if stream.synced:
        yield (), stream.unanchored


def _budgets(source: KvSource) -> Iterator[Row]:
    """The budget of each deployment that has a stream; the others have no index."""
    for key in sorted({stream.key.deployment for stream in source.kv_streams()}):
        yield (key.namespace, key.name), source.kv_size(key).budget_bytes


def _approximate(stream: KvStreamSummary) -> Iterator[tuple[tuple[str, ...], float]]:
    for reason in stream.approximate:
        yield (reason,), 1.0


def _receiver_families(source: KvSource) -> tuple[Family, ...]:
    def family(name: str, text: str, field: str, kind: FamilyType) -> Family:
        def rows(_: object) -> Iterator[Row]:
            yield (), getattr(source.kv_receiver(), field)

        return Family(name=name, help=text, type=kind, labels=(), rows=rows)

    gauge, counter = FamilyType.GAUGE, FamilyType.COUNTER
    return (
        family("observer_event_queue_bytes", "Event bytes waiting for the index.", "queued_bytes", gauge),
        family("observer_event_queue_depth", "Event messages waiting for the index.", "queued_messages", gauge),
        family("observer_event_queue_capacity_bytes", "Event bytes that may wait.", "capacity_bytes", gauge),
        family("observer_event_pauses_total", "Times receiving stopped because the queue was full.", "pauses", counter),
        family("observer_event_messages_total", "Event messages received.", "received_messages", counter),
        family(
            "observer_event_discarded_total", "Event messages of streams already gone.", "discarded_messages", counter
        ),
    )

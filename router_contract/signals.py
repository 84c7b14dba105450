"""Canonical signals: what a deployment's programs can tell, whatever each of them calls it.

A signal has an id, a kind, a unit and a rule by which its series combine. The tables in ``engines``, ``routers`` and
``stores`` map wire names to these ids; nothing else in the project knows a wire name. `SIGNALS` is the whole table.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

import msgspec


class Kind(StrEnum):
    """How a signal's numbers behave over time."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"


class Combine(StrEnum):
    """How the values of several ranks, and then of several members, become one.

    ``ADD``: counts. ``WEIGH``: ratios, averaged with the weight signal where it is known and evenly where it is not.
    ``MAX``: the largest. ``EACH``: never combined (info and identity).
    """

    ADD = "add"
    WEIGH = "weigh"
    MAX = "max"
    EACH = "each"


class Signal(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One canonical signal.

    ``unit`` is in base units as published (``requests``, ``tokens``, ``seconds``, ``fraction``, ``bytes``, ``1``).
    ``progress`` marks counters that only work moves: they prove that an engine progresses.
    ``weight`` names the signal that weighs this one under `Combine.WEIGH`.
    """

    id: str
    kind: Kind
    unit: str
    combine: Combine = Combine.ADD
    weight: str | None = None
    progress: bool = False
    meaning: str = ""


def _gauge(name: str, unit: str, meaning: str, combine: Combine = Combine.ADD, weight: str | None = None) -> Signal:
    return Signal(id=name, kind=Kind.GAUGE, unit=unit, combine=combine, weight=weight, meaning=meaning)


def _counter(name: str, unit: str, meaning: str, *, progress: bool = False) -> Signal:
    return Signal(id=name, kind=Kind.COUNTER, unit=unit, progress=progress, meaning=meaning)


def _histogram(name: str, unit: str, meaning: str, *, progress: bool = False) -> Signal:
    return Signal(id=name, kind=Kind.HISTOGRAM, unit=unit, progress=progress, meaning=meaning)


def _info(name: str, meaning: str) -> Signal:
    return Signal(id=name, kind=Kind.INFO, unit="1", combine=Combine.EACH, meaning=meaning)


_LOAD = (
    _gauge("requests-running", "requests", "Requests in the running batch."),
    _gauge("requests-waiting", "requests", "Requests queued for the engine."),
    _gauge("requests-waiting-by-reason", "requests", "The waiting requests by `reason`; they add up to the waiting."),
    _gauge("requests-retracted", "requests", "Requests taken out of the batch for lack of memory, now waiting again."),
    _gauge("requests-paused", "requests", "Requests paused, not waiting for memory."),
    _gauge(
        "kv-cache-usage",
        "fraction",
        "Part of the KV cache held by running requests, 0 to 1; not the data held by the prefix cache.",
        Combine.WEIGH,
        "kv-capacity-blocks",
    ),
    _gauge("kv-capacity-blocks", "blocks", "KV cache blocks (pages) of an engine."),
    _gauge("kv-block-size", "tokens", "Tokens in one KV cache block (page).", Combine.MAX),
    _gauge("kv-capacity-tokens", "tokens", "Tokens that the KV cache of an engine can hold."),
    _gauge("kv-used-tokens", "tokens", "Tokens of the KV cache held by running requests."),
    _gauge("kv-evictable-tokens", "tokens", "Tokens kept only for reuse; refreshed at the engine's logging points."),
    _gauge("kv-available-tokens", "tokens", "Tokens of the KV cache that are free at once."),
    _gauge("context-length", "tokens", "The longest sequence that the engine accepts.", Combine.MAX),
    _gauge("sleep-state", "engines", "Engines in each `state`; a sleeping engine is up and does not serve."),
    _gauge("kv-fetch-requests", "requests", "Requests by `stage` of fetching KV from an external cache."),
)

_TOKENS = (
    _counter("prompt-tokens", "tokens", "Prompt tokens processed.", progress=True),
    _counter("generation-tokens", "tokens", "Tokens generated.", progress=True),
    _histogram("iteration-tokens", "tokens", "Tokens in one engine step; its count is the steps.", progress=True),
    _counter("preemptions", "events", "Times a running request lost its memory and went back to the queue."),
    _counter("requests-finished", "requests", "Requests finished, by `reason` where the engine tells one."),
    _counter("aborted-requests", "requests", "Requests aborted; some engines do not count clients that go away."),
    _counter("corrupted-requests", "requests", "Requests whose output had numbers that are not finite."),
    _counter("admission-rejections", "requests", "Requests refused at the engine's door, by `reason`."),
    _counter("prefix-cache-queries", "tokens", "Tokens looked up in the local prefix cache."),
    _counter("prefix-cache-hits", "tokens", "Tokens found in the local prefix cache."),
    _counter("external-cache-queries", "tokens", "Tokens looked up through the KV connector; 0 without a connector."),
    _counter("external-cache-hits", "tokens", "Tokens found through the KV connector."),
    _counter("multimodal-cache-queries", "items", "Items looked up in the multimodal cache."),
    _counter("multimodal-cache-hits", "items", "Items found in the multimodal cache."),
    _counter(
        "prompt-tokens-by-source", "tokens", "Prompt tokens by the `source` they came from (computed, cached, sent)."
    ),
    _counter("cached-tokens", "tokens", "Prompt tokens that were not computed again."),
    _counter("cached-tokens-by-source", "tokens", "The cached prompt tokens by the tier (`source`) that held them."),
    _counter(
        "effective-prefill-tokens",
        "tokens",
        "Prefilled tokens by `mode`: input computed, device, host and storage hits. Health probes can move it.",
    ),
    _counter("realtime-tokens", "tokens", "Tokens by `mode` as the scheduler handles them. Health probes can move it."),
    _counter("evicted-tokens", "tokens", "Tokens evicted from the device cache."),
)

_LATENCY = (
    _histogram("time-to-first-token", "seconds", "From arrival to the first token."),
    _histogram("inter-token-latency", "seconds", "Between two tokens of one request."),
    _histogram("time-per-output-token", "seconds", "A request's mean time for each token after the first."),
    _histogram("request-duration", "seconds", "From arrival to the last token."),
    _histogram("queue-time", "seconds", "Waiting before the first step."),
    _histogram("inference-time", "seconds", "From the first step to the last token."),
    _histogram("prefill-time", "seconds", "In prefill."),
    _histogram("decode-time", "seconds", "In decode."),
    _histogram("request-prompt-tokens", "tokens", "Prompt tokens of a request."),
    _histogram("request-generation-tokens", "tokens", "Generated tokens of a request."),
    _histogram("request-preemptions", "events", "Preemptions of a request."),
)

_IDENTITY = (
    _info("cache-config", "The engine's cache configuration, as labels that vary by version."),
    _info("build-info", "Which build runs, where the program says."),
    _info("lora-requests", "Adapters running and waiting, as labels."),
    _gauge("process-start-time", "unix-seconds", "When the process started.", Combine.MAX),
)

_LORA_SPECULATION = (
    _gauge("lora-slots", "adapters", "Adapters that fit in device memory."),
    _gauge("lora-slots-used", "adapters", "Adapters in device memory."),
    _gauge("lora-slots-usage", "fraction", "Part of the adapter slots in use.", Combine.WEIGH, "lora-slots"),
    _counter("speculative-drafts", "drafts", "Drafts proposed."),
    _counter("speculative-draft-tokens", "tokens", "Draft tokens proposed."),
    _counter("speculative-accepted-tokens", "tokens", "Draft tokens accepted."),
    _counter("speculative-accepted-by-position", "tokens", "Draft tokens accepted, by `position` in the draft."),
    _gauge("speculative-accepted-length", "tokens", "Tokens accepted at a step, as last logged.", Combine.WEIGH),
    _gauge("speculative-acceptance-rate", "fraction", "Part of the draft accepted, as last logged.", Combine.WEIGH),
)

_DISAGGREGATION = (
    _gauge("prefill-bootstrap-waiting", "requests", "On prefill: waiting for the handshake with the decode half."),
    _gauge("prefill-prealloc-waiting", "requests", "On prefill, older engines: waiting for room on the decode half."),
    _gauge("prefill-inflight", "requests", "On prefill: computed, their KV being sent."),
    _gauge("decode-prealloc-waiting", "requests", "On decode: waiting for room for their KV."),
    _gauge("decode-transfer-waiting", "requests", "On decode: waiting for their KV to arrive."),
    _gauge("decode-host-receive-waiting", "requests", "On decode: their KV arriving in host memory."),
    _histogram("transfer-latency", "milliseconds", "One KV transfer."),
    _histogram("transfer-speed", "GB/second", "Speed of one KV transfer."),
    _histogram("transfer-size", "MB", "Size of one KV transfer."),
    _histogram("transfer-bootstrap-time", "milliseconds", "Handshake before a KV transfer."),
    _histogram("transfer-allocation-time", "milliseconds", "Making room for a KV transfer."),
    _counter("transfer-failures", "requests", "KV transfers that failed."),
    _counter("transfer-receive-failures", "requests", "KV transfers that failed on the receiving side."),
    _counter("transfer-expired", "requests", "Requests whose KV was given up because nobody fetched it in time."),
    _counter("bootstrap-failures", "requests", "Handshakes with the other half that failed."),
)

_TIERS = (
    _gauge("host-cache-capacity-tokens", "tokens", "Tokens that the host tier can hold."),
    _gauge("host-cache-used-tokens", "tokens", "Tokens held by the host tier."),
    _counter("offload-load-tokens", "tokens", "Tokens brought back from the host tier."),
    _counter("offload-store-tokens", "tokens", "Tokens written to the host tier."),
    _counter("offload-load-bytes", "bytes", "Bytes brought back from the host tier."),
    _counter("offload-store-bytes", "bytes", "Bytes written to the host tier."),
    _counter("offload-bytes", "bytes", "Bytes moved to or from the host tier, by `direction`."),
    _counter("offload-allocation-failures", "events", "Times the offload tier had no room."),
    _counter("storage-load-tokens", "tokens", "Tokens fetched from the storage tier."),
    _counter("storage-store-tokens", "tokens", "Tokens written to the storage tier."),
    _counter("storage-hit-tokens", "tokens", "Tokens found in the storage tier by prefetch."),
    _counter("store-operations", "operations", "The engine's operations on an attached store, by `status`."),
    _counter("store-operation-keys", "keys", "Keys of the engine's store operations, by `status`."),
    _counter("store-operation-bytes", "bytes", "Bytes of the engine's store operations, by `status`."),
    _counter("store-operation-failed-keys", "keys", "Keys that the engine's store operations failed on, by `status`."),
    _histogram("store-operation-time", "seconds", "The engine's operations on an attached store."),
    _histogram("store-lookup-time", "seconds", "The engine's look-ups in an attached store."),
)

_ENCODERS = (
    _counter("encoder-requests", "requests", "Requests encoded by an encode engine."),
    _counter("encoder-requests-received", "requests", "Requests received by an encode engine."),
    _histogram("encoder-request-duration", "seconds", "One request on an encode engine."),
    _histogram("encoder-queue-time", "seconds", "Waiting on an encode engine."),
)

_ROUTER_LOAD = (
    _gauge("router-requests-running", "requests", "Requests that the router has sent on and not yet answered."),
    _gauge("router-requests-queued", "requests", "Requests that the router itself holds back."),
    _gauge(
        "router-backends", "backends", "Backends in the router's pool, by its own count; it may differ from its list."
    ),
    _gauge("router-reported-workers", "workers", "Workers registered, healthy or not, by the router's own count."),
    _gauge("router-connections", "connections", "HTTP connections open, the probe's own included."),
    _gauge("router-worker-health", "1", "By `worker`: 1 healthy, 0 not. Series of removed workers stay.", Combine.EACH),
    _gauge(
        "router-worker-circuit",
        "1",
        "By `worker`: 0 closed, 1 open, 2 half-open. Absent until the worker finished a request in some routers.",
        Combine.EACH,
    ),
    _gauge("router-worker-active-requests", "requests", "Requests at each `worker`; only some policies export it."),
    _gauge("router-pd-active-decodes", "requests", "Requests decoding at each `worker`."),
    _gauge("router-pd-pending-decodes", "requests", "Requests waiting for decode at each `worker`."),
    _gauge("router-pd-active-prefill-tokens", "tokens", "Prompt tokens being prefilled at each `worker`."),
    _gauge("router-endpoint-queue-size", "requests", "Requests waiting at each `endpoint`, fresh or not."),
    _gauge(
        "router-average-kv-cache-usage",
        "fraction",
        "Mean over fresh endpoints; not updated without any.",
        Combine.WEIGH,
    ),
    _gauge(
        "router-average-queue-size", "requests", "Mean over fresh endpoints; not updated without any.", Combine.WEIGH
    ),
    _gauge(
        "router-average-requests-running",
        "requests",
        "Mean over fresh endpoints; not updated without any.",
        Combine.WEIGH,
    ),
    _gauge("router-kv-event-subscribers", "publishers", "KV-event publishers that the router is subscribed to."),
)

_ROUTER_TRAFFIC = (
    _counter("router-requests", "requests", "Requests accepted by `route`, failed ones included; aborted ones too."),
    _counter(
        "router-successful-requests", "requests", "Requests answered well, by `route`; probes on proxied paths too."
    ),
    _counter(
        "router-errors", "errors", "Errors that the router counts, by `route` and `error_type`; not upstream 500s."
    ),
    _counter("router-request-errors", "errors", "Requests in error by `error_code`; requests without a model as well."),
    _counter("router-retries", "events", "Attempts after the first, by `route` (and `worker_type`)."),
    _counter(
        "router-retries-exhausted", "events", "Requests given up after the last attempt, by `route` (`worker_type`)."
    ),
    _counter(
        "router-http-responses",
        "responses",
        "Answers by `status_code` and `error_code` on every path, so probes and administration count as well.",
    ),
    _counter("router-http-requests", "requests", "Requests by `path` on every path, so probes count as well."),
    _counter(
        "router-upstream-responses", "responses", "Answers from workers by `status_code`, `error_code`; by attempt."
    ),
    _counter("router-worker-requests", "requests", "Attempts sent to each `worker`."),
    _counter("router-worker-outcomes", "requests", "Attempts finished at each `worker`, by `outcome`."),
    _counter("router-worker-circuit-transitions", "events", "Circuit changes of each `worker`, `from` and `to`."),
    _counter("router-worker-errors", "errors", "Errors of workers by `worker_type` and `error_type`; by attempt."),
    _counter("router-worker-health-checks", "checks", "Health checks by `worker_type` and `result`."),
    _counter(
        "router-pd-requests", "requests", "Requests given to a pair in prefill/decode, failed ones too, by `route`."
    ),
    _counter("router-pd-errors", "errors", "Requests that got no pair in prefill/decode, by `error_type`."),
    _counter("router-pd-prefill-errors", "errors", "Requests that failed or were refused in prefill, by `worker`."),
    _counter("router-pd-decode-errors", "errors", "Requests that failed or were refused in decode, by `worker`."),
    _counter("router-pd-prefill-requests", "requests", "Requests sent to each prefill `worker`."),
    _counter("router-pd-decode-requests", "requests", "Requests sent to each decode `worker`."),
    _counter("router-policy-decisions", "decisions", "Selections by `policy`."),
    _counter("router-prefix-decisions", "decisions", "Prefix routing decisions by `policy`, `stage` and `outcome`."),
    _counter("router-kv-placement-lookups", "lookups", "KV placement look-ups by `result`."),
    _counter("router-cache-hits", "decisions", "Selections that found a prefix at a worker."),
    _counter("router-cache-misses", "decisions", "Selections that found no prefix."),
    _counter("router-scheduler-attempts", "attempts", "Scheduling attempts by `status` and `endpoint`."),
    _counter("router-disaggregation-decisions", "decisions", "Disaggregation decisions by `decision`."),
    _counter("router-kv-event-messages", "messages", "KV-event messages that the router received, by `endpoint`."),
    _counter("router-kv-event-errors", "errors", "Transport errors of the router's KV-event sockets, by `endpoint`."),
    _histogram("router-request-duration", "seconds", "One request at the router."),
    _histogram("router-http-duration", "seconds", "One HTTP request by `path`, probes included."),
    _histogram("router-pd-request-duration", "seconds", "One request in prefill/decode at the router."),
    _histogram("router-time-to-first-token", "seconds", "Time to first token as the router sees it."),
    _histogram("router-time-per-output-token", "seconds", "Time per output token as the router sees it, streaming."),
    _histogram("router-inter-token-latency", "seconds", "Between two tokens as the router sees it, streaming."),
    _histogram("router-prompt-tokens", "tokens", "Prompt tokens of a request as the router sees it."),
    _histogram("router-generation-tokens", "tokens", "Generated tokens of a request as the router sees it."),
    _histogram("router-cached-tokens", "tokens", "Cached prompt tokens of a request as the router sees it."),
)

_STORES = (
    _gauge("store-capacity-bytes", "bytes", "Memory that the store offers; capacity is not data."),
    _gauge("store-allocated-bytes", "bytes", "Memory of the store that holds data."),
    _gauge("store-usage", "fraction", "Part of the store's memory in use.", Combine.WEIGH, "store-capacity-bytes"),
    _gauge("store-secondary-capacity-bytes", "bytes", "What the tier below memory offers."),
    _gauge("store-secondary-bytes", "bytes", "Data in the tier below memory."),
    _gauge("store-keys", "keys", "Objects held."),
    _gauge("store-clients", "clients", "Clients registered."),
    _gauge("store-segment-capacity-bytes", "bytes", "What each client `segment` offers."),
    _gauge("store-segment-allocated-bytes", "bytes", "Data in each client `segment`."),
    _counter("store-evictions", "events", "Eviction rounds that freed something."),
    _counter("store-evicted-keys", "keys", "Objects evicted."),
    _counter("store-evicted-bytes", "bytes", "Bytes evicted."),
    _counter("store-lookups", "lookups", "Look-ups."),
    _counter("store-hits", "lookups", "Look-ups that found data."),
    _counter("store-lookup-tokens", "tokens", "Tokens looked up."),
    _counter("store-hit-tokens", "tokens", "Tokens found."),
    _counter("store-memory-hit-tokens", "tokens", "Tokens found in memory."),
    _counter("store-secondary-hit-tokens", "tokens", "Tokens found in the tier below memory."),
    _counter("store-put-requests", "requests", "Writes begun."),
    _counter("store-put-failures", "requests", "Writes that failed."),
    _counter("store-written-chunks", "chunks", "Chunks written to memory."),
    _counter("store-read-chunks", "chunks", "Chunks read from memory."),
    _gauge("store-allocatable-bytes", "bytes", "What tenants may share out."),
    _gauge("store-tenants-requested-bytes", "bytes", "What all tenants ask for."),
    _gauge("store-tenants-effective-bytes", "bytes", "What all tenants are granted."),
    _gauge("store-tenant-used-bytes", "bytes", "Data of each `tenant`."),
    _gauge("store-tenant-charged-bytes", "bytes", "What each `tenant` is charged for, writes in flight included."),
    _gauge("store-tenant-reserved-bytes", "bytes", "Writes of each `tenant` in flight."),
    _gauge("store-tenant-requested-bytes", "bytes", "What each `tenant` asks for."),
    _gauge("store-tenant-effective-bytes", "bytes", "What each `tenant` is granted."),
    _gauge("store-tenant-objects", "keys", "Committed objects of each `tenant`."),
    _gauge("store-tenant-metadata-objects", "keys", "Objects of each `tenant` in the store's metadata."),
    _gauge("store-tenant-over-quota", "1", "By `tenant`: 1 above its quota.", Combine.EACH),
    _gauge("store-tenant-explicit-policy", "1", "By `tenant`: 1 with a quota of its own.", Combine.EACH),
    _gauge("store-tenant-admission-closed", "1", "By `tenant`: 1 refused new data.", Combine.EACH),
)

_ALL = (
    *_LOAD,
    *_TOKENS,
    *_LATENCY,
    *_IDENTITY,
    *_LORA_SPECULATION,
    *_DISAGGREGATION,
    *_TIERS,
    *_ENCODERS,
    *_ROUTER_LOAD,
    *_ROUTER_TRAFFIC,
    *_STORES,
)

SIGNALS: Mapping[str, Signal] = MappingProxyType({signal.id: signal for signal in _ALL})
"""Every canonical signal by its id. Immutable; the ids are part of the published formats."""

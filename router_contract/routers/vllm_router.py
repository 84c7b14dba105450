"""The vLLM router table.

Facts that shape it: requests count when an answer begins and only successes; a chat that ends in 500 moves nothing but
the exhausted retries, and so does one that ends in 408 or 429; proxied probes (`/metrics`, `/server_info`, `/v1/models` on the API port) count as requests and
selections; the worker count is there before any worker is up and absent in prefill/decode; the health gauge of a
removed worker stays 1; running requests are exported only by some policies and never in prefill/decode. Prefill/decode
has families of its own: its requests include failed and refused ones, and its errors of either half include a worker's
4xx; only a request that got no pair counts among its errors and not among its requests.
"""

from router_contract.endpoints import ViewForm, ViewPath
from router_contract.router_views import ViewSource
from router_contract.targets import Component
from router_contract.vocabulary import Absence, Labels, Term, Vocabulary

_WORKER = (("worker", "worker"),)
_ROUTE = (("route", "route"),)
_COUNTED = "tests/real/test_router_counters.py"


def _later(signal: str, name: str, keep: tuple[tuple[str, str], ...] = (), proven_by: str = "") -> Term:
    """A family that appears at its first use; the health gauge, there from the start, is its pair."""
    return Term(
        signal=signal,
        name=name,
        keep=keep,
        absence=Absence.NOT_YET,
        paired="router-worker-health",
        proven_by=proven_by,
    )


_WORKERS = (
    Term(signal="router-reported-workers", name="vllm_router_active_workers"),
    Term(signal="router-worker-health", name="vllm_router_worker_health", keep=_WORKER),
    Term(signal="router-worker-circuit", name="vllm_router_cb_state", keep=_WORKER),
    Term(signal="router-requests-running", name="vllm_router_running_requests"),
    Term(signal="router-worker-active-requests", name="vllm_router_running_requests", keep=_WORKER),
    Term(signal="router-pd-active-decodes", name="vllm_router_pd_active_decode_requests", keep=_WORKER),
    Term(signal="router-pd-pending-decodes", name="vllm_router_pd_pending_decode_requests", keep=_WORKER),
    Term(signal="router-pd-active-prefill-tokens", name="vllm_router_pd_active_prefill_tokens", keep=_WORKER),
)

_TRAFFIC = (
    _later("router-successful-requests", "vllm_router_requests_total", _ROUTE),
    _later("router-errors", "vllm_router_request_errors_total", (("route", "route"), ("error_type", "error_type"))),
    _later("router-retries", "vllm_router_retries_total", _ROUTE),
    _later("router-retries-exhausted", "vllm_router_retries_exhausted_total", _ROUTE),
    _later("router-worker-requests", "vllm_router_processed_requests_total", _WORKER),
    _later("router-worker-outcomes", "vllm_router_cb_outcomes_total", (*_WORKER, ("outcome", "outcome"))),
    _later(
        "router-worker-circuit-transitions",
        "vllm_router_cb_state_transitions_total",
        (*_WORKER, ("from", "from"), ("to", "to")),
    ),
    _later("router-policy-decisions", "vllm_router_policy_decisions_total", (("policy", "policy"),)),
    _later(
        "router-prefix-decisions",
        "vllm_router_prefix_routing_decisions_total",
        (("policy", "policy"), ("stage", "stage"), ("outcome", "outcome")),
    ),
    # `missing_tokens` on every request: the KV-aware policy silently does nothing.
    _later("router-kv-placement-lookups", "vllm_router_kv_placement_lookups_total", (("result", "result"),)),
    _later("router-request-duration", "vllm_router_generate_duration_seconds"),
)

# Absence is "not yet" in either mode: outside prefill/decode these never move, so they never appear.
_PREFILL_DECODE = (
    _later("router-pd-requests", "vllm_router_pd_requests_total", _ROUTE),
    _later("router-pd-errors", "vllm_router_pd_errors_total", (("error_type", "error_type"),), _COUNTED),
    _later("router-pd-prefill-errors", "vllm_router_pd_prefill_errors_total", _WORKER, _COUNTED),
    _later("router-pd-decode-errors", "vllm_router_pd_decode_errors_total", _WORKER, _COUNTED),
    _later("router-pd-prefill-requests", "vllm_router_pd_prefill_requests_total", _WORKER),
    _later("router-pd-decode-requests", "vllm_router_pd_decode_requests_total", _WORKER),
    _later("router-pd-request-duration", "vllm_router_pd_request_duration_seconds"),
)

_IGNORED = """
vllm_router_retry_backoff_duration_seconds vllm_router_kv_routing_inputs_total vllm_router_pd_decode_pending_seconds
vllm_router_pd_prefill_occupancy vllm_router_pd_unknown_prefill_requests
"""

VOCABULARY = Vocabulary(
    name="vllm_router",
    component=Component.ROUTER,
    aliases=("vllm-router",),
    labels=Labels(),
    terms=(*_WORKERS, *_TRAFFIC, *_PREFILL_DECODE),
    prefixes=("vllm_router_",),
    ignored=tuple(_IGNORED.split()),
    inference_routes=(
        "/generate",
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/v1/embeddings",
        "/v1/rerank",
    ),
    views=(
        # Without the route it goes to an engine, moves the counters and is an outcome of that worker's circuit.
        ViewPath(
            source=ViewSource.OBSERVER_ENDPOINTS, form=ViewForm.OBSERVER, path="/observer/endpoints", proxied=True
        ),
        ViewPath(source=ViewSource.WORKERS_API, form=ViewForm.WORKERS, path="/workers"),
        ViewPath(source=ViewSource.WORKERS_API, form=ViewForm.URLS, path="/list_workers"),
    ),
)

"""The SGLang gateway table (sglang-router): ``smg_`` names and the older ``sgl_router_`` ones.

Facts that shape it: series appear at their first use, in changing order; the circuit and health gauges of a removed
worker stay at -1; the pool gauge counts registered workers, healthy or not; the active gauge exists only with the
cache-aware policy or in prefill/decode; in prefill/decode an exhausted request counts once for each half. Its request
errors are answers that it passed on without a retry: `backend_error` for a 5xx, any other type for a 4xx. Which release
renamed the prefix was not looked at, so presence decides, not the version. A router of the same origin that is still
older or newer labels workers ``worker_url`` instead of ``worker``.
"""

from router_contract.endpoints import ViewForm, ViewPath
from router_contract.router_views import ViewSource
from router_contract.targets import Component
from router_contract.vocabulary import Absence, Labels, Matcher, Term, Vocabulary

_NEWER = "a newer router read only in public code"
_WORKER = (("worker", "worker"),)
_WORKER_URL = (("worker", "worker_url"),)
_HAS_WORKER = (Matcher("worker", ("",), negate=True),)
_HAS_WORKER_URL = (Matcher("worker_url", ("",), negate=True),)
_REMOVED = (-1.0,)
_ROUTE = (("route", "endpoint"),)
_RETRY = (("route", "endpoint"), ("worker_type", "worker_type"))


def _later(signal: str, name: str, keep: tuple[tuple[str, str], ...] = (), proven_by: str = "") -> Term:
    """A family that appears at its first use; the connections gauge, there from the start, is its pair."""
    return Term(
        signal=signal,
        name=name,
        keep=keep,
        absence=Absence.NOT_YET,
        paired="router-connections",
        proven_by=proven_by,
    )


def _older(
    signal: str, name: str, keep: tuple[tuple[str, str], ...] = (), paired: str = "router-worker-health"
) -> Term:
    """The older name of the same; 0.1 has no health gauge, so families only 0.2 showed are paired with that."""
    return Term(signal=signal, name=name, keep=keep, preference=1, absence=Absence.NOT_YET, paired=paired)


_WORKERS = (
    Term(signal="router-connections", name="smg_http_connections_active"),
    # The peer's name for it; it counts registered workers and was seen at 1 with two prefill workers.
    Term(signal="router-backends", name="smg_worker_pool_size"),
    # 0 with two healthy workers in 0.2.4: never a worker list.
    Term(signal="router-reported-workers", name="sgl_router_active_workers"),
    Term(signal="router-reported-workers", name="sgl_router_workers", preference=1, unproven=_NEWER),
    Term(signal="router-worker-health", name="smg_worker_health", keep=_WORKER, sentinels=_REMOVED),
    Term(
        signal="router-worker-health",
        name="sgl_router_worker_health",
        match=_HAS_WORKER,
        keep=_WORKER,
        sentinels=_REMOVED,
        preference=1,
    ),
    Term(
        signal="router-worker-health",
        name="sgl_router_worker_health",
        match=_HAS_WORKER_URL,
        keep=_WORKER_URL,
        sentinels=_REMOVED,
        preference=2,
        unproven=_NEWER,
    ),
    Term(signal="router-worker-circuit", name="smg_worker_cb_state", keep=_WORKER, sentinels=_REMOVED),
    Term(
        signal="router-worker-circuit",
        name="sgl_router_cb_state",
        keep=_WORKER,
        sentinels=_REMOVED,
        preference=1,
    ),
    # Absence says nothing here: the policy decides whether they exist.
    Term(signal="router-requests-running", name="smg_worker_requests_active"),
    Term(signal="router-requests-running", name="sgl_router_running_requests", preference=1),
    Term(signal="router-requests-running", name="sgl_router_worker_inflight_requests", preference=2, unproven=_NEWER),
    Term(signal="router-worker-active-requests", name="smg_worker_requests_active", keep=_WORKER),
    Term(signal="router-worker-active-requests", name="sgl_router_running_requests", keep=_WORKER, preference=1),
    Term(
        signal="router-worker-active-requests",
        name="sgl_router_worker_inflight_requests",
        keep=_WORKER_URL,
        preference=2,
        unproven=_NEWER,
    ),
)

_TRAFFIC = (
    _later("router-requests", "smg_router_requests_total", _ROUTE),
    _later(
        "router-errors",
        "smg_router_request_errors_total",
        (("route", "endpoint"), ("error_type", "error_type")),
        "tests/real/test_router_counters.py",
    ),
    _later("router-retries", "smg_worker_retries_total", _RETRY),
    _later("router-retries-exhausted", "smg_worker_retries_exhausted_total", _RETRY),
    _later(
        "router-http-responses",
        "smg_http_responses_total",
        (("status_code", "status_code"), ("error_code", "error_code")),
    ),
    _later("router-http-requests", "smg_http_requests_total", (("path", "path"), ("method", "method"))),
    _later(
        "router-upstream-responses",
        "smg_router_upstream_responses_total",
        (("status_code", "status_code"), ("error_code", "error_code")),
    ),
    _later("router-worker-outcomes", "smg_worker_cb_outcomes_total", (*_WORKER, ("outcome", "outcome"))),
    _later(
        "router-worker-circuit-transitions",
        "smg_worker_cb_transitions_total",
        (*_WORKER, ("from", "from"), ("to", "to")),
    ),
    _later(
        "router-worker-errors",
        "smg_worker_errors_total",
        (("worker_type", "worker_type"), ("error_type", "error_type")),
    ),
    _later(
        "router-worker-health-checks",
        "smg_worker_health_checks_total",
        (("worker_type", "worker_type"), ("result", "result")),
    ),
    _later(
        "router-policy-decisions",
        "smg_worker_selection_total",
        (("policy", "policy"), ("worker_type", "worker_type")),
    ),
    _later("router-request-duration", "smg_router_request_duration_seconds"),
    _later("router-http-duration", "smg_http_request_duration_seconds", (("path", "path"),)),
)

_OLDER_TRAFFIC = (
    # Successes only in 0.2.4; what 0.1.9 counts was not established (its numbers fit neither reading).
    _older("router-successful-requests", "sgl_router_requests_total", (("route", "route"),), "router-reported-workers"),
    _older(
        "router-errors",
        "sgl_router_request_errors_total",
        (("route", "route"), ("error_type", "error_type")),
        "router-reported-workers",
    ),
    _older("router-retries", "sgl_router_retries_total", (("route", "route"),)),
    _older("router-retries-exhausted", "sgl_router_retries_exhausted_total", (("route", "route"),)),
    _older("router-http-responses", "sgl_router_http_responses_total", (("status_code", "status_code"),)),
    _older("router-worker-outcomes", "sgl_router_cb_outcomes_total", (*_WORKER, ("outcome", "outcome"))),
    _older("router-policy-decisions", "sgl_router_policy_decisions_total", (("policy", "policy"),)),
    _older("router-worker-requests", "sgl_router_processed_requests_total", _WORKER, "router-reported-workers"),
    _older("router-cache-hits", "sgl_router_cache_hits_total", (), "router-reported-workers"),
    _older("router-cache-misses", "sgl_router_cache_misses_total", (), "router-reported-workers"),
    _older("router-request-duration", "sgl_router_generate_duration_seconds", (), "router-reported-workers"),
)

_IGNORED = """
smg_http_inflight_request_age_count smg_worker_cb_consecutive_failures smg_worker_cb_consecutive_successes
smg_worker_retry_backoff_seconds sgl_router_job_duration_seconds sgl_router_job_queue_depth
sgl_router_job_success_total sgl_router_retry_backoff_duration_seconds
"""

VOCABULARY = Vocabulary(
    name="sglang_gateway",
    component=Component.ROUTER,
    aliases=("sglang-gateway", "smg", "sglang-router", "sgl-router", "sglang-model-gateway"),
    # `model` is what the client sent, known or not, so a router's models are not kept apart.
    labels=Labels(),
    terms=(*_WORKERS, *_TRAFFIC, *_OLDER_TRAFFIC),
    prefixes=("smg_", "sgl_router_"),
    ignored=tuple(_IGNORED.split()),
    inference_routes=(
        "chat",
        "completions",
        "generate",
        "responses",
        "embeddings",
        "rerank",
        "/generate",
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/v1/embeddings",
        "/v1/rerank",
    ),
    views=(
        ViewPath(source=ViewSource.OBSERVER_ENDPOINTS, form=ViewForm.OBSERVER, path="/observer/endpoints"),
        ViewPath(source=ViewSource.WORKERS_API, form=ViewForm.WORKERS, path="/workers"),
        ViewPath(source=ViewSource.WORKERS_API, form=ViewForm.URLS, path="/list_workers"),
    ),
)

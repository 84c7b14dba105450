"""The llm-d router (endpoint picker) table: names of the current releases and the older ones written beside them.

The program was never run here: every row comes from its metric definitions and prints as unproven. Old and new names
are exposed at once and count once. Ready endpoints are those whose scraped metrics are fresh, not ready Pods; with none
the averages keep their last values and the per-endpoint family vanishes. Label vectors are absent before their first
request.
"""

from router_contract.endpoints import Listener, ViewForm, ViewPath
from router_contract.router_views import ViewSource
from router_contract.targets import Component
from router_contract.vocabulary import Absence, Labels, Term, Vocabulary

_NOT_RUN = "the program was never run; names are from its metric definitions"
_FIRST = "0.9.0"
_NEW = "llm_d_epp_"
_OBJECTIVE = "inference_objective_"
_POOL = "inference_pool_"
_EXTENSION = "inference_extension_"

_Keep = tuple[tuple[str, str], ...]


def _level(
    signal: str, new: str, old: str | None = None, keep: _Keep = (), old_keep: _Keep | None = None
) -> list[Term]:
    """A level under its current name and, where there was one, its older name."""
    terms = [Term(signal=signal, name=_NEW + new, keep=keep, since=_FIRST, unproven=_NOT_RUN)]
    if old is not None:
        kept = keep if old_keep is None else old_keep
        terms.append(Term(signal=signal, name=old, keep=kept, preference=1, unproven=_NOT_RUN))
    return terms


def _vector(
    signal: str, new: str, old: str | None = None, keep: _Keep = (), old_keep: _Keep | None = None
) -> list[Term]:
    """A label vector, absent before its first request; the ready-endpoints gauge is its pair."""
    terms = [
        Term(
            signal=signal,
            name=_NEW + new,
            keep=keep,
            since=_FIRST,
            absence=Absence.NOT_YET,
            paired="router-backends",
            unproven=_NOT_RUN,
        )
    ]
    if old is not None:
        terms.append(
            Term(
                signal=signal,
                name=old,
                keep=keep if old_keep is None else old_keep,
                preference=1,
                absence=Absence.NOT_YET,
                paired="router-backends",
                unproven=_NOT_RUN,
            )
        )
    return terms


_POOLS = (
    *_level("router-backends", "ready_endpoints", _POOL + "ready_pods"),
    *_level("router-average-kv-cache-usage", "average_kv_cache_utilization", _POOL + "average_kv_cache_utilization"),
    *_level("router-average-queue-size", "average_queue_size", _POOL + "average_queue_size"),
    *_level("router-average-requests-running", "average_running_requests", _POOL + "average_running_requests"),
    *_level(
        "router-endpoint-queue-size",
        "per_endpoint_queue_size",
        _POOL + "per_pod_queue_size",
        (("endpoint", "model_server_endpoint"),),
        (("endpoint", "model_server_pod"),),
    ),
    *_level("router-requests-queued", "flow_control_queue_size", _EXTENSION + "flow_control_queue_size"),
    *_level("router-worker-active-requests", "inflight_requests", keep=(("worker", "endpoint_name"),)),
    *_level("build-info", "info", _EXTENSION + "info"),
    *_level("router-kv-event-subscribers", "kv_cache_events_active_subscribers"),
)

_TRAFFIC = (
    *_vector("router-requests", "request_total", _OBJECTIVE + "request_total"),
    # Requests without a model count here as well: no ratio of the two means anything.
    *_vector(
        "router-request-errors",
        "request_error_total",
        _OBJECTIVE + "request_error_total",
        (("error_code", "error_code"),),
    ),
    *_vector("router-requests-running", "request_running", _OBJECTIVE + "running_requests"),
    *_vector(
        "router-scheduler-attempts",
        "scheduler_attempts_total",
        _EXTENSION + "scheduler_attempts_total",
        (("status", "status"), ("endpoint", "endpoint_name")),
        (("status", "status"), ("endpoint", "pod_name")),
    ),
    *_vector(
        "router-disaggregation-decisions",
        "disagg_decision_total",
        "llm_d_inference_scheduler_disagg_decision_total",
        (("decision", "decision_type"),),
    ),
    Term(
        signal="router-disaggregation-decisions",
        name="llm_d_inference_scheduler_pd_decision_total",
        keep=(("decision", "decision_type"),),
        preference=2,
        absence=Absence.NOT_YET,
        paired="router-backends",
        unproven=_NOT_RUN,
    ),
    *_vector(
        "router-kv-event-messages",
        "kv_cache_events_messages_received_total",
        keep=(("endpoint", "pod_identifier"),),
    ),
    *_vector("router-kv-event-errors", "kv_cache_events_zmq_errors_total", keep=(("endpoint", "pod_identifier"),)),
)

_LATENCY = (
    *_vector("router-request-duration", "request_duration_seconds", _OBJECTIVE + "request_duration_seconds"),
    *_vector("router-time-to-first-token", "request_ttft_seconds", _OBJECTIVE + "request_ttft_seconds"),
    *_vector("router-time-per-output-token", "request_streaming_tpot_seconds", _OBJECTIVE + "request_tpot_seconds"),
    *_vector("router-inter-token-latency", "request_streaming_itl_seconds"),
    *_vector("router-prompt-tokens", "request_input_tokens", _OBJECTIVE + "input_tokens"),
    *_vector("router-generation-tokens", "request_output_tokens", _OBJECTIVE + "output_tokens"),
    *_vector("router-cached-tokens", "request_cached_tokens", _OBJECTIVE + "prompt_cached_tokens"),
)

_IGNORED = """
llm_d_epp_std_dev_kv_cache_utilization llm_d_epp_std_dev_queue_size llm_d_epp_std_dev_running_requests
llm_d_epp_request_size_bytes llm_d_epp_response_size_bytes llm_d_epp_request_ntpot_seconds llm_d_epp_inflight_tokens
inference_objective_normalized_time_per_output_token_seconds llm_d_epp_scheduler_e2e_duration_seconds
llm_d_epp_plugin_duration_seconds inference_extension_scheduler_e2e_duration_seconds
inference_extension_plugin_duration_seconds llm_d_epp_model_rewrite_decisions_total
inference_extension_model_rewrite_decisions_total
"""

VOCABULARY = Vocabulary(
    name="llm_d",
    component=Component.ROUTER,
    aliases=("llm-d-router", "llm-d-epp", "llm-d-inference-scheduler", "epp"),
    labels=Labels(),
    terms=(*_POOLS, *_TRAFFIC, *_LATENCY),
    prefixes=(
        "llm_d_epp_",
        "llm_d_inference_scheduler_",
        "inference_objective_",
        "inference_pool_",
        "inference_extension_",
    ),
    ignored=tuple(_IGNORED.split()),
    version_terms=(("llm_d_epp_info", "build_ref"),),
    views=(
        ViewPath(
            source=ViewSource.OBSERVER_ENDPOINTS,
            form=ViewForm.OBSERVER_JOURNAL,
            path="/observer/endpoints",
            listener=Listener.METRICS,
        ),
        ViewPath(
            source=ViewSource.SERIES,
            form=ViewForm.PLUGIN_STATE,
            path="/debug/plugins/state",
            listener=Listener.METRICS,
        ),
    ),
)

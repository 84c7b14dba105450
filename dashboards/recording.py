"""Recording rules: what dashboards of many deployments and scalers ask often, named level:metric:operation."""

from __future__ import annotations

from typing import Final

from dashboards.rule import Recording

_DEPLOYMENT: Final = "cluster, <ns>, deployment"
_ROLE: Final = f"{_DEPLOYMENT}, role"


def _busiest(name: str) -> str:
    """The busiest role's increase: a request of a disaggregated deployment passes each role once."""
    return f"max by ({_DEPLOYMENT}) (sum by ({_ROLE}) (rate({name}[5m])))"


def _quantile(name: str, share: float) -> str:
    return (
        f"histogram_quantile({share}, sum by ({_ROLE}, le) (rate({name}_bucket[5m])))\n"
        f"and on ({_ROLE}) (sum by ({_ROLE}) (rate({name}_count[5m])) > 0)"
    )


def _share(part: str, whole: str, by: str) -> str:
    return f"sum by ({by}) (rate({part}[5m]))\n/ (sum by ({by}) (rate({whole}[5m])) > 0)"


RECORDINGS: Final = (
    Recording(name="deployment:requests_finished:rate5m", expr=_busiest("modeldeployment_requests_finished_total")),
    Recording(name="deployment:input_tokens:rate5m", expr=_busiest("modeldeployment_input_tokens_total")),
    Recording(name="deployment:output_tokens:rate5m", expr=_busiest("modeldeployment_output_tokens_total")),
    Recording(
        name="deployment:prefix_hits:ratio_rate5m",
        expr=_share(
            "modeldeployment_prefix_hit_tokens_total", "modeldeployment_prefix_query_tokens_total", _DEPLOYMENT
        ),
    ),
    Recording(
        name="role:time_to_first_token_seconds:p95_rate5m",
        expr=_quantile("modeldeployment_time_to_first_token_seconds", 0.95),
    ),
    Recording(
        name="role:inter_token_latency_seconds:p95_rate5m",
        expr=_quantile("modeldeployment_inter_token_latency_seconds", 0.95),
    ),
    Recording(
        name="role:queue_time_seconds:mean_rate5m",
        expr=_share("modeldeployment_queue_time_seconds_sum", "modeldeployment_queue_time_seconds_count", _ROLE),
    ),
    Recording(
        name="role:requests_waiting:sum",
        expr=f"sum by ({_ROLE}) (max by ({_ROLE}, <pod>, rank) (modeldeployment_requests_waiting))",
    ),
    Recording(
        name="role:kv_cache_usage:max",
        expr=f"max by ({_ROLE}) (modeldeployment_kv_cache_usage_ratio)",
    ),
)

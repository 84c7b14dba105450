"""The alerts about deployments and about the observer itself.

Each fires on a fact only: on a condition that is False, on a number that is there. What is not known has no series, so
it fires nothing, except the two alerts about not knowing, which want traffic beside it. Nothing fires while a deployment
is being deleted.
"""

from __future__ import annotations

from typing import Final

from dashboards.alerts_self import SELF
from dashboards.rule import Alert

_BY: Final = "cluster, <ns>, deployment"
_RANK: Final = f"{_BY}, role, <pod>, rank"
_STAYS: Final = f'\nunless on ({_BY}) (modeldeployment_status_phase{{phase="Deleting"}} == 1)'
_NAME: Final = "{{ $labels.<ns> }}/{{ $labels.deployment }}"
_POD: Final = f"{{{{ $labels.<pod> }}}} of {_NAME}"
_LOOK: Final = "`observer explain {{ $labels.deployment }} -n {{ $labels.<ns> }}`"
_ROUTER: Final = "{{ $labels.router }} of " + _NAME


def _condition(kind: str, status: str, reason: str = "") -> str:
    wanted = f', reason="{reason}"' if reason else ""
    return f'max by ({_BY}) (modeldeployment_status_condition{{condition="{kind}", status="{status}"{wanted}}}) == 1'


_TRAFFIC: Final = f"\nand on ({_BY}) (sum by ({_BY}) (rate(modeldeployment_input_tokens_total[10m])) > 0)"
_NEW_VERSION: Final = """
(
  max by (cluster, software, version) (observer_missing_signals)
  unless on (cluster, software, version) (observer_missing_signals offset 2h)
)
> on (cluster, software) group_left ()
max by (cluster, software) (observer_missing_signals offset 2h)
and on (cluster, software, version)
label_replace(
  label_replace(
    sum by (cluster, engine, engine_version) (
      sum by (cluster, <ns>, deployment, role, <pod>, port) (rate(modeldeployment_input_tokens_total[10m]))
      * on (cluster, <ns>, deployment, role, <pod>, port) group_left (engine, engine_version)
      max by (cluster, <ns>, deployment, role, <pod>, port, engine, engine_version) (modeldeployment_endpoint_info)
    ) > 0,
    "software", "$1", "engine", "(.*)"
  ),
  "version", "$1", "engine_version", "(.*)"
)
"""

_SERVING: Final = (
    Alert(
        name="EndpointUpNotServing",
        group="serving",
        expr=f"max by ({_RANK}) (modeldeployment_endpoint_stall_seconds) > 120{_STAYS}",
        lasting="1m",
        severity="critical",
        summary=f"{_POD} has work and makes no progress",
        description=f"Its counters have not moved for {{{{ $value | humanizeDuration }}}} although requests run or wait. It still answers. Look with {_LOOK}.",
        dashboard="observer-roles",
    ),
    Alert(
        name="DeploymentNoEligibleEndpoints",
        group="serving",
        expr=f'max by ({_BY}, role) (modeldeployment_replicas{{state="eligible"}}) == 0\n'
        f'and max by ({_BY}, role) (modeldeployment_replicas{{state="desired"}}) > 0{_STAYS}',
        lasting="2m",
        severity="critical",
        summary=f"role {{{{ $labels.role }}}} of {_NAME} has no endpoint that may get traffic",
        description=f"Every replica of the role is known not to be eligible. Look with {_LOOK}.",
        dashboard="observer-roles",
    ),
    Alert(
        name="EligibleBelowDesired",
        group="serving",
        expr=f'(max by ({_BY}, role) (modeldeployment_replicas{{state="eligible"}}) > 0)\n'
        f'< max by ({_BY}, role) (modeldeployment_replicas{{state="desired"}}){_STAYS}',
        lasting="15m",
        severity="warning",
        summary=f"role {{{{ $labels.role }}}} of {_NAME} has fewer eligible replicas than wanted",
        description=f"{{{{ $value }}}} replicas are eligible, fewer than are wanted. Look with {_LOOK}.",
        dashboard="observer-roles",
    ),
    Alert(
        name="MetricsStale",
        group="serving",
        expr=_condition("MetricsFresh", "false") + _STAYS,
        lasting="2m",
        severity="warning",
        summary=f"what is known about {_NAME} is old",
        description="A target that answered before has not answered for more than two periods and a timeout. "
        "Look with `observer targets -n {{ $labels.<ns> }}`.",
        dashboard="observer-overview",
    ),
    Alert(
        name="MetricFamilyMissing",
        group="serving",
        expr=_NEW_VERSION,
        lasting="30m",
        severity="warning",
        summary="{{ $labels.software }} {{ $labels.version }} lacks signals that earlier versions had",
        description="{{ $value }} signals of the table are not in its answers, more than of any version two hours ago, "
        "while it serves. A metric was renamed or removed. Look with `observer targets -A -o wide`.",
        dashboard="observer-self",
        choice=(),
    ),
    Alert(
        name="KVCacheSaturated",
        group="serving",
        expr=f"max by ({_RANK}) (modeldeployment_kv_cache_usage_ratio) > 0.95\n"
        f"and max by ({_RANK}) (modeldeployment_requests_waiting) > 0{_STAYS}",
        lasting="10m",
        severity="warning",
        summary=f"the KV cache of {_POD} is full and requests wait",
        description="{{ $value | humanizePercentage }} of its blocks are in use by running requests. "
        "Look with `observer metrics {{ $labels.deployment }} -n {{ $labels.<ns> }}`.",
        dashboard="observer-roles",
    ),
    Alert(
        name="QueueTimeHigh",
        group="serving",
        expr=f"sum by ({_BY}, role) (rate(modeldeployment_queue_time_seconds_sum[5m]))\n"
        f"/ (sum by ({_BY}, role) (rate(modeldeployment_queue_time_seconds_count[5m])) > 0) > 30{_STAYS}",
        lasting="15m",
        severity="warning",
        summary=f"requests wait long in role {{{{ $labels.role }}}} of {_NAME}",
        description="They waited {{ $value | humanizeDuration }} on average before an engine began them. "
        "Look with `observer metrics {{ $labels.deployment }} -n {{ $labels.<ns> }}`.",
        dashboard="observer-roles",
    ),
    Alert(
        name="PreemptionsSustained",
        group="serving",
        expr=f"sum by ({_BY}, role) (rate(modeldeployment_preemptions_total[10m])) > 0.1{_STAYS}",
        lasting="15m",
        severity="warning",
        summary=f"role {{{{ $labels.role }}}} of {_NAME} goes on preempting requests",
        description="{{ $value | humanize }} requests a second lose their KV blocks to others and are computed again. "
        "Look with `observer metrics {{ $labels.deployment }} -n {{ $labels.<ns> }}`.",
        dashboard="observer-roles",
    ),
)

_ROUTERS: Final = (
    Alert(
        name="RouterNotConverged",
        group="routers",
        expr=f"max by ({_BY}, router) (modeldeployment_router_converged) == 0{_STAYS}",
        lasting="2m",
        severity="warning",
        summary=f"{_ROUTER} does not select exactly the eligible endpoints",
        description=f"An eligible endpoint is not selected, or another one is, or routers disagree. Look with {_LOOK}.",
        dashboard="observer-routers",
    ),
    Alert(
        name="RouterExtraEndpoint",
        group="routers",
        expr=f'max by ({_BY}, router) (modeldeployment_router_endpoints{{state="extra"}}) > 0{_STAYS}',
        lasting="1m",
        severity="critical",
        summary=f"{_ROUTER} selects endpoints that may not get traffic",
        description=f"{{{{ $value }}}} selected endpoints belong to no eligible replica: requests may go to something gone. Look with {_LOOK}.",
        dashboard="observer-routers",
    ),
)

_KV: Final = (
    Alert(
        name="KVEventsGapUnrepaired",
        group="kv",
        expr=f'max by ({_RANK}) (modeldeployment_kv_event_stream_state{{state="Unrepaired"}}) == 1{_STAYS}',
        lasting="5m",
        severity="warning",
        summary=f"KV events of {_POD} were lost for good",
        description="Batches were lost beyond the publisher's replay buffer: which blocks it holds is approximate. "
        "Look with `observer kv {{ $labels.deployment }} -n {{ $labels.<ns> }}`.",
        dashboard="observer-kv",
    ),
    Alert(
        name="KVEventsSilentRank",
        group="kv",
        expr=_condition("KVEventsLive", "false", "Silent") + _STAYS,
        lasting="5m",
        severity="warning",
        summary=f"an engine of {_NAME} computes and publishes no KV events",
        description="It computed at least 64 blocks of tokens without one event. "
        "Look with `observer kv {{ $labels.deployment }} -n {{ $labels.<ns> }}`.",
        dashboard="observer-kv",
    ),
    Alert(
        name="KVIndexNearBudget",
        group="kv",
        expr=f"sum by ({_BY}) (max by ({_RANK}, tier) (modeldeployment_kv_index_bytes))\n"
        f"/ max by ({_BY}) (modeldeployment_kv_index_budget_bytes) > 0.9{_STAYS}",
        lasting="10m",
        severity="warning",
        summary=f"the block index of {_NAME} nears its budget",
        description="{{ $value | humanizePercentage }} of the budget is used; past it the index becomes approximate. "
        "Look with `observer kv {{ $labels.deployment }} -n {{ $labels.<ns> }}`.",
        dashboard="observer-kv",
    ),
    Alert(
        name="CacheAttachedUnknown",
        group="kv",
        expr=_condition("CacheAttached", "unknown", "NoObservationAvailable") + _TRAFFIC + _STAYS,
        lasting="30m",
        severity="info",
        summary=f"{_NAME} serves and nobody can tell whether its cache is in effect",
        description="No account of the cache could be read for half an hour of traffic. "
        "Look with `observer status {{ $labels.deployment }} -n {{ $labels.<ns> }}`.",
        dashboard="observer-kv",
    ),
)

_CANARY: Final = (
    Alert(
        name="CanaryInconclusiveTooLong",
        group="canary",
        expr=_condition("CanaryAnalysis", "unknown") + _TRAFFIC + _STAYS,
        lasting="1h",
        severity="warning",
        summary=f"the canary of {_NAME} could not be judged for an hour",
        description="There is traffic and still no answer. "
        "Look with `observer status {{ $labels.deployment }} -n {{ $labels.<ns> }}` at the reason of CanaryAnalysis.",
        dashboard="observer-canary",
    ),
    Alert(
        name="CanaryFailed",
        group="canary",
        expr=_condition("CanaryAnalysis", "false") + _STAYS,
        lasting="1m",
        severity="critical",
        summary=f"the canary of {_NAME} is worse than allowed",
        description="CanaryAnalysis is False. The observer stops nothing by itself. "
        "Look with `observer status {{ $labels.deployment }} -n {{ $labels.<ns> }}`.",
        dashboard="observer-canary",
    ),
)

ALERTS: Final = (*_SERVING, *_ROUTERS, *_KV, *_CANARY, *SELF)

"""Cases of the alert rules: series over time, and which alert fires at which minute, or that none does.

Values are promtool's: ``0+60x10`` begins at 0 and grows by 60 each minute, ten times; ``_`` is no sample, ``stale`` ends
a series. A step is one minute.
"""

from __future__ import annotations

from dataclasses import dataclass, field

D = 'namespace="prod", deployment="chat"'
R = f'{D}, role="server"'
P = f'{R}, pod="chat-0", port="8000"'
K = f'{P}, rank="0"'
OF_D = {"namespace": "prod", "deployment": "chat"}
OF_R = {**OF_D, "role": "server"}
OF_K = {**OF_R, "pod": "chat-0", "rank": "0"}
READY = (f'modeldeployment_status_phase{{{D}, phase="Deleting"}}', "0x200")
DELETING = (f'modeldeployment_status_phase{{{D}, phase="Deleting"}}', "1x200")
TRAFFIC = (f"modeldeployment_input_tokens_total{{{P}}}", "0+600x200")
IDLE = (f"modeldeployment_input_tokens_total{{{P}}}", "600x200")
HERE = ('observer_build_info{instance="a:9480", version="1"}', "1x200")

Series = tuple[str, str]


@dataclass(frozen=True)
class Case:
    """At a minute, an alert fires with these labels and this value as its text says it, or it does not fire."""

    name: str
    alert: str
    minute: int
    series: tuple[Series, ...]
    labels: dict[str, str] | None = None
    value: str = ""
    others: tuple[str, ...] = field(default=())


def condition(kind: str, status: str, values: str = "1x200", reason: str = "") -> tuple[Series, ...]:
    """The three series of a condition as exposed: 1 at its status, which carries the reason."""
    found = []
    for each in ("true", "false", "unknown"):
        told = f', reason="{reason}"' if reason and each == status else ""
        series = f'modeldeployment_status_condition{{{D}, condition="{kind}", status="{each}"{told}}}'
        found.append((series, values if each == status else "0x200"))
    return tuple(found)


def replicas(state: str, values: str) -> Series:
    return f'modeldeployment_replicas{{{R}, state="{state}"}}', values


def endpoints(state: str, values: str) -> Series:
    return f'modeldeployment_router_endpoints{{{D}, router="edge", state="{state}"}}', values


STALL = f"modeldeployment_endpoint_stall_seconds{{{K}}}"
CONVERGED = f'modeldeployment_router_converged{{{D}, router="edge"}}'
OF_ROUTER = {**OF_D, "router": "edge"}
USAGE, WAITING = f"modeldeployment_kv_cache_usage_ratio{{{K}}}", f"modeldeployment_requests_waiting{{{K}}}"
WAITED, BEGUN = (f"modeldeployment_queue_time_seconds_{end}{{{R}}}" for end in ("sum", "count"))
PREEMPTED = f"modeldeployment_preemptions_total{{{K}}}"
STREAM = f'modeldeployment_kv_event_stream_state{{{R}, pod="chat-0", port="5557", rank="0", state="Unrepaired"}}'
INDEX = f'modeldeployment_kv_index_bytes{{{R}, pod="chat-0", port="5557", rank="0", tier="GPU"}}'
BUDGET = f"modeldeployment_kv_index_budget_bytes{{{D}}}"
ENDPOINT = f'modeldeployment_endpoint_info{{{P}, engine="vllm", engine_version="2"}}'
OLD, NEW = (f'observer_missing_signals{{software="vllm", version="{version}"}}' for version in "12")
WHO = 'instance="a:9480"'
OF_WHO = {"instance": "a:9480"}
LATE, READS = (f'observer_{name}_total{{{WHO}, source="engine"}}' for name in ("scrape_overruns", "scrapes"))
PAUSES = f"observer_event_pauses_total{{{WHO}}}"
WRITES = f'observer_status_writes_total{{{WHO}, kind="ModelDeploymentObservation", result="error"}}'
LAG = tuple(f'observer_loop_lag_seconds_bucket{{{WHO}, le="{bound}"}}' for bound in ("0.5", "1.0", "+Inf"))

CASES = (
    # work and no progress
    Case("a rank that stands still with work", "EndpointUpNotServing", 6, ((STALL, "0+60x10"), READY), OF_K, "6m 0s"),
    Case("not yet for a minute", "EndpointUpNotServing", 3, ((STALL, "0+60x10"), READY)),
    Case("progress is not known", "EndpointUpNotServing", 6, ((STALL, "0+60x2 stale"), READY)),
    Case("idle", "EndpointUpNotServing", 6, ((STALL, "0x10"), READY)),
    Case("while deleting", "EndpointUpNotServing", 6, ((STALL, "0+60x10"), DELETING)),
    Case("the observer restarts: its clock of the stall begins anew", "EndpointUpNotServing", 6, ((STALL, "60 120 180 _ _ 0 60"), READY)),
    Case("the phase is not known", "EndpointUpNotServing", 6, ((STALL, "0+60x10"),), OF_K, "6m 0s"),
    # eligibility
    Case("none eligible, as a fact", "DeploymentNoEligibleEndpoints", 5, (replicas("eligible", "0x10"), replicas("desired", "2x10"), READY), OF_R, "0"),
    Case("not known is not none", "DeploymentNoEligibleEndpoints", 5, (replicas("desired", "2x10"), READY)),
    Case("none wanted", "DeploymentNoEligibleEndpoints", 5, (replicas("eligible", "0x10"), replicas("desired", "0x10"), READY)),
    Case("none eligible while deleting", "DeploymentNoEligibleEndpoints", 5, (replicas("eligible", "0x10"), replicas("desired", "2x10"), DELETING)),
    Case("the observer restarts", "DeploymentNoEligibleEndpoints", 5, (replicas("eligible", "0 0 stale _ _ 0"), replicas("desired", "2x10"), READY)),
    Case("fewer eligible than wanted", "EligibleBelowDesired", 20, (replicas("eligible", "1x30"), replicas("desired", "2x30"), READY), OF_R, "1"),
    Case("eligible is not known", "EligibleBelowDesired", 20, (replicas("desired", "2x30"), READY)),
    Case("a rollout of some minutes", "EligibleBelowDesired", 20, (replicas("eligible", "1x10 2x20"), replicas("desired", "2x30"), READY)),
    Case("fewer while deleting", "EligibleBelowDesired", 20, (replicas("eligible", "1x30"), replicas("desired", "2x30"), DELETING)),
    Case("none is told by another alert", "EligibleBelowDesired", 20, (replicas("eligible", "0x30"), replicas("desired", "2x30"), READY)),
    # freshness
    Case("stale", "MetricsStale", 5, (*condition("MetricsFresh", "false", reason="Stale"), READY), OF_D),
    Case("never read", "MetricsStale", 5, (*condition("MetricsFresh", "unknown", reason="NeverRead"), READY)),
    Case("stale while deleting", "MetricsStale", 5, (*condition("MetricsFresh", "false", reason="Stale"), DELETING)),
    Case("nothing is judged yet", "MetricsStale", 5, (READY,)),
    # a new version lacks signals
    Case("a new version lacks signals and serves", "MetricFamilyMissing", 170, ((OLD, "20x200"), (NEW, "_x135 25x60"), (ENDPOINT, "_x135 1x60"), TRAFFIC), {"software": "vllm", "version": "2"}, "25"),
    Case("a new version lacks signals and is idle", "MetricFamilyMissing", 170, ((OLD, "20x200"), (NEW, "_x135 25x60"), (ENDPOINT, "_x135 1x60"), IDLE)),
    Case("a new version lacks no more than the old", "MetricFamilyMissing", 170, ((OLD, "20x200"), (NEW, "_x135 20x60"), (ENDPOINT, "_x135 1x60"), TRAFFIC)),
    Case("nothing older to compare with: the observer is new", "MetricFamilyMissing", 100, ((NEW, "25x200"), (ENDPOINT, "1x200"), TRAFFIC)),
    Case("a version that has been there for long", "MetricFamilyMissing", 170, ((OLD, "20x200"), (NEW, "25x200"), (ENDPOINT, "1x200"), TRAFFIC)),
    # load
    Case("the cache is full and requests wait", "KVCacheSaturated", 15, ((USAGE, "0.99x20"), (WAITING, "3x20"), READY), OF_K, "99%"),
    Case("the cache is full and nothing waits", "KVCacheSaturated", 15, ((USAGE, "0.99x20"), (WAITING, "0x20"), READY)),
    Case("how many wait is not known", "KVCacheSaturated", 15, ((USAGE, "0.99x20"), READY)),
    Case("full while deleting", "KVCacheSaturated", 15, ((USAGE, "0.99x20"), (WAITING, "3x20"), DELETING)),
    Case("requests wait long", "QueueTimeHigh", 30, ((WAITED, "0+2400x40"), (BEGUN, "0+60x40"), READY), OF_R, "40s"),
    Case("nothing was begun", "QueueTimeHigh", 30, ((WAITED, "2400x40"), (BEGUN, "60x40"), READY)),
    Case("queue times are not known", "QueueTimeHigh", 30, (READY,)),
    Case("waiting while deleting", "QueueTimeHigh", 30, ((WAITED, "0+2400x40"), (BEGUN, "0+60x40"), DELETING)),
    Case("preemptions go on", "PreemptionsSustained", 30, ((PREEMPTED, "0+30x40"), READY), OF_R, "500m"),
    Case("the observer restarts: a counter that falls is no burst", "PreemptionsSustained", 30, ((PREEMPTED, "5000x15 0x25"), READY)),
    Case("preempting while deleting", "PreemptionsSustained", 30, ((PREEMPTED, "0+30x40"), DELETING)),
    Case("preemptions are not known", "PreemptionsSustained", 30, (READY,)),
    # routers
    Case("not converged", "RouterNotConverged", 5, ((CONVERGED, "0x10"), READY), OF_ROUTER),
    Case("views are lost", "RouterNotConverged", 5, ((CONVERGED, "1 1 stale"), READY)),
    Case("converged", "RouterNotConverged", 5, ((CONVERGED, "1x10"), READY)),
    Case("not converged while deleting", "RouterNotConverged", 5, ((CONVERGED, "0x10"), DELETING)),
    Case("two observers expose it for a moment", "RouterNotConverged", 5, ((CONVERGED, "0x10"), (CONVERGED.replace("{", '{instance="b:9480", '), "_x3 0x7"), READY), OF_ROUTER),
    Case("selects something gone", "RouterExtraEndpoint", 5, (endpoints("extra", "1x10"), READY), OF_ROUTER, "1"),
    Case("extra is not known", "RouterExtraEndpoint", 5, (endpoints("seen", "3x10"), READY)),
    Case("extra while deleting", "RouterExtraEndpoint", 5, (endpoints("extra", "1x10"), DELETING)),
    Case("extra for a moment", "RouterExtraEndpoint", 5, (endpoints("extra", "0x4 1 0"), READY)),
    # KV events
    Case("events are lost for good", "KVEventsGapUnrepaired", 10, ((STREAM, "1x20"), READY), OF_K),
    Case("a gap that is repaired", "KVEventsGapUnrepaired", 10, ((STREAM, "0x5 1x3 0x10"), READY)),
    Case("lost while deleting", "KVEventsGapUnrepaired", 10, ((STREAM, "1x20"), DELETING)),
    Case("nothing subscribed", "KVEventsGapUnrepaired", 10, (READY,)),
    Case("computes and says nothing", "KVEventsSilentRank", 10, (*condition("KVEventsLive", "false", reason="Silent"), READY), OF_D),
    Case("not subscribed", "KVEventsSilentRank", 10, (*condition("KVEventsLive", "unknown", reason="NotSubscribed"), READY)),
    Case("idle and confirmed", "KVEventsSilentRank", 10, (*condition("KVEventsLive", "true", reason="Idle"), READY)),
    Case("a gap is another alert", "KVEventsSilentRank", 10, (*condition("KVEventsLive", "false", reason="GapUnrepaired"), READY)),
    Case("silent while deleting", "KVEventsSilentRank", 10, (*condition("KVEventsLive", "false", reason="Silent"), DELETING)),
    Case("the index is nearly full", "KVIndexNearBudget", 15, ((INDEX, "95x20"), (BUDGET, "100x20"), READY), OF_D, "95%"),
    Case("the index has room", "KVIndexNearBudget", 15, ((INDEX, "50x20"), (BUDGET, "100x20"), READY)),
    Case("two observers do not make it full", "KVIndexNearBudget", 15, ((INDEX, "50x20"), (INDEX.replace("{", '{instance="b:9480", '), "50x20"), (BUDGET, "100x20"), READY)),
    Case("no index", "KVIndexNearBudget", 15, ((BUDGET, "100x20"), READY)),
    Case("nearly full while deleting", "KVIndexNearBudget", 15, ((INDEX, "95x20"), (BUDGET, "100x20"), DELETING)),
    Case("serves and no account of its cache", "CacheAttachedUnknown", 45, (*condition("CacheAttached", "unknown", reason="NoObservationAvailable"), TRAFFIC, READY), OF_D),
    Case("an idle Unknown", "CacheAttachedUnknown", 45, (*condition("CacheAttached", "unknown", reason="NoObservationAvailable"), IDLE, READY)),
    Case("traffic is not known either", "CacheAttachedUnknown", 45, (*condition("CacheAttached", "unknown", reason="NoObservationAvailable"), READY)),
    Case("nobody may see it here", "CacheAttachedUnknown", 45, (*condition("CacheAttached", "unknown", reason="NotObservable"), TRAFFIC, READY)),
    Case("unknown while deleting", "CacheAttachedUnknown", 45, (*condition("CacheAttached", "unknown", reason="NoObservationAvailable"), TRAFFIC, DELETING)),
    # canary
    Case("no answer for an hour of traffic", "CanaryInconclusiveTooLong", 75, (*condition("CanaryAnalysis", "unknown", reason="InsufficientSamples"), TRAFFIC, READY), OF_D),
    Case("an idle canary", "CanaryInconclusiveTooLong", 75, (*condition("CanaryAnalysis", "unknown", reason="NoData"), IDLE, READY)),
    Case("no canary", "CanaryInconclusiveTooLong", 75, (TRAFFIC, READY)),
    Case("no answer while deleting", "CanaryInconclusiveTooLong", 75, (*condition("CanaryAnalysis", "unknown", reason="InsufficientSamples"), TRAFFIC, DELETING)),
    Case("the canary failed", "CanaryFailed", 5, (*condition("CanaryAnalysis", "false", reason="ThresholdBreached"), READY), OF_D),
    Case("inconclusive is not failed", "CanaryFailed", 5, (*condition("CanaryAnalysis", "unknown", reason="NoData"), READY)),
    Case("failed while deleting", "CanaryFailed", 5, (*condition("CanaryAnalysis", "false", reason="ThresholdBreached"), DELETING)),
    # the observer
    Case("no observer", "ObserverDown", 10, (), {}),
    Case("an observer", "ObserverDown", 10, (HERE,)),
    Case("the observer restarts", "ObserverDown", 10, ((HERE[0], "1x4 stale _ _ 1x10"),)),
    Case("another one has taken over", "ObserverDown", 15, ((HERE[0], "1x4 stale"), ('observer_build_info{instance="b:9480", version="1"}', "_x6 1x20"))),
    Case("reads take longer than their period", "ObserverScrapeOverrun", 40, ((LATE, "0+6x60"), (READS, "0+60x60"), HERE), {**OF_WHO, "source": "engine"}, "10%"),
    Case("one read in many is late", "ObserverScrapeOverrun", 40, ((LATE, "0+1x60"), (READS, "0+600x60"), HERE)),
    Case("nothing ever overran", "ObserverScrapeOverrun", 40, ((READS, "0+60x60"), HERE)),
    Case("receiving pauses again and again", "ObserverEventDrops", 40, ((PAUSES, "0+1x60"), HERE), OF_WHO, "10"),
    Case("no pause", "ObserverEventDrops", 40, ((PAUSES, "0x60"), HERE)),
    Case("the observer restarts: pauses begin at 0", "ObserverEventDrops", 40, ((PAUSES, "7x15 0x45"), HERE)),
    Case("writes go on failing", "ObserverStatusWriteFailing", 40, ((WRITES, "0+1x60"), HERE), {**OF_WHO, "kind": "ModelDeploymentObservation"}),
    Case("nothing is written here", "ObserverStatusWriteFailing", 40, (HERE,)),
    Case("one write failed long ago", "ObserverStatusWriteFailing", 40, ((WRITES, "0x5 1x60"), HERE)),
    Case("the loop is late", "ObserverLoopLag", 30, ((LAG[0], "0x40"), (LAG[1], "0+60x40"), (LAG[2], "0+60x40"), HERE), OF_WHO, "995ms"),
    Case("the loop is on time", "ObserverLoopLag", 30, ((LAG[0], "0+60x40"), (LAG[1], "0+60x40"), (LAG[2], "0+60x40"), HERE)),
    Case("no lag was measured", "ObserverLoopLag", 30, (HERE,)),
)  # fmt: skip

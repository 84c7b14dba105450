"""What to do about each reason: does it clear by itself, must somebody act, is it over or not to be known, and whose it is.

Data only. A reason that is not here is shown as written, without advice.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Course(StrEnum):
    """What a reason calls for."""

    CLEARS = "ClearsByItself"
    ACT = "Act"
    WAIT = "WaitThenAct"
    OVER = "Over"
    STAYS = "StaysUnknown"
    """Waiting does not answer it: what decides it is not read from here, by nature, by right or by installation."""


class Advice(msgspec.Struct, frozen=True):
    """The course, whose it is, and one sentence of help."""

    course: Course
    whose: str
    hint: str


CLUSTER = "cluster"
OWNER = "deployment owner"
OPERATOR = "operator"
ENGINE = "engine"
ROUTER = "router"
OBSERVER = "observer"

_C, _A, _O = Course.CLEARS, Course.ACT, Course.OVER

ADVICE: dict[tuple[str, str], Advice] = {
    ("DomainRegistered", "BindingNotFound"): Advice(_A, OWNER, "create the binding or correct the reference"),
    ("DomainRegistered", "BindingNotReady"): Advice(_C, CLUSTER, "the binding becomes ready with its pool"),
    ("DomainRegistered", "BindingDeleting"): Advice(_A, OWNER, "the binding is going away: refer to another"),
    ("QuotaReserved", "Parked"): Advice(_O, OWNER, "the workloads were deactivated and ask for nothing any more"),
    ("QuotaReserved", "PreemptedInPart"): Advice(
        _A, OWNER, "add capacity, or delete and recreate, or move the roles apart: nothing else frees what is held"
    ),
    ("QuotaReserved", "NoReplicas"): Advice(_C, OPERATOR, "replicas are created first"),
    ("QuotaReserved", "AllReplicasTerminating"): Advice(_C, OPERATOR, "the next replicas ask again"),
    ("QuotaReserved", "PodGroupIncomplete"): Advice(_C, OPERATOR, "clears when the missing replica exists"),
    ("QuotaReserved", "NoQueueInReservedNamespace"): Advice(
        _A, OWNER, "reserved namespaces never have a queue: deploy in another namespace"
    ),
    ("QuotaReserved", "AdmissionInFlight"): Advice(_C, CLUSTER, "the Workload is being composed"),
    ("QuotaReserved", "Pending"): Advice(_C, CLUSTER, "resolves when capacity appears in the roles' queues"),
    ("CacheAttached", "CacheOperationsFailing"): Advice(
        _A, OWNER, "the engine serves without its cache: check the store"
    ),
    ("CacheAttached", "Unmanaged"): Advice(_A, OWNER, "the role's own command decides: read it there"),
    ("CacheAttached", "NoReplicaReady"): Advice(_C, ENGINE, "no replica is ready to have an opinion"),
    ("CacheAttached", "NoObservationAvailable"): Advice(_C, ENGINE, "an idle cache looks the same as an unread one"),
    ("ReplicasUpToDate", "RolloutInProgress"): Advice(_C, OPERATOR, "the rollout turns one replica over at a time"),
    ("ReplicasUpToDate", "ReplacementInProgress"): Advice(_C, OPERATOR, "watch the departed Pod: its place is reused"),
    ("ReplicasUpToDate", "RolloutHeldByCache"): Advice(
        _C, CLUSTER, "waits for the store; edits to running replicas wait"
    ),
    ("ReplicasUpToDate", "RolloutHeldByWeights"): Advice(_C, CLUSTER, "waits for the weights"),
    ("ReplicasUpToDate", "RolloutNotObserved"): Advice(_C, OPERATOR, "a later pass accounts for replicas"),
    ("RoleKindsReady", "KindsNotReady"): Advice(_C, ENGINE, "clears when one replica of each kind answers"),
    ("RoleKindsReady", "NoRoleStatuses"): Advice(_C, OPERATOR, "no role was written yet"),
    ("KVEventsPublishing", "NoRouter"): Advice(_A, OWNER, "roles of several kinds need a router"),
    ("KVEventsPublishing", "RoleUnmanaged"): Advice(_A, OWNER, "the role's own command decides whether it publishes"),
    ("KVEventsPublishing", "PublisherDisabled"): Advice(_A, OWNER, "this router and engine pair renders no publisher"),
    ("RouterReady", "RenderFailed"): Advice(_A, OWNER, "the message names what the router cannot be rendered from"),
    ("RouterReady", "NotDeployed"): Advice(_C, OPERATOR, "the router is being created"),
    ("RouterReady", "NoReadyReplicas"): Advice(_C, ROUTER, "look at the router's Pods when it lasts"),
    ("WeightsReady", "ArtifactNotFound"): Advice(_A, OWNER, "create the artifact or correct the reference"),
    ("WeightsReady", "ArtifactNotResolved"): Advice(_C, CLUSTER, "the artifact is being resolved"),
    ("WeightsReady", "ClaimNotBound"): Advice(_A, CLUSTER, "bind the volume claim"),
    ("WeightsReady", "AccessModeConflict"): Advice(_A, OWNER, "the claim's access mode does not fit the replicas"),
    ("WeightsReady", "NodeDeliveryUnavailable"): Advice(_A, CLUSTER, "nodes cannot deliver weights here"),
    ("WeightsReady", "FilterNeedsNodeDelivery"): Advice(_A, OWNER, "a file filter needs delivery by the node"),
    ("WeightsReady", "AnchorNeedsNodeDelivery"): Advice(_A, OWNER, "an anchor needs delivery by the node"),
    ("WeightsReady", "Materializing"): Advice(_C, CLUSTER, "the weights are being fetched"),
    ("WeightsReady", "MaterializationFailed"): Advice(_A, OWNER, "the weights could not be fetched: see the artifact"),
    ("WeightsReady", "WeightsNotMounted"): Advice(_A, CLUSTER, "a Pod runs without its weights"),
    ("WeightsReady", "Downloading"): Advice(_C, ENGINE, "the engine is downloading"),
    ("EndpointEligibility", "NotObserved"): Advice(_C, OBSERVER, "nothing was observed to qualify yet"),
    ("EndpointEligibility", "Revoked"): Advice(_C, ENGINE, "a group is restored when all its criteria pass again"),
    ("EndpointEligibility", "HeldUnverified"): Advice(_C, OBSERVER, "not evidence of a fault: a criterion is open"),
    ("EndpointEligibility", "Unsupported"): Advice(_O, OPERATOR, "the operator has no probe for this engine or role"),
    ("ElasticResize", "ScaleRefused"): Advice(_A, OWNER, "the retry bound is spent: change the width"),
    ("ElasticResize", "WorldUnprovable"): Advice(_C, ENGINE, "levels when a later pass proves the live world"),
    ("KVEventsLive", "Silent"): Advice(_A, ENGINE, "it computes and publishes nothing: check the publisher"),
    ("KVEventsLive", "GapUnrepaired"): Advice(_A, ENGINE, "events were lost beyond the replay buffer"),
    ("KVEventsLive", "NotSubscribed"): Advice(_C, OBSERVER, "no publisher address is known yet"),
    ("KVEventsLive", "Syncing"): Advice(_C, OBSERVER, "the index is catching up"),
    ("KVEventsLive", "Unreachable"): Advice(_A, CLUSTER, "the publisher's port cannot be reached"),
    ("KVEventsLive", "Broken"): Advice(_A, ENGINE, "the stream does not follow the format"),
    ("KVEventsLive", "NoReplay"): Advice(_A, OWNER, "without a replay port silence proves nothing"),
    ("RouterConverged", "MissingEndpoint"): Advice(
        _A, ROUTER, "an eligible replica gets no traffic: see why the router refuses it"
    ),
    ("RouterConverged", "ExtraEndpoint"): Advice(_A, ROUTER, "the router sends to a replica that is not eligible"),
    ("RouterConverged", "ViewsDisagree"): Advice(_A, ROUTER, "router replicas select different workers"),
    ("RouterConverged", "ViewUnavailable"): Advice(
        _C, OBSERVER, "what routers select is known when they answer again; traffic may still flow"
    ),
    ("RouterConverged", "EligibilityUnknown"): Advice(_C, OBSERVER, "which replicas are eligible is not decided yet"),
    ("RouterContractHolds", "MetricNameAbsent"): Advice(_A, OPERATOR, "the router is told a name the engine has not"),
    ("RouterContractHolds", "PortUnreachable"): Advice(_A, OPERATOR, "the router is told a port nobody listens on"),
    ("RouterContractHolds", "SelectorMismatch"): Advice(_A, OPERATOR, "the selector misses or adds Pods"),
    ("RouterContractHolds", "EventsNotDialable"): Advice(_A, CLUSTER, "the published event endpoint cannot be dialled"),
    ("RouterContractHolds", "NotRead"): Advice(_C, OBSERVER, "our side of the contract was not read yet"),
    ("MetricsFresh", "Stale"): Advice(_C, OBSERVER, "a target stopped answering: the message has its error"),
    ("MetricsFresh", "NeverRead"): Advice(_C, OBSERVER, "a target has not answered yet"),
    ("MetricsFresh", "NoTarget"): Advice(_C, OBSERVER, "nothing that serves was discovered"),
    ("EngineProgressing", "Stalled"): Advice(_A, ENGINE, "it holds work and does not move: restart it after a look"),
    ("EngineProgressing", "NotObserved"): Advice(_C, OBSERVER, "progress was not observed"),
    ("CanaryAnalysis", "ThresholdBreached"): Advice(_A, OWNER, "the analysis names the metric that failed"),
    ("CanaryAnalysis", "MarginExceeded"): Advice(_A, OWNER, "the analysis names the metric that is worse than stable"),
    ("CanaryAnalysis", "AnalysisStalled"): Advice(_A, OWNER, "the analysis says what it could not measure"),
    ("CanaryAnalysis", "StableRevisionMissing"): Advice(_A, OWNER, "nothing is left to compare with or go back to"),
    ("CanaryAnalysis", "Manual"): Advice(_A, OWNER, "the step waits for a promote"),
    ("OperatorCurrent", "Lagging"): Advice(_A, OPERATOR, "the operator's answers are from before your edit"),
    ("OperatorCurrent", "CatchingUp"): Advice(_C, OPERATOR, "the operator is about to answer"),
    ("Group", "Retiring"): Advice(_C, OWNER, "the replica was asked to leave and goes when its requests are done"),
    ("Group", "RetirementAborted"): Advice(
        _A, OWNER, "a step ran out of time: ask again, or keep the replica by declaring it"
    ),
    ("Group", "Replacing"): Advice(_C, OPERATOR, "another replica takes its place"),
    ("Group", "Incomplete"): Advice(
        _C, CLUSTER, "clears when every member exists; look for the missing one if it lasts"
    ),
    ("ReadyCount", "CountsDisagree"): Advice(
        Course.WAIT, OPERATOR, "counts differ for a moment after each change; else believe what serves"
    ),
    ("CachePool", "EndpointDiffers"): Advice(
        Course.WAIT,
        OPERATOR,
        "the contract follows the pool at the operator's next pass; else routers ask a wrong address",
    ),
    ("CachePool", "PoolNotFound"): Advice(
        Course.WAIT, CLUSTER, "look whether the pool was deleted; the observer may also not watch where it is"
    ),
    ("Scaler", "ScalerNotFound"): Advice(
        Course.WAIT, OWNER, "nobody may own the replica count: create the scaler anew, or remove its annotations"
    ),
    ("Router", "Down"): Advice(_A, ROUTER, "nobody listens on its ports: clients reach other replicas only"),
    ("Member", "Loading"): Advice(_C, ENGINE, "loading is not a stall; it takes as long as the model does"),
    ("Member", "StartupLoop"): Advice(_A, OWNER, "it starts again and again: see how the last attempt ended"),
    ("Member", "Down"): Advice(_A, ENGINE, "nobody listens on its port: start it, unless it is just starting"),
    ("Member", "Saturated"): Advice(_C, ENGINE, "it is saturated or hung: its progress tells which"),
    ("Member", "Failing"): Advice(_A, OBSERVER, "it answers something that cannot be read"),
}


def advice(kind: str, reason: str) -> Advice | None:
    """The row of a reason, or ``None`` for one that we do not know."""
    if reason == "NotObservable":
        return Advice(Course.STAYS, OBSERVER, "what decides this cannot be read from here")
    return ADVICE.get((kind, reason))

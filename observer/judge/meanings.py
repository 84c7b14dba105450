"""What each condition asks and what each of its reasons means, for people who read them. Data only.

A reason's ``answers`` are the statuses it goes with. What to do about a reason stands in `advice`; the reasons of
``CanaryAnalysis`` are those of analyses and stand in `canary.meanings`.
"""

from __future__ import annotations

import msgspec


class Meaning(msgspec.Struct, frozen=True):
    """One reason: the statuses that it goes with, and what it says in one sentence."""

    answers: str
    says: str


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One condition: its question, and its reasons."""

    asks: str
    reasons: dict[str, Meaning]


_T, _F, _U = "True", "False", "Unknown"

NOT_OBSERVABLE = Meaning(_U, "what decides this cannot be read from here; the message names it")
"""The reason ``NotObservable``, which any condition may have."""

CONDITIONS: dict[str, Asked] = {
    "DomainRegistered": Asked(
        asks="Did the referenced cache binding resolve, and was its domain read?",
        reasons={
            "NotApplicable": Meaning(_T, "no cache is declared"),
            "Registered": Meaning(_T, "the binding resolved and its domain was read"),
            "BindingNotFound": Meaning(_F, "the referenced binding does not exist"),
            "BindingDeleting": Meaning(_F, "the binding is being deleted"),
            "BindingNotReady": Meaning(_F, "the binding exists and is not ready"),
        },
    ),
    "QuotaReserved": Asked(
        asks="Does every one of the deployment's Workloads hold quota?",
        reasons={
            "Reserved": Meaning(_T, "all of them do"),
            "Parked": Meaning(_F, "Workloads were deactivated and ask for nothing any more"),
            "PreemptedInPart": Meaning(_F, "some were preempted; the others keep their quota and cannot serve in full"),
            "Pending": Meaning(_F, "some wait for quota"),
            "PodGroupIncomplete": Meaning(_F, "a replica is missing, so its group has no Workload"),
            "NoQueueInReservedNamespace": Meaning(_F, "a reserved namespace has no queue, and never will"),
            "AdmissionInFlight": Meaning(_U, "replicas exist and have no Workload yet"),
            "NoReplicas": Meaning(_U, "no replica exists"),
            "AllReplicasTerminating": Meaning(_U, "every replica is on its way out"),
        },
    ),
    "CacheAttached": Asked(
        asks="Is the declared cache observed to be in effect?",
        reasons={
            "NotApplicable": Meaning(_T, "no cache is declared"),
            "CacheActive": Meaning(_T, "stores or hits were observed lately; the evidence says which and how old"),
            "CacheOperationsFailing": Meaning(_F, "operations were observed and they fail"),
            "Unmanaged": Meaning(_U, "a role replaced its command, so nobody knows what it attached"),
            "NoReplicaReady": Meaning(_U, "no replica is ready to be asked"),
            "NoObservationAvailable": Meaning(
                _U, "nothing was observed: an idle cache looks the same as an unread one"
            ),
        },
    ),
    "ReplicasUpToDate": Asked(
        asks="Do the running replicas match the desired render?",
        reasons={
            "UpToDate": Meaning(_T, "all accounted replicas are current"),
            "RolloutInProgress": Meaning(_F, "some replicas are outdated"),
            "ReplacementInProgress": Meaning(_F, "all are current and one is missing"),
            "RolloutHeldByCache": Meaning(_F, "an edit waits until the cache store is back"),
            "RolloutHeldByWeights": Meaning(_F, "an edit waits for the weights"),
            "RolloutNotObserved": Meaning(_U, "no replica could be accounted for"),
        },
    ),
    "RoleKindsReady": Asked(
        asks="Does every declared kind of role have at least one ready replica?",
        reasons={
            "AllKindsReady": Meaning(_T, "every kind has one"),
            "KindsNotReady": Meaning(_F, "a kind has none"),
            "NoRoleStatuses": Meaning(_U, "no role was observed"),
        },
    ),
    "KVEventsPublishing": Asked(
        asks="Is every role that produces cache blocks configured to publish them? Configuration, not traffic.",
        reasons={
            "Publishing": Meaning(_T, "every producing role is configured"),
            "NotApplicable": Meaning(_T, "no router is declared"),
            "NoRouter": Meaning(_F, "there are roles of several kinds and no router"),
            "PublisherDisabled": Meaning(_F, "a role is not rendered to publish"),
            "RoleUnmanaged": Meaning(_U, "a role replaced its command"),
        },
    ),
    "RouterReady": Asked(
        asks="Did the router render, and is one of its replicas ready?",
        reasons={
            "Ready": Meaning(_T, "at least one replica is ready"),
            "NotApplicable": Meaning(_T, "no router is declared"),
            "RenderFailed": Meaning(_F, "the operator refused to render it; the message says why"),
            "NoReadyReplicas": Meaning(_F, "none of its replicas is ready"),
            "NotDeployed": Meaning(_U, "it does not exist yet"),
        },
    ),
    "WeightsReady": Asked(
        asks="Are the model's weights where the Pods need them?",
        reasons={
            "NotApplicable": Meaning(_T, "no artifact is referenced"),
            "Mounted": Meaning(_T, "every Pod has them mounted"),
            "Downloaded": Meaning(_T, "every Pod has downloaded them"),
            "ArtifactNotFound": Meaning(_F, "the referenced artifact does not exist"),
            "ArtifactNotResolved": Meaning(_F, "its revision is not resolved"),
            "ClaimNotBound": Meaning(_F, "the volume claim is not bound"),
            "Materializing": Meaning(_F, "they are being fetched"),
            "MaterializationFailed": Meaning(_F, "they could not be fetched"),
            "Downloading": Meaning(_F, "a Pod is still downloading"),
            "WeightsNotMounted": Meaning(_F, "a Pod runs without them"),
        },
    ),
    "EndpointEligibility": Asked(
        asks="Were the deployment's serving groups qualified for traffic?",
        reasons={
            "Qualified": Meaning(_T, "every observed group is eligible"),
            "Revoked": Meaning(_F, "a group lost its eligibility by a fact"),
            "HeldUnverified": Meaning(_U, "a criterion of a group is open; that is no evidence of a fault"),
            "NotObserved": Meaning(_U, "no group was observed"),
        },
    ),
    "ElasticResize": Asked(
        asks="Does an elastic scale stand refused? Only for roles with elastic expert parallelism.",
        reasons={
            "NoRefusal": Meaning(_T, "none was refused, or a refusal is inside its retry bound"),
            "ScaleRefused": Meaning(_F, "refused for good: the retry bound is spent"),
            "WorldUnprovable": Meaning(_U, "the live world could not be proved"),
        },
    ),
    "KVEventsLive": Asked(
        asks="Do KV events arrive, without a gap?",
        reasons={
            "Receiving": Meaning(_T, "the newest batch is recent, or a replay proved that nothing was missed"),
            "Silent": Meaning(_F, "tokens were computed and no event came"),
            "GapUnrepaired": Meaning(_F, "batches were lost beyond the replay buffer"),
            "NotSubscribed": Meaning(_U, "no publisher's address is known, or nobody subscribed yet"),
            "Syncing": Meaning(_U, "the index is catching up, or a replay is being asked"),
            "Unreachable": Meaning(_U, "the publisher's port cannot be reached"),
            "Broken": Meaning(_U, "the stream does not follow the format"),
            "NoReplay": Meaning(_U, "silence, and no replay could tell why"),
        },
    ),
    "RouterConverged": Asked(
        asks="Do all routers select exactly the eligible endpoints?",
        reasons={
            "Converged": Meaning(_T, "they do"),
            "NotConfigured": Meaning(_T, "no router is declared"),
            "MissingEndpoint": Meaning(_F, "an eligible endpoint is not selected"),
            "ExtraEndpoint": Meaning(_F, "an endpoint is selected that is not eligible"),
            "ViewsDisagree": Meaning(_F, "router replicas select different endpoints"),
            "ViewUnavailable": Meaning(_U, "a router's view is missing or too old"),
            "EligibilityUnknown": Meaning(_U, "routers agree, and which replicas are eligible is not decided"),
        },
    ),
    "RouterContractHolds": Asked(
        asks="Is what the router was told about its deployment true?",
        reasons={
            "Holds": Meaning(_T, "every line of the contract holds"),
            "NotConfigured": Meaning(_T, "no router is declared"),
            "MetricNameAbsent": Meaning(_F, "the router was told a metric name that the engine does not have"),
            "PortUnreachable": Meaning(_F, "it was told a port on which nobody listens"),
            "SelectorMismatch": Meaning(_F, "the selector misses Pods of the role, or adds others"),
            "EventsNotDialable": Meaning(_F, "the published event endpoint cannot be dialled"),
            "NotRead": Meaning(_U, "our side of a line was not read yet"),
        },
    ),
    "MetricsFresh": Asked(
        asks="Are the values of every expected target fresh?",
        reasons={
            "Fresh": Meaning(_T, "all are"),
            "Stale": Meaning(_F, "a target's newest values are too old"),
            "NeverRead": Meaning(_U, "a target was never read"),
            "NoTarget": Meaning(_U, "nothing is expected to be read"),
        },
    ),
    "EngineProgressing": Asked(
        asks="Do the serving engines make progress on the work they have?",
        reasons={
            "Progressing": Meaning(_T, "counters that only work moves have moved"),
            "Idle": Meaning(_T, "there is no work anywhere"),
            "Stalled": Meaning(_F, "an engine holds work and nothing moves"),
            "NotObserved": Meaning(_U, "an engine is down, loading, saturated or unread, so nobody saw it progress"),
        },
    ),
    "CanaryAnalysis": Asked(
        asks="May the canary go on? True while its last sample passed or its step may advance.",
        reasons={},
    ),
    "OperatorCurrent": Asked(
        asks="Does the operator answer for today's specification?",
        reasons={
            "Current": Meaning(_T, "it does"),
            "CatchingUp": Meaning(_T, "a newer specification is there since a short time"),
            "Lagging": Meaning(_F, "its answers are from before your edit"),
        },
    ),
}
"""Every condition in the order in which it is shown."""

GROUP_STATES: dict[str, str] = {
    "Unknown": "nothing about the group was observed, or it is an elastic collective",
    "Retiring": "it is to leave on purpose",
    "Replacing": "another is to take its place",
    "Incomplete": "a member does not exist",
    "NotReady": "a member that had answered does not, or the group does not move work; the reason names which",
    "Unverified": "a criterion is not known, and none failed",
    "AwaitingObservation": "the criteria hold, and no router's view has listed it yet",
    "Eligible": "it may get traffic",
}
"""The states of a serving group; the first that matches wins."""

LEGS: dict[str, str] = {
    "MemberSetComplete": "every member that belongs to the group exists",
    "MembersReady": "every member is ready; it fails only for one that had answered in this generation and stopped",
    "GroupForward": "the group as a whole was seen to move work; of a group of one member nothing is asked",
    "NoPlannedRetirement": "nobody has asked it to leave",
    "NoPendingReplacement": "no replacement of it has begun",
}
"""The five criteria of eligibility."""

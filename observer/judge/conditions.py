"""All conditions of one deployment put together: ours, mirrored ones where ours cannot be, and the operator's beside."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from observer.judge import conditions_cluster as cluster
from observer.judge import conditions_ours as ours
from observer.judge import conditions_serving as serving
from router_contract.judging import DeploymentInputs, JudgePolicy, Stored, StoredCondition
from router_contract.platform_facts import OperatorStatus, Unset
from router_contract.readings import Instant
from router_contract.status import OperatorVoice, RoleStatus
from router_contract.verdicts import Condition, Provenance, Status

USERS = (
    "DomainRegistered",
    "QuotaReserved",
    "CacheAttached",
    "ReplicasUpToDate",
    "RoleKindsReady",
    "KVEventsPublishing",
    "RouterReady",
    "WeightsReady",
    "EndpointEligibility",
    "ElasticResize",
)
"""The ten conditions of the users' document, in its order."""

OURS = (
    "KVEventsLive",
    "RouterConverged",
    "RouterContractHolds",
    "MetricsFresh",
    "EngineProgressing",
    "CanaryAnalysis",
    "OperatorCurrent",
)
"""The conditions that only we have."""

_ONLY_THE_OPERATOR_KNOWS = frozenset({"ReplicasUpToDate", "ElasticResize", "CacheAttached"})
"""Mirrored where we have no evidence: the render, the resize protocol and the operator's own cache reading are its."""

_OBJECTS = {
    "DomainRegistered": frozenset({"KVCachePoolBinding"}),
    "QuotaReserved": frozenset({"Workload"}),
    "WeightsReady": frozenset({"ModelArtifact"}),
    "RouterReady": frozenset({"Deployment"}),
    "KVEventsPublishing": frozenset({"Pod"}),
}
"""The kinds of object each condition is computed from; where they may not be read the operator's answer is shown."""

_MAY_NOT = frozenset({"NotInstalled", "Forbidden"})


def compute(
    inputs: DeploymentInputs,
    stored: Stored,
    roles: Sequence[RoleStatus],
    judged: Sequence[Condition],
    now: Instant,
    policy: JudgePolicy,
) -> tuple[Condition, ...]:
    """Every condition in its order. ``judged`` are those that groups, routers, contract and engines gave."""
    found: dict[str, Condition] = {}
    candidates: list[Condition | None] = [
        cluster.domain_registered(inputs.facts),
        cluster.quota_reserved(inputs),
        cluster.not_observable("CacheAttached", "no cache evidence was judged"),
        serving.replicas_up_to_date(inputs),
        serving.role_kinds_ready(roles),
        serving.kv_events_publishing(inputs),
        serving.router_ready(inputs, now, policy),
        cluster.weights_ready(inputs),
        cluster.elastic_resize(inputs),
        ours.metrics_fresh(inputs.freshness, policy),
        ours.operator_current(inputs, lag_since(inputs, stored, now), now, policy),
        *judged,
        *(_declared(inputs, item) for item in inputs.extra),
    ]
    for item in candidates:
        if item is not None:
            found[item.type] = item
    order = {name: index for index, name in enumerate((*USERS, *OURS))}
    shown = sorted(found.values(), key=lambda item: (order.get(item.type, len(order)), item.type))
    return tuple(_settle(_mirror(inputs, item, now), inputs, stored, now) for item in shown)


def _declared(inputs: DeploymentInputs, item: Condition) -> Condition:
    """That no cache is declared is known only where somebody says so: a file, or a platform that declares caches."""
    unsaid = isinstance(inputs.facts.cache, Unset) and not inputs.facts.ready_by_reading
    if (item.type, item.reason) == ("CacheAttached", "NotApplicable") and unsaid:
        return cluster.not_observable(item.type, "whether a cache is declared was not observed")
    return item


def lag_since(inputs: DeploymentInputs, stored: Stored, now: Instant) -> float | None:
    """When the operator's observed generation began to lag (wall), by the stored state, else now; ``None`` if it does not."""
    if not ours.lagging(inputs):
        return None
    return dict(stored.disagreements).get(ours.LAG_KEY, now.wall)


def _operator(inputs: DeploymentInputs) -> OperatorStatus | None:
    operator = inputs.facts.operator
    return None if isinstance(operator, Unset) else operator


def _mirror(inputs: DeploymentInputs, item: Condition, now: Instant) -> Condition:
    """The operator's answer under a condition that we cannot compute here at all; a lost read is not such a case."""
    operator = _operator(inputs)
    if item.provenance is not Provenance.NOT_OBSERVABLE or operator is None:
        return item
    barred = {fault.kind for fault in inputs.facts.sources if fault.why in _MAY_NOT}
    if item.type not in _ONLY_THE_OPERATOR_KNOWS and not (_OBJECTS.get(item.type, frozenset()) & barred):
        return item
    said = next((condition for condition in operator.conditions if condition.type == item.type), None)
    if said is None:
        return item
    return Condition(
        type=item.type,
        status=Status(said.status) if said.status in set(Status) else Status.UNKNOWN,
        reason=said.reason or "NoReason",
        message=said.message,
        provenance=Provenance.MIRRORED,
        evidence=(("ageSeconds", f"{max(0.0, now.wall - operator.read_at):.0f}"),),
    )


def _settle(item: Condition, inputs: DeploymentInputs, stored: Stored, now: Instant) -> Condition:
    """Give a condition its times, and the generation it is about: the transition time moves only with its status."""
    old = next((kept for kept in stored.conditions if kept.type == item.type), None)
    same = old is not None and old.status is item.status
    return msgspec.structs.replace(
        item,
        last_transition=old.last_transition if old is not None and same else now.wall,
        reason_since=old.reason_since if old is not None and same and old.reason == item.reason else now.wall,
        observed_generation=inputs.deployment.generation,
    )


def remembered(conditions: Sequence[Condition]) -> tuple[StoredCondition, ...]:
    """What is kept of conditions for the next pass."""
    return tuple(
        StoredCondition(
            type=item.type,
            status=item.status,
            reason=item.reason,
            last_transition=item.last_transition or 0.0,
            reason_since=item.reason_since,
        )
        for item in conditions
    )


def voices(
    inputs: DeploymentInputs, stored: Stored, conditions: Sequence[Condition], now: Instant
) -> tuple[OperatorVoice, ...]:
    """Everything the operator says, unknown types included, with whether a computed answer of ours disagrees."""
    operator = _operator(inputs)
    if operator is None:
        return ()
    mine = {item.type: item for item in conditions if item.provenance is Provenance.COMPUTED}
    since = dict(stored.disagreements)
    said = []
    for item in operator.conditions:
        other = mine.get(item.type)
        differs = other is not None and other.status.value != item.status
        said.append(
            OperatorVoice(
                type=item.type,
                status=item.status,
                reason=item.reason,
                message=item.message,
                observed_generation=item.observed_generation or operator.observed_generation,
                age_seconds=max(0.0, now.wall - operator.read_at),
                disagrees=differs,
                since=since.get(item.type, now.wall) if differs else None,
            )
        )
    return tuple(said)

"""Conditions about what the cluster grants: the cache binding, quota, weights, elastic resize.

Each function returns our own answer from objects that were observed; where they were not, `not_observable` is the
answer, never False.
"""

from __future__ import annotations

from collections.abc import Iterable

from observer.judge.eligibility import built_with
from router_contract.judging import DeploymentInputs
from router_contract.platform_facts import PlatformFacts, Unset, WeightsFact, WorkloadFact
from router_contract.targets import Replica, Role
from router_contract.verdicts import Condition, Provenance, Status

NOT_OBSERVABLE = "NotObservable"

WEIGHT_REFUSALS = frozenset(
    {"AccessModeConflict", "NodeDeliveryUnavailable", "FilterNeedsNodeDelivery", "AnchorNeedsNodeDelivery"}
)
"""Planning refusals of weight delivery: none of them creates a Pod."""


def say(kind: str, status: Status, reason: str, message: str = "") -> Condition:
    """A computed condition."""
    return Condition(type=kind, status=status, reason=reason, message=message)


def not_observable(kind: str, message: str) -> Condition:
    """The answer where the objects behind a condition could not be read: unknown, and never False."""
    return Condition(
        type=kind,
        status=Status.UNKNOWN,
        reason=NOT_OBSERVABLE,
        message=message,
        provenance=Provenance.NOT_OBSERVABLE,
    )


def domain_registered(facts: PlatformFacts) -> Condition:
    """Whether the referenced binding resolved and its domain was read."""
    kind = "DomainRegistered"
    if isinstance(facts.cache, Unset):
        return not_observable(kind, "whether a cache is declared was not observed")
    if not facts.cache:
        return say(kind, Status.TRUE, "NotApplicable", "no cache is declared")
    binding = facts.binding
    if isinstance(binding, Unset):
        return not_observable(kind, "the binding was not observed")
    if binding is None:
        return say(kind, Status.FALSE, "BindingNotFound", "the referenced binding does not exist")
    if binding.deleting:
        return say(kind, Status.FALSE, "BindingDeleting", f"binding {binding.name} is being deleted")
    if binding.ready is None:
        return not_observable(kind, f"binding {binding.name} does not tell yet whether it is ready")
    if not binding.ready:
        return say(kind, Status.FALSE, "BindingNotReady", f"binding {binding.name} is not ready")
    if not binding.domain_read:
        return not_observable(kind, f"the domain of binding {binding.name} was not read")
    return say(kind, Status.TRUE, "Registered", f"binding {binding.name} resolved and its domain was read")


def _whole(inputs: DeploymentInputs, role: Role, replica: Replica) -> bool | None:
    """Whether every member the replica was built with is there and staying; ``None`` when nobody says how many."""
    members = tuple(member for member in replica.members if not member.terminating and not member.ancillary)
    total, _ = built_with(role, replica, members, declared=inputs.facts.declared)
    return None if total is None else len(members) >= total


def _unlisted(inputs: DeploymentInputs) -> str:
    """Why nothing is known of quota: nobody looks for Workloads, none was read, or a list failed."""
    if inputs.deployment.platform == inputs.facts.platform == "static":
        return "the deployment is of a static file: nobody looks for Workloads"
    if inputs.deployment.complete and not inputs.facts.managed and not inputs.facts.sources:
        return "no Workloads are read on this platform"
    return "Workloads or Pods could not be listed"


def quota_reserved(inputs: DeploymentInputs) -> Condition:
    """Whether every Workload of the deployment holds quota: an answer about the whole set. Roles are named, not types."""
    kind, workloads = "QuotaReserved", inputs.facts.workloads
    if isinstance(workloads, Unset) or not inputs.deployment.complete:
        return not_observable(kind, _unlisted(inputs))
    parked = _roles(workload for workload in workloads if workload.deactivated)
    if parked:
        return say(kind, Status.FALSE, "Parked", f"deactivated: {parked}")
    preempted = _roles(workload for workload in workloads if workload.preempted)
    if preempted and any(workload.reserved and not workload.preempted for workload in workloads):
        return say(kind, Status.FALSE, "PreemptedInPart", f"preempted: {preempted}; the others keep their quota")
    replicas = [(role, replica) for role in inputs.deployment.roles for replica in role.replicas if replica.members]
    if not replicas:
        return say(kind, Status.UNKNOWN, "NoReplicas", "no replica exists")
    if all(member.terminating for _, replica in replicas for member in replica.members):
        return say(kind, Status.UNKNOWN, "AllReplicasTerminating", "every replica is on its way out")
    short = _short_roles(inputs)
    if short:
        return say(kind, Status.FALSE, "PodGroupIncomplete", f"short of whole replicas: {', '.join(short)}")
    staying = sum(any(not member.terminating for member in replica.members) for _, replica in replicas)
    if len(workloads) < staying:
        return _no_workload(inputs.facts, staying - len(workloads))
    waiting = _roles(workload for workload in workloads if not workload.reserved)
    if waiting:
        return say(kind, Status.FALSE, "Pending", f"waiting for quota: {waiting}")
    return say(kind, Status.TRUE, "Reserved", f"{len(workloads)} of {len(workloads)} Workloads hold quota")


def _no_workload(facts: PlatformFacts, count: int) -> Condition:
    if isinstance(facts.reserved_namespace, Unset):
        return not_observable("QuotaReserved", f"{count} replicas have no Workload, and the namespace was not observed")
    if facts.reserved_namespace:
        return say("QuotaReserved", Status.FALSE, "NoQueueInReservedNamespace", "a reserved namespace has no queue")
    return say("QuotaReserved", Status.UNKNOWN, "AdmissionInFlight", f"{count} replicas have no Workload yet")


def _short_roles(inputs: DeploymentInputs) -> list[str]:
    short = []
    for role in inputs.deployment.roles:
        whole = [_whole(inputs, role, replica) for replica in role.replicas if replica.members]
        if role.desired is not None and None not in whole and sum(map(bool, whole)) < role.desired:
            short.append(role.name)
    return short


def _roles(workloads: Iterable[WorkloadFact]) -> str:
    return ", ".join(sorted({item.role for item in workloads}))


def weights_ready(inputs: DeploymentInputs) -> Condition:
    """Whether the referenced artifact's weights are where the Pods need them."""
    kind, weights = "WeightsReady", inputs.facts.weights
    if isinstance(weights, Unset):
        return not_observable(kind, "the artifact was not observed")
    if weights is None:
        return say(kind, Status.TRUE, "NotApplicable", "no artifact is referenced")
    status, reason, message = _weights(weights)
    return say(kind, status, reason, message) if reason != NOT_OBSERVABLE else not_observable(kind, message)


def _weights(fact: WeightsFact) -> tuple[Status, str, str]:
    if not fact.found:
        return Status.FALSE, "ArtifactNotFound", "the referenced artifact does not exist"
    if not fact.resolved:
        return Status.FALSE, "ArtifactNotResolved", "the artifact's revision is not resolved"
    if fact.refused in WEIGHT_REFUSALS:
        return Status.FALSE, fact.refused, "the artifact cannot be delivered this way"
    if fact.claim_bound is False:
        return Status.FALSE, "ClaimNotBound", "the volume claim is not bound"
    if fact.failed:
        return Status.FALSE, "MaterializationFailed", "the artifact could not be materialized"
    if fact.materialized is False:
        return Status.FALSE, "Materializing", "the artifact is being materialized"
    if fact.pods_have_them is None:
        return Status.UNKNOWN, NOT_OBSERVABLE, "no Pod tells whether it has the weights"
    download = fact.delivery == "Download"
    if fact.pods_have_them:
        return Status.TRUE, "Downloaded" if download else "Mounted", "every Pod has the weights"
    return Status.FALSE, "Downloading" if download else "WeightsNotMounted", "a Pod does not have the weights"


def elastic_resize(inputs: DeploymentInputs) -> Condition | None:
    """Whether an elastic scale stands refused; ``None`` without an elastic role. A refusal inside its bound is True."""
    if not any(role.elastic for role in inputs.deployment.roles):
        return None
    kind, fact = "ElasticResize", inputs.facts.elastic
    if isinstance(fact, Unset):
        return not_observable(kind, "the elastic record was not observed")
    if fact is None:
        return say(kind, Status.TRUE, "NoRefusal", "no resize was refused")
    if fact.refused and fact.retries_spent:
        return say(kind, Status.FALSE, "ScaleRefused", fact.detail or "the retry bound is spent")
    if not fact.world_known:
        return say(kind, Status.UNKNOWN, "WorldUnprovable", fact.detail or "the live world cannot be proved")
    return say(kind, Status.TRUE, "NoRefusal", "a refusal is inside its retry bound" if fact.refused else "")

"""Conditions about what runs: replicas against their render, role kinds, publishers, the managed router."""

from __future__ import annotations

from collections.abc import Sequence

from observer.judge.conditions_cluster import not_observable, say
from router_contract.judging import DeploymentInputs, JudgePolicy
from router_contract.platform_facts import Unset
from router_contract.readings import FailureKind, Instant
from router_contract.router_views import RouterView, ViewFailed
from router_contract.status import RoleStatus
from router_contract.targets import Member, Ready, Role, RoleKind
from router_contract.verdicts import Condition, Status

_HELD = {"cache": "RolloutHeldByCache", "weights": "RolloutHeldByWeights"}


def replicas_up_to_date(inputs: DeploymentInputs) -> Condition:
    """Whether the running replicas match the desired render; an answer only for replicas a pass accounted for."""
    kind, rollout = "ReplicasUpToDate", inputs.facts.rollout
    if isinstance(rollout, Unset):
        return not_observable(kind, "the desired render was not observed")
    if rollout.accounted == 0:
        return say(kind, Status.UNKNOWN, "RolloutNotObserved", "no replica could be accounted for")
    roles = ", ".join(rollout.outdated_roles)
    if rollout.held_by in _HELD and rollout.current < rollout.accounted:
        return say(kind, Status.FALSE, _HELD[rollout.held_by], f"an edit would wait on the {rollout.held_by}: {roles}")
    if rollout.outdated_roles or rollout.current < rollout.accounted:
        return say(kind, Status.FALSE, "RolloutInProgress", f"outdated: {roles}")
    if rollout.accounted < rollout.desired:
        text = f"{rollout.accounted} of {rollout.desired} replicas exist, all current"
        return say(kind, Status.FALSE, "ReplacementInProgress", text)
    return say(kind, Status.TRUE, "UpToDate", f"{rollout.current} of {rollout.desired} replicas are current")


def role_kinds_ready(roles: Sequence[RoleStatus]) -> Condition:
    """Whether every declared kind has at least one ready replica; a take-over role counts like any other.

    A parked deployment, which wants no replica and has none, misses nothing.
    """
    kind = "RoleKindsReady"
    if not roles:
        return say(kind, Status.UNKNOWN, "NoRoleStatuses", "no role was observed")
    kinds: dict[str, list[int | None]] = {}
    for role in roles:
        kinds.setdefault(role.kind, []).append(role.ready)
    if all(role.desired == 0 and role.ready == 0 for role in roles):
        return say(kind, Status.TRUE, "AllKindsReady", "parked: no replica is wanted, and none is there")
    missing = [name for name, counts in kinds.items() if all(count == 0 for count in counts)]
    if missing:
        return say(kind, Status.FALSE, "KindsNotReady", f"no ready replica: {', '.join(missing)}")
    unknown = [name for name, counts in kinds.items() if not any(counts)]
    if unknown:
        return not_observable(kind, f"ready replicas are not known: {', '.join(unknown)}")
    counted = ", ".join(f"{name} {_of_kind(roles, name)}" for name in kinds)
    return say(kind, Status.TRUE, "AllKindsReady", f"every kind has a ready replica ({counted})")


def _of_kind(roles: Sequence[RoleStatus], kind: str) -> str:
    """``2 of 3``: the ready and the desired replicas of a kind; a part that is not known is said so."""
    of = [role for role in roles if role.kind == kind]
    ready = sum(role.ready for role in of if role.ready is not None)
    least = "at least " if any(role.ready is None for role in of) else ""
    wanted = [role.desired for role in of if role.desired is not None]
    return f"{least}{ready} of {sum(wanted) if len(wanted) == len(of) else 'an unknown number'}"


def _produces(role: Role) -> bool:
    """Whether a role produces cache blocks: Encode holds none, and Decode's are not published."""
    return role.kind not in {RoleKind.ENCODE, RoleKind.DECODE}


def kv_events_publishing(inputs: DeploymentInputs) -> Condition:
    """Whether every producing role's rendered Pods carry publisher configuration. Configuration, not traffic."""
    kind, facts, roles = "KVEventsPublishing", inputs.facts, inputs.deployment.roles
    if inputs.deployment.router is None:
        if any(role.kind != RoleKind.SERVER for role in roles):
            return say(kind, Status.FALSE, "NoRouter", "roles of several kinds and no router is declared")
        return say(kind, Status.TRUE, "NotApplicable", "no router is declared")
    producing = [role for role in roles if _produces(role)]
    for role in producing:
        if facts.managed and role.command:
            return say(kind, Status.UNKNOWN, "RoleUnmanaged", f"role {role.name} replaced its command")
    answers = [(role.name, _publishes(inputs, role)) for role in producing]
    disabled = [name for name, publishes in answers if publishes is False]
    if disabled:
        return say(kind, Status.FALSE, "PublisherDisabled", f"role {disabled[0]} is not rendered to publish")
    unknown = [name for name, publishes in answers if publishes is None]
    if unknown:
        return not_observable(kind, f"the rendered Pods of role {unknown[0]} were not observed")
    return say(kind, Status.TRUE, "Publishing", f"configured: {', '.join(name for name, _ in answers)}")


def _publishes(inputs: DeploymentInputs, role: Role) -> bool | None:
    publishers = inputs.facts.publishers
    if not isinstance(publishers, Unset):
        return next((fact.publishes for fact in publishers if fact.role == role.name), None)
    if inputs.facts.managed:
        return None
    serving = [member for member in role.members() if member.serves]
    if serving and all(member.kv_events for member in serving):
        return True
    # a file says all there is; a platform that publishes no sockets says nothing of who has one
    return False if serving and inputs.facts.ready_by_reading else None


def router_ready(inputs: DeploymentInputs, now: Instant, policy: JudgePolicy) -> Condition:
    """Whether the router rendered and has a ready replica. A render refusal is an answer here, not an error."""
    kind, router, facts = "RouterReady", inputs.deployment.router, inputs.facts
    if router is None:
        return say(kind, Status.TRUE, "NotApplicable", "no router is declared")
    objects = facts.router_objects
    if facts.managed and isinstance(objects, Unset):
        return not_observable(kind, "the router's objects were not observed")
    if objects is not None and not isinstance(objects, Unset):
        if objects.render_error:
            return say(kind, Status.FALSE, "RenderFailed", objects.render_error)
        if not objects.deployed:
            return say(kind, Status.UNKNOWN, "NotDeployed", "the router does not exist yet")
        if objects.ready is None:
            # its keeper has not reported on it: the Pods themselves are all there is
            return _from_members(inputs, now, policy)
        if objects.ready < 1:
            return say(kind, Status.FALSE, "NoReadyReplicas", f"{router.name} has no ready replica")
        return say(kind, Status.TRUE, "Ready", f"{objects.ready} ready")
    if objects is None or (not router.members and inputs.deployment.complete):
        return say(kind, Status.UNKNOWN, "NotDeployed", "no router Pod exists")
    return _from_members(inputs, now, policy)


def _from_members(inputs: DeploymentInputs, now: Instant, policy: JudgePolicy) -> Condition:
    ready = router_ready_count(inputs, now, policy)
    if ready is None:
        return not_observable("RouterReady", "nobody reported on the router's replicas")
    if ready == 0:
        return say("RouterReady", Status.FALSE, "NoReadyReplicas", "no router replica is ready")
    return say("RouterReady", Status.TRUE, "Ready", f"{ready} ready")


def router_ready_count(inputs: DeploymentInputs, now: Instant, policy: JudgePolicy) -> int | None:
    """Ready router replicas; ``None`` when none is known to be ready and one is not known at all."""
    router = inputs.deployment.router
    if router is None:
        return None
    objects = inputs.facts.router_objects
    if objects is not None and not isinstance(objects, Unset) and (objects.ready is not None or not objects.deployed):
        return objects.ready
    live = [member for member in router.members if not member.terminating]
    states = [_router_state(inputs, member, now, policy) for member in live]
    ready = states.count(Ready.TRUE)
    return None if not ready and (Ready.UNKNOWN in states or not inputs.deployment.complete) else ready


_NOT_REACHED = frozenset(
    {FailureKind.REFUSED, FailureKind.UNREACHABLE, FailureKind.DNS, FailureKind.TIMEOUT, FailureKind.TLS}
)
"""Failed questions to a router's API that leave it open whether it serves, whatever its metrics port does."""


def _router_state(inputs: DeploymentInputs, member: Member, now: Instant, policy: JudgePolicy) -> Ready:
    """One router replica: as its Pod says; on static targets by our reads.

    A valid view is an answer. A router whose API answers, and tells no workers, is up where its metrics are fresh; so is
    one that has no API address. Refused on both ports nobody is there.
    """
    if member.ready is Ready.TRUE or not inputs.facts.ready_by_reading:
        return member.ready
    views = [item for item in inputs.views if item.pod_uid == member.uid]
    good = (item for item in views if isinstance(item, RouterView))
    if any(now.mono - item.read_at.mono <= policy.view_validity for item in good):
        return Ready.TRUE
    if member.ready is Ready.FALSE:
        return Ready.FALSE
    failed = next((item for item in views if isinstance(item, ViewFailed)), None)
    metrics = next((item for item in inputs.freshness if item.uid == member.uid), None)
    if failed is None or metrics is None:
        return Ready.UNKNOWN
    if metrics.failure is FailureKind.REFUSED and failed.kind == FailureKind.REFUSED:
        return Ready.FALSE
    fresh = metrics.failure is None and metrics.age is not None and metrics.age <= policy.fresh_within
    return Ready.TRUE if fresh and failed.kind not in _NOT_REACHED else Ready.UNKNOWN

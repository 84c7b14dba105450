"""Roles and the deployment in a few words: ready counts, quota, flavors, role summary, phase, endpoint."""

from __future__ import annotations

from collections.abc import Sequence

from observer.judge.convergence import Selection, serving
from observer.judge.eligibility import built_with
from observer.judge.groups import JudgedGroup, ranks_seen
from observer.judge.parallelism import read_parallelism
from observer.judge.qualification import eligible_count
from observer.judge.readiness import readiness, serves_tls
from observer.judge.standing import refused_since_answer
from router_contract.judging import DeploymentInputs
from router_contract.platform_facts import Unset
from router_contract.status import Endpoints, GroupVerdict, Phase, RoleStatus
from router_contract.targets import Member, Ready, Role, RoleKind
from router_contract.verdicts import Condition, Status

_LETTERS = ((RoleKind.SERVER, "S"), (RoleKind.ENCODE, "E"), (RoleKind.PREFILL, "P"), (RoleKind.DECODE, "D"))


def role_status(
    inputs: DeploymentInputs, role: Role, groups: Sequence[JudgedGroup], selection: Selection
) -> RoleStatus:
    """One role as shown. Counts are of replicas; a replica of several Pods counts once, and only when it is whole."""
    own = [item for item in groups if item.verdict.role == role.name]
    eligible = eligible_count(own, complete=inputs.deployment.complete, desired=role.desired)
    return RoleStatus(
        name=role.name,
        kind=role.kind,
        desired=role.desired,
        ready=_ready(inputs, role, own),
        unmanaged=bool(role.command) if inputs.facts.managed else None,
        quota_reserved=_quota(inputs, role),
        assigned_flavors=_flavors(inputs, role),
        parallelism=read_parallelism(role, managed=inputs.facts.managed, ranks_seen=ranks_seen(inputs, role)),
        endpoints=Endpoints(eligible=eligible, serving=serving(selection, role)),
        readiness=readiness(role, inputs.facts),
        groups=tuple(item.verdict for item in own),
    )


def _ready(inputs: DeploymentInputs, role: Role, groups: Sequence[JudgedGroup]) -> int | None:
    """Ready replicas; ``None`` while one of them is not known. An elastic role counts its master."""
    if not inputs.deployment.complete:
        return None
    if role.elastic:
        states = [_elastic_ready(role)] if any(role.members()) else []
    else:
        states = [_replica_ready(inputs, role, group) for group in groups]
    return None if None in states else sum(map(bool, states))


def _elastic_ready(role: Role) -> bool | None:
    masters = [member for member in role.members() if member.serves and not member.terminating]
    if not masters:
        return False
    states = {member.ready for member in masters}
    return None if Ready.UNKNOWN in states else Ready.FALSE not in states


def _replica_ready(inputs: DeploymentInputs, role: Role, group: JudgedGroup) -> bool | None:
    members = tuple(member for member in group.replica.members if not member.terminating and not member.ancillary)
    total, _ = built_with(role, group.replica, members, declared=inputs.facts.declared)
    if total is None:
        return None
    if len(members) < total:
        return False
    by_reading = inputs.facts.ready_by_reading
    states = [_member_ready(inputs, group.verdict, member) for member in members if member.serves or not by_reading]
    if False in states:
        return False
    return None if None in states or not states else True


def _member_ready(inputs: DeploymentInputs, group: GroupVerdict, member: Member) -> bool | None:
    """A Pod's own Ready on a platform; on static targets what our reads said, where a refused engine is not ready."""
    if not inputs.facts.ready_by_reading:
        return {Ready.TRUE: True, Ready.FALSE: False}.get(member.ready)
    ready = next((item.ready for item in group.members if item.uid == member.uid), Ready.UNKNOWN.value)
    if ready == Ready.TRUE:
        return True
    return False if ready == Ready.FALSE or refused_since_answer(inputs.evidence(member.uid)) else None


def _quota(inputs: DeploymentInputs, role: Role) -> int | None:
    """Replicas that hold a reservation: an observed 0 is a number, an unread list is nothing."""
    workloads = inputs.facts.workloads
    if isinstance(workloads, Unset) or not inputs.deployment.complete:
        return None
    return sum(item.role == role.name and item.reserved for item in workloads)


def _flavors(inputs: DeploymentInputs, role: Role) -> tuple[str, ...] | None:
    workloads = inputs.facts.workloads
    if isinstance(workloads, Unset):
        return None
    return tuple(sorted({flavor for item in workloads if item.role == role.name for flavor in item.flavors})) or None


def role_summary(roles: Sequence[RoleStatus], *, router: bool, router_ready: int | None) -> str:
    """``1R2S1E1P1D``: R only with a declared router, then the declared kinds in this order; ``?`` for a count not known."""
    parts = [f"{_count(router_ready)}R"] if router else []
    for kind, letter in _LETTERS:
        counts = [role.ready for role in roles if role.kind == kind]
        if counts:
            total = None if None in counts else sum(count or 0 for count in counts)
            parts.append(f"{_count(total)}{letter}")
    return "".join(parts)


def _count(value: int | None) -> str:
    return "?" if value is None else str(value)


def phase(inputs: DeploymentInputs, roles: Sequence[RoleStatus], conditions: Sequence[Condition]) -> tuple[Phase, str]:
    """The phase and its message. Where counts are not known it is decided only if no value of them could change it."""
    if inputs.deployment.deleting:
        return Phase.DELETING, "the deployment is being deleted"
    by_type = {item.type: item for item in conditions}
    wanted = [role.desired for role in roles]
    if None in wanted or not roles:
        return Phase.UNKNOWN, "how many replicas are wanted is not known"
    desired = sum(count or 0 for count in wanted)
    unknown = [role.name for role in roles if role.ready is None]
    low = sum(role.ready or 0 for role in roles)
    if low == desired and not unknown:
        return _all_ready(inputs, by_type.get("RouterReady"))
    if unknown:
        known_short = any(role.ready is not None and role.ready < (role.desired or 0) for role in roles)
        if low and known_short:
            return Phase.DEGRADED, f"{low} of {desired} replicas are known to be ready"
        return Phase.UNKNOWN, f"ready replicas are not known: {', '.join(unknown)}"
    if low:
        return Phase.DEGRADED, f"{low} of {desired} replicas are ready"
    return Phase.STARTING, _starting(inputs, by_type)


def _all_ready(inputs: DeploymentInputs, router: Condition | None) -> tuple[Phase, str]:
    if inputs.deployment.router is None or (router is not None and router.status is Status.TRUE):
        return Phase.READY, ""
    if router is None or (router.status is Status.UNKNOWN and router.reason != "NotDeployed"):
        return Phase.UNKNOWN, router.message if router is not None else "the router was not observed"
    return Phase.DEGRADED, router.message


def _starting(inputs: DeploymentInputs, by_type: dict[str, Condition]) -> str:
    quota, weights = by_type.get("QuotaReserved"), by_type.get("WeightsReady")
    message = quota.message if quota is not None else ""
    pods = any(member for role in inputs.deployment.roles for member in role.members())
    if weights is not None and weights.status is Status.FALSE and not pods:
        message = weights.message
    return "; ".join(text for text in (message, inputs.facts.eviction_note) if text)


def endpoint(inputs: DeploymentInputs, router: Condition | None) -> str | None:
    """The serving address: the router's once it is ready, else the Service of the first role that is not Encode.

    ``None`` where it is absent or cannot be derived; a platform that states an endpoint is believed.
    """
    facts, key = inputs.facts, inputs.deployment.key
    if inputs.deployment.router is not None and (router is None or router.status is not Status.TRUE):
        return None
    if not isinstance(facts.endpoint, Unset):
        return facts.endpoint
    if not facts.managed:
        return None
    if inputs.deployment.router is not None:
        contract = facts.contract
        return contract.endpoint or None if contract is not None and not isinstance(contract, Unset) else None
    role = next((item for item in inputs.deployment.roles if item.kind != RoleKind.ENCODE), None)
    if role is None or facts.port is None:
        return None
    scheme = "https" if serves_tls(role) else "http"
    return f"{scheme}://{key.name}.{key.namespace}.svc:{facts.port}"

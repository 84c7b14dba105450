"""Our metric families about what judging says: conditions, phase, groups, eligibility, stalls, convergence.

They follow the last judging pass. A deployment that was not judged yet has none of these series, and what a pass could
not decide has no series: a replica count, an eligibility or a convergence that is absent is not known, never 0. Labels
hold words from closed lists; a reason that an operator wrote is no label.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from exporters.family import DEPLOYMENT, POD, RANK, ROLE, Family, FamilyType, Row, state_set
from exporters.snapshot import Snapshot
from router_contract.status import Convergence, GroupState, GroupVerdict, LegName, Phase, RoleStatus, ServingState
from router_contract.targets import Member, Replica
from router_contract.verdicts import DeploymentReport, Provenance, Status

ELIGIBLE = frozenset({GroupState.ELIGIBLE})
INELIGIBLE = frozenset({GroupState.RETIRING, GroupState.REPLACING, GroupState.INCOMPLETE, GroupState.NOT_READY})
"""The states of a group that lost its eligibility by a fact; in the ones in neither set nobody can tell."""


def _judged(snapshot: Snapshot) -> Iterator[tuple[DeploymentReport, tuple[str, str]]]:
    for report in snapshot.reports:
        if report.judged:
            yield report, (report.key.namespace, report.key.name)


def _exists(replica: Replica) -> bool:
    return any(not member.terminating for member in replica.members)


def replicas(snapshot: Snapshot) -> Iterator[Row]:
    """Replicas of every role by state; a state whose number is not known has no row."""
    for report in snapshot.reports:
        found = {role.name: role for role in report.role_status} if report.judged else {}
        for role in report.deployment.roles:
            observed = sum(map(_exists, role.replicas)) if report.deployment.complete else None
            judged = found.get(role.name)
            numbers = {
                "desired": role.desired,
                "observed": observed,
                "ready": judged.ready if judged is not None else None,
                "eligible": judged.endpoints.eligible if judged is not None else None,
            }
            for state, number in numbers.items():
                if number is not None:
                    yield (report.key.namespace, report.key.name, role.name, state), float(number)


def _conditions(snapshot: Snapshot) -> Iterator[Row]:
    """Three rows for each condition, 1 at its status, which carries the reason when the reason is one of ours."""
    for report, labels in _judged(snapshot):
        for item in report.conditions:
            reason = "" if item.provenance is Provenance.MIRRORED else item.reason
            for status in Status:
                holds = item.status is status
                yield (*labels, item.type, status.value.lower(), reason if holds else ""), float(holds)


def _phase(snapshot: Snapshot) -> Iterator[Row]:
    for report, labels in _judged(snapshot):
        yield from state_set(labels, Phase, report.phase)


def _groups(snapshot: Snapshot) -> Iterator[tuple[tuple[str, ...], RoleStatus, GroupVerdict]]:
    for report, labels in _judged(snapshot):
        for role in report.role_status:
            for group in role.groups:
                yield (*labels, role.name), role, group


def _group_states(snapshot: Snapshot) -> Iterator[Row]:
    """A group is named by its ordinal, where the platform has one, and by its first member."""
    for labels, _, group in _groups(snapshot):
        ordinal = "" if group.ordinal is None else str(group.ordinal)
        first = group.members[0].name if group.members else ""
        yield from state_set((*labels, ordinal, first), GroupState, group.state)


def _pods(report: DeploymentReport) -> dict[str, tuple[str, ...]]:
    """The labels of each serving engine Pod by its UID."""
    return {
        member.uid: (report.key.namespace, report.key.name, role.name, member.name, _port(member))
        for role in report.deployment.roles
        for member in role.members()
        if member.serves
    }


def _port(member: Member) -> str:
    address = member.metrics if member.metrics is not None else member.api
    return "" if address is None else str(address.port)


def _decided(snapshot: Snapshot) -> Iterator[tuple[tuple[str, ...], GroupVerdict]]:
    """Every serving Pod of a group whose eligibility is known, with the group."""
    for report, _ in _judged(snapshot):
        pods = _pods(report)
        for role in report.role_status:
            for group in role.groups:
                if group.state in ELIGIBLE | INELIGIBLE:
                    yield from ((pods[item.uid], group) for item in group.members if item.uid in pods)


def _eligible(snapshot: Snapshot) -> Iterator[Row]:
    for labels, group in _decided(snapshot):
        yield labels, float(group.state in ELIGIBLE)


def _reasons(snapshot: Snapshot) -> Iterator[Row]:
    for labels, group in _decided(snapshot):
        yield from state_set(labels, LegName, group.reason if group.state in INELIGIBLE else None)


def _stalls(snapshot: Snapshot) -> Iterator[Row]:
    for report, _ in _judged(snapshot):
        pods, ranked = _pods(report), _ranked(report)
        for stall in report.stalls:
            if stall.uid in pods:
                yield (*pods[stall.uid], stall.rank if stall.uid in ranked else ""), stall.seconds


_RANKED = frozenset({"requests-running", "requests-waiting", "prompt-tokens", "generation-tokens"})
"""Signals that every engine has, with a rank wherever it tells ranks apart."""


def _ranked(report: DeploymentReport) -> set[str]:
    """The members whose series name ranks; the series of the others carry no rank, here as everywhere.

    Only those signals are looked at that every report for an exposition has.
    """
    return {
        target.status.key.member_uid
        for target in report.targets
        if any(name == "rank" for value in target.values if value.signal in _RANKED for name, _ in value.labels)
    }


def _routed(snapshot: Snapshot) -> Iterator[tuple[tuple[str, ...], DeploymentReport, Convergence]]:
    for report, labels in _judged(snapshot):
        if report.deployment.router is not None and report.convergence is not None:
            yield (*labels, report.deployment.router.name), report, report.convergence


def _router_endpoints(snapshot: Snapshot) -> Iterator[Row]:
    """A 0 of wanted, missing and extra is a number only while every group is decided; above 0 each is a fact."""
    for labels, report, found in _routed(snapshot):
        decided = all(role.endpoints.eligible is not None for role in report.role_status)
        confirmed = found.serving.state is ServingState.CONFIRMED
        numbers: Mapping[str, int | None] = {
            "wanted": len(found.wanted) if decided else None,
            "seen": len(found.selected) if found.valid else None,
            "missing": len(found.missing) if confirmed and (decided or found.missing) else None,
            "extra": len(found.extra) if confirmed and (decided or found.extra) else None,
        }
        for state, number in numbers.items():
            if number is not None:
                yield (*labels, state), float(number)


def _converged(snapshot: Snapshot) -> Iterator[Row]:
    for labels, report, _ in _routed(snapshot):
        status = next((item.status for item in report.conditions if item.type == "RouterConverged"), Status.UNKNOWN)
        if status is not Status.UNKNOWN:
            yield labels, float(status is Status.TRUE)


def _convergence(snapshot: Snapshot) -> Iterable[Row]:
    for report, labels in _judged(snapshot):
        if report.convergence_seconds is not None:
            yield labels, report.convergence_seconds


STATUS_FAMILIES: tuple[Family, ...] = (
    Family(
        name="modeldeployment_status_condition",
        help="1 at the status of a condition: true, false or unknown; that series carries the reason.",
        labels=(*DEPLOYMENT, "condition", "status", "reason"),
        rows=_conditions,
    ),
    Family(
        name="modeldeployment_status_phase",
        help="1 at the phase of the deployment as the observer sees it.",
        labels=(*DEPLOYMENT, "phase"),
        rows=_phase,
    ),
    Family(
        name="modeldeployment_replicas",
        help="Replicas of a role: desired, observed with a Pod that stays, ready, and eligible for traffic.",
        labels=(*ROLE, "state"),
        rows=replicas,
    ),
    Family(
        name="modeldeployment_group_state",
        help="1 at the state of a serving group.",
        labels=(*ROLE, "ordinal", "pod", "state"),
        rows=_group_states,
    ),
    Family(
        name="modeldeployment_endpoint_eligible",
        help="Whether an endpoint may get traffic; absent while that is not known.",
        labels=POD,
        rows=_eligible,
    ),
    Family(
        name="modeldeployment_endpoint_ineligible_reason",
        help="1 at the criterion that took the eligibility of an endpoint; all 0 for an eligible one.",
        labels=(*POD, "reason"),
        rows=_reasons,
    ),
    Family(
        name="modeldeployment_endpoint_stall_seconds",
        help="For how long a rank has had work and made no progress; absent while its progress is not known.",
        labels=RANK,
        rows=_stalls,
        signals=_RANKED,
    ),
    Family(
        name="modeldeployment_router_endpoints",
        help="Endpoints that routers should select and do: wanted, seen, missing, extra.",
        labels=(*DEPLOYMENT, "router", "state"),
        rows=_router_endpoints,
    ),
    Family(
        name="modeldeployment_router_converged",
        help="Whether routers select exactly the eligible endpoints; absent while that is not known.",
        labels=(*DEPLOYMENT, "router"),
        rows=_converged,
    ),
    Family(
        name="modeldeployment_router_convergence_seconds",
        help="Time from a change of the eligible endpoints until every router selects exactly them.",
        type=FamilyType.HISTOGRAM,
        labels=DEPLOYMENT,
        rows=_convergence,
    ),
)

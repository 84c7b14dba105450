"""From groups to answers: eligible counts, the eligibility condition, and whether routers select what is eligible."""

from __future__ import annotations

from collections.abc import Sequence

from observer.judge.convergence import Selection, serving, uids
from observer.judge.groups import HELD, REVOKED, JudgedGroup
from router_contract.judging import DeploymentInputs, Stored
from router_contract.readings import Instant
from router_contract.status import Convergence, GroupState, LegState, ServingState
from router_contract.verdicts import Condition, Status

ELIGIBILITY = "EndpointEligibility"
CONVERGED = "RouterConverged"


def eligible_count(groups: Sequence[JudgedGroup], *, complete: bool, desired: int | None) -> int | None:
    """Eligible groups of one role; ``None`` while any of them is undecided or none is there to decide on.

    A role that wants nothing and has nothing is an observed 0.
    """
    if not complete or any(item.verdict.state in HELD for item in groups):
        return None
    if not groups:
        return 0 if desired == 0 else None
    return sum(item.verdict.state is GroupState.ELIGIBLE for item in groups)


def endpoint_eligibility(groups: Sequence[JudgedGroup]) -> Condition:
    """Whether endpoints have been qualified: revoked outranks held, held outranks qualified, and none observed is none."""
    observed = [item for item in groups if item.observed]
    if not observed:
        return _eligibility(Status.UNKNOWN, "NotObserved", "no qualification was observed")
    revoked = [item for item in observed if item.verdict.state in REVOKED]
    if revoked:
        return _eligibility(Status.FALSE, "Revoked", f"{len(revoked)} of {len(observed)}: {_names(revoked)}")
    held = [item for item in groups if item.verdict.state in HELD and not item.verdict.elastic]
    if held:
        legs = sorted(
            {leg.name.value for item in held for leg in item.verdict.legs if leg.state is LegState.UNKNOWN}
            | {item.verdict.reason for item in held if item.verdict.state is GroupState.AWAITING_OBSERVATION}
        )
        what = f" ({', '.join(legs)})" if legs else ""
        return _eligibility(
            Status.UNKNOWN, "HeldUnverified", f"{len(held)} of {len(groups)} held{what}: {_names(held)}"
        )
    return _eligibility(Status.TRUE, "Qualified", f"{len(observed)} of {len(observed)} qualified")


def _eligibility(status: Status, reason: str, message: str) -> Condition:
    return Condition(type=ELIGIBILITY, status=status, reason=reason, message=message)


def group_name(item: JudgedGroup) -> str:
    """How a group is named to people: the role, and its ordinal where the platform numbers replicas."""
    ordinal = "" if item.verdict.ordinal is None else f"/{item.verdict.ordinal}"
    return f"{item.verdict.role}{ordinal}"


def _names(groups: Sequence[JudgedGroup]) -> str:
    shown = [f"{group_name(item)} {item.verdict.state.value}" for item in groups[:5]]
    return ", ".join(shown) + (f" and {len(groups) - 5} more" if len(groups) > 5 else "")


def converge(
    inputs: DeploymentInputs, stored: Stored, selection: Selection, groups: Sequence[JudgedGroup], now: Instant
) -> tuple[Convergence, Condition]:
    """The convergence finding and its condition.

    Missing are serving members of eligible groups that no router selects, extra are selected members of groups that
    lost eligibility by a fact. A selected member of an undecided group is neither, and keeps the answer Unknown.
    """
    eligible = [item for item in groups if item.verdict.state is GroupState.ELIGIBLE]
    wanted = tuple(sorted({uid for item in eligible for uid in item.serving}))
    seen = uids(selection.selected) if selection.valid else ()
    revoked = {uid for item in groups if item.verdict.state in REVOKED for uid in _all_members(item)}
    confirmed = selection.state is ServingState.CONFIRMED
    missing = tuple(uid for uid in wanted if uid not in seen) if confirmed else ()
    extra = tuple(uid for uid in seen if uid in revoked) if confirmed else ()
    status, reason = _finding(inputs, selection, groups, missing=missing, extra=extra)
    key = f"{status.value}/{reason}"
    since = stored.converged_since if stored.converged == key else now.wall
    took = _took(stored, wanted, key, now) if reason == "Converged" else None
    convergence = Convergence(
        serving=serving(selection),
        roles=tuple((role.name, serving(selection, role)) for role in inputs.deployment.roles),
        valid=selection.valid,
        views_expected=selection.expected,
        views_usable=selection.usable,
        listed=tuple(sorted(selection.listed)),
        selected=seen,
        refused=uids(selection.refused) if selection.valid else (),
        wanted=wanted,
        missing=missing,
        extra=extra,
        conflicts=selection.conflicts,
        since=since,
        took_seconds=took,
    )
    return convergence, Condition(
        type=CONVERGED,
        status=status,
        reason=reason,
        message=_message(inputs, convergence, selection, reason),
        evidence=(
            ("wanted", str(len(wanted))),
            ("seen", str(len(seen)) if selection.valid else "not known"),
            ("missing", str(len(missing))),
            ("extra", str(len(extra))),
        ),
    )


def _took(stored: Stored, wanted: tuple[str, ...], key: str, now: Instant) -> float | None:
    """Seconds from the last change of the eligible set to this convergence; ``None`` when it converged before.

    The first pass of a new deployment has no history to measure from.
    """
    if wanted != stored.eligible_set:
        return 0.0 if stored.converged else None
    if stored.converged == key or stored.eligible_changed_at is None:
        return None
    return max(0.0, now.wall - stored.eligible_changed_at)


def _all_members(item: JudgedGroup) -> set[str]:
    return {member.uid for member in item.verdict.members}


def _finding(
    inputs: DeploymentInputs,
    selection: Selection,
    groups: Sequence[JudgedGroup],
    *,
    missing: Sequence[str],
    extra: Sequence[str],
) -> tuple[Status, str]:
    if selection.state is ServingState.NOT_CONFIGURED:
        return Status.TRUE, "NotConfigured"
    if selection.state is ServingState.UNKNOWN:
        return Status.UNKNOWN, "ViewUnavailable"
    if selection.state is ServingState.NOT_CONVERGED:
        return Status.FALSE, "ViewsDisagree"
    if missing:
        return Status.FALSE, "MissingEndpoint"
    if extra:
        return Status.FALSE, "ExtraEndpoint"
    undecided = any(item.verdict.state in HELD and not item.verdict.elastic for item in groups)
    if undecided or not inputs.deployment.complete:
        return Status.UNKNOWN, "EligibilityUnknown"
    return Status.TRUE, "Converged"


def _message(inputs: DeploymentInputs, found: Convergence, selection: Selection, reason: str) -> str:
    names = {member.uid: member.name for role in inputs.deployment.roles for member in role.members()}

    def say(uids_: Sequence[str]) -> str:
        return ", ".join(names.get(uid, uid) for uid in uids_[:5]) + (
            f" and {len(uids_) - 5} more" if len(uids_) > 5 else ""
        )

    texts = {
        "NotConfigured": "no router is declared",
        "MissingEndpoint": f"eligible and not selected: {say(found.missing)}",
        "ExtraEndpoint": f"selected and not eligible: {say(found.extra)}",
        "EligibilityUnknown": "routers agree, and which replicas are eligible is not decided",
        "Converged": f"routers select the {len(found.wanted)} eligible endpoints",
    }
    return texts.get(reason, selection.fault)

"""From groups to answers: eligible counts, the eligibility condition, and whether routers select what is eligible."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from observer.judge.convergence import Selection, serving, uids
from observer.judge.groups import HELD, REVOKED, JudgedGroup
from observer.judge.refusals import selected_by, why_not_selected
from router_contract.judging import DeploymentInputs, Stored
from router_contract.readings import Instant
from router_contract.status import Convergence, GroupState, LegState, ServingState
from router_contract.verdicts import Condition, Status

ELIGIBILITY = "EndpointEligibility"
CONVERGED = "RouterConverged"
_SHOWN = 5
"""Groups, or members, that one sentence names of each sort."""


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
    """Whether endpoints have been qualified: revoked outranks held, held outranks qualified, and none observed is none.

    Each group that is not eligible is named with why, also one that is held while another is revoked.
    """
    observed = [item for item in groups if item.observed]
    if not observed:
        unseen = [item for item in groups if not item.verdict.elastic]
        return _eligibility(Status.UNKNOWN, "NotObserved", "no qualification was observed", unseen[:_SHOWN])
    revoked = [item for item in observed if item.verdict.state in REVOKED]
    held = [item for item in groups if item.verdict.state in HELD and not item.verdict.elastic]
    if revoked:
        text = f"{len(revoked)} of {len(observed)}: {_names(revoked)}"
        text += f"; not decided: {_names(held)}" if held else ""
        return _eligibility(Status.FALSE, "Revoked", text, (*revoked[:_SHOWN], *held[:_SHOWN]))
    if held:
        legs = sorted(
            {leg.name.value for item in held for leg in item.verdict.legs if leg.state is LegState.UNKNOWN}
            | {item.verdict.reason for item in held if item.verdict.state is GroupState.AWAITING_OBSERVATION}
        )
        what = f" ({', '.join(legs)})" if legs else ""
        text = f"{len(held)} of {len(groups)} held{what}: {_names(held)}"
        return _eligibility(Status.UNKNOWN, "HeldUnverified", text, held[:_SHOWN])
    return _eligibility(Status.TRUE, "Qualified", f"{len(observed)} of {len(observed)} qualified")


def _eligibility(status: Status, reason: str, message: str, groups: Sequence[JudgedGroup] = ()) -> Condition:
    evidence = tuple((group_name(item), item.verdict.message) for item in groups)
    return Condition(type=ELIGIBILITY, status=status, reason=reason, message=message, evidence=evidence)


def group_name(item: JudgedGroup) -> str:
    """How a group is named to people: the role, and its ordinal where the platform numbers replicas."""
    ordinal = "" if item.verdict.ordinal is None else f"/{item.verdict.ordinal}"
    return f"{item.verdict.role}{ordinal}"


def _names(groups: Sequence[JudgedGroup]) -> str:
    shown = [f"{group_name(item)} {item.verdict.state.value}" for item in groups[:_SHOWN]]
    return ", ".join(shown) + (f" and {len(groups) - _SHOWN} more" if len(groups) > _SHOWN else "")


def converge(
    inputs: DeploymentInputs, stored: Stored, selection: Selection, groups: Sequence[JudgedGroup], now: Instant
) -> tuple[Convergence, Condition]:
    """The convergence finding and its condition.

    Missing are serving members of eligible groups that no router selects, extra are selected members of groups that
    lost eligibility by a fact, and those that serve nothing whatever their group is (a follower of a leader). A selected
    member of an undecided group that does serve is neither, and keeps the answer Unknown.
    """
    eligible = [item for item in groups if item.verdict.state is GroupState.ELIGIBLE]
    wanted = tuple(sorted({uid for item in eligible for uid in item.serving}))
    seen = uids(selection.selected) if selection.valid else ()
    unfit = {uid for item in groups for uid in _unfit(item)}
    confirmed = selection.state is ServingState.CONFIRMED
    missing = tuple(uid for uid in wanted if uid not in seen) if confirmed else ()
    extra = tuple(uid for uid in seen if uid in unfit) if confirmed else ()
    status, reason = _finding(inputs, selection, groups, missing=missing, extra=extra)
    key = f"{status.value}/{reason}"
    since = stored.converged_since if stored.converged == key else now.wall
    took = _took(stored, wanted, now) if reason == "Converged" else None
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
        evidence=_numbers(convergence),
    )


def _numbers(found: Convergence) -> tuple[tuple[str, str], ...]:
    """The counts behind the finding. Unless views are confirmed, what is missing or extra is not known, and is not 0."""
    state = found.serving.state
    if state is ServingState.NOT_CONFIGURED:
        return ()
    confirmed = state is ServingState.CONFIRMED
    return (
        ("wanted", str(len(found.wanted))),
        ("seen", str(len(found.selected)) if found.valid else "not known"),
        ("missing", str(len(found.missing)) if confirmed else "not known"),
        ("extra", str(len(found.extra)) if confirmed else "not known"),
    )


_UNSEEN = f"{Status.UNKNOWN.value}/ViewUnavailable"


def _took(stored: Stored, wanted: tuple[str, ...], now: Instant) -> float | None:
    """Seconds from the last change of the eligible set to this first convergence of it; ``None`` for any later one.

    There is nothing to measure on the first pass, nor where the pass before saw no views: the routers may have followed
    while nobody could look.
    """
    if not stored.converged or stored.converged == _UNSEEN:
        return None
    if wanted != stored.eligible_set:
        return 0.0
    if not stored.converging or stored.eligible_changed_at is None:
        return None
    return max(0.0, now.wall - stored.eligible_changed_at)


def still_converging(stored: Stored, wanted: tuple[str, ...], reason: str) -> bool:
    """Whether a change of the eligible set is still to be followed by the routers after a pass that found ``reason``.

    The first pass sees no change: since when its set is eligible is not known.
    """
    if reason in {"Converged", "NotConfigured"} or not stored.converged:
        return False
    return stored.converging or wanted != stored.eligible_set


def _unfit(item: JudgedGroup) -> set[str]:
    """The members of a group that no router should select: all of one that lost eligibility, else those that serve nothing.

    Who serves in an elastic collective is not told by its group.
    """
    members = {member.uid for member in item.verdict.members}
    if item.verdict.state in REVOKED:
        return members
    return set() if item.verdict.elastic else members - set(item.serving)


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
    if reason == "MissingEndpoint":
        return f"eligible and not selected: {_members(inputs, found.missing, why_not_selected)}"
    if reason == "ExtraEndpoint":
        return f"selected and not eligible: {_members(inputs, found.extra, _selected)}"
    both = sorted({item.uid for item in selection.selected & selection.refused})
    if reason == "ViewsDisagree" and both:
        sides = f"selected by {selected_by(inputs, both[0])}; {why_not_selected(inputs, both[0])}"
        return f"{selection.fault} ({sides})"
    texts = {
        "NotConfigured": "no router is declared",
        "EligibilityUnknown": "routers agree, and which replicas are eligible is not decided",
        "Converged": f"routers select the {len(found.wanted)} eligible endpoints",
    }
    return texts.get(reason, selection.fault)


def _members(inputs: DeploymentInputs, uids_: Sequence[str], why: Callable[[DeploymentInputs, str], str]) -> str:
    """Some members by name, each with what routers say of it."""
    names = {member.uid: member.name for role in inputs.deployment.roles for member in role.members()}
    told = [(names.get(uid, uid), why(inputs, uid)) for uid in uids_[:_SHOWN]]
    shown = ", ".join(f"{name} ({reason})" if reason else name for name, reason in told)
    return shown + (f" and {len(uids_) - _SHOWN} more" if len(uids_) > _SHOWN else "")


def _selected(inputs: DeploymentInputs, uid: str) -> str:
    routers = selected_by(inputs, uid)
    return f"by {routers}" if routers else ""

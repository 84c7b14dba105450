"""One main answer in three sentences, then every other independent False, then what is not known."""

from __future__ import annotations

from collections.abc import Sequence

from observer.judge.advice import advice
from observer.judge.groups import JudgedGroup
from observer.judge.standing import Standing
from router_contract.judging import DeploymentInputs
from router_contract.readings import Instant
from router_contract.status import Explanation, Finding, GroupState, Phase, RoleStatus
from router_contract.verdicts import Condition, Provenance, Status

MAIN_ORDER = (
    "QuotaReserved",
    "WeightsReady",
    "StartupLoop",
    "EngineProgressing",
    "Down",
    "RouterReady",
    "EndpointEligibility",
    "RouterConverged",
    "RoleKindsReady",
    "RouterContractHolds",
    "CacheAttached",
    "KVEventsLive",
    "DomainRegistered",
    "ElasticResize",
    "ReplicasUpToDate",
    "CanaryAnalysis",
    "KVEventsPublishing",
    "OperatorCurrent",
    "MetricsFresh",
    "Failing",
)
"""Which False is told first: what keeps most from being served. The platform's own order, if it has one, goes first."""

_FOLLOWS_LOADING = frozenset({"RoleKindsReady", "RouterReady", "RouterConverged", "MetricsFresh"})
"""What is False by itself while engines load: the loading is the answer then, and these stand beside it."""

_TROUBLE = {Standing.STARTUP_LOOP: "False", Standing.DOWN: "False", Standing.FAILING: "False"}
_OPEN = {Standing.LOADING: "Unknown", Standing.SATURATED: "Unknown"}


def explain(
    inputs: DeploymentInputs,
    phase: Phase,
    roles: Sequence[RoleStatus],
    groups: Sequence[JudgedGroup],
    conditions: Sequence[Condition],
    now: Instant,
) -> Explanation:
    """The explanation. Unknown is listed as not known, never as wrong; it is the main answer only without any False."""
    findings = [_of_condition(item, now) for item in conditions] + _of_members(groups)
    # a name that the platform orders keeps the platform's place
    order = {name: index for index, name in reversed([*enumerate((*inputs.facts.ordered, *MAIN_ORDER))])}
    wrong = sorted((item for item in findings if item.status == "False"), key=lambda item: _rank(item, order))
    open_ = sorted((item for item in findings if item.status == "Unknown"), key=lambda item: _rank(item, order))
    loading = [item for item in open_ if item.reason == "Loading"]
    causes = [item for item in wrong if not (loading and item.type in _FOLLOWS_LOADING)]
    main = next(iter(causes or loading or wrong), None) or _first_held(open_, phase)
    return Explanation(
        sentences=(_what(inputs, phase, roles), _why(main, groups), _act(main)),
        main=main,
        others=tuple(item for item in wrong if item is not main),
        unknown=tuple(item for item in open_ if item is not main),
    )


def _rank(item: Finding, order: dict[str, int]) -> tuple[int, str]:
    key = item.reason if item.type.startswith("Member ") else item.type
    return order.get(key, len(order)), item.type


def _first_held(unknown: Sequence[Finding], phase: Phase) -> Finding | None:
    """Without anything wrong the open question that holds qualification is the answer, unless all is ready."""
    held = next((item for item in unknown if item.type == "EndpointEligibility"), None)
    return held if held is not None and (phase is not Phase.READY or held.reason == "HeldUnverified") else None


def _of_condition(item: Condition, now: Instant) -> Finding:
    row = advice(item.type, item.reason) if item.status is not Status.TRUE else None
    return Finding(
        type=item.type,
        status=item.status.value,
        reason=item.reason,
        message=item.message + (" (as the operator says)" if item.provenance is Provenance.MIRRORED else ""),
        advice=row.course.value if row else "",
        whose=row.whose if row else "",
        hint=row.hint if row else "",
        age_seconds=None if item.last_transition is None else max(0.0, now.wall - item.last_transition),
        evidence=item.evidence,
    )


def _of_members(groups: Sequence[JudgedGroup]) -> list[Finding]:
    """Members in trouble or still loading. A stall is told by its own condition."""
    found = []
    for group in groups:
        for item in group.standings:
            status = _TROUBLE.get(item.standing) or _OPEN.get(item.standing)
            if status is None:
                continue
            row = advice("Member", item.standing.value)
            found.append(
                Finding(
                    type=f"Member {item.name}",
                    status=status,
                    reason=item.standing.value,
                    message=item.detail,
                    advice=row.course.value if row else "",
                    whose=row.whose if row else "",
                    hint=row.hint if row else "",
                    age_seconds=item.seconds,
                )
            )
    return found


def _what(inputs: DeploymentInputs, phase: Phase, roles: Sequence[RoleStatus]) -> str:
    parts = []
    for role in roles:
        eligible = role.endpoints.eligible
        parts.append(
            f"{role.name} {_number(role.ready)} of {_number(role.desired)} ready, {_number(eligible)} eligible"
        )
    return f"{inputs.deployment.key} is {phase.value}: {'; '.join(parts) or 'no role was observed'}."


def _number(value: int | None) -> str:
    return "an unknown number" if value is None else str(value)


def _why(main: Finding | None, groups: Sequence[JudgedGroup]) -> str:
    if main is None:
        kept = [item for item in groups if item.verdict.retained]
        if kept:
            return (
                f"Nothing is wrong, and {len(kept)} groups are kept by their membership while a router's view is lost."
            )
        eligible = sum(item.verdict.state is GroupState.ELIGIBLE for item in groups)
        return f"Nothing is wrong that could be observed, and {eligible} of {len(groups)} groups are eligible."
    since = "" if main.age_seconds is None else f" for {main.age_seconds:.0f} s"
    evidence = "; ".join(f"{name} {value}" for name, value in main.evidence)
    detail = ", ".join(text for text in (main.message, evidence) if text)
    verb = "is not known" if main.status == "Unknown" and not main.type.startswith("Member ") else f"is {main.reason}"
    reason = f" ({main.reason})" if verb == "is not known" else ""
    return f"{main.type} {verb}{reason}{since}{': ' + detail if detail else ''}."


_COURSES = {
    "ClearsByItself": "This clears by itself",
    "Act": "Somebody must act",
    "Over": "This is over and will not change",
}


def _act(main: Finding | None) -> str:
    if main is None:
        return "Nothing needs to be done."
    if not main.advice:
        return "There is no advice for this reason; it is shown as it was written."
    return f"{_COURSES[main.advice]} ({main.whose}): {main.hint}."

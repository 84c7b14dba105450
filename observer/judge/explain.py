"""One main answer in three sentences, then every other independent False, then what is not known."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from observer.judge.advice import Course
from observer.judge.drain import WITHDRAWAL_SECONDS
from observer.judge.findings import LEAVING, findings
from observer.judge.groups import REVOKED, JudgedGroup
from router_contract.judging import DeploymentInputs
from router_contract.readings import Instant
from router_contract.status import Convergence, Explanation, Finding, GroupState, Phase, RoleStatus
from router_contract.verdicts import Condition

MAIN_ORDER = (
    "QuotaReserved",
    "Operation",
    "WeightsReady",
    "ModelStatus",
    "StartupLoop",
    "LastFailure",
    "EngineProgressing",
    "Down",
    "Incomplete",
    "RetirementAborted",
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
    "RolloutHold",
    "RetryBlock",
    "CanaryRun",
    "CanaryAnalysis",
    "KVEventsPublishing",
    "OperatorCurrent",
    "Retiring",
    "Replacing",
    "MetricsFresh",
    "Failing",
)
"""Which False is told first: what keeps most from being served. The platform's own order, if it has one, goes first."""

_FOLLOWS_LOADING = frozenset({"RoleKindsReady", "RouterReady", "RouterConverged", "MetricsFresh"})
"""What is False by itself while engines load: the loading is the answer then, and these stand beside it."""

_FOLLOWS_LEAVING = frozenset({"EndpointEligibility", "RoleKindsReady", "MetricsFresh"})
"""What is False by itself where all groups that are not eligible are on their way out."""

_LIGHT = frozenset({"KVEventsPublishing"})
"""What is False by choice as often as by mistake, and stops no request: an open question about serving goes first."""

_OPEN_ORDER = ("Saturated", "EndpointEligibility", "RouterConverged", "RouterReady", "MetricsFresh", "RoleKindsReady")
"""Which open question is the answer where nothing is known to be wrong: what decides whether requests are served."""


def explain(
    inputs: DeploymentInputs,
    phase: Phase,
    roles: Sequence[RoleStatus],
    groups: Sequence[JudgedGroup],
    conditions: Sequence[Condition],
    convergence: Convergence,
    now: Instant,
) -> Explanation:
    """The explanation. Unknown is listed as not known, never as wrong; it is the main answer only without any False."""
    found = findings(inputs, groups, conditions, now)
    # a name that the platform orders keeps the platform's place
    order = {name: index for index, name in reversed([*enumerate((*inputs.facts.ordered, *MAIN_ORDER))])}
    wrong = sorted((item for item in found if item.status == "False"), key=lambda item: _rank(item, order))
    open_ = sorted((item for item in found if item.status == "Unknown"), key=lambda item: _rank(item, order))
    loading = [item for item in open_ if item.reason == "Loading"]
    follows = _follows(groups, loading=bool(loading))
    causes = [item for item in wrong if item.type not in follows and not _withdrawing(item, groups, convergence)]
    heavy = [item for item in causes if item.type not in _LIGHT]
    open_question = [] if wrong and not causes else _first_open(open_, phase)
    look = [] if wrong else [item for item in open_ if item.advice == Course.ACT.value]
    main = next(iter(heavy or loading or open_question or wrong or look), None)
    main = _sooner(inputs.facts.ordered, main, open_)
    others, unknown = ([_derived(item, main, wrong) for item in part if item is not main] for part in (wrong, open_))
    return Explanation(
        sentences=(_what(inputs, phase, roles), _look(look) if main in look else _why(main, groups), _act(main)),
        main=main,
        others=tuple(others),
        unknown=tuple(unknown),
        notices=tuple(item for item in found if item.status == "True" and item.hint),
        notes=inputs.facts.notes,
    )


def _sooner(ordered: Sequence[str], main: Finding | None, unknown: Sequence[Finding]) -> Finding | None:
    """Where a platform orders its conditions, the first that is not True is where to look, also if it is Unknown."""
    if main is None or main.type not in ordered:
        return main
    before = ordered[: ordered.index(main.type)]
    return next((item for name in before for item in unknown if item.type == name), main)


_DERIVED = frozenset({"EndpointEligibility", "RoleKindsReady", "MetricsFresh", "EngineProgressing", "KVEventsLive"})
"""The conditions whose answer may only repeat what a member or a group of them does."""


def _derived(item: Finding, main: Finding | None, wrong: Sequence[Finding]) -> Finding:
    """A condition that names a member or group which is told itself follows from it, and so does what to do about it."""
    if item.type not in _DERIVED:
        return item
    told = [each for each in (main, *wrong) if each is not None and each.type.startswith(("Member ", "Group "))]
    words = _words(item)
    named = [each for each in told if each.type.partition(" ")[2] in words]
    cause = next(iter(named or (told if item.type == "RoleKindsReady" else ())), None)
    if cause is None:
        return item
    hint = f"follows from: {cause.type} {cause.reason}"
    return msgspec.structs.replace(item, advice=cause.advice, whose=cause.whose, hint=hint)


def _words(item: Finding) -> set[str]:
    text = " ".join((item.message, *(part for pair in item.evidence for part in pair)))
    return set(text.translate(str.maketrans(";:,", "   ")).split())


def _look(items: Sequence[Finding]) -> str:
    """The line about open questions that somebody must look at, where nothing is known to be wrong."""
    told = "; ".join(f"{item.type} {item.reason}{': ' + item.message if item.message else ''}" for item in items)
    return f"Nothing is known to be wrong; what is not known and needs a look: {told}."


def _follows(groups: Sequence[JudgedGroup], *, loading: bool) -> frozenset[str]:
    """The conditions that something else already explains."""
    revoked = {group.verdict.state for group in groups if group.verdict.state in REVOKED}
    leaving = _FOLLOWS_LEAVING if revoked and revoked <= LEAVING else frozenset[str]()
    return leaving | _FOLLOWS_LOADING if loading else leaving


def _withdrawing(item: Finding, groups: Sequence[JudgedGroup], convergence: Convergence) -> bool:
    """Whether routers only still select members that are on their way out, for no longer than a withdrawal may take."""
    if item.reason != "ExtraEndpoint" or item.age_seconds is None or item.age_seconds > WITHDRAWAL_SECONDS:
        return False
    leaving = {member.uid for group in groups if group.verdict.state in LEAVING for member in group.verdict.members}
    return set(convergence.extra) <= leaving


def _subject(item: Finding) -> str:
    """What orders a finding: its condition's type, or of a member, group or router what is the matter with it."""
    head, _, place = item.type.partition(" ")
    return item.reason if place and head not in MAIN_ORDER else head


def _rank(item: Finding, order: dict[str, int]) -> tuple[int, str]:
    return order.get(_subject(item), len(order)), item.type


def _first_open(unknown: Sequence[Finding], phase: Phase) -> list[Finding]:
    """Without anything wrong the weightiest open question is the answer, where there is one."""
    for name in _OPEN_ORDER:
        item = next((each for each in unknown if _subject(each) == name), None)
        if item is not None and (phase is not Phase.READY or item.reason in _MATTERS_WHEN_READY):
            return [item]
    return []


_MATTERS_WHEN_READY = frozenset({"Saturated", "HeldUnverified", "ViewUnavailable", "EligibilityUnknown", "NeverRead"})
"""Open questions about a deployment whose replicas are all ready; others only say that we cannot look."""


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
    kept = sum(item.verdict.retained for item in groups)
    if main is None:
        eligible = sum(item.verdict.state is GroupState.ELIGIBLE for item in groups)
        return f"Nothing is wrong that could be observed, and {eligible} of {len(groups)} groups are eligible."
    since = "" if main.age_seconds is None else f" for {main.age_seconds:.0f} s"
    evidence = "; ".join(f"{name} {value}" for name, value in main.evidence)
    detail = "; ".join(text for text in (main.message.rstrip("."), evidence) if text)
    if kept and main.status == "Unknown":
        detail += f"; {kept} of {len(groups)} groups stay eligible, kept by their membership"
    verb = "is not known" if main.status == "Unknown" and " " not in main.type else f"is {main.reason}"
    reason = f" ({main.reason})" if verb == "is not known" else ""
    return f"{main.type} {verb}{reason}{since}{': ' + detail if detail else ''}."


_COURSES = {
    "ClearsByItself": "This clears by itself",
    "Act": "Somebody must act",
    "WaitThenAct": "Wait, then act",
    "Over": "This is over and will not change",
    "StaysUnknown": "This stays unknown",
}


def _act(main: Finding | None) -> str:
    if main is None:
        return "Nothing needs to be done."
    if not main.advice:
        return "There is no advice for this reason; it is shown as it was written."
    return f"{_COURSES[main.advice]} ({main.whose}): {main.hint}."

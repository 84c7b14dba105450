"""Everything that can be told about a deployment, one finding each: conditions, members, groups, router replicas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from observer.judge.advice import Course, advice
from observer.judge.groups import HELD, JudgedGroup
from observer.judge.notices import of_notices
from observer.judge.qualification import group_name
from observer.judge.standing import MemberStanding, Standing
from router_contract.judging import DeploymentInputs
from router_contract.platform_facts import OperatorStatus, PlatformFacts, RouterContract, ScalerFact, Unset
from router_contract.platform_words import ReasonFact
from router_contract.readings import FailureKind, Instant
from router_contract.router_views import RouterView, ViewFailed
from router_contract.status import Finding, GroupState
from router_contract.targets import Role
from router_contract.verdicts import Condition, Provenance, Status

LEAVING = frozenset({GroupState.RETIRING, GroupState.REPLACING})
"""The states of a group that is on its way out: what its members do now is explained by that."""

_TROUBLE = {Standing.STARTUP_LOOP: "False", Standing.DOWN: "False", Standing.FAILING: "False"}
_OPEN = {Standing.LOADING: "Unknown", Standing.SATURATED: "Unknown"}


def findings(
    inputs: DeploymentInputs, groups: Sequence[JudgedGroup], conditions: Sequence[Condition], now: Instant
) -> list[Finding]:
    """All of them, good conditions included, in no order of weight."""
    return [
        *(_of_condition(inputs, item, now) for item in conditions),
        *(_of_group(inputs, group, now) for group in groups if group.verdict.state in _GROUPS),
        *(_of_member(item) for group in groups for item in group.standings if _told(group, item)),
        *_of_routers(inputs),
        *_of_operator(inputs, frozenset(item.type for item in conditions), now),
        *_of_counts(inputs, groups),
        *_of_pool(inputs.facts),
        *_of_scaler(inputs.facts),
        *of_notices(inputs.facts, now),
    ]


def _finding(
    kind: str,
    name: str,
    status: str,
    reason: str,
    message: str,
    seconds: float | None,
    evidence: tuple[tuple[str, str], ...] = (),
) -> Finding:
    row = advice(kind, reason) if status != Status.TRUE.value else None
    return Finding(
        type=f"{kind} {name}" if name else kind,
        status=status,
        reason=reason,
        message=message,
        advice=row.course.value if row else "",
        whose=row.whose if row else "",
        hint=row.hint if row else "",
        age_seconds=seconds,
        evidence=evidence,
    )


def _of_condition(inputs: DeploymentInputs, item: Condition, now: Instant) -> Finding:
    """A condition, and for how long its reason holds; not known where only its status has a known time.

    What the platform's own document advises for a reason goes before our table.
    """
    said = " (as the operator says)" if item.provenance is Provenance.MIRRORED else ""
    seconds = None if item.reason_since is None else max(0.0, now.wall - item.reason_since)
    found = _finding(item.type, "", item.status.value, item.reason, item.message + said, seconds, item.evidence)
    own = platforms_own(inputs.facts, item.type, item.reason)
    if own is None or item.status is Status.TRUE:
        return found
    return msgspec.structs.replace(found, advice=own.course, whose=own.whose, hint=own.hint)


def platforms_own(facts: PlatformFacts, kind: str, reason: str) -> ReasonFact | None:
    """A platform's advice for a reason: of the present phase first, else of any; a row for any reason comes last."""
    operator = facts.operator
    phase = operator.phase if isinstance(operator, OperatorStatus) else ""
    rows = {(row.condition, row.phase): row for row in facts.reasons if row.reason == reason}
    places = ((kind, phase), (kind, ""), ("", phase), ("", ""))
    whatever = next((row for row in facts.reasons if row.condition == kind and not row.reason), None)
    return next((rows[place] for place in places if place in rows), whatever)


def _of_operator(inputs: DeploymentInputs, ours: frozenset[str], now: Instant) -> Iterator[Finding]:
    """Conditions of the operator's own that its platform declares an order or advice for, in its words.

    Others are shown beside, never judged: what their False means nobody told us.
    """
    facts = inputs.facts
    operator = facts.operator
    if operator is None or isinstance(operator, Unset):
        return
    known = {*facts.ordered, *(row.condition for row in facts.reasons)} - ours
    for item in operator.conditions:
        if item.type not in known:
            continue
        row = platforms_own(facts, item.type, item.reason)
        good = item.status == Status.TRUE.value and not (row is not None and row.notice)
        yield Finding(
            type=item.type,
            status=item.status,
            reason=item.reason,
            message=f"{item.message} (as the operator says)".strip(),
            advice="" if row is None or good else row.course,
            whose="" if row is None or good else row.whose,
            hint="" if row is None or good else row.hint,
            age_seconds=None if item.last_transition is None else max(0.0, now.wall - item.last_transition),
        )


_GROUPS = LEAVING | {GroupState.INCOMPLETE}
"""The states that no member's standing tells."""


def _of_group(inputs: DeploymentInputs, group: JudgedGroup, now: Instant) -> Finding:
    """A group that leaves or is not whole, with what its troubled members do beside it."""
    since = group.record.since
    state = group.verdict.state
    record = inputs.facts.retirement
    aborted = not isinstance(record, Unset) and record is not None and record.state == "Aborted"
    reason = "RetirementAborted" if aborted and state is GroupState.RETIRING else state.value
    evidence = tuple((item.name, _doing(item)) for item in group.standings[:5] if item.standing in _TROUBLE)
    seconds = None if since is None else max(0.0, now.wall - since)
    return _finding("Group", group_name(group), "False", reason, group.verdict.message, seconds, evidence)


def _doing(item: MemberStanding) -> str:
    return f"{item.standing.value}: {item.detail}" if item.detail else item.standing.value


def _told(group: JudgedGroup, item: MemberStanding) -> bool:
    """Whether a member stands for itself: in trouble or still loading, and not on its way out. A stall is told elsewhere."""
    if group.verdict.state in LEAVING:
        return False
    # a replica that serves is out of its loop as far as anybody can be told to act on it
    looping = bool(item.loop) and group.verdict.state is not GroupState.ELIGIBLE
    return looping or item.standing in _TROUBLE or item.standing in _OPEN


def _of_member(item: MemberStanding) -> Finding:
    """A member in trouble. One that is down now is told so, its loop beside it; else its loop comes first."""
    if item.loop and item.standing is not Standing.DOWN:
        return _finding("Member", item.name, "False", Standing.STARTUP_LOOP.value, item.loop, item.loop_seconds)
    status = _TROUBLE.get(item.standing) or _OPEN[item.standing]
    found = _finding("Member", item.name, status, item.standing.value, item.detail, item.seconds)
    if item.loop:
        # to start it once more is what it does by itself
        row = advice("Member", Standing.STARTUP_LOOP.value)
        return found if row is None else msgspec.structs.replace(found, whose=row.whose, hint=row.hint)
    if item.wait is None:
        return found
    hint = f"a load may take up to {item.wait:.0f} s more; where it is known to be down, start it"
    return msgspec.structs.replace(found, advice=Course.WAIT.value, hint=hint)


def _of_counts(inputs: DeploymentInputs, groups: Sequence[JudgedGroup]) -> Iterator[Finding]:
    """Where the operator's count of ready units cannot be what serves; nothing while what serves is not known well enough."""
    counts = inputs.facts.counts
    if counts is None or counts.ready is None or not inputs.deployment.complete or inputs.deployment.deleting:
        return
    low, high, named = serving_units(inputs.deployment.roles, groups, counts.wanted)
    if low <= counts.ready <= high:
        return
    total = "" if counts.total is None else f" of {counts.total}"
    seen = str(low) if low == high else f"{low} to {high}"
    said = f"the operator counts {counts.ready}{total} ready; by its Pods {seen} of {named} serve"
    yield _finding("ReadyCount", "", "False", "CountsDisagree", said, None)


def _of_pool(facts: PlatformFacts) -> Iterator[Finding]:
    """Where the contract's pool endpoint is not the pool's own. A pool that is not seen may lie where nobody looks."""
    pool, contract = facts.pool, facts.contract
    if pool is None or isinstance(pool, Unset):
        return
    if not pool.found:
        yield _finding("CachePool", "", "Unknown", "PoolNotFound", f"no pool {pool.name} is found", None)
    elif isinstance(contract, RouterContract) and contract.pool_endpoint != (pool.endpoint or ""):
        told = f"the contract publishes {contract.pool_endpoint or 'no pool endpoint'}"
        said = f"{told}; the pool {pool.name} itself says {pool.endpoint or 'none'}"
        yield _finding("CachePool", "", "False", "EndpointDiffers", said, None)


def _of_scaler(facts: PlatformFacts) -> Iterator[Finding]:
    """The scaler that the annotations name is not found, where that could be looked at."""
    scaler = facts.scaler
    if isinstance(scaler, ScalerFact) and scaler.found is False:
        said = f"the scaler {scaler.name} that the annotations name is not found"
        yield _finding("Scaler", "", "Unknown", "ScalerNotFound", said, None)


def serving_units(roles: Sequence[Role], groups: Sequence[JudgedGroup], wanted: int | None) -> tuple[int, int, int]:
    """Of the operator's units that are here: how many surely serve, how many may, and how many there are.

    A unit serves when each role has all of its replicas in it, and each of them is eligible.
    """
    units: dict[str, list[JudgedGroup]] = {}
    for group in groups:
        if group.replica.instance:
            units.setdefault(group.replica.instance, []).append(group)
    places = {role.name: role.desired // wanted if role.desired and wanted else 1 for role in roles}
    low = high = 0
    for held in units.values():
        states = [group.verdict.state for group in held]
        whole = all(sum(group.verdict.role == name for group in held) >= count for name, count in places.items())
        good = whole and all(state is GroupState.ELIGIBLE for state in states)
        low += good
        high += good or (whole and all(state is GroupState.ELIGIBLE or state in HELD for state in states))
    return low, high, len(units)


def _of_routers(inputs: DeploymentInputs) -> Iterator[Finding]:
    """Static router replicas that refuse on both of their ports; for how long they were not read."""
    router = inputs.deployment.router
    if router is None or not inputs.facts.ready_by_reading:
        return
    for member in router.members:
        views = [item for item in inputs.views if item.pod_uid == member.uid]
        read = max((item.read_at.mono for item in views if isinstance(item, RouterView)), default=float("-inf"))
        refused = any(
            isinstance(item, ViewFailed) and item.kind == FailureKind.REFUSED and item.at.mono > read for item in views
        )
        metrics = next((item for item in inputs.freshness if item.uid == member.uid), None)
        if refused and metrics is not None and metrics.failure is FailureKind.REFUSED:
            yield _finding("Router", member.name, "False", "Down", "connection refused", metrics.age)

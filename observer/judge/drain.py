"""Retirement shown whole, and the read-only drain answer of each replica. Nobody's shutdown waits on us."""

from __future__ import annotations

import math

from observer.judge.eligibility import built_with
from observer.judge.groups import JudgedGroup
from observer.judge.parallelism import disaggregated, engine_family
from observer.judge.standing import Standing, requests
from router_contract.judging import DeploymentInputs, JudgePolicy, MemberEvidence
from router_contract.platform_facts import Unset
from router_contract.readings import Instant
from router_contract.status import DrainAnswer, DrainState, LegName, LegState, Retirement, RetirementStatus
from router_contract.targets import Member, Replica, Role

WITHDRAWAL_SECONDS = 30.0
DRAIN_SECONDS = 240.0
SETTLE_SECONDS = 30.0

_BUDGETS = {
    "Admitted": WITHDRAWAL_SECONDS,
    "Disqualified": WITHDRAWAL_SECONDS,
    "Withdrawing": WITHDRAWAL_SECONDS,
    "Draining": DRAIN_SECONDS,
    "Settling": SETTLE_SECONDS,
}
_ENGINES = frozenset({"vllm", "sglang"})


def retirement_status(inputs: DeploymentInputs, now: Instant) -> RetirementStatus | None:
    """The running retirement with the seconds left of its phase and of the whole; ``None`` when none was observed."""
    record = inputs.facts.retirement
    if record is None or isinstance(record, Unset):
        return None
    total = None if record.deadline is None else max(0.0, record.deadline - now.wall)
    aborted = record.state == "Aborted"
    return RetirementStatus(
        record=record,
        phase_seconds_left=None if aborted else _phase_left(record, total, now),
        total_seconds_left=None if aborted else total,
        message="capacity retained: every member and the Workload stay" if aborted else "",
    )


def _phase_left(record: Retirement, total: float | None, now: Instant) -> float | None:
    """A phase ends at its own budget or the operation's, whichever is earlier; equality is spent."""
    budget = _BUDGETS.get(record.state)
    if budget is None or record.phase_started_at is None:
        return None
    left = max(0.0, record.phase_started_at + budget - now.wall)
    return left if total is None else min(left, total)


def drain_answer(
    inputs: DeploymentInputs, role: Role, replica: Replica, group: JudgedGroup, now: Instant, policy: JudgePolicy
) -> DrainAnswer:
    """Two consecutive reads of every asked member decide: all exactly 0 is Idle, anything above is Busy.

    Reads that are no longer fresh tell nothing of now. Where routers count more at a member than its gauges say, or the
    member stands still, the number is only a least one, and ``requests`` is not known.
    """

    def say(state: DrainState, why: str, requests: float | None = None) -> DrainAnswer:
        return DrainAnswer(role=role.name, ordinal=replica.ordinal, state=state, requests=requests, why=why)

    if engine_family(role.engine) not in _ENGINES:
        return say(DrainState.UNSUPPORTED, f"engine {role.engine!r} has no load gauges that we know")
    if disaggregated(role):
        return say(DrainState.UNSUPPORTED, "the command splits or balances requests outside this replica")
    if not _shape_known(inputs, role, replica, group):
        return say(DrainState.UNKNOWN, "the replica's shape cannot be read")
    members = [member for member in replica.members if member.serves and not member.ancillary]
    if not members:
        return say(DrainState.UNKNOWN, "no serving member to ask")
    total = 0.0
    held = least = ""
    stalled = {item.uid for item in group.standings if item.standing is Standing.STALLED}
    for member in members:
        seen = inputs.evidence(member.uid)
        load, why = _load(member, seen, now, policy)
        if load is None:
            held = held or f"{member.name}: {why}"
        at_routers = seen.router_inflight or 0.0
        if at_routers > (load or 0.0):
            told = "nothing" if load is None else f"{load:g}"
            least = least or f"routers hold {at_routers:g} at {member.name}, its gauges say {told}"
        elif load and member.uid in stalled:
            least = least or f"{member.name} is stalled, so its gauges may stand still"
        total += max(load or 0.0, at_routers)
    if total > 0 and (held or least):
        return say(DrainState.BUSY, f"at least {requests(total)}: {least or held}")
    if total > 0:
        return say(DrainState.BUSY, requests(total), total)
    return say(DrainState.UNKNOWN, held) if held else say(DrainState.IDLE, "two reads of every gauge are 0", 0.0)


def _shape_known(inputs: DeploymentInputs, role: Role, replica: Replica, group: JudgedGroup) -> bool:
    """Whether it is known who must be asked; a replica on its way out is known by the members that leave."""
    members = tuple(member for member in replica.members if not member.ancillary)
    if all(member.terminating for member in members):
        return built_with(role, replica, members, declared=inputs.facts.declared)[0] is not None
    shape = next((leg for leg in group.verdict.legs if leg.name is LegName.MEMBER_SET_COMPLETE), None)
    return shape is not None and shape.state is not LegState.UNKNOWN


def _load(member: Member, evidence: MemberEvidence, now: Instant, policy: JudgePolicy) -> tuple[float | None, str]:
    """Requests at one member by its last two reads, or ``None`` and what holds the answer."""
    if member.restarts:
        return None, f"restarted {member.restarts} times"
    if len(evidence.drain) < 2:
        return None, "not read twice"
    first, second = evidence.drain[-2:]
    if now.mono - second.at.mono > policy.fresh_within:
        return None, f"last read {now.mono - second.at.mono:.0f} s ago"
    if first.identity != second.identity:
        return None, "the container changed between the reads"
    totals = []
    for read in (first, second):
        if read.error:
            return None, read.error
        if not read.values:
            return None, "no load gauge was read"
        for name, value in read.values:
            if value is None:
                return None, f"{name} is absent"
            if not math.isfinite(value) or value < 0:
                return None, f"{name} is {value}"
        totals.append(sum(value or 0.0 for _, value in read.values))
    if not any(totals) and _worked_since(evidence, first.at):
        return None, "its gauges are 0 and its counters moved between the reads: work still comes"
    return max(totals), ""


def _worked_since(evidence: MemberEvidence, at: Instant) -> bool:
    """Whether a progress counter was seen to grow by a read after this one: short requests come and go between reads."""
    return any(rank.moved_at is not None and rank.moved_at.mono > at.mono for rank in evidence.ranks)

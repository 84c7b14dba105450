"""The five criteria of one group, from evidence only. A criterion that cannot be evaluated is never a fault."""

from __future__ import annotations

import msgspec

from observer.judge.standing import answers, refused_since_answer
from router_contract.judging import DeploymentInputs, GroupRecord, JudgePolicy, MemberEvidence
from router_contract.platform_facts import Unset
from router_contract.readings import Instant
from router_contract.status import Leg, LegName, LegState, LoadBalance, Parallelism, Readiness, ReadinessMeaning
from router_contract.targets import Member, Ready, Replica, Role


class GroupContext(msgspec.Struct, frozen=True, kw_only=True):
    """What one group's judging needs: its place, its members without the terminating, and the kept record if any.

    ``serving`` are the members that answer requests. ``total`` is how many members the replica was built with, or
    ``None`` and why nobody can say.
    """

    inputs: DeploymentInputs
    policy: JudgePolicy
    now: Instant
    role: Role
    replica: Replica
    members: tuple[Member, ...]
    terminating: tuple[Member, ...]
    record: GroupRecord | None
    readiness: Readiness
    parallelism: Parallelism
    serving: tuple[Member, ...]
    total: tuple[int | None, str]

    def kept(self, member: Member) -> bool:
        """Whether the record says that a member answered in this generation."""
        return self.record is not None and member.uid in self.record.answered

    def answered(self, member: Member) -> bool:
        """Whether a member answered in this generation, by the record or by what is seen now."""
        return self.kept(member) or member_ready(self, member) is LegState.VERIFIED


def legs(context: GroupContext) -> tuple[Leg, ...]:
    """All five, in their fixed order."""
    return (
        member_set_complete(context),
        members_ready(context),
        group_forward(context),
        no_planned_retirement(context),
        no_pending_replacement(context),
    )


def _leg(name: LegName, state: LegState, why: str, source: str = "") -> Leg:
    return Leg(name=name, state=state, why=why, source=source)


def built_with(role: Role, replica: Replica, members: tuple[Member, ...], *, declared: bool) -> tuple[int | None, str]:
    """The size a replica was built at, never the role's edited one, except where a file declares it."""
    totals = {member.declared_total for member in members if member.declared_total is not None}
    if len(totals) > 1:
        return None, f"members declare different totals: {', '.join(map(str, sorted(totals)))}"
    if totals:
        total = totals.pop()
        if total >= 1:
            return total, ""
        # what is written and is no number is a total below 0 to us
        found = f"a total of {total}" if total == 0 else "a total that is no number"
        return None, f"{members[0].name} declares {found}, a whole number of at least 1 is wanted"
    if replica.size is not None:
        return replica.size, ""
    if declared:
        return role.size, ""
    return None, "nobody says how many members the replica was built with"


def member_set_complete(context: GroupContext) -> Leg:
    """Every member the replica was built with exists, each on its own seat where the platform numbers them."""
    name = LegName.MEMBER_SET_COMPLETE
    if not context.inputs.deployment.complete:
        return _leg(name, LegState.UNKNOWN, "the list of members failed")
    total, why = context.total
    if total is None:
        return _leg(name, LegState.UNKNOWN, why)
    held = len(context.members)
    fault = _seats(context, total)
    if fault:
        return _leg(name, LegState.UNKNOWN, fault)
    if held < total:
        return _leg(name, LegState.FAILED, f"{held} of {total} members exist")
    if held > total:
        return _leg(name, LegState.UNKNOWN, f"{held} members for {total} places")
    return _leg(name, LegState.VERIFIED, f"{held} of {total} members exist")


def _seats(context: GroupContext, total: int) -> str:
    """Why seats cannot be read, or nothing. A single member without a seat is an older form and fine."""
    seated: dict[int, Member] = {}
    without = [member for member in context.members if member.seat is None]
    for member in context.members:
        if member.seat is None:
            continue
        if member.seat in seated:
            return f"{seated[member.seat].name} and {member.name} claim one seat{_seat(member.seat)}"
        seated[member.seat] = member
    strange = next((member for seat, member in seated.items() if not 0 <= seat < total), None)
    if strange is not None:
        return f"{strange.name} claims a seat{_seat(strange.seat)} outside 0..{total - 1}"
    if seated and without:
        return f"{without[0].name} claims no seat"
    if not seated and total > 1 and without and context.inputs.facts.seats:
        return "no member claims a seat"
    return ""


def _seat(seat: int | None) -> str:
    """A seat in a sentence. One that is written and no number is below 0 to us, and is not shown as one."""
    return "" if seat is None or seat < 0 else f" ({seat})"


def member_ready(context: GroupContext, member: Member) -> LegState:
    """One member: Verified answers now, Failed answered in this generation and stopped, else Unknown."""
    evidence = context.inputs.evidence(member.uid)
    kept = context.kept(member)
    if context.inputs.facts.ready_by_reading:
        return _by_reading(context, evidence, kept=kept)
    if member.rank is not None and member.ready is Ready.TRUE:
        # the Pod's probe asks one of its ranks at most: each answers for itself
        return _ungated(context, member, evidence, kept=kept)
    if context.readiness.meaning is ReadinessMeaning.ENGINE_ANSWERED:
        if member.ready is Ready.TRUE:
            return LegState.VERIFIED
        return LegState.FAILED if member.ready is Ready.FALSE and kept else LegState.UNKNOWN
    return _ungated(context, member, evidence, kept=kept)


def _stopped(*, kept: bool) -> LegState:
    """What a member that does not answer is: stopped if it ever answered in this generation, else not known."""
    return LegState.FAILED if kept else LegState.UNKNOWN


def _by_reading(context: GroupContext, evidence: MemberEvidence, *, kept: bool) -> LegState:
    now, policy = context.now, context.policy
    if refused_since_answer(evidence):
        return _stopped(kept=kept)
    if not answers(evidence, now, policy):
        return LegState.UNKNOWN
    if context.inputs.deployment.model is None:
        return LegState.VERIFIED
    listed = evidence.listed_at is not None and now.mono - evidence.listed_at.mono <= policy.answered_within
    if not listed or evidence.listed_model is None:
        return LegState.UNKNOWN
    return LegState.VERIFIED if evidence.listed_model else _stopped(kept=kept)


def _ungated(context: GroupContext, member: Member, evidence: MemberEvidence, *, kept: bool) -> LegState:
    """The Pod's Ready proves nothing here, in neither direction: only our own reading of the engine does."""
    if not member.serves:
        # a follower has no HTTP server: its own readiness is all anybody can say of it
        states = {Ready.TRUE: LegState.VERIFIED, Ready.FALSE: _stopped(kept=kept)}
        return states.get(member.ready, LegState.UNKNOWN)
    if refused_since_answer(evidence):
        return _stopped(kept=kept)
    return LegState.VERIFIED if answers(evidence, context.now, context.policy) else LegState.UNKNOWN


def members_ready(context: GroupContext) -> Leg:
    """Fails only for a member that answered in this generation and stopped; one unknown member is not Verified."""
    name = LegName.MEMBERS_READY
    members = context.members
    if context.inputs.facts.ready_by_reading:
        members = context.serving
    states = [(member, member_ready(context, member)) for member in members]
    failed = [member.name for member, state in states if state is LegState.FAILED]
    unknown = [member.name for member, state in states if state is LegState.UNKNOWN]
    source = context.readiness.meaning.value
    if failed:
        return _leg(name, LegState.FAILED, f"{', '.join(failed)} answered and stopped", source)
    if unknown or not states:
        why = f"{', '.join(unknown)} not known to answer" if unknown else "no member to ask"
        return _leg(name, LegState.UNKNOWN, why, source)
    return _leg(name, LegState.VERIFIED, f"{len(states)} of {len(states)} answer", source)


def forwarded(context: GroupContext) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """``(moved, seen)`` keys ``uid|incarnation|rank`` of serving members, kept ones of the same life included."""
    kept = set(context.record.forwarded) if context.record is not None else set()
    moved: set[str] = set()
    seen: set[str] = set()
    for member in context.serving:
        evidence = context.inputs.evidence(member.uid)
        for rank in evidence.ranks:
            key = f"{member.uid}|{evidence.incarnation}|{rank.rank}"
            seen.add(key)
            if rank.moved_at is not None or key in kept:
                moved.add(key)
        prefix = f"{member.uid}|{evidence.incarnation}|"
        if not evidence.ranks and evidence.incarnation:
            moved |= {key for key in kept if key.startswith(prefix)}
    return tuple(sorted(moved)), tuple(sorted(seen | moved))


def group_forward(context: GroupContext) -> Leg:
    """Observed, never probed: every data-parallel rank of a group of several members must have carried a request."""
    name = LegName.GROUP_FORWARD
    total, _ = context.total
    if total == 1:
        return _leg(name, LegState.NOT_APPLICABLE, "one member")
    if total is None:
        return _leg(name, LegState.UNKNOWN, "how many members to expect is not known")
    if not context.parallelism.source.complete and not _ranked(context):
        why = context.parallelism.source.unreadable_reason
        return _leg(name, LegState.UNKNOWN, f"the ranks to expect are not known: {why}")
    moved, seen = forwarded(context)
    expected = context.parallelism.degree("dataParallel") or 1
    if _ranked(context):
        expected = max(expected, len(context.members))
    fault = _placement(context, seen, expected)
    if fault:
        return _leg(name, LegState.UNKNOWN, fault)
    if len(moved) < expected or len(moved) < len(seen):
        return _leg(
            name, LegState.UNKNOWN, f"{len(moved)} of {max(expected, len(seen))} ranks moved: unproven, not faulty"
        )
    return _leg(name, LegState.VERIFIED, f"{len(moved)} of {expected} ranks moved", "progress")


def _ranked(context: GroupContext) -> bool:
    """Whether each member is one data-parallel rank, so that the platform says how many there are."""
    return bool(context.members) and all(member.rank is not None for member in context.members)


def _placement(context: GroupContext, seen: tuple[str, ...], expected: int) -> str:
    """Why ranks cannot be placed on members, or nothing."""
    members = len(context.members)
    if members and expected % members and members % expected:
        return f"{expected} data-parallel ranks cannot be placed on {members} members"
    if len(seen) > expected:
        return f"{len(seen)} ranks are seen and {expected} declared: one cannot be placed on a member"
    if context.parallelism.load_balance is LoadBalance.UNKNOWN and not _ranked(context):
        return f"where ranks live is not known: {context.parallelism.source.unreadable_reason}"
    owners = {key.split("|", 1)[0] for key in seen}
    silent = [member.name for member in context.serving if member.uid not in owners]
    return f"{silent[0]} shows no rank of its own" if silent else ""


def no_planned_retirement(context: GroupContext) -> Leg:
    """No retirement operation holds the replica; a record in any state does, an aborted one included."""
    name = LegName.NO_PLANNED_RETIREMENT
    facts, replica = context.inputs.facts, context.replica
    record = facts.retirement
    if record is not None and not isinstance(record, Unset):
        if record.role_name == context.role.name and record.replica_ordinal == replica.ordinal:
            why = "capacity retained" if record.state == "Aborted" else f"{record.state}: {record.reason}".rstrip(": ")
            return _leg(name, LegState.FAILED, why, "status.retirement")
        return _leg(name, LegState.VERIFIED, "the retirement names another replica", "status.retirement")
    if replica.retiring:
        if replica.retiring_reason == "file":
            return _leg(name, LegState.FAILED, "its file says that it retires", "file")
        return _leg(name, LegState.FAILED, replica.retiring_reason or "retiring", "platform")
    if not facts.managed and context.terminating:
        return _leg(name, LegState.FAILED, f"{context.terminating[0].name} is being deleted", "Pod")
    if record is None:
        return _leg(name, LegState.VERIFIED, "no retirement is running", "status.retirement")
    if replica.retiring is False:
        return _leg(name, LegState.VERIFIED, "no retirement is running", "platform")
    if facts.declared:
        return _leg(name, LegState.VERIFIED, "nothing announces a retirement", "declared")
    return _leg(name, LegState.UNKNOWN, "retirement was not observed")


def no_pending_replacement(context: GroupContext) -> Leg:
    """Nothing is on its way to replace the replica: no member going, no second Pod on its place, no newer template."""
    name = LegName.NO_PENDING_REPLACEMENT
    facts, replica = context.inputs.facts, context.replica
    if replica.replacing:
        return _leg(name, LegState.FAILED, "a replacement is pending", "platform")
    if context.terminating and (facts.managed or not context.members):
        return _leg(name, LegState.FAILED, f"{context.terminating[0].name} is terminating", "Pod")
    total, _ = context.total
    if total == 1 and len(context.members) > 1:
        return _leg(name, LegState.FAILED, f"{len(context.members)} Pods hold one place", "Pod")
    if replica.replacing is False:
        return _leg(name, LegState.VERIFIED, "nothing replaces it", "platform")
    if facts.declared:
        return _leg(name, LegState.VERIFIED, "nothing announces a replacement", "declared")
    return _leg(name, LegState.UNKNOWN, "replacement was not observed")

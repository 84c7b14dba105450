"""The serving groups of a role: who is in them, which of the eight states holds, and what is kept for the next pass.

A group is a role, an ordinal and the sorted UIDs of its members. Another set of members is another generation, and a
new generation inherits nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from observer.judge.convergence import Selection
from observer.judge.eligibility import GroupContext, built_with, forwarded, legs, member_ready
from observer.judge.parallelism import read_parallelism
from observer.judge.readiness import readiness
from observer.judge.standing import MemberStanding, member_standing
from router_contract.judging import DeploymentInputs, GroupRecord, JudgePolicy, Stored
from router_contract.readings import Instant
from router_contract.status import GroupState, GroupVerdict, Leg, LegName, LegState, MemberVerdict, ServingState
from router_contract.targets import Member, Ready, Replica, Role

ELASTIC_REASON = "ElasticCollectiveNotEvaluated"

_FAILED_STATES = (
    (LegName.NO_PLANNED_RETIREMENT, GroupState.RETIRING),
    (LegName.NO_PENDING_REPLACEMENT, GroupState.REPLACING),
    (LegName.MEMBER_SET_COMPLETE, GroupState.INCOMPLETE),
    (LegName.MEMBERS_READY, GroupState.NOT_READY),
    (LegName.GROUP_FORWARD, GroupState.NOT_READY),
)
"""Which failed criterion gives which state, in the order in which the first that matches wins."""

REVOKED = frozenset({GroupState.RETIRING, GroupState.REPLACING, GroupState.INCOMPLETE, GroupState.NOT_READY})
"""The states of a group that lost its eligibility by a fact."""

HELD = frozenset({GroupState.UNVERIFIED, GroupState.AWAITING_OBSERVATION, GroupState.UNKNOWN})
"""The states in which nobody can tell."""


_NAMED = 5
"""Members that one sentence names."""


class JudgedGroup(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A group's verdict, what is kept of it, how its members stand, and whether it was observed at all.

    ``replica`` is what discovery says of its place, members that leave included.
    """

    verdict: GroupVerdict
    replica: Replica
    record: GroupRecord
    standings: tuple[MemberStanding, ...]
    serving: tuple[str, ...]
    observed: bool
    proof_wanted: bool = False


def ranks_seen(inputs: DeploymentInputs, role: Role) -> int | None:
    """The most data-parallel ranks that the series of one replica name; ``None`` when no series was read."""
    counts = [
        sum(len(inputs.evidence(member.uid).ranks) for member in replica.members if member.serves)
        for replica in role.replicas
    ]
    return max(counts, default=0) or None


def judge_groups(
    inputs: DeploymentInputs, stored: Stored, selection: Selection, now: Instant, policy: JudgePolicy
) -> tuple[JudgedGroup, ...]:
    """Every group of every role, in the order of the deployment."""
    judged = []
    records = {(item.role, item.ordinal, item.generation): item for item in reversed(stored.groups)}
    for role in inputs.deployment.roles:
        parallelism = read_parallelism(role, managed=inputs.facts.managed, ranks_seen=ranks_seen(inputs, role))
        meaning = readiness(role, inputs.facts)
        for replica in _replicas(role):
            members = _members(replica)
            if role.elastic and not members:
                continue
            leaving = tuple(member for member in replica.members if member.terminating and not member.ancillary)
            context = GroupContext(
                inputs=inputs,
                policy=policy,
                now=now,
                role=role,
                replica=replica,
                members=members,
                terminating=leaving,
                # exactly this generation: another set of members inherits nothing
                record=records.get((role.name, replica.ordinal, _uids(members or leaving))),
                readiness=meaning,
                parallelism=parallelism,
                serving=tuple(member for member in members if member.serves),
                total=built_with(role, replica, members, declared=inputs.facts.declared),
            )
            judged.append(_judge(context, selection))
    return tuple(judged)


def _replicas(role: Role) -> tuple[Replica, ...]:
    """The replicas that are groups; all members of an elastic role form one at ordinal 0."""
    if not role.elastic:
        return tuple(replica for replica in role.replicas if replica.members)
    return (Replica(ordinal=0, members=tuple(role.members())),) if any(role.members()) else ()


def _members(replica: Replica) -> tuple[Member, ...]:
    return tuple(member for member in replica.members if not member.terminating and not member.ancillary)


def generation(context: GroupContext) -> str:
    """The sorted UIDs; of a replica whose members are all leaving, theirs, so that a reader sees what goes."""
    return _uids(context.members or context.terminating)


def _uids(members: Sequence[Member]) -> str:
    return "/".join(sorted(member.uid for member in members)) if len(members) != 1 else members[0].uid


def _judge(context: GroupContext, selection: Selection) -> JudgedGroup:
    answers = legs(context)
    observed = _observed(context)
    listed_now = bool(context.serving) and all(member.uid in selection.listed for member in context.serving)
    void = _void(context, selection)
    state, reason, message, retained = _state(
        context, answers, selection, observed=observed, listed_now=listed_now, void=void
    )
    record = _keep(context, state, reason, listed=listed_now, void=void)
    standings = tuple(_standing(context, member) for member in context.members or context.terminating)
    serving = tuple(sorted(member.uid for member in context.serving))
    verdict = GroupVerdict(
        role=context.role.name,
        ordinal=context.replica.ordinal,
        generation=record.generation,
        state=state,
        reason=reason,
        message=message,
        members=tuple(_member(context, standing) for standing in standings),
        legs=() if context.role.elastic else answers,
        qualified_at=record.qualified_at,
        retained=retained,
        elastic=context.role.elastic,
    )
    return JudgedGroup(
        verdict=verdict,
        replica=context.replica,
        record=record,
        standings=tuple(item for item in standings if item.uid in serving),
        serving=serving,
        observed=observed and not context.role.elastic,
        proof_wanted=state in {GroupState.ELIGIBLE, GroupState.AWAITING_OBSERVATION}
        and record.qualified_at is not None,
    )


def _observed(context: GroupContext) -> bool:
    """Whether anything about the group's readiness was observed: a definite Ready, or an answer to us."""
    for member in context.members or context.terminating:
        evidence = context.inputs.evidence(member.uid)
        if member.ready is not Ready.UNKNOWN or evidence.answered_at is not None or evidence.health_at is not None:
            return True
        if context.kept(member) and evidence.failed_at is not None:
            return True
    return False


def _state(
    context: GroupContext,
    answers: Sequence[Leg],
    selection: Selection,
    *,
    observed: bool,
    listed_now: bool,
    void: bool,
) -> tuple[GroupState, str, str, bool]:
    """State, the one reason, its sentence, and whether Eligible is retained. The first that matches wins."""
    if context.role.elastic:
        return GroupState.UNKNOWN, ELASTIC_REASON, "the whole elastic collective is not evaluated as one group", False
    if not observed:
        return GroupState.UNKNOWN, "NotObserved", "nothing about the group was observed", False
    by_name = {leg.name: leg for leg in answers}
    for name, state in _FAILED_STATES:
        if by_name[name].state is LegState.FAILED:
            return state, name.value, _failed(state, by_name[name]), False
    unknown = [leg for leg in answers if leg.state is LegState.UNKNOWN]
    held = _held(context)
    if unknown and not (held and [leg.name for leg in unknown] == [LegName.GROUP_FORWARD]):
        return GroupState.UNVERIFIED, unknown[0].name.value, unknown[0].why, False
    if selection.state is ServingState.NOT_CONFIGURED:
        return GroupState.ELIGIBLE, "Qualified", "every criterion passes and no router is declared", False
    if not (listed_now or (context.record is not None and context.record.listed)):
        why = _unlisted(context, selection) if selection.valid else selection.fault
        return GroupState.AWAITING_OBSERVATION, "RouterNotListed", why, False
    if selection.valid:
        return GroupState.ELIGIBLE, "Qualified", "every criterion passes", False
    if held and not void and _proved(context):
        return GroupState.ELIGIBLE, "Retained", f"kept by the membership while views are lost: {selection.fault}", True
    return GroupState.AWAITING_OBSERVATION, "RouterViewLost", selection.fault, False


def _unlisted(context: GroupContext, selection: Selection) -> str:
    """Which serving members the valid views do not name."""
    names = [member.name for member in context.serving if member.uid not in selection.listed]
    if not names:
        return "no member serves, so no router can list one"
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"no router lists {', '.join(names[:_NAMED])}{more}"


def _failed(state: GroupState, leg: Leg) -> str:
    """The sentence of a failed criterion; where the state itself does not say what happened, that it failed."""
    return f"{leg.name.value} failed: {leg.why}" if state is GroupState.NOT_READY else leg.why


def _held(context: GroupContext) -> bool:
    """Whether the group was Eligible in this generation and no criterion failed since."""
    record = context.record
    return record is not None and record.qualified_at is not None and not record.revoked


def _proved(context: GroupContext) -> bool:
    """Whether a fresh uncached list shows every member there, staying and ready. A static file is its own proof."""
    if context.inputs.facts.ready_by_reading:
        return all(member_ready(context, member) is LegState.VERIFIED for member in context.serving)
    listed = _listed_members(context)
    return listed is not None and all(
        uid in listed and listed[uid] for uid in (member.uid for member in context.members)
    )


def _listed_members(context: GroupContext) -> dict[str, bool] | None:
    """UID to "ready and staying" of a fresh list, or ``None`` when there is no such list."""
    proof = context.inputs.proof
    if proof is None or proof.members is None or context.now.mono - proof.at.mono > context.policy.proof_validity:
        return None
    return {item.uid: item.ready is Ready.TRUE and not item.terminating for item in proof.members}


def _void(context: GroupContext, selection: Selection) -> bool:
    """Whether a list proved a change while views are lost; only valid views clear it, never a later failed read."""
    if selection.valid or selection.state is ServingState.NOT_CONFIGURED:
        return False
    kept = context.record is not None and context.record.void
    listed = None if context.inputs.facts.ready_by_reading else _listed_members(context)
    changed = listed is not None and not all(listed.get(member.uid, False) for member in context.members)
    return kept or changed


def _keep(context: GroupContext, state: GroupState, reason: str, *, listed: bool, void: bool) -> GroupRecord:
    """The record for the next pass. ``qualified_at`` moves only on a transition into Eligible."""
    old = context.record
    qualified = old.qualified_at if old is not None else None
    revoked = old.revoked if old is not None else False
    if state in REVOKED:
        revoked = True
    elif state is GroupState.ELIGIBLE:
        if qualified is None or revoked:
            qualified = context.now.wall
        revoked = False
    # a member that leaves with its record of answering takes it along: the generation changes with it
    answered = tuple(sorted(member.uid for member in context.members if context.answered(member)))
    return GroupRecord(
        role=context.role.name,
        ordinal=context.replica.ordinal,
        generation=generation(context),
        state=state,
        reason=reason,
        qualified_at=None if context.role.elastic else qualified,
        revoked=revoked,
        listed=listed or (old is not None and old.listed),
        answered=answered,
        forwarded=_forwarded(context),
        void=void,
        since=old.since if old is not None and old.state is state else context.now.wall,
    )


def _forwarded(context: GroupContext) -> tuple[str, ...]:
    """Ranks that moved, and kept ones of members that were not read this time."""
    moved = set(forwarded(context)[0])
    for key in context.record.forwarded if context.record is not None else ():
        uid, incarnation, _ = key.split("|", 2)
        seen = context.inputs.evidence(uid).incarnation
        if not seen or seen == incarnation:
            moved.add(key)
    return tuple(sorted(moved))


def _standing(context: GroupContext, member: Member) -> MemberStanding:
    evidence = context.inputs.evidence(member.uid)
    return member_standing(member, evidence, answered=context.kept(member), now=context.now, policy=context.policy)


def _member(context: GroupContext, standing: MemberStanding) -> MemberVerdict:
    member = next(item for item in (*context.members, *context.terminating) if item.uid == standing.uid)
    ready = {LegState.VERIFIED: Ready.TRUE, LegState.FAILED: Ready.FALSE}.get(member_ready(context, member))
    if ready is None:
        # the leg cannot tell; what the Pod itself reports is still a fact where Ready means an answer
        loading = member.ready is Ready.FALSE and not context.inputs.facts.ready_by_reading
        ready = Ready.FALSE if loading else Ready.UNKNOWN
    return MemberVerdict(
        name=member.name,
        uid=member.uid,
        seat=member.seat,
        ready=ready.value,
        standing=standing.standing.value if member.serves else "",
        detail=standing.detail if member.serves else "",
    )

"""A naive second reading of eligibility and convergence, in the words of the rules, over random fleets and histories."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from router_contract.judging import DeploymentInputs, MembershipProof, ProofMember, Stored
from router_contract.readings import FailureKind
from router_contract.router_views import RouterView
from router_contract.status import GroupState, Retirement
from router_contract.targets import Ready
from tests.judge.build import (
    NOW,
    ago,
    answer,
    deployment,
    evidence,
    facts,
    inputs,
    lost,
    member,
    rank,
    refused,
    replica,
    role,
    router,
    row,
    run,
    view,
)

PASSES = 5
HELD = {GroupState.UNKNOWN, GroupState.UNVERIFIED, GroupState.AWAITING_OBSERVATION}


def fleet(draw: random.Random) -> list[Any]:
    letters, made = list("abcdefgh"), []
    for ordinal in range(draw.choice([1, 1, 2, 3])):
        size = draw.choice([1, 1, 1, 2])
        total = draw.choice([size] * 8 + [size + 1, None])
        members = [
            member(letters.pop(0), seat=seat, declared_total=total, serves=seat == 0, ready=ready(draw))
            for seat in range(size)
        ]
        made.append(replica(*members, ordinal=ordinal))
    return changed(draw, made)


def changed(draw: random.Random, replicas: list[Any]) -> list[Any]:
    """The same places a moment later: readiness moves, a Pod may begin to leave, a replacement may be announced."""
    return [
        msgspec.structs.replace(
            each,
            replacing=draw.choice([False] * 6 + [None, True]),
            members=tuple(
                msgspec.structs.replace(one, ready=ready(draw), terminating=one.terminating or draw.random() < 0.06)
                for one in each.members
            ),
        )
        for each in replicas
    ]


def ready(draw: random.Random) -> Ready:
    return draw.choice([Ready.TRUE] * 6 + [Ready.FALSE, Ready.UNKNOWN])


def seen(draw: random.Random, uid: str) -> Any:
    life, born = draw.choice(["1"] * 5 + ["2"]), ago(draw.choice([500, 500, 1]))
    if draw.random() < 0.2:
        failure = draw.choice([FailureKind.REFUSED, FailureKind.TIMEOUT])
        return msgspec.structs.replace(refused(uid, incarnation=life, ranks=(), first_seen=born), failure=failure)
    ranks = (rank(moved_at=draw.choice([None, ago(3)]), work=draw.choice([None, 0.0, 2.0])),)
    return evidence(uid, incarnation=life, ranks=ranks, first_seen=born)


def given(draw: random.Random, replicas: list[Any], *, routed: bool) -> DeploymentInputs:
    uids = [one.uid for each in replicas for one in each.members]
    routers = draw.choice([("r",), ("r", "s")])
    views: list[Any] = []
    for uid in routers if routed else ():
        listed = [each for each in (*uids, *(["z"] if draw.random() < 0.05 else [])) if draw.random() < 0.85]
        rows = [row(each, in_selection=draw.choice([True] * 6 + [False, None])) for each in listed]
        views += [view(*rows, uid=uid, read_at=ago(draw.choice([1, 2, 14, 16])))] if draw.random() < 0.8 else []
        views += [lost(uid)] if draw.random() < 0.2 else []
    proof_of = tuple(ProofMember(uid=each, ready=draw.choice([Ready.TRUE] * 8 + [Ready.FALSE])) for each in uids)
    proofs = [None, MembershipProof(at=ago(1), members=None), MembershipProof(at=ago(1), members=proof_of)]
    retiring = Retirement(role_name="serve", replica_ordinal=0, state="Draining")
    return inputs(
        deployment(role(*replicas), with_router=router(*routers) if routed else False, complete=draw.random() < 0.9),
        facts=facts(retirement=draw.choice([None] * 8 + [msgspec.UNSET, retiring])),
        members=tuple(seen(draw, uid) for uid in uids if draw.random() < 0.9),
        views=tuple(views),
        proof=draw.choice([*proofs, MembershipProof(at=ago(20), members=proof_of)]),
    )


def selection(inp: DeploymentInputs) -> tuple[str, set[str], set[str]]:
    """The word of `serving`, who is selected, and who is refused: one bad or missing view makes all of it unknown."""
    declared, chosen, turned_down = inp.deployment.router, set[str](), set[str]()
    if declared is None:
        return "NotConfigured", chosen, turned_down
    bad = not inp.deployment.complete
    for front in declared.members:
        own = [each for each in inp.views if isinstance(each, RouterView) and each.pod_uid == front.uid]
        bad = bad or not own or NOW.mono - own[-1].read_at.mono > 15
        for each in own:
            for line in each.workers:
                there = [
                    one.uid
                    for one in inp.deployment.roles[0].members()
                    if one.host == line.host and not one.terminating
                    if (born := inp.evidence(one.uid).first_seen) is None or born.mono <= each.read_at.mono
                ]
                bad = (
                    bad or (not there and line.in_selection is not False) or (bool(there) and line.in_selection is None)
                )
                if there and line.in_selection is not None:
                    (chosen if line.in_selection else turned_down).add(there[0])
    word = "Unknown" if bad else "NotConverged" if chosen & turned_down else "Confirmed"
    return word, chosen, turned_down


def state(inp: DeploymentInputs, stored: Stored, place: Any, views: tuple[str, set[str], set[str]]) -> GroupState:
    """The first of the eight states that matches."""
    staying = [one for one in place.members if not one.terminating]
    leaving = [one for one in place.members if one.terminating]
    generation = "/".join(sorted(one.uid for one in staying or leaving))
    old = next((r for r in stored.groups if (r.ordinal, r.generation) == (place.ordinal, generation)), None)
    answered = set(old.answered) if old is not None else set()
    looks = [(one, inp.evidence(one.uid)) for one in staying or leaving]
    if not any(
        one.ready is not Ready.UNKNOWN or look.answered_at or (one.uid in answered and look.failed_at)
        for one, look in looks
    ):
        return GroupState.UNKNOWN
    retirement = inp.facts.retirement
    if isinstance(retirement, Retirement) and retirement.replica_ordinal == place.ordinal:
        return GroupState.RETIRING
    if place.replacing or leaving:
        return GroupState.REPLACING
    total, open_ = staying[0].declared_total, []
    if total is None or not inp.deployment.complete:
        open_.append("MemberSetComplete")
    elif len(staying) < total:
        return GroupState.INCOMPLETE
    if any(one.ready is Ready.FALSE and one.uid in answered for one in staying):
        return GroupState.NOT_READY
    open_ += ["MembersReady"] if any(one.ready is not Ready.TRUE for one in staying) else []
    leader, life = staying[0].uid, inp.evidence(staying[0].uid)
    kept = f"{leader}|{life.incarnation}|"
    before = bool(life.incarnation) and old is not None and any(key.startswith(kept) for key in old.forwarded)
    if total != 1 and not (total and (before or any(each.moved_at for each in life.ranks))):
        open_.append("GroupForward")
    open_ += ["NoPendingReplacement"] if place.replacing is None else []
    open_ += ["NoPlannedRetirement"] if retirement is msgspec.UNSET else []
    held = old is not None and old.qualified_at is not None and not old.revoked
    if open_ and not (held and open_ == ["GroupForward"]):
        return GroupState.UNVERIFIED
    word, chosen, turned_down = views
    if word == "NotConfigured":
        return GroupState.ELIGIBLE
    named = word != "Unknown" and leader in chosen | turned_down
    if not named and not (old is not None and old.listed):
        return GroupState.AWAITING_OBSERVATION
    if word != "Unknown":
        return GroupState.ELIGIBLE
    proof = inp.proof
    fresh = proof is not None and proof.members is not None and NOW.mono - proof.at.mono <= 15
    whole = {each.uid for each in (proof.members or ()) if each.ready is Ready.TRUE} if fresh and proof else set()
    proved = fresh and all(one.uid in whole for one in staying)
    return GroupState.ELIGIBLE if held and proved and not (old and old.void) else GroupState.AWAITING_OBSERVATION


@pytest.mark.parametrize("seed", range(60))
def test_judging_says_what_the_rules_say(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(6):
        replicas, stored, routed = fleet(draw), Stored(), draw.random() < 0.7
        for _ in range(PASSES):
            replicas = fleet(draw) if draw.random() < 0.1 else changed(draw, replicas)
            inp = given(draw, replicas, routed=routed)
            judged, views = run(inp, stored), selection(inp)
            compare(inp, stored, judged, views)
            stored = judged.stored


def compare(inp: DeploymentInputs, stored: Stored, judged: Any, views: tuple[str, set[str], set[str]]) -> None:
    word, chosen, _ = views
    places = inp.deployment.roles[0].replicas
    wanted = {place.ordinal: state(inp, stored, place, views) for place in places}
    assert {group.ordinal: group.state for group in judged.groups()} == wanted
    serving = judged.convergence.serving
    assert (serving.state.value, serving.value) == (word, len(chosen) if word == "Confirmed" else None)
    known = inp.deployment.complete and not HELD & set(wanted.values())
    count = sum(each is GroupState.ELIGIBLE for each in wanted.values())
    assert judged.roles[0].endpoints.eligible == (count if known else None)
    fit = {place.members[0].uid for place in places if wanted[place.ordinal] is GroupState.ELIGIBLE}
    converged = word == "Confirmed" and known and chosen == fit
    assert (answer(judged, "RouterConverged") == "True/Converged") is converged
    told = judged.explanation
    rest = (*told.others, *told.unknown)
    text = " ".join((*told.sentences, *(f"{each.type} {each.message} {each.evidence}" for each in rest)))
    for group in judged.groups():
        if group.state is GroupState.ELIGIBLE:
            assert group.qualified_at is not None
        else:
            assert f"serve/{group.ordinal}" in text or any(one.name in text for one in group.members), group

"""The five criteria: what verifies, fails or leaves each of them open, and how they combine."""

from __future__ import annotations

import msgspec
import pytest

from router_contract.platform_facts import RolloutFact
from router_contract.readings import FailureKind
from router_contract.status import GroupState, Retirement
from router_contract.targets import Ready
from tests.judge.build import (
    OTHER,
    STATIC,
    ago,
    answer,
    deployment,
    evidence,
    facts,
    group,
    inputs,
    kept,
    leg,
    member,
    rank,
    record,
    refused,
    replica,
    role,
    run,
)


def verdict(*members, stored=None, replica_=None, role_=None, **given):
    place = replica_ or replica(*members)
    made = role(place, **(role_ or {}))
    return group(run(inputs(deployment(made, **given.pop("deployment_", {})), **given), stored))


def pair(first=None, second=None):
    return (
        member("a", **({"declared_total": 2, "seat": 0} | (first or {}))),
        member("b", **({"declared_total": 2, "seat": 1} | (second or {}))),
    )


def state(found, name):
    return leg(found, name).state.value


@pytest.mark.parametrize(
    ("members", "given", "expected"),
    [
        pytest.param((member("a"),), {}, "Verified", id="single member"),
        pytest.param((member("a", seat=None),), {"facts": STATIC}, "Verified", id="legacy single without seat"),
        pytest.param(pair(), {}, "Verified", id="two of two"),
        pytest.param((member("a", declared_total=2),), {}, "Failed", id="short replica"),
        pytest.param(
            (member("a", declared_total=2),),
            {"deployment_": {"complete": False}},
            "Unknown",
            id="list failed, not short",
        ),
        pytest.param(pair(second={"declared_total": 3}), {}, "Unknown", id="totals disagree"),
        pytest.param((member("a", declared_total=0),), {}, "Unknown", id="bad total"),
        pytest.param(pair(second={"seat": 0}), {}, "Unknown", id="duplicate seats"),
        pytest.param(pair(second={"seat": 2}), {}, "Unknown", id="seat beyond total"),
        pytest.param(pair(second={"seat": None}), {}, "Unknown", id="partly missing seats"),
        pytest.param(
            pair({"seat": None}, {"seat": None}), {}, "Unknown", id="no seats on a platform that numbers them"
        ),
        pytest.param(
            pair({"seat": None}, {"seat": None}), {"facts": OTHER}, "Verified", id="no seats on a platform without them"
        ),
        pytest.param((member("a", declared_total=None),), {}, "Unknown", id="nobody says the total"),
        pytest.param((member("a", declared_total=None),), {"facts": STATIC}, "Verified", id="a file says the size"),
    ],
)
def test_member_set_complete(members, given, expected):
    assert state(verdict(*members, **given), "MemberSetComplete") == expected


def test_completeness_uses_the_size_the_replica_was_built_at():
    found = verdict(
        member("a", declared_total=None), replica_=replica(member("a", declared_total=None), size=1), role_={"size": 2}
    )
    assert state(found, "MemberSetComplete") == "Verified"


ANSWERED = kept(record("a"))
NEVER = kept(record("a", answered=(), qualified_at=None, state=GroupState.UNKNOWN))


@pytest.mark.parametrize(
    ("ready", "stored", "expected"),
    [
        pytest.param(Ready.TRUE, None, "Verified", id="gated and Ready"),
        pytest.param(Ready.FALSE, None, "Unknown", id="never answered: start-up, not a fault"),
        pytest.param(Ready.FALSE, NEVER, "Unknown", id="recorded and never answered"),
        pytest.param(Ready.FALSE, ANSWERED, "Failed", id="answered in this generation and stopped"),
        pytest.param(Ready.FALSE, kept(record("z")), "Unknown", id="another generation answered, this one did not"),
        pytest.param(Ready.UNKNOWN, ANSWERED, "Unknown", id="silent member is Unknown, not Failed"),
    ],
)
def test_members_ready_gated(ready, stored, expected):
    assert state(verdict(member("a", ready=ready), stored=stored), "MembersReady") == expected


UNGATED = {"command": ("serve",)}


@pytest.mark.parametrize(
    ("ready", "seen", "stored", "expected"),
    [
        pytest.param(Ready.TRUE, (), None, "Unknown", id="Ready of an ungated Pod proves nothing"),
        pytest.param(Ready.TRUE, (evidence(),), None, "Verified", id="a good scrape proves it"),
        pytest.param(
            Ready.TRUE, (evidence(answered_at=None, health_at=ago(3)),), None, "Verified", id="our own health"
        ),
        pytest.param(
            Ready.TRUE, (evidence(answered_at=ago(11)),), ANSWERED, "Unknown", id="an old scrape is not fresh"
        ),
        pytest.param(Ready.TRUE, (refused(),), ANSWERED, "Failed", id="answered once, refuses now"),
        pytest.param(Ready.TRUE, (refused(),), None, "Unknown", id="never answered, refuses"),
        pytest.param(Ready.FALSE, (), ANSWERED, "Unknown", id="nor does its False: nobody looked"),
        pytest.param(Ready.FALSE, (evidence(),), ANSWERED, "Verified", id="what we read outranks the Pod's word"),
        pytest.param(
            Ready.UNKNOWN,
            (evidence(answered_at=ago(30), failed_at=ago(1), failure=FailureKind.TIMEOUT),),
            ANSWERED,
            "Unknown",
            id="a timeout is saturated or hung, not stopped",
        ),
    ],
)
def test_members_ready_ungated(ready, seen, stored, expected):
    found = verdict(member("a", ready=ready, readiness_gated=False), stored=stored, members=seen, role_=UNGATED)
    assert state(found, "MembersReady") == expected


LISTED = {"listed_model": True, "listed_at": ago(2)}


@pytest.mark.parametrize(
    ("seen", "model", "stored", "expected"),
    [
        pytest.param((evidence(**LISTED),), "m", None, "Verified", id="metrics answered and the model is listed"),
        pytest.param((evidence(),), None, None, "Verified", id="no model declared: metrics answered"),
        pytest.param((evidence(),), "m", None, "Unknown", id="nobody asked for the models"),
        pytest.param((evidence(listed_model=True, listed_at=ago(11)),), "m", None, "Unknown", id="an old listing"),
        pytest.param((evidence(listed_model=False, listed_at=ago(1)),), "m", None, "Unknown", id="started, not loaded"),
        pytest.param((evidence(listed_model=False, listed_at=ago(1)),), "m", ANSWERED, "Failed", id="model went away"),
        pytest.param(
            (evidence(answered_at=ago(11), **LISTED),), "m", None, "Unknown", id="metrics older than two periods"
        ),
        pytest.param((refused(),), "m", None, "Unknown", id="loading engine refuses"),
        pytest.param((refused(),), "m", ANSWERED, "Failed", id="answered and stopped"),
        pytest.param((), "m", ANSWERED, "Unknown", id="nobody looked"),
    ],
)
def test_members_ready_of_static_targets(seen, model, stored, expected):
    found = verdict(
        member("a", ready=Ready.UNKNOWN), stored=stored, members=seen, facts=STATIC, deployment_={"model": model}
    )
    assert state(found, "MembersReady") == expected


def test_one_unknown_member_is_not_verified():
    """The peer lets a partly silent group pass as long as no member reports False; ours does not."""
    found = verdict(*pair(second={"ready": Ready.UNKNOWN}), members=(evidence("a"),))
    assert state(found, "MembersReady") == "Unknown"
    assert found.state.value == "Unverified"


def test_one_stopped_member_fails_the_group_and_is_named():
    found = verdict(*pair(second={"ready": Ready.FALSE}), stored=kept(record("a/b")))
    assert (found.state.value, found.reason) == ("NotReady", "MembersReady")
    assert "pod-b" in found.message


FOLLOWER = {"serves": False}


@pytest.mark.parametrize(
    ("members", "seen", "arguments", "stored", "expected"),
    [
        pytest.param((member("a"),), (), (), None, "NotApplicable", id="one member needs no forward proof"),
        pytest.param(pair(second=FOLLOWER), (evidence("a"),), ("-tp", "2"), None, "Verified", id="leader moved"),
        pytest.param(
            pair(second=FOLLOWER),
            (evidence("a", ranks=(rank(moved_at=None),)),),
            (),
            None,
            "Unknown",
            id="idle several-member group is unproven",
        ),
        pytest.param(pair(second=FOLLOWER), (), (), None, "Unknown", id="nobody looked"),
        pytest.param(
            pair(second=FOLLOWER),
            (evidence("a", ranks=(rank("0"), rank("1"))),),
            ("-dp", "2"),
            None,
            "Verified",
            id="both data-parallel ranks moved",
        ),
        pytest.param(
            pair(second=FOLLOWER),
            (evidence("a", ranks=(rank("0"), rank("1", moved_at=None))),),
            ("-dp", "2"),
            None,
            "Unknown",
            id="one rank has not moved",
        ),
        pytest.param(
            pair(second=FOLLOWER), (evidence("a"),), ("-dp", "2"), None, "Unknown", id="one rank is not seen at all"
        ),
        pytest.param(
            pair(second=FOLLOWER),
            (evidence("a", ranks=tuple(rank(str(n)) for n in range(3))),),
            ("-dp", "3"),
            None,
            "Unknown",
            id="three ranks cannot be placed on two members",
        ),
        pytest.param(
            pair(second=FOLLOWER),
            (evidence("a", ranks=(rank("0"), rank("1"))),),
            (),
            None,
            "Unknown",
            id="more ranks than declared",
        ),
        pytest.param(
            pair(),
            (evidence("a"), evidence("b", ranks=(rank("1"),))),
            ("-dp", "2", "--data-parallel-external-lb"),
            None,
            "Verified",
            id="external: each member's own rank moved",
        ),
        pytest.param(
            pair(),
            (evidence("a"),),
            ("-dp", "2", "--data-parallel-external-lb"),
            None,
            "Unknown",
            id="external: a member shows no rank",
        ),
        pytest.param(
            pair(second=FOLLOWER), (evidence("a"),), ("-dp", "x"), None, "Unknown", id="arguments that cannot be read"
        ),
        pytest.param(
            pair(second=FOLLOWER),
            (evidence("a", ranks=(rank(moved_at=None),)),),
            (),
            kept(record("a/b", forwarded=("a|1|0",))),
            "Verified",
            id="moved earlier in the same life",
        ),
        pytest.param(
            pair(second=FOLLOWER),
            (evidence("a", incarnation="2", ranks=(rank(moved_at=None),)),),
            (),
            kept(record("a/b", forwarded=("a|1|0",))),
            "Unknown",
            id="moved in an earlier life of the container",
        ),
    ],
)
def test_group_forward(members, seen, arguments, stored, expected):
    found = verdict(*members, members=seen, role_={"arguments": arguments, "size": 2}, stored=stored)
    assert state(found, "GroupForward") == expected


def test_an_idle_group_is_said_to_be_unproven_not_faulty():
    found = verdict(*pair(second=FOLLOWER), members=(evidence("a", ranks=(rank(moved_at=None),)),))
    assert found.state.value == "Unverified"
    assert "unproven, not faulty" in found.message


def retirement(**changes):
    return Retirement(**({"role_name": "serve", "replica_ordinal": 0, "state": "Draining"} | changes))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(facts(retirement=None), "Verified", id="observed absent"),
        pytest.param(facts(retirement=retirement()), "Failed", id="names this ordinal, which is 0"),
        pytest.param(facts(retirement=retirement(state="Aborted")), "Failed", id="an aborted record still holds it"),
        pytest.param(
            facts(retirement=retirement(role_name="other")), "Verified", id="reservation for other role ignored"
        ),
        pytest.param(facts(retirement=retirement(replica_ordinal=1)), "Verified", id="another ordinal"),
        pytest.param(facts(OTHER), "Verified", id="declared where nothing can announce it"),
    ],
)
def test_no_planned_retirement(given, expected):
    assert state(verdict(member("a"), facts=given), "NoPlannedRetirement") == expected


def test_retirement_not_observed_is_unknown():
    found = verdict(member("a"), facts=facts(retirement=msgspec.UNSET))
    assert state(found, "NoPlannedRetirement") == "Unknown"
    assert found.state.value == "Unverified"


def test_pod_deletion_is_a_retirement_where_no_operator_keeps_one():
    found = verdict(member("a"), member("b", terminating=True), facts=OTHER)
    assert state(found, "NoPlannedRetirement") == "Failed"
    assert found.state.value == "Retiring"


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        pytest.param(replica(member("a")), "Verified", id="nothing"),
        pytest.param(replica(member("a"), replacing=True), "Failed", id="condemned ordinal"),
        pytest.param(replica(member("a"), member("b", terminating=True)), "Failed", id="a member terminating"),
        pytest.param(replica(member("a"), member("b", seat=None)), "Failed", id="a second Pod on the ordinal"),
        pytest.param(replica(member("a"), replacing=None), "Unknown", id="not observed"),
    ],
)
def test_no_pending_replacement(place, expected):
    assert state(verdict(replica_=place), "NoPendingReplacement") == expected


def test_failed_outranks_unknown():
    members = pair(first={"ready": Ready.FALSE}, second={"ready": Ready.UNKNOWN})
    found = verdict(*members, stored=kept(record("a/b")), members=())
    assert leg(found, "GroupForward").state.value == "Unknown"
    assert found.state.value == "NotReady"


def test_a_verified_sibling_counts_beside_a_revoked_one_and_not_beside_a_held_one():
    def roles(second):
        return deployment(role(replica(member("a")), replica(member("b", **second), ordinal=1)))

    revoked = run(inputs(roles({"ready": Ready.FALSE})), kept(record("a"), record("b", ordinal=1)))
    assert revoked.roles[0].endpoints.eligible == 1
    assert answer(revoked, "EndpointEligibility") == "False/Revoked"
    held = run(inputs(roles({"ready": Ready.UNKNOWN})), kept(record("a"), record("b", ordinal=1)))
    assert held.roles[0].endpoints.eligible is None
    assert answer(held, "EndpointEligibility") == "Unknown/HeldUnverified"


def test_all_revoked_is_an_explicit_zero():
    judged = run(inputs(deployment(role(replica(member("a", ready=Ready.FALSE))))), kept())
    assert judged.roles[0].endpoints.eligible == 0


@pytest.mark.parametrize(
    ("members", "stored", "expected", "eligible"),
    [
        pytest.param((member("a"),), None, "True/Qualified", 1, id="qualified"),
        pytest.param((member("a", ready=Ready.UNKNOWN),), None, "Unknown/NotObserved", None, id="none observed"),
        pytest.param((), None, "Unknown/NotObserved", None, id="no group at all"),
        pytest.param((member("a", ready=Ready.FALSE),), kept(), "False/Revoked", 0, id="revoked"),
        pytest.param((member("a", ready=Ready.FALSE),), None, "Unknown/HeldUnverified", None, id="loading is held"),
    ],
)
def test_the_condition_and_the_count(members, stored, expected, eligible):
    places = (replica(*members),) if members else ()
    seen = () if not members or members[0].ready is Ready.UNKNOWN else (evidence("a"),)
    target = deployment(role(*places, desired=1))
    if not places:
        target = deployment(roles=(role(replica()),))
        target = msgspec.structs.replace(target, roles=(msgspec.structs.replace(target.roles[0], replicas=()),))
    judged = run(inputs(target, members=seen), stored)
    assert answer(judged, "EndpointEligibility") == expected
    assert judged.roles[0].endpoints.eligible == eligible


def test_a_role_that_wants_nothing_and_has_nothing_is_an_observed_zero():
    parked = msgspec.structs.replace(role(), replicas=(), desired=0)
    judged = run(inputs(deployment(parked)))
    assert judged.roles[0].endpoints.eligible == 0


def test_a_stall_never_changes_eligibility():
    stuck = evidence("a", ranks=(rank(moved_at=ago(200), work_since=ago(200)),))
    judged = run(inputs(members=(stuck,)))
    assert answer(judged, "EngineProgressing") == "False/Stalled"
    assert judged.roles[0].endpoints.eligible == 1


def test_the_rollout_condition_does_not_enter_the_legs():
    judged = run(inputs(facts=facts(rollout=RolloutFact(desired=1, accounted=1, current=0, outdated_roles=("serve",)))))
    assert answer(judged, "ReplicasUpToDate") == "False/RolloutInProgress"
    assert judged.roles[0].endpoints.eligible == 1


@pytest.mark.parametrize(
    ("members", "why"),
    [
        pytest.param(pair(second={"seat": 0}), "pod-a and pod-b claim one seat (0)", id="one seat twice"),
        pytest.param(pair(second={"seat": 5}), "pod-b claims a seat (5) outside 0..1", id="too far"),
        pytest.param(pair(second={"seat": -1}), "pod-b claims a seat outside 0..1", id="no number"),
        pytest.param(pair(second={"seat": None}), "pod-b claims no seat", id="no seat"),
        pytest.param(
            (member("a", declared_total=-1),),
            "pod-a declares a total that is no number, a whole number of at least 1 is wanted",
            id="a total that is no number",
        ),
        pytest.param(
            (member("a", declared_total=0),),
            "pod-a declares a total of 0, a whole number of at least 1 is wanted",
            id="a total of nothing",
        ),
    ],
)
def test_the_member_that_cannot_be_placed_is_named(members, why):
    """What is written and no number is kept as -1, which nobody wrote: it is not shown as found."""
    assert leg(verdict(*members), "MemberSetComplete").why == why

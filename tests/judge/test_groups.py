"""Groups: the eight states in their order, one reason, qualification times, retention, restarts, elastic collectives."""

from __future__ import annotations

import msgspec
import pytest

from router_contract.judging import MembershipProof, ProofMember
from router_contract.readings import FailureKind
from router_contract.status import GroupState, Retirement
from router_contract.targets import Ready
from tests.judge.build import (
    NOW,
    STATIC,
    ago,
    answer,
    deployment,
    evidence,
    facts,
    group,
    inputs,
    kept,
    later,
    lost,
    member,
    record,
    refused,
    replica,
    role,
    row,
    run,
    view,
)

ROUTED = deployment(with_router=True)
RETIRING = facts(retirement=Retirement(role_name="serve", replica_ordinal=0, state="Draining"))


def one(**changes):
    return deployment(role(replica(member("a", **changes))))


def proof(*members, at=None):
    return MembershipProof(at=at or ago(1), members=members or (ProofMember(uid="a", ready=Ready.TRUE),))


@pytest.mark.parametrize(
    ("given", "stored", "state", "reason"),
    [
        pytest.param(inputs(one(ready=Ready.UNKNOWN), members=()), None, "Unknown", "NotObserved", id="Unknown"),
        pytest.param(inputs(facts=RETIRING), None, "Retiring", "NoPlannedRetirement", id="Retiring"),
        pytest.param(
            inputs(deployment(role(replica(member("a"), replacing=True)))),
            None,
            "Replacing",
            "NoPendingReplacement",
            id="Replacing",
        ),
        pytest.param(inputs(one(declared_total=2)), None, "Incomplete", "MemberSetComplete", id="Incomplete"),
        pytest.param(inputs(one(ready=Ready.FALSE)), kept(), "NotReady", "MembersReady", id="NotReady"),
        pytest.param(inputs(one(ready=Ready.FALSE)), None, "Unverified", "MembersReady", id="Unverified"),
        pytest.param(
            inputs(ROUTED, views=(view(),)), None, "AwaitingObservation", "RouterNotListed", id="AwaitingObservation"
        ),
        pytest.param(inputs(ROUTED, views=(view(row()),)), None, "Eligible", "Qualified", id="Eligible"),
        pytest.param(inputs(), None, "Eligible", "Qualified", id="without a router the criteria alone decide"),
    ],
)
def test_states(given, stored, state, reason):
    found = group(run(given, stored))
    assert (found.state.value, found.reason) == (state, reason)


@pytest.mark.parametrize(
    ("target", "given", "stored", "state"),
    [
        pytest.param(
            one(ready=Ready.UNKNOWN), {"facts": RETIRING, "members": ()}, None, "Unknown", id="unobserved first"
        ),
        pytest.param(
            deployment(role(replica(member("a"), replacing=True))),
            {"facts": RETIRING},
            None,
            "Retiring",
            id="retiring before replacing",
        ),
        pytest.param(
            deployment(role(replica(member("a", declared_total=2), replacing=True))),
            {},
            None,
            "Replacing",
            id="replacing before incomplete",
        ),
        pytest.param(
            one(declared_total=2, ready=Ready.FALSE), {}, kept(), "Incomplete", id="incomplete before not ready"
        ),
    ],
)
def test_the_first_that_matches_wins(target, given, stored, state):
    assert group(run(inputs(target, **given), stored)).state.value == state


def test_there_are_exactly_eight_states():
    assert len(GroupState) == 8


def test_an_aborted_retirement_says_that_capacity_is_retained():
    aborted = Retirement(role_name="serve", replica_ordinal=0, state="Aborted", reason="DrainBudget")
    found = group(run(inputs(facts=facts(retirement=aborted))))
    assert (found.state.value, found.message) == ("Retiring", "capacity retained")


def test_generation_does_not_depend_on_order_and_changes_on_replacement():
    def made(*uids):
        members = [member(uid, declared_total=2, seat=index) for index, uid in enumerate(uids)]
        return group(run(inputs(deployment(role(replica(*members)))))).generation

    assert made("a", "b") == made("b", "a") == "a/b"
    assert made("a", "c") != made("a", "b")


def test_a_terminating_member_is_dropped_and_the_rest_is_another_generation():
    members = (member("a", declared_total=2), member("b", declared_total=2, seat=1, terminating=True))
    found = group(run(inputs(deployment(role(replica(*members)))), kept(record("a/b"))))
    assert (found.generation, found.state.value, found.qualified_at) == ("a", "Replacing", None)


def test_a_replica_whose_members_all_leave_is_still_shown():
    found = group(run(inputs(one(terminating=True))))
    assert (found.generation, found.state.value, len(found.members)) == ("a", "Replacing", 1)


def test_members_carry_name_uid_seat_and_ready():
    members = (
        member("a", declared_total=3),
        member("b", declared_total=3, seat=1, ready=Ready.FALSE),
        member("c", declared_total=3, seat=2, ready=Ready.UNKNOWN),
    )
    found = group(run(inputs(deployment(role(replica(*members))))))
    assert [(item.name, item.uid, item.seat, item.ready) for item in found.members] == [
        ("pod-a", "a", 0, "True"),
        ("pod-b", "b", 1, "False"),
        ("pod-c", "c", 2, "Unknown"),
    ]


def test_an_ordinal_a_platform_does_not_have_is_null_and_never_zero():
    found = group(run(inputs(deployment(role(replica(member("a"), ordinal=None))))))
    assert found.ordinal is None


class TestQualifiedAt:
    def test_is_the_transition(self):
        first = run()
        assert group(first).qualified_at == NOW.wall
        second = run(inputs(), first.stored, later(1))
        assert group(second).qualified_at == NOW.wall

    def test_is_kept_while_held_in_the_same_generation(self):
        held = run(inputs(one(ready=Ready.UNKNOWN), members=()), kept())
        assert group(held).state.value == "Unknown"
        assert group(held).qualified_at == 400_000.0
        back = run(inputs(), held.stored, later(1))
        assert (group(back).state.value, group(back).qualified_at) == ("Eligible", 400_000.0)

    def test_is_new_when_a_revoked_group_comes_back(self):
        gone = run(inputs(one(ready=Ready.FALSE)), kept())
        assert (group(gone).state.value, group(gone).qualified_at) == ("NotReady", 400_000.0)
        assert group(gone).reason == "MembersReady"
        assert group(gone).message == "MembersReady failed: pod-a answered and stopped"
        back = run(inputs(), gone.stored, later(1))
        assert group(back).qualified_at == later(1).wall

    def test_a_revoked_group_that_becomes_unknown_and_passes_again_has_a_new_one(self):
        gone = run(inputs(one(ready=Ready.FALSE)), kept())
        held = run(inputs(one(ready=Ready.UNKNOWN)), gone.stored, later(1))
        assert group(held).state.value != "Eligible"
        back = run(inputs(), held.stored, later(2))
        assert group(back).qualified_at == later(2).wall

    def test_is_never_inherited_by_another_generation(self):
        found = group(run(inputs(), kept(record("z"))))
        assert found.qualified_at == NOW.wall

    def test_survives_a_restart_with_every_verdict(self):
        before = run(inputs(ROUTED, views=(view(row()),)), kept())
        copied = msgspec.json.decode(msgspec.json.encode(before.stored), type=type(before.stored))
        after = run(inputs(ROUTED, views=(view(row()),)), copied)
        assert after == run(inputs(ROUTED, views=(view(row()),)), before.stored)
        assert group(after).qualified_at == group(before).qualified_at == 400_000.0
        assert after.conditions == before.conditions

    def test_an_engine_that_stopped_while_the_observer_was_away_is_revoked(self):
        before = run()
        copied = msgspec.json.decode(msgspec.json.encode(before.stored), type=type(before.stored))
        assert group(run(inputs(one(ready=Ready.FALSE)), copied)).state.value == "NotReady"


class TestGroupForwardIsHeld:
    MEMBERS = (member("a", declared_total=2), member("b", declared_total=2, seat=1, serves=False))

    def target(self):
        return deployment(role(replica(*self.MEMBERS), size=2))

    def test_a_group_that_was_eligible_stays_while_only_forward_is_unknown(self):
        found = group(run(inputs(self.target(), members=()), kept(record("a/b"))))
        assert (found.state.value, found.qualified_at) == ("Eligible", 400_000.0)

    def test_a_group_that_never_was_does_not_become_it(self):
        assert group(run(inputs(self.target(), members=()))).state.value == "Unverified"

    def test_a_revoked_group_is_not_restored_without_forward(self):
        stored = kept(record("a/b", revoked=True, state=GroupState.NOT_READY))
        assert group(run(inputs(self.target(), members=()), stored)).state.value == "Unverified"

    def test_unknown_never_restores_and_never_revokes(self):
        held = run(inputs(one(ready=Ready.UNKNOWN)), kept())
        assert held.roles[0].endpoints.eligible is None
        assert held.stored.groups[0].revoked is False
        revoked = kept(record(revoked=True, state=GroupState.NOT_READY))
        assert run(inputs(one(ready=Ready.UNKNOWN)), revoked).stored.groups[0].revoked is True


class TestRouterViewLost:
    def test_without_proof_it_awaits(self):
        found = group(run(inputs(ROUTED, views=(lost(),)), kept()))
        assert (found.state.value, found.reason) == ("AwaitingObservation", "RouterViewLost")
        assert found.qualified_at == 400_000.0

    def test_with_proof_it_is_retained_and_counted(self):
        judged = run(inputs(ROUTED, views=(lost(),), proof=proof()), kept())
        assert (group(judged).state.value, group(judged).retained) == ("Eligible", True)
        assert group(judged).qualified_at == 400_000.0
        assert judged.roles[0].endpoints.eligible == 1

    @pytest.mark.parametrize(
        "given",
        [
            pytest.param(proof(ProofMember(uid="z", ready=Ready.TRUE)), id="a member disappeared"),
            pytest.param(proof(ProofMember(uid="a", ready=Ready.FALSE)), id="a member became unready"),
            pytest.param(proof(ProofMember(uid="a", ready=Ready.UNKNOWN)), id="a member reported nothing"),
            pytest.param(proof(ProofMember(uid="a", ready=Ready.TRUE, terminating=True)), id="a member is leaving"),
            pytest.param(MembershipProof(at=ago(1), members=None), id="the list failed"),
            pytest.param(proof(at=ago(16)), id="the list is old"),
        ],
    )
    def test_no_proof_no_retention(self, given):
        found = group(run(inputs(ROUTED, views=(lost(),), proof=given), kept()))
        assert (found.state.value, found.reason) == ("AwaitingObservation", "RouterViewLost")

    def test_a_later_failed_read_cannot_erase_a_proven_change(self):
        changed = run(inputs(ROUTED, views=(lost(),), proof=proof(ProofMember(uid="z"))), kept())
        assert changed.stored.groups[0].void is True
        again = run(inputs(ROUTED, views=(lost(),), proof=MembershipProof(at=ago(0), members=None)), changed.stored)
        assert group(again).state.value == "AwaitingObservation"
        good = run(inputs(ROUTED, views=(lost(),), proof=proof(at=ago(0))), again.stored)
        assert group(good).state.value == "AwaitingObservation"
        seen = run(inputs(ROUTED, views=(view(row()),)), good.stored)
        assert (group(seen).state.value, seen.stored.groups[0].void) == ("Eligible", False)

    def test_a_group_never_listed_is_not_retained(self):
        stored = kept(record(listed=False, qualified_at=None, state=GroupState.AWAITING_OBSERVATION))
        found = group(run(inputs(ROUTED, views=(lost(),), proof=proof()), stored))
        assert (found.state.value, found.reason) == ("AwaitingObservation", "RouterNotListed")

    def test_a_revoked_group_is_not_retained(self):
        stored = kept(record(revoked=True, state=GroupState.NOT_READY))
        assert group(run(inputs(ROUTED, views=(lost(),), proof=proof()), stored)).state.value == "AwaitingObservation"

    def test_static_targets_are_their_own_proof(self):
        given = inputs(ROUTED, facts=STATIC, views=(lost(),))
        assert (group(run(given, kept())).state.value, group(run(given, kept())).retained) == ("Eligible", True)

    def test_the_member_fault_is_named_and_not_the_router(self):
        target = deployment(role(replica(member("a", ready=Ready.FALSE))), with_router=True)
        found = group(run(inputs(target, views=(lost(),)), kept()))
        assert (found.state.value, found.reason) == ("NotReady", "MembersReady")

    def test_refused_is_listed_too(self):
        found = run(inputs(ROUTED, views=(view(row(in_selection=False)),)))
        assert group(found).state.value == "Eligible"
        assert answer(found, "RouterConverged") == "False/MissingEndpoint"

    def test_once_listed_an_absence_does_not_hold_the_group(self):
        found = run(inputs(ROUTED, views=(view(),)), kept())
        assert group(found).state.value == "Eligible"
        assert answer(found, "RouterConverged") == "False/MissingEndpoint"

    def test_a_proof_is_asked_for_before_the_view_expires_and_only_then(self):
        assert run(inputs(ROUTED, views=(view(row(), read_at=ago(11)),)), kept()).proof_wanted is True
        assert run(inputs(ROUTED, views=(view(row()),)), kept()).proof_wanted is False
        assert run(inputs(ROUTED, facts=STATIC, views=(lost(),)), kept()).proof_wanted is False


class TestElastic:
    def target(self, *members, with_router=False):
        return deployment(role(replica(*members), elastic=True), with_router=with_router)

    def test_one_group_at_ordinal_zero_without_a_verdict(self):
        workers = (member("a"), member("b", seat=1, serves=False), member("h", ancillary=True, serves=False, seat=None))
        judged = run(inputs(self.target(*workers, with_router=True), views=(view(row()),)), kept(record("a/b")))
        found = group(judged)
        assert len(judged.groups()) == 1
        assert (found.ordinal, found.state.value, found.qualified_at) == (0, "Unknown", None)
        assert [item.uid for item in found.members] == ["a", "b"]
        assert "elastic collective" in found.message
        assert judged.roles[0].endpoints.eligible is None
        assert judged.roles[0].endpoints.serving.state.value == "Unknown"
        assert judged.roles[0].endpoints.serving.value is None

    def test_without_a_router_serving_is_not_configured(self):
        judged = run(inputs(self.target(member("a"))))
        assert judged.roles[0].endpoints.serving.state.value == "NotConfigured"

    def test_seats_are_admission_ordinals(self):
        found = group(run(inputs(self.target(member("a", seat=0), member("b", seat=7, serves=False)))))
        assert [item.seat for item in found.members] == [0, 7]

    def test_a_worker_on_its_way_out_is_no_member(self):
        found = group(run(inputs(self.target(member("a"), member("b", seat=1, terminating=True)))))
        assert [item.uid for item in found.members] == ["a"]

    def test_no_workers_no_group(self):
        judged = run(inputs(self.target(member("h", ancillary=True, serves=False))))
        assert judged.groups() == ()

    def test_the_collective_does_not_hold_the_deployment(self):
        target = deployment(role(name="other"), role(replica(member("b")), name="elastic", elastic=True))
        judged = run(inputs(target))
        assert answer(judged, "EndpointEligibility") == "True/Qualified"

    def test_counts_come_from_the_master(self):
        judged = run(inputs(self.target(member("a"), member("b", seat=1, serves=False, ready=Ready.FALSE))))
        assert judged.roles[0].ready == 1


def test_a_loading_engine_leaves_eligible_null_and_is_explained_as_loading():
    target = deployment(role(replica(member("a", ready=Ready.FALSE))))
    seen = refused(attempt=1, started_at=NOW.wall - 120, startup_budget=1800.0)
    judged = run(inputs(target, members=(seen,)))
    assert judged.roles[0].endpoints.eligible is None
    assert judged.explanation.main is not None
    assert judged.explanation.main.reason == "Loading"
    assert "attempt 1, 120 s of 1800 s" in judged.explanation.main.message


def test_one_that_answered_and_stopped_is_revoked_in_one_pass():
    given = inputs(facts=STATIC)
    first = run(given)
    assert group(first).state.value == "Eligible"
    second = run(
        inputs(facts=STATIC, members=(evidence(failed_at=later(4), failure=FailureKind.REFUSED),)),
        first.stored,
        later(5),
    )
    assert (group(second).state.value, second.roles[0].endpoints.eligible) == ("NotReady", 0)


def test_transitions_are_kept_to_a_limit():
    stored = kept()
    for step in range(30):
        ready = Ready.FALSE if step % 2 else Ready.TRUE
        stored = run(inputs(one(ready=ready)), stored, later(step)).stored
    assert len(stored.transitions) == 20
    assert {item.what for item in stored.transitions} >= {"group serve/0", "EndpointEligibility"}


def test_a_failed_list_forgets_no_group():
    target = msgspec.structs.replace(deployment(), roles=(), complete=False)
    judged = run(inputs(target, members=()), kept())
    assert judged.stored.groups == kept().groups
    assert judged.writable is False

"""Explanations: one main answer, every other independent False, Unknown as not known."""

from __future__ import annotations

import msgspec
import pytest

from router_contract.judging import MembershipProof, ProofMember, TargetFreshness
from router_contract.operator_condition import OperatorCondition
from router_contract.platform_facts import (
    OperatorStatus,
    ReasonFact,
    RouterObjectsFact,
    WorkloadFact,
)
from router_contract.readings import FailureKind
from router_contract.status import Retirement
from router_contract.targets import Address, Member, Ready
from router_contract.verdicts import Condition, Status
from tests.judge.build import (
    NOW,
    STATIC,
    ago,
    deployment,
    evidence,
    facts,
    inputs,
    kept,
    later,
    lost,
    member,
    rank,
    record,
    refused,
    replica,
    role,
    router,
    row,
    run,
    view,
)


def main(judged):
    found = judged.explanation.main
    return None if found is None else f"{found.type}/{found.reason}"


STATIC_ROUTER = Member(
    uid="r", name="router-r", host="10.0.1.1", ready=Ready.UNKNOWN, metrics=Address(host="10.0.1.1", port=9090)
)
ONE_DOWN = deployment(role(replica(member("a", ready=Ready.FALSE))))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(run, None, id="nothing wrong"),
        pytest.param(
            lambda: run(inputs(ONE_DOWN, facts=facts(workloads=(WorkloadFact(role="serve"),)), members=())),
            "QuotaReserved/Pending",
            id="quota keeps most from being served",
        ),
        pytest.param(
            lambda: run(inputs(ONE_DOWN, members=(refused(attempt=3),))), "Member pod-a/StartupLoop", id="start-up loop"
        ),
        pytest.param(
            lambda: run(inputs(ONE_DOWN, members=(refused(attempt=1),))), "Member pod-a/Loading", id="slow load"
        ),
        pytest.param(
            lambda: run(inputs(members=(evidence(ranks=(rank(moved_at=ago(90), work_since=ago(90)),)),))),
            "EngineProgressing/Stalled",
            id="hang",
        ),
        pytest.param(
            lambda: run(inputs(ONE_DOWN, members=(refused(attempt=1),)), kept()),
            "Member pod-a/Down",
            id="answered and stopped",
        ),
        pytest.param(
            lambda: run(inputs(deployment(with_router=True), views=(view(row(in_selection=False)),)), kept()),
            "RouterConverged/MissingEndpoint",
            id="circuit open",
        ),
        pytest.param(
            lambda: run(inputs(deployment(with_router=True), views=(lost(),)), kept()),
            "EndpointEligibility/HeldUnverified",
            id="router view lost is not known",
        ),
        pytest.param(
            lambda: run(
                inputs(
                    deployment(with_router=True),
                    facts=facts(router_objects=RouterObjectsFact(ready=0)),
                    views=(view(row()),),
                )
            ),
            "RouterReady/NoReadyReplicas",
            id="router down",
        ),
    ],
)
def test_the_main_answer(found, expected):
    assert main(found()) == expected


def test_three_sentences_with_evidence_and_age():
    given = inputs(ONE_DOWN, members=())
    first = run(given, kept())
    judged = run(given, first.stored, later(42))
    what, why, act = judged.explanation.sentences
    assert what == "ns/md is Starting: serve 0 of 1 ready, 0 eligible."
    assert (
        why == "EndpointEligibility is Revoked for 42 s: 1 of 1: serve/0 NotReady; "
        "serve/0 MembersReady failed: pod-a answered and stopped."
    )
    assert act == "This clears by itself (engine): a group is restored when all its criteria pass again."


def test_every_other_independent_false_is_listed_once():
    given = inputs(ONE_DOWN, facts=facts(cache=True, binding=None, workloads=(WorkloadFact(role="serve"),)), members=())
    found = run(given, kept()).explanation
    assert found.main.type == "QuotaReserved"
    assert [item.type for item in found.others] == ["EndpointEligibility", "RoleKindsReady", "DomainRegistered"]


def test_unknown_is_listed_as_not_known_and_never_as_wrong():
    found = run().explanation
    assert found.main is None
    assert {item.status for item in found.unknown} == {"Unknown"}
    assert found.others == ()
    assert found.sentences[1].startswith("Nothing is wrong that could be observed")


def test_an_order_is_read_only_where_the_platform_declares_one():
    given = {"cache": True, "binding": None, "workloads": (WorkloadFact(role="serve"),)}
    free = run(inputs(ONE_DOWN, facts=facts(**given), members=()))
    ordered = run(inputs(ONE_DOWN, facts=facts(ordered=("DomainRegistered",), **given), members=()))
    assert main(free) == "QuotaReserved/Pending"
    assert main(ordered) == "DomainRegistered/BindingNotFound"


def test_a_reason_we_do_not_know_is_shown_as_written():
    extra = (Condition(type="CanaryAnalysis", status=Status.FALSE, reason="Novel", message="as written"),)
    found = run(inputs(extra=extra)).explanation
    assert (found.main.reason, found.main.advice) == ("Novel", "")
    assert "as it was written" in found.sentences[2]


def test_a_message_that_is_a_sentence_ends_once():
    said = Condition(
        type="CanaryAnalysis",
        status=Status.FALSE,
        reason="ThresholdBreached",
        message="It was rejected.",
        evidence=(("canary", "2"),),
    )
    assert run(inputs(extra=(said,))).explanation.sentences[1].endswith(": It was rejected; canary 2.")


def test_a_mirrored_answer_says_whose_it_is():
    said = OperatorCondition(type="ReplicasUpToDate", status="False", reason="RolloutHeldByCache", message="held")
    operator = OperatorStatus(read_at=NOW.wall, observed_generation=7, conditions=(said,))
    found = run(inputs(facts=facts(operator=operator))).explanation
    assert found.main.message == "held (as the operator says)"


def test_a_retained_group_is_said_to_be_kept():
    proof = MembershipProof(at=ago(1), members=(ProofMember(uid="a", ready=Ready.TRUE),))
    given = inputs(
        deployment(with_router=True),
        views=(lost(),),
        proof=proof,
        facts=facts(router_objects=RouterObjectsFact(ready=1)),
    )
    found = run(given, kept()).explanation
    assert main(run(given, kept())) == "RouterConverged/ViewUnavailable"
    assert found.sentences[1] == (
        "RouterConverged is not known (ViewUnavailable) for 0 s: router router-r has no view: Timeout 2 s; "
        "wanted 1; seen not known; missing not known; extra not known; "
        "1 of 1 groups stay eligible, kept by their membership."
    )
    assert found.sentences[2].startswith("This clears by itself (observer)")


def test_views_that_are_lost_are_the_answer_where_nothing_is_wrong():
    """On static targets the group is retained by our reads, and all replicas are ready."""
    target = deployment(role(replica(member(ready=Ready.UNKNOWN))), with_router=router(members=(STATIC_ROUTER,)))
    metrics = (TargetFreshness(name="router-r", age=1.0, uid="r"),)
    given = inputs(target, facts=STATIC, views=(lost(kind="Http", detail="answered 503"),), freshness=metrics)
    judged = run(given, kept())
    assert judged.phase.value == "Ready"
    assert main(judged) == "RouterConverged/ViewUnavailable"
    assert "answered 503" in judged.explanation.sentences[1]


def test_the_reason_that_came_later_has_its_own_age():
    target = deployment(with_router=True)
    first = run(inputs(target, views=(view(row(in_selection=False)),)), kept(eligible_set=("a",)))
    views = (view(row(), uid="r"), view(row(in_selection=False), uid="s"))
    two = msgspec.structs.replace(target, router=router("r", "s"))
    second = run(inputs(two, views=views), first.stored, later(10))
    third = run(inputs(two, views=views), second.stored, later(13))
    assert main(third) == "RouterConverged/ViewsDisagree"
    assert third.explanation.main.age_seconds == 3.0
    assert next(item for item in third.conditions if item.type == "RouterConverged").last_transition == NOW.wall


def leaving(**changes):
    gone = replica(member("b", ready=Ready.UNKNOWN), ordinal=1, **changes)
    return deployment(role(replica(member("a", ready=Ready.UNKNOWN)), gone))


DOWN = refused("b", failing_since=ago(20))


def test_a_member_that_is_down_because_its_replica_retires_is_explained_by_that():
    target = leaving(retiring=True, retiring_reason="the file says so")
    given = inputs(target, facts=STATIC, members=(evidence("a"), DOWN))
    first = run(given, kept(record("a"), record("b", ordinal=1)))
    judged = run(given, first.stored, later(4))
    assert main(judged) == "Group serve/1/Retiring"
    _, why, act = judged.explanation.sentences
    assert why == (
        "Group serve/1 is Retiring for 4 s: the file says so; pod-b Down: connection refused for 24 s: "
        "down, or loading again after a restart; a load may take up to 1800 s."
    )
    assert act.startswith("This clears by itself")
    assert not [item for item in judged.explanation.others if item.type.startswith("Member")]


def test_a_retirement_that_a_file_declares_is_said_in_words():
    judged = run(inputs(leaving(retiring=True, retiring_reason="file"), facts=STATIC), kept(record("a")))
    assert "its file says that it retires" in judged.explanation.sentences[1]


def test_another_member_that_is_down_outranks_a_retirement():
    target = leaving(retiring=True, retiring_reason="the file says so")
    given = inputs(target, facts=STATIC, members=(refused("a"), DOWN))
    judged = run(given, kept(record("a"), record("b", ordinal=1)))
    assert main(judged) == "Member pod-a/Down"
    assert "Group serve/1" in [item.type for item in judged.explanation.others]


def test_a_replica_that_is_not_whole_is_named_with_what_is_missing():
    half = deployment(role(replica(member("a", declared_total=2))))
    judged = run(inputs(half), kept())
    assert main(judged) == "Group serve/0/Incomplete"
    assert "1 of 2 members exist" in judged.explanation.sentences[1]


def test_an_aborted_retirement_is_somebodys_to_act_on():
    aborted = Retirement(role_name="serve", replica_ordinal=0, state="Aborted")
    judged = run(inputs(facts=facts(retirement=aborted)), kept())
    assert main(judged) == "Group serve/0/RetirementAborted"
    assert judged.explanation.sentences[2].startswith("Somebody must act")


def test_a_router_replica_that_refuses_on_both_ports_is_down():
    members = (STATIC_ROUTER, msgspec.structs.replace(STATIC_ROUTER, uid="s", name="router-s"))
    target = deployment(role(replica(member(ready=Ready.UNKNOWN))), with_router=router(members=members, desired=2))
    dead = TargetFreshness(name="router-s", age=20.0, uid="s", failure=FailureKind.REFUSED, detail="refused")
    given = inputs(
        target, facts=STATIC, views=(view(row()), lost("s", kind="Refused", detail="refused")), freshness=(dead,)
    )
    judged = run(given, kept())
    assert main(judged) == "Router router-s/Down"
    assert judged.explanation.sentences[1] == "Router router-s is Down for 20 s: connection refused."


def test_a_router_that_still_selects_a_leaving_replica_is_the_answer_only_after_its_time_to_withdraw():
    gone = replica(member("b"), ordinal=1, replacing=True)
    given = inputs(deployment(role(replica(member("a")), gone), with_router=True), views=(view(row("a"), row("b")),))
    first = run(given, kept(record("a"), record("b", ordinal=1)))
    assert main(first) == "Group serve/1/Replacing"
    assert "RouterConverged" in [item.type for item in first.explanation.others]
    fresh = msgspec.structs.replace(given, views=(view(row("a"), row("b"), read_at=later(30)),))
    late = run(fresh, first.stored, later(31))
    assert main(late) == "RouterConverged/ExtraEndpoint"


UNREACHABLE = Condition(type="KVEventsLive", status=Status.UNKNOWN, reason="Unreachable", message="port 5557 of pod-a")


def test_an_open_question_that_somebody_must_look_at_is_the_answer_where_nothing_is_wrong():
    found = run(inputs(extra=(UNREACHABLE,))).explanation
    assert found.main.type == "KVEventsLive"
    assert found.sentences[1] == (
        "Nothing is known to be wrong; what is not known and needs a look: KVEventsLive Unreachable: port 5557 of pod-a."
    )
    assert found.sentences[2].startswith("Somebody must act (cluster)")
    assert "KVEventsLive" not in [item.type for item in found.unknown]


def test_an_open_question_is_not_the_answer_where_something_is_wrong():
    found = run(inputs(ONE_DOWN, members=(refused(attempt=1),), extra=(UNREACHABLE,)), kept()).explanation
    assert found.main.reason == "Down"
    told = next(item for item in found.unknown if item.type == "KVEventsLive")
    assert told.hint == "follows from: Member pod-a Down"


def test_a_refusal_outranks_the_stall_of_the_same_member():
    stuck = rank(moved_at=ago(90), work_since=ago(90))
    seen = evidence(answered_at=ago(3), failed_at=ago(1), failure=FailureKind.REFUSED, ranks=(stuck,))
    target = deployment(role(replica(member(ready=Ready.UNKNOWN))))
    judged = run(inputs(target, facts=STATIC, members=(seen,)), kept())
    assert main(judged) == "Member pod-a/Down"
    assert "Stalled" not in [item.reason for item in judged.explanation.others]


def test_what_follows_from_the_main_answer_says_so_and_does_not_contradict_it():
    found = run(inputs(ONE_DOWN, members=(refused(attempt=1),)), kept()).explanation
    assert (found.main.type, found.main.advice) == ("Member pod-a", "Act")
    derived = {item.type: item for item in found.others}
    for name in ("EndpointEligibility", "RoleKindsReady"):
        assert derived[name].advice == "Act"
        assert derived[name].hint == "follows from: Member pod-a Down"


def test_a_condition_about_another_member_keeps_its_own_advice():
    target = deployment(
        role(replica(member("a", ready=Ready.UNKNOWN)), replica(member("b", ready=Ready.UNKNOWN), ordinal=1))
    )
    stale = Condition(type="MetricsFresh", status=Status.FALSE, reason="Stale", message="pod-ab: no answer")
    given = inputs(target, facts=STATIC, members=(refused("a"), evidence("b")), extra=(stale,))
    found = run(given, kept(record("a"), record("b", ordinal=1))).explanation
    told = [item for item in found.others if item.message == "pod-ab: no answer"]
    assert [item.hint for item in told] == ["a target stopped answering: the message has its error"]


def test_one_that_may_load_again_is_waited_for_before_somebody_must_act():
    seen = evidence(answered_at=ago(30), failed_at=ago(1), failure=FailureKind.REFUSED, failing_since=ago(20))
    target = deployment(role(replica(member(ready=Ready.UNKNOWN))))
    found = run(inputs(target, facts=STATIC, members=(seen,)), kept()).explanation
    assert found.sentences[1] == (
        "Member pod-a is Down for 20 s: connection refused for 20 s: down, or loading again after a restart; "
        "a load may take up to 1800 s."
    )
    assert found.sentences[2] == (
        "Wait, then act (engine): a load may take up to 1780 s more; where it is known to be down, start it."
    )
    late = msgspec.structs.replace(seen, failing_since=ago(1801))
    act = run(inputs(target, facts=STATIC, members=(late,)), kept()).explanation
    assert "for longer than a load may take (1800 s)" in act.sentences[1]
    assert act.sentences[2].startswith("Somebody must act")


SCALING = ReasonFact(
    condition="ScalingHealthy",
    reason="ScaleUpBlocked",
    course="WaitThenAct",
    whose="administrator",
    hint="free devices",
)
SAID = (
    OperatorCondition(
        type="Placed", status="False", reason="NoPlace", message="no device", last_transition=NOW.wall - 60
    ),
    OperatorCondition(type="ScalingHealthy", status="False", reason="ScaleUpBlocked"),
    OperatorCondition(type="Unheard", status="False", reason="Whatever"),
)


@pytest.mark.parametrize(
    ("ordered", "reasons", "told"),
    [
        pytest.param((), (), [], id="nobody told us what they mean"),
        pytest.param(("Placed",), (), [("Placed", "NoPlace", "", "")], id="the platform's order names it"),
        pytest.param(
            ("Placed",),
            (ReasonFact(condition="", reason="NoPlace", course="ClearsByItself", whose="x", hint="wait"),),
            [("Placed", "NoPlace", "ClearsByItself", "wait")],
            id="advice for a reason of any condition",
        ),
        pytest.param(
            (),
            (SCALING,),
            [("ScalingHealthy", "ScaleUpBlocked", "WaitThenAct", "free devices")],
            id="the platform's advice names it",
        ),
    ],
)
def test_an_operators_own_conditions_are_told_where_its_platform_says_what_they_mean(ordered, reasons, told):
    own = facts(ordered=ordered, reasons=reasons, operator=OperatorStatus(read_at=NOW.wall, conditions=SAID))
    explanation = run(inputs(facts=own)).explanation
    found = [item for item in (explanation.main, *explanation.others) if item is not None]
    names = {item.type for item in SAID}
    assert [(item.type, item.reason, item.advice, item.hint) for item in found if item.type in names] == told


def test_a_platforms_own_advice_goes_before_ours():
    advice = ReasonFact(condition="QuotaReserved", reason="Pending", course="Act", whose="you", hint="ask for more")
    own = facts(workloads=(WorkloadFact(role="serve"),), reasons=(advice,))
    found = run(inputs(ONE_DOWN, facts=own, members=())).explanation.main
    assert (found.type, found.advice, found.whose, found.hint) == ("QuotaReserved", "Act", "you", "ask for more")


@pytest.mark.parametrize(
    ("other", "stored", "why"),
    [
        pytest.param({"declared_total": None}, (), "nobody says how many members", id="not decided"),
        pytest.param({"ready": Ready.UNKNOWN}, (), "nothing about the group was observed", id="not observed"),
    ],
)
def test_a_group_that_is_held_is_named_beside_one_that_is_revoked(other, stored, why):
    """Each group that is not eligible is named with why: the one that failed first, then who is not decided."""
    target = deployment(
        role(
            replica(member("a")),
            replica(member("b", ready=Ready.FALSE), ordinal=1),
            replica(member("c", **other), ordinal=2),
        )
    )
    seen = (evidence("a"), evidence("b"))
    found = run(inputs(target, members=seen), kept(record("a"), record("b", ordinal=1), *stored)).explanation
    assert found.main is not None
    assert found.main.message.startswith("1 of "), found.main.message
    assert found.main.message.index("serve/1 NotReady") < found.main.message.index("not decided: serve/2")
    assert why in found.sentences[1]


def test_groups_of_which_nothing_was_observed_are_named():
    target = deployment(role(replica(member("a", ready=Ready.UNKNOWN))))
    assert "serve/0 nothing about the group was observed" in run(inputs(target, members=())).explanation.sentences[1]

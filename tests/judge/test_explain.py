"""Explanations: one main answer, every other independent False, Unknown as not known."""

from __future__ import annotations

import pytest

from router_contract.platform_facts import OperatorCondition, OperatorStatus, RouterObjectsFact, WorkloadFact
from router_contract.targets import Ready
from router_contract.verdicts import Condition, Status
from tests.judge.build import (
    NOW,
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
    refused,
    replica,
    role,
    row,
    run,
    view,
)


def main(judged):
    found = judged.explanation.main
    return None if found is None else f"{found.type}/{found.reason}"


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
    assert why == "EndpointEligibility is Revoked for 42 s: 1 of 1: serve/0 NotReady."
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


def test_a_mirrored_answer_says_whose_it_is():
    said = OperatorCondition(type="ReplicasUpToDate", status="False", reason="RolloutHeldByCache", message="held")
    operator = OperatorStatus(read_at=NOW.wall, observed_generation=7, conditions=(said,))
    found = run(inputs(facts=facts(operator=operator))).explanation
    assert found.main.message == "held (as the operator says)"


def test_a_retained_group_is_said_to_be_kept():
    from router_contract.judging import MembershipProof, ProofMember

    proof = MembershipProof(at=ago(1), members=(ProofMember(uid="a", ready=Ready.TRUE),))
    given = inputs(
        deployment(with_router=True),
        views=(lost(),),
        proof=proof,
        facts=facts(router_objects=RouterObjectsFact(ready=1)),
    )
    found = run(given, kept()).explanation
    assert found.main is None
    assert "kept by their membership" in found.sentences[1]

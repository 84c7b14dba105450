"""Every condition, reason, state and step that the users' status document names has an explain answer.

The list is ours and committed; with the document at hand (`STATUS_DOCUMENT`) each of its names is looked for in it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec
import pytest

from observer.judge.explain import explain
from observer.judge.meanings import CONDITIONS, GROUP_STATES, LEGS, NOT_OBSERVABLE
from router_contract.status import (
    Convergence,
    Finding,
    GroupState,
    LegName,
    Phase,
    Retirement,
    Serving,
    ServingState,
)
from router_contract.verdicts import Condition, Status
from tests.judge.build import GPUSTACK, NOW, deployment, evidence, facts, inputs, member, refused, replica, role, run

THEIRS = (
    "DomainRegistered", "QuotaReserved", "CacheAttached", "ReplicasUpToDate", "RoleKindsReady", "KVEventsPublishing",
    "RouterReady", "EndpointEligibility", "ElasticResize", "WeightsReady",
)  # fmt: skip
"""The ten conditions."""
REASONS = {
    "QuotaReserved": (
        "PodGroupIncomplete", "NoQueueInReservedNamespace", "AdmissionInFlight", "Pending", "PreemptedInPart", "Parked",
    ),
    "CacheAttached": ("NoObservationAvailable",),
    "ReplicasUpToDate": ("ReplacementInProgress", "RolloutInProgress", "RolloutHeldByCache"),
    "EndpointEligibility": ("NotObserved",),
    "ElasticResize": ("WorldUnprovable",),
}  # fmt: skip
"""The reasons that the document names."""
PHASES = ("Starting", "Ready", "Degraded", "Deleting")
STEPS = ("Admitted", "Disqualified", "Withdrawing", "Draining", "Deleting", "Settling", "Aborted")
"""Steps of a retirement that leave a record; a completed one has none."""
STATES = (
    "Unknown", "Retiring", "Replacing", "Incomplete", "NotReady", "Unverified", "AwaitingObservation", "Eligible",
)  # fmt: skip
CRITERIA = ("MemberSetComplete", "MembersReady", "GroupForward", "NoPlannedRetirement", "NoPendingReplacement")
SERVING = ("Confirmed", "NotConverged", "Unknown", "NotConfigured")
NO_ANSWER = {
    "ClusterQueue", "LocalQueue", "PodSet", "GitOps", "ModelDeployment", "ModelDeploymentScaler", "ExtraArgs",
    "UnmanagedCommand", "MultiPort",
}  # fmt: skip
"""Names of other things: kinds, sources of a parallelism reading, load balancing modes."""


NOWHERE = Convergence(serving=Serving(state=ServingState.NOT_CONFIGURED))


def told(kind: str, status: str, reason: str) -> tuple[Finding, str]:
    """The finding and the sentences of an explanation in which this is all that is known."""
    condition = Condition(
        type=kind, status=Status(status), reason=reason, message="what was seen", reason_since=NOW.wall - 7
    )
    found = explain(inputs(), Phase.DEGRADED, (), (), (condition,), NOWHERE, NOW)
    every = [*([found.main] if found.main is not None else []), *found.others, *found.unknown]
    (item,) = [each for each in every if each.type == kind]
    return item, " ".join(found.sentences)


ALL = [
    pytest.param(kind, answer, reason, id=f"{kind}-{answer}-{reason}")
    for kind, asked in CONDITIONS.items()
    for reason, meaning in asked.reasons.items()
    for answer in meaning.answers.split(" or ")
    if answer != "True"
]


def test_each_condition_says_what_it_asks():
    assert set(THEIRS) <= set(CONDITIONS)
    assert [kind for kind in CONDITIONS if not CONDITIONS[kind].asks] == []
    assert len(ALL) >= 60


@pytest.mark.parametrize(("kind", "reason"), [(kind, reason) for kind in REASONS for reason in REASONS[kind]])
def test_each_reason_of_the_document_has_a_meaning(kind, reason):
    assert reason in CONDITIONS[kind].reasons


@pytest.mark.parametrize(("kind", "status", "reason"), ALL)
def test_every_reason_is_explained_with_what_it_calls_for_and_whose_it_is(kind, status, reason):
    item, sentences = told(kind, status, reason)
    assert item.reason == reason
    assert item.age_seconds == 7
    assert item.advice
    assert item.whose
    assert item.hint
    if status == "False":
        assert reason in sentences
        assert item.hint in sentences


@pytest.mark.parametrize("kind", THEIRS)
def test_what_cannot_be_observed_is_listed_as_not_known(kind):
    item, _ = told(kind, "Unknown", "NotObservable")
    assert (item.status, item.whose) == ("Unknown", "observer")
    assert NOT_OBSERVABLE.says


@pytest.mark.parametrize("phase", PHASES)
def test_every_phase_is_said_first(phase):
    found = explain(inputs(), Phase(phase), (), (), (), NOWHERE, NOW)
    assert f"is {phase}:" in found.sentences[0]


@pytest.mark.parametrize("step", STEPS)
def test_every_step_of_a_retirement_is_explained(step):
    record = Retirement(role_name="serve", replica_ordinal=0, state=step, reason="because")
    target = deployment(role(replica(member("a")), desired=1))
    judged = run(inputs(target, facts=facts(GPUSTACK, retirement=record), members=(evidence("a"),)))
    explained = judged.explanation
    assert explained is not None
    text = str(msgspec.to_builtins(explained))
    assert "RetirementAborted" in text if step == "Aborted" else "Retiring" in text
    assert step in text or "capacity retained" in text


def test_every_state_criterion_and_confirmation_is_ours_too():
    assert tuple(map(str, GROUP_STATES)) == STATES == tuple(each.value for each in GroupState)
    assert tuple(map(str, LEGS)) == CRITERIA == tuple(each.value for each in LegName)
    assert {each.value for each in ServingState} == set(SERVING)


def test_a_group_that_does_not_answer_is_explained_by_its_member():
    judged = run(inputs(deployment(role(replica(member("a")), desired=1)), members=(refused("a"),)))
    assert judged.explanation is not None
    assert "pod-a" in str(msgspec.to_builtins(judged.explanation))


if "STATUS_DOCUMENT" in os.environ:

    def test_no_name_of_the_document_is_left_out():
        text = Path(os.environ["STATUS_DOCUMENT"]).read_text("utf-8")
        words = set(re.findall(r"\b(?:KV[A-Z][A-Za-z]+|[A-Z][a-z]+(?:[A-Z][A-Za-z]*)+)\b", text))
        known = {*THEIRS, *PHASES, *STEPS, *STATES, *CRITERIA, *SERVING, *NO_ANSWER}
        known |= {reason for of in REASONS.values() for reason in of}
        assert sorted(words - known) == []

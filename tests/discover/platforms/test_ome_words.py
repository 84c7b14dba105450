"""Every reason and condition of OME that its field list names has an answer in `explain`; the lists are walked here."""

from __future__ import annotations

import pytest

from observer.discover.platforms.document_facts import Course, ReasonRule
from observer.discover.platforms.ome_notices import BAD_WHEN_FALSE, BAD_WHEN_TRUE
from tests.discover.platforms.ome_shapes import ome

CONDITIONS = (
    "EngineReady", "DecoderReady", "RouterReady", "IngressReady", "Ready", "OverlaysReady", "RolloutPlanReady",
    "RolloutPlanDrift",
)  # fmt: skip
"""Of the service. RouterReady is one of ours as well and has its advice there."""
OF_COMPONENTS = (
    "Available", "Progressing", "FailedScale", "FailedUpdate", "GangSchedulingUnavailable", "OperationStuck",
)  # fmt: skip
CLOSED = frozenset({"RouterReady", "RolloutPlanDrift"})
"""One has our own table, the other two reasons and no more."""
REASONS = {
    "RolloutPlanReady": ("PolicyNotFound", "PolicyNotReady", "ProgressionMismatch", "PlanInvalid", "ProviderUnbound"),
    "RolloutPlanDrift": ("PolicyNewerThanRun", "SpecNewerThanRun"),
    "RolloutHold": ("Plan", "Pairing", "Ratio", "Sequential", "Budget", "RetryBlock", "Held"),
    "RetryBlock": ("Held",),
    "CanaryRun": (
        "CapacityTimeout", "AnalysisStalled", "StableRevisionMissing", "TargetRejected", "PreStepHold", "CapacityWait",
        "AwaitingPromotion",
    ),
    "LastFailure": (
        "OOMKilled", "Error", "ContainerCannotRun", "CrashLoopBackOff", "ImagePullBackOff", "CreateContainerError",
        "PodFailed",
    ),
    "Operation": ("QuotaExceeded",),
    "ModelStatus": ("BlockedByFailedLoad", "InvalidSpec"),
    "Home": ("ObservationFailing", "NoEvidence", "Draining"),
    "Autoscaler": ("External", "NotReported", "NotKnown"),
    "RolloutContract": ("NoRolloutContract", "ModeNotKnown"),
    "Instances": ("Unreadable",),
    "Records": ("TooMany",),
    "ReplicaRef": ("NotFound",),
}  # fmt: skip
ANY = ("Operation", "LastFailure", "RolloutHold", "Autoscaler")
"""Whose reasons are words of others: one that nobody knows has an answer too."""


def rules() -> dict[tuple[str, str], ReasonRule]:
    return {(rule.condition, rule.reason): rule for rule in ome().document.reasons}


@pytest.mark.parametrize("pair", [(kind, reason) for kind, held in REASONS.items() for reason in held], ids="/".join)
def test_every_reason_has_an_answer(pair: tuple[str, str]) -> None:
    rule = rules()[pair]
    assert rule.hint
    assert rule.whose
    assert rule.course in Course


@pytest.mark.parametrize("kind", [*(kind for kind in CONDITIONS if kind not in CLOSED), *OF_COMPONENTS, *ANY], ids=str)
def test_every_condition_has_an_answer_to_a_reason_that_nobody_knows(kind: str) -> None:
    assert rules()[kind, ""].hint


def test_nothing_is_advised_for_a_word_that_nobody_says() -> None:
    known = {*CONDITIONS, *OF_COMPONENTS, *REASONS, "PredictorReady"}
    assert {condition for condition, _ in rules()} <= known
    spoken = {(kind, reason) for kind, held in REASONS.items() for reason in held}
    assert {pair for pair in rules() if pair[1]} == spoken
    assert set(OF_COMPONENTS) == BAD_WHEN_TRUE | BAD_WHEN_FALSE


def test_sentences_are_short() -> None:
    for rule in ome().document.reasons:
        assert len(rule.hint) <= 240, rule
        assert not rule.hint.startswith(" "), rule

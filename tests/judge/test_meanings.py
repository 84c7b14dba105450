"""Every reason that the judge can give is explained, and every explanation and advice is about a reason that it gives."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from pathlib import Path

from observer import judge
from observer.judge.advice import ADVICE
from observer.judge.canary.meanings import MEANINGS
from observer.judge.conditions import OURS, USERS
from observer.judge.meanings import CONDITIONS, GROUP_STATES, LEGS
from router_contract.canary_results import Reason
from router_contract.status import GroupState, LegName

FOLDER = Path(judge.__file__).parent
BY_OPERATORS = {
    ("EndpointEligibility", "Unsupported"),
    ("WeightsReady", "AccessModeConflict"),
    ("WeightsReady", "NodeDeliveryUnavailable"),
    ("WeightsReady", "FilterNeedsNodeDelivery"),
    ("WeightsReady", "AnchorNeedsNodeDelivery"),
}
"""Reasons that only operators give: mirrored, with advice, never computed."""


def status(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Status"


def words(node: ast.expr) -> Iterator[str]:
    """The texts of an expression that could be a reason: a literal, or both arms of a choice."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    if isinstance(node, ast.IfExp):
        yield from words(node.body)
        yield from words(node.orelse)


def given() -> set[str]:
    """The reasons in the judge's source: what stands after a status, or is called a reason."""
    found: set[str] = set()
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            row = node.args if isinstance(node, ast.Call) else node.elts if isinstance(node, ast.Tuple) else []
            for one, other in itertools.pairwise(row):
                if status(one):
                    found |= set(words(other))
            if isinstance(node, ast.keyword) and node.arg == "reason":
                found |= set(words(node.value))
    return {word for word in found if word[:1].isupper() and " " not in word}


def test_every_reason_in_the_source_is_explained():
    explained = {reason for asked in CONDITIONS.values() for reason in asked.reasons} | {"NotObservable"}
    assert len(given()) > 60
    assert given() - explained == set()


def test_every_condition_is_explained_in_its_order():
    assert tuple(CONDITIONS) == (*USERS, *OURS)
    assert all(asked.reasons for name, asked in CONDITIONS.items() if name != "CanaryAnalysis")


def test_advice_is_about_reasons_that_exist():
    reasons = {(kind, reason) for kind, asked in CONDITIONS.items() for reason in asked.reasons}
    canary = {("CanaryAnalysis", reason.value) for reason in Reason}
    about = {pair for pair in ADVICE if pair[0] in CONDITIONS}
    assert about - reasons - canary == BY_OPERATORS


def test_states_criteria_and_canary_reasons_are_all_explained():
    assert list(GROUP_STATES) == [state.value for state in GroupState]
    assert list(LEGS) == [leg.value for leg in LegName]
    assert list(MEANINGS) == list(Reason)

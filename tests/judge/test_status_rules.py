"""The list of the users' rules and of the peer's edges: each has cases, and every case exists."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "status_rules.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("status_rules", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its annotations are looked up there
    spec.loader.exec_module(module)
    return module


def test_every_rule_has_cases_that_exist(script):
    assert script.unproven(script.read_rules().rules) == []


def test_every_edge_of_the_peer_has_cases_that_exist(script):
    assert script.unproven(script.read_peer_cases()) == []


def test_a_rule_without_a_case_and_a_case_that_is_gone_are_told(script):
    bare = script.Rule(id="x", sentence="0", says="bare", cases=())
    gone = script.Rule(id="x", sentence="1", says="gone", cases=("judge/test_nothing.py::test_nothing",))
    assert script.unproven((bare, gone)) == [
        "x: no case: bare",
        "x: a second time",
        "x: judge/test_nothing.py::test_nothing does not exist",
    ]


def test_a_sentence_nobody_listed_is_told(script):
    text = "One thing holds.  Another\nholds too.\n\nA third: it does."
    assert list(script.sentences(text)) == ["One thing holds.", "Another holds too.", "A third: it does."]
    rule = script.Rule(id="a", sentence=script.fingerprint("one thing HOLDS"), says="", cases=())
    rules = script.Rules(rules=(rule,), other=(script.fingerprint("A third: it does."),))
    assert script.unlisted(rules, text) == ["Another holds too."]


def test_fingerprints_are_distinct(script):
    rules = script.read_rules()
    prints = [rule.sentence for rule in rules.rules] + list(rules.other)
    assert len(prints) == len(set(prints))
    assert len(rules.rules) > 150

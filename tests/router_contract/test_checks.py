"""Each check of a table finds the fault that it is there for, and a good table passes."""

from __future__ import annotations

import pytest

from router_contract.checks import faults
from router_contract.signals import SIGNALS, Kind
from router_contract.targets import Component
from router_contract.vocabulary import Absence, Labels, Matcher, Term, Vocabulary

_RUNNING = Term(signal="requests-running", name="running")


def _table(*terms: Term, **fields) -> Vocabulary:
    given = {"labels": Labels(), "prefixes": ("",), **fields}
    return Vocabulary(name="table", component=Component.ENGINE, terms=terms, **given)


@pytest.mark.parametrize(
    "table",
    [
        pytest.param(_table(_RUNNING), id="one row"),
        pytest.param(_table(_RUNNING, Term(signal="requests-running", name="old", preference=1)), id="preferences"),
        pytest.param(
            _table(
                Term(signal="requests-running", name="new", since="0.5"),
                Term(signal="requests-running", name="old", before="0.5"),
            ),
            id="versions that only touch",
        ),
        pytest.param(
            _table(
                Term(signal="prefill-time", name="stage_seconds", match=(Matcher("stage", ("a",)),)),
                Term(signal="prefill-time", name="stage_seconds", match=(Matcher("stage", ("b",)),)),
            ),
            id="matchers that share nothing",
        ),
        pytest.param(_table(Term(signal="transfer-size", name="size", kind=Kind.GAUGE)), id="gauge for a histogram"),
        pytest.param(
            _table(Term(signal="kv-block-size", name="info", value_label="block_size")), id="value of a label"
        ),
    ],
)
def test_good_tables(table: Vocabulary) -> None:
    assert faults(table, SIGNALS) == ()


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        (_table(_RUNNING, _RUNNING), "requests-running <- running: the row is there twice"),
        (_table(Term(signal="nope", name="a")), "nope <- a: unknown signal 'nope', want an id of SIGNALS"),
        (
            _table(_RUNNING, Term(signal="requests-running", name="old")),
            "requests-running <- running and old: hold in one version with equal preference 0",
        ),
        (
            _table(
                Term(signal="requests-running", name="new", since="0.5.0"),
                Term(signal="requests-running", name="old", before="0.6.0"),
            ),
            "requests-running <- new and old: hold in one version with equal preference 0",
        ),
        (
            _table(Term(signal="requests-running", name="a", kind=Kind.COUNTER)),
            "kind counter where the signal is a gauge",
        ),
        (_table(Term(signal="requests-running", name="a", kind=Kind.GAUGE)), "kind gauge where the signal is a gauge"),
        (_table(Term(signal="queue-time", name="a_bucket")), "'a_bucket' is a part of a histogram, want its base name"),
        (_table(Term(signal="requests-running", name="a_created")), "'a_created' tells when, not how much"),
        (_table(Term(signal="prompt-tokens", name="a", value_label="b")), "a value from label 'b' is a gauge"),
        (_table(Term(signal="cache-config", name="a", scale=2.0)), "an info signal has no number"),
        (_table(Term(signal="requests-running", name="a b")), "'a b' is no metric name"),
        (_table(Term(signal="requests-running", name="a", keep=(("x", "b-d"),))), "bad label name 'b-d'"),
        (_table(Term(signal="requests-running", name="a", keep=(("le", "b"),))), "bad label name 'le'"),
        (_table(Term(signal="requests-running", name="a", match=(Matcher("le", ("1",)),))), "bad label name 'le'"),
        (_table(Term(signal="requests-running", name="a", match=(Matcher("b", ()),))), "matcher of 'b' lists no value"),
        (_table(Term(signal="requests-running", name="a", keep=(("x", "b"), ("x", "c")))), "label 'x' is kept twice"),
        (_table(Term(signal="requests-running", name="a", since="new")), "since 'new' is no version"),
        (_table(Term(signal="requests-running", name="a", since="0.5", before="0.5.0")), "the row never holds"),
        (_table(Term(signal="prompt-tokens", name="a", absence=Absence.NOT_YET)), "want a paired signal"),
        (_table(Term(signal="prompt-tokens", name="a", paired="preemptions")), "which this table does not read"),
        (_table(Term(signal="prompt-tokens", name="a", paired="prompt-tokens")), "paired with itself"),
        (_table(_RUNNING, ignored=("running",)), "ignored 'running' is used by a row"),
        (_table(_RUNNING, ignored=("a", "a")), "ignored 'a' is there twice"),
        (_table(_RUNNING, ignored=("a",), prefixes=("p:",)), "ignored 'a' has none of the prefixes"),
        (
            _table(_RUNNING, progress=("prompt-tokens",)),
            "progress names 'prompt-tokens', which this table does not read",
        ),
        (_table(_RUNNING, progress=("requests-running",)), "which is not marked as moved by work only"),
        (_table(_RUNNING, idle_levels=("requests-waiting",)), "idle_levels names 'requests-waiting'"),
        (_table(_RUNNING, labels=Labels(rank=("a",), copy=("a",))), "label 'a' has two meanings"),
        (_table(_RUNNING, labels=Labels(rank=("a-b",))), "bad label name 'a-b'"),
    ],
)
def test_each_fault_is_found(table: Vocabulary, fault: str) -> None:
    found = faults(table, SIGNALS)
    assert any(fault in text for text in found), found
    assert all(text.startswith("table: ") for text in found)

"""The small steps: three-valued logic, intervals, numbers as text, templates, warm-up, attribution, minimum samples."""

from __future__ import annotations

import itertools
import math

import pytest

from observer.judge.canary.algebra import all_of, compare
from observer.judge.canary.attribution import PodFact, attribute
from observer.judge.canary.counts import need_for_quantile, need_for_rate, time_to
from observer.judge.canary.display import agreeing, duration, message, number
from observer.judge.canary.evidence import Bernoulli, _tail_terms, binomial_tail
from observer.judge.canary.template import TemplateFault, render, variables
from observer.judge.canary.warmup import warm_from
from router_contract.canary import Operator, WarmUp
from router_contract.canary_results import Reason, Verdict
from tests.judge.canary.build import analysis, definition

P, F, U = Verdict.PASSED, Verdict.FAILED, Verdict.INCONCLUSIVE
LT, LTE, GT, GTE = Operator


def test_the_worst_verdict_decides() -> None:
    for one, other in itertools.product((F, U, P), repeat=2):
        assert all_of([one, other]) is (F if F in {one, other} else U if U in {one, other} else P)
    assert all_of([]) is U, "nothing checked is not a pass"


@pytest.mark.parametrize(
    ("low", "high", "operator", "verdict"),
    [
        (0.5, 0.9, LT, P),
        (0.5, 1.0, LT, U),
        (0.5, 1.0, LTE, P),
        (1.0, 2.0, LT, F),
        (1.0, 2.0, LTE, U),
        (1.5, None, LTE, F),
        (0.5, None, LT, U),
        (1.0, 2.0, GT, U),
        (1.0, 2.0, GTE, P),
        (1.5, None, GT, P),
        (0.1, 1.0, GT, F),
        (0.1, 0.9, GTE, F),
    ],
)
def test_intervals_against_a_threshold_of_1(
    low: float, high: float | None, operator: Operator, verdict: Verdict
) -> None:
    assert compare(low, high, operator, 1.0) is verdict


GOLDEN = {
    0.012: "0.012",
    0.1 + 0.2: "0.3",
    1234567.0: "1.23457e+06",
    123456.0: "123456",
    0.0001: "0.0001",
    0.00001234: "1.234e-05",
    1e21: "1e+21",
    -0.0: "0",
    -2.5: "-2.5",
    100.0: "100",
    0.333333333: "0.333333",
}


@pytest.mark.parametrize("value", GOLDEN)
def test_six_digits_as_go_prints_them(value: float) -> None:
    assert number(value) == GOLDEN[value]


@pytest.mark.parametrize(
    ("value", "operator", "limit", "passed", "text"),
    [
        (0.0099999996, LT, 0.01, True, "0.0099999996"),
        (0.01, LT, 0.01, False, "0.01"),
        (0.0123456789, LT, 0.02, True, "0.0123457"),
        (60.0, LTE, 60.0, False, "60.00000000000001"),
        (60.0, GT, 60.0, True, "60.00000000000001"),
        (5.0, LT, 1.0, True, None),
        (math.nan, LT, 1.0, False, None),
        (math.inf, GT, 1.0, True, None),
    ],
)
def test_a_text_never_contradicts_its_verdict(
    value: float, operator: Operator, limit: float, passed: bool, text: str | None
) -> None:
    assert agreeing(value, operator, limit, passed=passed) == text


def test_messages_are_one_short_printable_line() -> None:
    assert message("a\n\x1b[31mb\t c") == "a [31mb c"
    assert len(message("x" * 1000)) == 256
    assert [duration(each) for each in (-1, 45, 61.2, 7500)] == ["0s", "45s", "1m02s", "2h05m"]


VALUES = variables(definition(analysis()), "new", "old")
TEMPLATES: dict[str, tuple[str, str | Reason]] = {
    "all": (
        "{{.Namespace}} {{.ISVCName}} {{.Component}} {{.CanaryService}} {{.StableService}} {{.CanaryRevision}} {{.StableRevision}}",
        "ns chat engine chat-engine-rev-new chat-engine-rev-old new old",
    ),
    "spaces": ("a{{ .Namespace }}b", "ansb"),
    "trim": ("a {{- .Namespace -}} b", "a{{- .Namespace -}} b"),
    "trim with spaces": ("a {{- .Namespace -}}\n b", "ansb"),
    "comment": ("a{{/* why */}}b", "ab"),
    "selector": ('x{ns="{{.Namespace}}"}', 'x{ns="ns"}'),
    "unknown": ("{{.Nope}}", Reason.QUERY_INVALID),
    "pipeline": ("{{.Namespace | len}}", Reason.QUERY_INVALID),
    "function": ("{{if .Namespace}}x{{end}}", Reason.QUERY_INVALID),
    "unclosed": ("x{{.Namespace", Reason.QUERY_INVALID),
    "no dot": ("{{Namespace}}", Reason.QUERY_INVALID),
    "nothing left": ("{{/* */}}", Reason.QUERY_INVALID),
}
TEMPLATES["trim"] = ("a {{- .Namespace -}} b", "ansb")


@pytest.mark.parametrize("case", TEMPLATES)
def test_templates(case: str) -> None:
    query, wanted = TEMPLATES[case]
    found = render(query, VALUES)
    assert (found.reason if isinstance(found, TemplateFault) else found) == wanted


def test_an_empty_variable_is_a_fault_and_not_a_selector_of_everything() -> None:
    found = render('x{rev="{{.StableRevision}}"}', variables(definition(analysis()), "new", None))
    assert isinstance(found, TemplateFault)
    assert found.reason is Reason.EMPTY_VARIABLE


@pytest.mark.parametrize(
    ("rule", "ready", "reads", "start"),
    [
        (WarmUp(), 50.0, [(200.0, 0.0)], 100.0),
        (WarmUp(seconds=30), 100.0, [(120.0, 5.0)], None),
        (WarmUp(seconds=30), 100.0, [(140.0, 5.0)], 130.0),
        (WarmUp(requests=3), 50.0, [(110.0, 1.0), (120.0, 2.0)], None),
        (WarmUp(requests=3), 50.0, [(110.0, 1.0), (125.0, 4.0), (200.0, 9.0)], 125.0),
        (WarmUp(), None, [(200.0, 9.0)], None),
        (WarmUp(), 150.0, [(200.0, 9.0)], 150.0),
        (WarmUp(), 50.0, [], None),
    ],
    ids=["warm before", "too young", "time", "too few", "requests", "not Ready", "added in the step", "never read"],
)
def test_a_pod_counts_once_it_is_warm(
    rule: WarmUp, ready: float | None, reads: list[tuple[float, float]], start: float | None
) -> None:
    """Reports 35, 54 and 13: first requests of a Pod take long, whenever it is added."""
    assert warm_from(rule, 100.0, ready, reads) == start


def test_a_pod_that_both_services_select_belongs_to_nobody() -> None:
    """Report 22: the canary Service still selects old Pods, and a bad build passes."""
    pods = [
        PodFact(uid="1", name="a", revision="new"),
        PodFact(uid="2", name="b", revision="old"),
        PodFact(uid="3", name="c", revision="old"),
        PodFact(uid="4", name="d"),
        PodFact(uid="5", name="e", revision="older"),
        PodFact(uid="6", name="f", revision="new", leads=False),
        PodFact(uid="7", name="g", revision="new"),
    ]
    found = attribute(pods, "new", "old", {"new": {"1", "2"}, "old": {"3"}})
    assert (found.canary, found.stable) == (("a",), ("c",))
    assert dict(found.unattributed) == {
        "b": "the Service of revision new selects it",
        "d": "it has no revision label",
        "e": "its revision older is neither canary nor stable",
        "g": "the Service of its revision does not select it",
    }
    bare = attribute(pods, "new", None, None)
    assert (bare.canary, bare.stable) == (("a", "g"), ())


def test_minimum_samples_and_the_time_to_them() -> None:
    assert [need_for_quantile(q) for q in (0.5, 0.95, 0.99)] == [10, 100, 500]
    assert [need_for_rate(rate) for rate in (0.05, 0.01, 0.001)] == [100, 500, 5000]
    assert time_to(100, 100, 60) == 0.0
    assert time_to(100, 25, 60) == 180.0
    assert time_to(100, 0, 60) is None, "none arrive"


@pytest.mark.parametrize(
    ("bad", "total", "rate", "tail"),
    [
        (0, 10, 0.1, 1.0),
        (10, 10, 0.5, 0.5**10),
        (1, 2, 0.5, 0.75),
        (3, 2, 0.5, 0.0),
        (1, 5, 0.0, 0.0),
        (1, 5, 1.0, 1.0),
    ],
)
def test_exact_binomial_tails(bad: float, total: float, rate: float, tail: float) -> None:
    assert binomial_tail(Bernoulli(bad, total), rate) == pytest.approx(tail)


@pytest.mark.parametrize("bad", [9_000, 10_001, 10_100, 20_000])
def test_a_tail_of_a_million_requests_is_a_few_thousand_terms(bad: int) -> None:
    """The loop that judges also serves: a second of adding up what is nothing would hold everything."""
    terms = list(_tail_terms(1_000_000, bad, 0.01))
    assert len(terms) < 5_000
    deviations = (bad - 0.5 - 10_000) / math.sqrt(9_900)
    assert math.fsum(terms) == pytest.approx(math.erfc(deviations / math.sqrt(2)) / 2, abs=1e-3)

"""Rows of what users reported about other analyzers, and of OME's sharp edges, each with the verdict it should have had.

Rows about HTTP go through a real server in `tests/collect/test_canary_reports.py`; those that a table of the other files
holds are listed in `ELSEWHERE`, so that every row has its case.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from observer.judge.canary.attribution import PodFact, attribute
from observer.judge.canary.status import status_of
from router_contract.canary import Metric, NativeKind, Operator
from router_contract.canary_inputs import Baseline, BaselineKind, Mix, NativeObservation, Observation
from router_contract.canary_results import Decision, Reason, Verdict
from tests.judge.canary.build import (
    T0,
    Canary,
    analysis,
    answer,
    asked,
    definition,
    hist,
    latencies,
    measured,
    native,
    promql,
    relative,
    trouble,
    window,
)
from tests.judge.canary.reader import MalformedError, read

P, F, U = Verdict.PASSED, Verdict.FAILED, Verdict.INCONCLUSIVE
D, R = Decision, Reason
LT, LTE, GT, GTE = Operator
NAN, INF = float("nan"), float("inf")
GOOD = asked(answer(0.01))


def ten(bad: float, total: float) -> list[tuple[float, float]]:
    return [(bad, total)] * 10


Looks = list[tuple[Observation, Verdict, Decision, Reason]]
OVERLAP = measured(window(*ten(20, 100), (0, 40)), recent=window((0, 40)))
FAST, SLOW = hist(0, 60, 37, 3, 0, 0), hist(0, 20, 40, 40, 0, 0)
GONE = Baseline(window=window(*ten(5, 100)), kind=BaselineKind.FROZEN)

ROWS: dict[str, tuple[Metric, Looks]] = {
    "3 no traffic yet, then healthy": (
        promql(operator=GT, limit=0.9),
        [(asked(answer()), U, D.HOLD, R.NO_DATA)] * 3 + [(asked(answer(0.99)), P, D.ADVANCE, R.STEP_PASSED)],
    ),
    "6 an idle service": (promql(), [(asked(answer()), U, D.HOLD, R.NO_DATA)] * 4),
    "7 traffic stops": (
        native(min_samples=10),
        [(measured(window(*ten(0, 100)), recent=window((0, 0))), U, D.HOLD, R.NO_DATA)],
    ),
    "13 an error-free baseline": (
        relative(),
        [(measured(window(*ten(5, 100)), window(*ten(0, 100))), F, D.HOLD, R.FAILURES_BELOW_LIMIT)],
    ),
    "15 a quiet period": (
        native(min_samples=10, limit=0.15),
        [(measured(window((1, 10), (0, 0), (1, 10))), P, D.ADVANCE, R.STEP_PASSED)],
    ),
    "18 a new label on the canary": (
        native(min_samples=10),
        [(measured(window((0, 100), pod="with-another-label")), P, D.ADVANCE, R.STEP_PASSED)],
    ),
    "19 canary and stable apart": (
        relative(),
        [(measured(window(*ten(100, 100)), window(*ten(0, 900))), F, D.HOLD, R.FAILURES_BELOW_LIMIT)],
    ),
    "25 a mistyped template": (
        promql(),
        [(asked(trouble(R.QUERY_INVALID, permanent=True)), U, D.HOLD, R.QUERY_INVALID)] * 10,
    ),
    "37 inconclusive beside an elapsed pause": (
        promql(),
        [(asked(answer()), U, D.HOLD, R.NO_DATA)] * 14,
    ),
    "44 a broken stable side": (
        native(),
        [(measured(window(*ten(0, 100)), window(*ten(100, 100))), P, D.ADVANCE, R.STEP_PASSED)],
    ),
    "48 a torn read": (
        native(NativeKind.QUANTILE, quantile=0.5, limit=1.0),
        [
            (
                measured(latencies(msgspec.structs.replace(hist(5, 0, 1, bounds=(1.0, 2.0, INF)), counts=(5, 4, 6)))),
                U,
                D.HOLD,
                R.DEGENERATE_HISTOGRAM,
            )
        ],
    ),
    "50 first tokens that mean another thing": (
        relative(NativeKind.QUANTILE, quantile=0.95),
        [
            (
                measured(latencies(FAST), latencies(FAST), incomparable="0.6 measures first tokens otherwise than 0.5"),
                U,
                D.HOLD,
                R.INCOMPARABLE,
            )
        ],
    ),
    "59 a ratio of 1.2 where 1.5 is allowed": (
        relative(margin=1.5),
        [(measured(window(*ten(6, 100)), window(*ten(5, 100))), P, D.ADVANCE, R.STEP_PASSED)],
    ),
    "60 twelve samples": (
        native(limit=0.1),
        [(measured(window((0, 12))), U, D.HOLD, R.INSUFFICIENT_SAMPLES)],
    ),
    "edge 5 one burst in overlapping windows": (
        native(),
        [
            (measured(window(*ten(20, 100))), F, D.HOLD, R.FAILURES_BELOW_LIMIT),
            (OVERLAP, U, D.HOLD, R.INCIDENT_COUNTED),
            (OVERLAP, U, D.HOLD, R.INCIDENT_COUNTED),
            (OVERLAP, U, D.HOLD, R.INCIDENT_COUNTED),
        ],
    ),
    "edge 12 no stable Pod at the last step": (
        relative(),
        [(measured(window(*ten(5, 100)), GONE), P, D.ADVANCE, R.STEP_PASSED)],
    ),
    "edge 12 no stable Pod and none kept": (
        relative(),
        [(measured(window(*ten(5, 100))), U, D.HOLD, R.BASELINE_UNUSABLE)],
    ),
    "edge 13 a Pod added in the step": (
        native(),
        [(measured(window(*ten(0, 100)), expected=2, warming=("late",)), U, D.HOLD, R.WARMING_UP)],
    ),
    "edge 3 a Pod that nobody read": (
        native(),
        [(measured(window(*ten(0, 100)), expected=4, missing=("p3",)), U, D.HOLD, R.MISSING_PODS)],
    ),
    "1.10 deadline of a metric": (promql(), [(asked(trouble(R.TIMEOUT)), U, D.HOLD, R.TIMEOUT)]),
    "1.10 template error": (
        promql(),
        [(asked(trouble(R.EMPTY_VARIABLE, permanent=True)), U, D.HOLD, R.EMPTY_VARIABLE)],
    ),
    "1.10 a bad URL": (
        promql(),
        [(asked(trouble(R.SOURCE_FORBIDDEN, permanent=True)), U, D.HOLD, R.SOURCE_FORBIDDEN)],
    ),
    "1.10 no address": (promql(), [(asked(trouble(R.NO_SOURCE, permanent=True)), U, D.HOLD, R.NO_SOURCE)]),
}


@pytest.mark.parametrize("row", ROWS)
def test_row(row: str) -> None:
    metric, looks = ROWS[row]
    gate = analysis(metric)
    canary = Canary(definition(gate))
    for seen, verdict, decision, reason in looks:
        named = msgspec.structs.replace(seen, metric=metric.name)
        outcome = canary.sample(named)
        assert (outcome.verdict, outcome.decision, outcome.reason) == (verdict, decision, reason)
        assert outcome.sentence
        read(status_of(canary.definition, canary.run, outcome), gate)


def test_row_20_one_revision_as_both_sides_has_no_stable_side() -> None:
    pods = [PodFact(uid="1", name="a", revision="new"), PodFact(uid="2", name="b", revision="new")]
    found = attribute(pods, "new", "new", None)
    assert (found.canary, found.stable) == (("a", "b"), ())


def test_row_28_and_58_the_query_and_both_numbers_are_published() -> None:
    canary = Canary(definition(analysis(promql(limit=100.0))))
    result = canary.sample(asked(answer(105.0))).verdicts[0]
    assert (result.query, result.estimate, result.threshold, result.reason) == (
        "up",
        105.0,
        "100.0",
        R.THRESHOLD_BREACHED,
    )
    empty = canary.sample(asked(answer())).verdicts[0]
    assert (empty.query, empty.reason, empty.value) == ("up", R.NO_DATA, "")


def test_edge_1_a_rounded_value_reads_back_as_its_verdict() -> None:
    gate = analysis(promql(limit=0.01), min_passes=2)
    canary = Canary(definition(gate))
    outcome = canary.sample(asked(answer(0.0099999996)))
    assert outcome.verdict is P
    status = status_of(canary.definition, canary.run, outcome)
    assert read(status, gate) == "Passing"
    rounded = msgspec.structs.replace(status.metric_results[0], value="0.01")
    with pytest.raises(MalformedError, match="contradicts"):
        read(msgspec.structs.replace(status, metric_results=(rounded,)), gate)


def test_edge_2_one_bad_sample_seen_again_and_again_counts_once() -> None:
    """Interval 60 s, a cache of 120 s, limit 3: times of whole seconds would count it three times."""
    canary = Canary(definition(analysis(promql())))
    canary.sample(asked(answer(0.9)), after=0.7)
    for _ in range(3):
        canary.ids -= 1
        outcome = canary.sample(asked(answer(0.9)), after=20.0)
    assert (outcome.decision, outcome.state.failed_checks) == (D.HOLD, 1)


def test_edge_6_and_7_a_long_warm_up_is_no_stall_and_a_starved_sampler_is_one() -> None:
    gate = analysis(native(), initial_delay=1000.0)
    canary = Canary(definition(gate, ready_timeout=900.0))
    outcome = canary.sample(measured(window()), after=1001.0)
    assert (outcome.decision, outcome.reason) == (D.HOLD, R.NO_DATA)
    while outcome.decision is D.HOLD:
        outcome = canary.tick(30.0)
    assert outcome.reason is R.ANALYSIS_STALLED
    assert canary.now - T0 == pytest.approx(1900.0, abs=31.0)


def test_one_hung_pod_of_four_then_a_stall_with_the_budget_untouched() -> None:
    canary = Canary(definition(analysis(native())))
    seen = measured(window(*ten(0, 100)), expected=4, missing=("p3",))
    for _ in range(14):
        outcome = canary.sample(seen)
        assert (outcome.decision, outcome.reason) == (D.HOLD, R.MISSING_PODS)
    outcome = canary.sample(seen)
    assert (outcome.decision, outcome.reason, outcome.state.failed_checks) == (D.FAILED, R.ANALYSIS_STALLED, 0)


def test_slower_first_tokens_roll_back_by_exceedance() -> None:
    mix = Mix(hit_rate=0.5, prompt_tokens=100.0)

    def seen(count: int) -> NativeObservation:
        stable = Baseline(window=latencies(*[FAST] * count), before=latencies(*[FAST] * 9, start=T0 - 900), mix=mix)
        return measured(latencies(*[SLOW] * count), stable, mix=mix)

    canary = Canary(definition(analysis(relative(NativeKind.QUANTILE, quantile=0.95))))
    outcomes = [canary.sample(seen(10 + place)) for place in range(3)]
    assert [each.decision for each in outcomes] == [D.HOLD, D.HOLD, D.ROLLBACK]
    assert outcomes[-1].reason is R.MARGIN_EXCEEDED


ELSEWHERE = {
    "tests/collect/test_canary_reports.py": {1, 2, 5, 8, 10, 11, 14, 16, 23, 26, 27, 29, 30, 31, 34, 55, 56},
    "tests/judge/canary/test_steps.py": {22, 35, 54},
    "tests/judge/canary/test_native.py": {36, 51},
    "tests/judge/canary/test_evaluate.py": {39, 41, 42},
}
ALL = {
    *{1, 2, 3, 5, 6, 7, 8, 10, 11, 13, 14, 15, 16, 18, 19, 20, 22, 23, 25, 26, 27, 28, 29, 30, 31, 34, 35, 36, 37, 39},
    *{41, 42, 44, 48, 50, 51, 54, 55, 56, 58, 59, 60},
}


def test_every_reported_row_has_its_case() -> None:
    here = {int(found.group()) for row in ROWS if (found := re.match(r"\d+(?= )", row))} | {20, 28, 58}
    assert here.union(*ELSEWHERE.values()) == ALL
    root = Path(__file__).parents[3]
    for file, rows in ELSEWHERE.items():
        text = (root / file).read_text()
        for row in rows:
            named = re.search(rf"(?:[Rr]eports? |Report )[^\n]*\b{row}\b|\"{row} ", text)
            assert named, f"{file} does not name row {row}"

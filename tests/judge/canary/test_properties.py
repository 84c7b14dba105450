"""Properties over generated runs: unknown never passes, missing data never helps, nothing is forgotten or counted twice."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from observer.judge.canary.display import agreeing
from observer.judge.canary.evaluate import evaluate
from observer.judge.canary.evidence import Spread, against_limit, design_effect
from observer.judge.canary.plan import plan_of
from observer.judge.canary.sample import judge_sample
from observer.judge.canary.status import status_of
from router_contract.canary import CacheGuard, Metric, NativeKind, OnInconclusive, Operator, Procedure
from router_contract.canary_inputs import (
    Baseline,
    Mix,
    NativeObservation,
    Observation,
    Observations,
    QueryObservation,
    Run,
    Sample,
)
from router_contract.canary_results import CanaryState, Decision, Reason, SampleFate, Verdict
from router_contract.readings import Instant
from tests.judge.canary.build import (
    T0,
    analysis,
    answer,
    asked,
    cells,
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
from tests.judge.canary.reader import read

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
P, F, U = Verdict.PASSED, Verdict.FAILED, Verdict.INCONCLUSIVE
RUN = Run(target="t", canary="new", stable="old")
numbers = st.floats(allow_nan=True, allow_infinity=True)
answers = st.builds(lambda values: answer(*values), st.lists(numbers, max_size=4))
troubles = st.builds(
    lambda reason, permanent: trouble(reason, permanent=permanent),
    st.sampled_from([Reason.TIMEOUT, Reason.BAD_QUERY, Reason.NO_SOURCE]),
    st.booleans(),
)
counts = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 60)).map(lambda t: (min(t), max(t))), max_size=6)
buckets = st.lists(st.lists(st.integers(0, 30), min_size=6, max_size=6).map(lambda b: hist(*b)), max_size=4)
mixes = st.none() | st.builds(Mix, hit_rate=st.none() | st.floats(0, 1), prompt_tokens=st.none() | st.floats(1, 900))
METRICS = (
    promql(),
    promql(operator=Operator.GTE, limit=0.9),
    native(name="errors"),
    native(operator=Operator.GTE, limit=0.9, name="errors"),
    native(test=Procedure.POINT, name="errors"),
    relative(name="errors"),
    native(NativeKind.RATE, name="errors"),
    native(NativeKind.MEAN, limit=0.5, name="errors"),
    native(NativeKind.QUANTILE, quantile=0.9, limit=0.5, name="errors"),
    native(NativeKind.QUANTILE, quantile=0.9, limit=0.4, name="errors", test=Procedure.POINT),
    relative(NativeKind.QUANTILE, quantile=0.9, name="errors"),
    relative(NativeKind.MEAN, name="errors", cache_guard=CacheGuard(enabled=False)),
)


@st.composite
def observations(draw: st.DrawFn, metric: Metric) -> Observation:
    if metric.measure.__struct_config__.tag == "promql":
        return asked(draw(answers | troubles))
    histograms = isinstance(metric.measure.kind, NativeKind) and metric.measure.kind in {  # type: ignore[union-attr]  # by its tag
        NativeKind.MEAN,
        NativeKind.QUANTILE,
    }

    def side() -> object:
        return latencies(*draw(buckets)) if histograms else window(*draw(counts))

    stable = draw(st.booleans())
    pods = st.sampled_from([(), ("p1",)])
    return measured(
        side(),  # type: ignore[arg-type]  # a window either way
        Baseline(window=side(), mix=draw(mixes)) if stable else None,  # type: ignore[arg-type]  # a window either way
        side(),  # type: ignore[arg-type]  # a window either way
        metric="errors",
        mix=draw(mixes),
        expected=2,
        missing=draw(pods),
        warming=draw(pods),
        unavailable=draw(st.sampled_from(["", "", "", "gone"])),
    )


@st.composite
def judged(draw: st.DrawFn) -> tuple[Metric, Observation]:
    metric = draw(st.sampled_from(METRICS))
    return metric, draw(observations(metric))


def verdict(metric: Metric, seen: Sequence[Observation]) -> Verdict:
    return judge_sample(analysis(metric), seen, (), T0, T0 + 600).verdict


@QUICK
@given(judged())
def test_every_result_reads_back_and_unknown_shows_no_number(case: tuple[Metric, Observation]) -> None:
    metric, seen = case
    (result,) = judge_sample(analysis(metric), [seen], (), T0, T0 + 600).results
    assert result.passed is (result.verdict is P)
    if result.verdict is U:
        assert result.value == ""
    else:
        assert metric.operator.holds(float(result.value), metric.limit) is result.passed
        assert math.isfinite(float(result.value))
    text = msgspec.json.encode(result).decode()
    assert "NaN" not in text
    assert "Infinity" not in text
    assert len(result.message) <= 256
    assert result.message.isprintable()


@QUICK
@given(judged())
def test_less_data_never_makes_a_pass(case: tuple[Metric, Observation]) -> None:
    """Anything unread turns no verdict into a pass; a failure stands although Pods are missing."""
    metric, seen = case
    before = verdict(metric, [seen])
    assert verdict(metric, []) is U
    if isinstance(seen, QueryObservation):
        assert verdict(metric, [msgspec.structs.replace(seen, outcome=trouble())]) is U
        return
    assert isinstance(seen, NativeObservation)
    worse = msgspec.structs.replace(seen, expected=4, missing=("x", "y", "z"))
    assert verdict(metric, [worse]) is (F if before is F else U)
    cold = msgspec.structs.replace(seen, warming=("x",))
    assert verdict(metric, [cold]) is (F if before is F else U)
    assert verdict(metric, [msgspec.structs.replace(seen, unavailable="gone")]) is U
    nothing = msgspec.structs.replace(seen.since_step, cells=())
    assert verdict(metric, [msgspec.structs.replace(seen, since_step=nothing, recent=nothing)]) is not P
    if metric.measure.relative is not None:  # type: ignore[union-attr]  # native here
        assert verdict(metric, [msgspec.structs.replace(seen, stable=None)]) is U


letters = st.lists(st.sampled_from("PFIN-r"), max_size=25)
gates = st.builds(
    lambda limit, passes, on, consecutive: analysis(
        promql(), failure_limit=limit, min_passes=passes, on_inconclusive=on, consecutive_failure_limit=consecutive
    ),
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from(OnInconclusive),
    st.integers(0, 3),
)
SEEN = {
    "P": [asked(answer(0.0))],
    "F": [asked(answer(1.0))],
    "I": [asked(answer(float("nan")))],
    "N": [],
}


def steps(made: object, events: Sequence[str], restart: bool) -> list[tuple[CanaryState, Decision, Reason]]:
    """A run of events: samples, ticks (``-``) and restarts (``r``: the state goes through JSON)."""
    state, now, told, taken = None, T0, [], 0
    for event in events:
        now += 60.0
        sample = None
        if state is not None and event == "r" and restart:
            state = msgspec.json.decode(msgspec.json.encode(state), type=CanaryState)
        if event in SEEN:
            taken += 1
            at = 0 if state is None else state.step
            plan = plan_of(made, at)  # type: ignore[arg-type]  # a definition
            sample = Sample(
                id=taken, step=at, canary="new", plan=plan, started=now, completed=now, observations=tuple(SEEN[event])
            )
        seen = Observations(run=RUN, sample=sample)
        outcome = evaluate(made, state, seen, Instant(now, now))  # type: ignore[arg-type]  # a definition
        state = outcome.state
        told.append((state, outcome.decision, outcome.reason))
        gate = made.steps[outcome.step].analysis if outcome.step < len(made.steps) else None  # type: ignore[attr-defined]  # a definition
        if gate is not None and state.step == outcome.step:
            read(status_of(made, RUN, outcome), gate)  # type: ignore[arg-type]  # a definition
        if outcome.decision is Decision.ADVANCE and outcome.reason is Reason.STEP_PASSED:
            assert event == "P", "only a passed sample advances"
    return told


@QUICK
@given(gates, letters)
def test_a_restart_neither_forgets_nor_counts_twice(gate: object, events: list[str]) -> None:
    made = definition(gate, gate)  # type: ignore[arg-type]  # an analysis
    assert steps(made, events, restart=True) == steps(made, events, restart=False)


@QUICK
@given(gates, letters, st.data())
def test_unknown_samples_in_place_of_any_advance_nothing_sooner(
    gate: object, events: list[str], data: st.DataObject
) -> None:
    made = definition(gate, ready_timeout=None)  # type: ignore[arg-type]  # an analysis
    blind = [("I" if event in SEEN and data.draw(st.booleans()) else event) for event in events]

    def advanced(told: list[tuple[CanaryState, Decision, Reason]]) -> int:
        return next((place for place, (_, decision, _) in enumerate(told) if decision is Decision.ADVANCE), 10**6)

    plain = steps(made, events, restart=False)
    if not any(decision is Decision.ROLLBACK for _, decision, _ in plain):
        assert advanced(steps(made, blind, restart=False)) >= advanced(plain)
    if not any(event == "F" for event in blind) and gate.on_inconclusive is not OnInconclusive.ROLLBACK:  # type: ignore[attr-defined]  # an analysis
        assert all(state.failed_checks == 0 for state, _, _ in steps(made, blind, restart=False))


@QUICK
@given(st.lists(st.tuples(st.sampled_from("AB"), st.sampled_from("PFI"), st.booleans()), max_size=30))
def test_two_replicas_never_both_count(turns: list[tuple[str, str, bool]]) -> None:
    """A store that takes a write only from whoever saw the newest version; a refused writer reads again."""
    made = definition(analysis(promql(), failure_limit=100, min_passes=100), ready_timeout=None)
    first = evaluate(made, None, Observations(run=RUN), Instant(0, T0)).state
    stored, version = first, 0
    copies = {"A": (first, 0), "B": (first, 0)}
    counted: list[int] = []
    for now, (who, letter, fresh) in enumerate(turns):
        state, seen = (stored, version) if fresh else copies[who]
        at = T0 + 60.0 * now
        sample = Sample(
            id=state.counted + 1,
            step=0,
            canary="new",
            plan=plan_of(made, 0),
            started=at,
            completed=at,
            observations=tuple(SEEN[letter]),
        )
        outcome = evaluate(made, state, Observations(run=RUN, sample=sample), Instant(0, at))
        if outcome.fate is SampleFate.COUNTED and seen == version:
            stored, version = outcome.state, version + 1
            counted.append(sample.id)
        copies[who] = (stored, version)
    assert counted == sorted(set(counted))
    assert stored.counted == len(counted)


@QUICK
@given(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9), st.sampled_from(Operator))
def test_a_text_agrees_with_its_verdict(value: float, limit: float, operator: Operator) -> None:
    passed = operator.holds(value, limit)
    text = agreeing(value, operator, limit, passed=passed)
    assert text is not None
    assert operator.holds(float(text), limit) is passed


@QUICK
@given(counts, st.floats(0.01, 0.9))
def test_evidence_never_convicts_a_canary_that_was_within_its_limit_all_along(
    found: list[tuple[int, int]], limit: float
) -> None:
    """Minutes each at or below the limit, whatever their sizes: the bets lose."""
    minutes = [Spread.of([each]) for each in _within(found, limit)]
    assert against_limit(minutes, limit) <= 1e-9


def _within(found: list[tuple[int, int]], limit: float) -> list[object]:
    from observer.judge.canary.evidence import Bernoulli

    return [Bernoulli(min(bad, math.floor(limit * total)), total) for bad, total in found]  # type: ignore[misc]  # counts


@QUICK
@given(counts)
def test_a_design_effect_is_at_least_one_and_finite(found: list[tuple[int, int]]) -> None:
    from observer.judge.canary.counts import cells_of_ratio

    made = window(*found)
    assert made.cells == cells(*found)
    effect = design_effect(Spread.of(cells_of_ratio(made)))
    assert 1.0 <= effect < math.inf

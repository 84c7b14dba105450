"""Native metrics: what counts, quantiles and comparisons lead to, and what takes a verdict back."""

from __future__ import annotations

import msgspec
import pytest

from observer.judge.canary.sample import judge_sample
from router_contract.canary import BucketPolicy, CacheGuard, Metric, NativeKind, Operator, Procedure
from router_contract.canary_inputs import Baseline, BaselineKind, Mix, NativeObservation
from router_contract.canary_results import FrozenBound, MetricResult, Reason, Verdict
from tests.judge.canary.build import (
    INF,
    T0,
    analysis,
    hist,
    latencies,
    measured,
    native,
    relative,
    window,
)

P, F, U = Verdict.PASSED, Verdict.FAILED, Verdict.INCONCLUSIVE
R = Reason
LT, LTE, GT, GTE = Operator
Q, MEAN, RATE = NativeKind.QUANTILE, NativeKind.MEAN, NativeKind.RATE
SAME = Mix(hit_rate=0.5, prompt_tokens=100.0)


def judge(metric: Metric, seen: NativeObservation, bounds: tuple[FrozenBound, ...] = ()) -> MetricResult:
    return judge_sample(analysis(metric), [seen], bounds, T0, T0 + 3600.0).results[0]


def minutes(bad: float, total: float, count: int = 10) -> list[tuple[float, float]]:
    return [(bad, total)] * count


POINT = {"test": Procedure.POINT}
RATIOS: dict[str, tuple[Metric, NativeObservation, Verdict, Reason]] = {
    "healthy": (native(), measured(window(*minutes(1, 100))), P, R.WITHIN_THRESHOLD),
    "bad": (native(), measured(window(*minutes(12, 100))), F, R.THRESHOLD_BREACHED),
    "few, no errors": (native(), measured(window((0, 40))), U, R.INSUFFICIENT_SAMPLES),
    "few, all errors": (native(), measured(window(*minutes(2, 2))), F, R.THRESHOLD_BREACHED),
    "above by chance": (native(), measured(window((6, 100))), U, R.INSUFFICIENT_EVIDENCE),
    "no traffic": (native(), measured(window((0, 0))), U, R.NO_DATA),
    "no cells": (native(), measured(window()), U, R.NO_DATA),
    "traffic stopped": (native(), measured(window(*minutes(1, 100)), recent=window((0, 0))), U, R.NO_DATA),
    "burst counted before": (
        native(),
        measured(window(*minutes(12, 100), (0, 30)), recent=window((0, 30))),
        U,
        R.INCIDENT_COUNTED,
    ),
    "bad late": (
        native(),
        measured(window(*minutes(1, 100, 30), *minutes(15, 100, 8)), recent=window((15, 100))),
        F,
        R.THRESHOLD_BREACHED,
    ),
    "bad late, may be chance": (
        native(),
        measured(window(*minutes(1, 100, 30), (9, 100)), recent=window((9, 100))),
        U,
        R.INSUFFICIENT_EVIDENCE,
    ),
    "more bad than all": (native(), measured(window((5, 3))), U, R.SIGNAL_UNAVAILABLE),
    "success share healthy": (
        native(operator=GTE, limit=0.95),
        measured(window(*minutes(99, 100))),
        P,
        R.WITHIN_THRESHOLD,
    ),
    "success share bad": (
        native(operator=GTE, limit=0.95),
        measured(window(*minutes(80, 100))),
        F,
        R.THRESHOLD_BREACHED,
    ),
    "none allowed, none": (native(operator=LTE, limit=0.0), measured(window((0, 100))), P, R.WITHIN_THRESHOLD),
    "none allowed, one": (native(operator=LTE, limit=0.0), measured(window((1, 1000))), F, R.THRESHOLD_BREACHED),
    "point, above": (native(**POINT), measured(window((6, 100))), F, R.THRESHOLD_BREACHED),
    "point, few above by chance": (native(limit=0.01, **POINT), measured(window((1, 20))), U, R.INSUFFICIENT_SAMPLES),
    "point, few but certain": (native(limit=0.01, **POINT), measured(window((6, 20))), F, R.THRESHOLD_BREACHED),
    "point, few below": (native(limit=0.01, **POINT), measured(window((0, 20))), U, R.INSUFFICIENT_SAMPLES),
    "point judges the newest": (
        native(**POINT),
        measured(window((90, 100), (0, 100)), recent=window((0, 100))),
        P,
        R.WITHIN_THRESHOLD,
    ),
    "own minimum": (native(min_samples=40), measured(window((0, 40))), P, R.WITHIN_THRESHOLD),
}


@pytest.mark.parametrize("case", RATIOS)
def test_shares_of_requests(case: str) -> None:
    metric, seen, verdict, reason = RATIOS[case]
    result = judge(metric, seen)
    assert (result.verdict, result.reason) == (verdict, reason)


ALL = hist(0, 0, 990, 10, 0, 0)
QUANTILES: dict[str, tuple[Metric, NativeObservation, Verdict, Reason]] = {
    "at a bound, exact": (native(Q, LT, 0.5, quantile=0.95), measured(latencies(ALL)), P, R.WITHIN_THRESHOLD),
    "LT is LTE at a bound": (native(Q, LTE, 0.5, quantile=0.95), measured(latencies(ALL)), P, R.WITHIN_THRESHOLD),
    "GT at a bound": (native(Q, GT, 0.5, quantile=0.95), measured(latencies(*[ALL] * 9)), F, R.THRESHOLD_BREACHED),
    "GT passes": (native(Q, GT, 0.25, quantile=0.05), measured(latencies(ALL)), P, R.WITHIN_THRESHOLD),
    "inside a bucket": (native(Q, LT, 0.4, quantile=0.5), measured(latencies(ALL)), U, R.BUCKET_RESOLUTION),
    "interpolated": (
        native(Q, LT, 0.4, quantile=0.5, bucket_policy=BucketPolicy.INTERPOLATE),
        measured(latencies(ALL)),
        P,
        R.WITHIN_THRESHOLD,
    ),
    "interpolated, worse": (
        native(Q, LT, 0.3, quantile=0.5, bucket_policy=BucketPolicy.INTERPOLATE, test=Procedure.POINT),
        measured(latencies(ALL)),
        F,
        R.THRESHOLD_BREACHED,
    ),
    "slow": (
        native(Q, LT, 0.5, quantile=0.95),
        measured(latencies(*[hist(0, 0, 80, 20, 0, 0)] * 3)),
        F,
        R.THRESHOLD_BREACHED,
    ),
    "slow by chance": (
        native(Q, LT, 0.5, quantile=0.95),
        measured(latencies(hist(0, 0, 94, 6, 0, 0))),
        U,
        R.INSUFFICIENT_EVIDENCE,
    ),
    "point, slow": (
        native(Q, LT, 0.5, quantile=0.95, test=Procedure.POINT),
        measured(latencies(hist(0, 0, 94, 6, 0, 0))),
        F,
        R.THRESHOLD_BREACHED,
    ),
    "overflow, limit at the top": (
        native(Q, LTE, 2.0, quantile=0.5),
        measured(latencies(hist(0, 0, 0, 0, 10, 90))),
        F,
        R.THRESHOLD_BREACHED,
    ),
    "overflow, limit beyond": (
        native(Q, LT, 3.0, quantile=0.5),
        measured(latencies(hist(0, 0, 0, 0, 10, 90))),
        U,
        R.BUCKET_OVERFLOW,
    ),
    "12 samples": (
        native(Q, LT, 0.5, quantile=0.95),
        measured(latencies(hist(0, 12, 0, 0, 0, 0))),
        U,
        R.INSUFFICIENT_SAMPLES,
    ),
    "nothing observed": (native(Q, LT, 0.5, quantile=0.95), measured(latencies()), U, R.NO_DATA),
    "no common bound": (
        native(Q, LT, 0.5, quantile=0.95),
        measured(latencies(hist(9, 9, bounds=(1.0, INF)), hist(9, 9, bounds=(2.0, INF)))),
        U,
        R.BUCKET_MISMATCH,
    ),
    "common bounds": (
        native(Q, LT, 1.0, quantile=0.5),
        measured(latencies(hist(40, 0, 0, bounds=(0.5, 1.0, INF)), hist(40, 0, 0, bounds=(1.0, 5.0, INF)))),
        P,
        R.WITHIN_THRESHOLD,
    ),
    "sum contradicts": (
        native(Q, LT, 0.5, quantile=0.95),
        measured(latencies(hist(0, 0, 500, 0, 0, 0, total=9.0))),
        U,
        R.DEGENERATE_HISTOGRAM,
    ),
    "all zero": (
        native(Q, LT, 0.5, quantile=0.95),
        measured(latencies(hist(500, 0, 0, 0, 0, 0, total=0.0))),
        U,
        R.DEGENERATE_HISTOGRAM,
    ),
    "torn": (
        native(Q, LT, 0.5, quantile=0.95),
        measured(latencies(msgspec.structs.replace(ALL, counts=(5.0, 4.0, 6.0, 6.0, 6.0, 6.0)))),
        U,
        R.DEGENERATE_HISTOGRAM,
    ),
    "mean": (native(MEAN, LT, 1.0), measured(latencies(ALL)), P, R.WITHIN_THRESHOLD),
    "mean too slow": (native(MEAN, LT, 0.2), measured(latencies(ALL)), F, R.THRESHOLD_BREACHED),
    "mean of few": (native(MEAN, LT, 0.2), measured(latencies(hist(0, 0, 9, 0, 0, 0))), U, R.INSUFFICIENT_SAMPLES),
    "mean without a sum": (
        native(MEAN, LT, 0.2),
        measured(latencies(msgspec.structs.replace(ALL, sum=float("nan")))),
        U,
        R.NO_DATA,
    ),
    "rate": (native(RATE, GT, 1.0), measured(window((600, 0))), P, R.WITHIN_THRESHOLD),
    "rate of nothing is 0": (native(RATE, GT, 1.0), measured(window((0, 0))), F, R.THRESHOLD_BREACHED),
    "rate without a Pod": (native(RATE, LT, 1.0), measured(window()), U, R.NO_DATA),
}


@pytest.mark.parametrize("case", QUANTILES)
def test_quantiles_means_and_rates(case: str) -> None:
    metric, seen, verdict, reason = QUANTILES[case]
    result = judge(metric, seen)
    assert (result.verdict, result.reason) == (verdict, reason)


def test_the_bracket_is_published_and_the_value_lies_in_it() -> None:
    result = judge(native(Q, LT, 0.5, quantile=0.95), measured(latencies(ALL)))
    assert (result.low, result.high) == (0.25, 0.5)
    assert result.low is not None
    assert result.high is not None
    assert result.low < float(result.value) < result.high
    over = judge(native(Q, LTE, 2.0, quantile=0.5), measured(latencies(hist(0, 0, 0, 0, 10, 90))))
    assert (over.low, over.high) == (2.0, None)
    assert float(over.value) > 2.0, "what is beyond the top does not read as within it"


SLOW, FAST = hist(0, 20, 40, 40, 0, 0), hist(0, 60, 37, 3, 0, 0)
BOUND = (FrozenBound(metric="m", bound=0.5, since=T0),)
TTFT = relative(Q, quantile=0.95)


def both(canary: NativeObservation, **more: object) -> NativeObservation:
    stable = canary.stable
    assert stable is not None
    mixed = msgspec.structs.replace(stable, mix=more.pop("stable_mix", SAME))
    return msgspec.structs.replace(canary, mix=more.pop("mix", SAME), stable=mixed, **more)


def ttft(canary: object, count: int = 10, **more: object) -> NativeObservation:
    seen = measured(latencies(*[canary] * count), latencies(*[FAST] * count))  # type: ignore[list-item]  # a test's shorthand
    return both(seen, **more)


FROZEN = Baseline(window=window(*minutes(50, 1000)), kind=BaselineKind.FROZEN)
RELATIVES: dict[str, tuple[Metric, NativeObservation, Verdict, Reason]] = {
    "equal": (relative(), measured(window(*minutes(5, 100)), window(*minutes(45, 900))), P, R.WITHIN_MARGIN),
    "three times": (relative(), measured(window(*minutes(15, 100)), window(*minutes(45, 900))), F, R.MARGIN_EXCEEDED),
    "error-free stable": (
        relative(),
        measured(window(*minutes(5, 100)), window(*minutes(0, 100))),
        F,
        R.MARGIN_EXCEEDED,
    ),
    "both error-free": (relative(), measured(window(*minutes(0, 100)), window(*minutes(0, 100))), P, R.WITHIN_MARGIN),
    "one error more": (relative(), measured(window((1, 600)), window((0, 600))), U, R.INSUFFICIENT_EVIDENCE),
    "few": (relative(), measured(window((0, 30)), window((1, 30))), U, R.INSUFFICIENT_SAMPLES),
    "no stable": (relative(), measured(window((0, 900))), U, R.BASELINE_UNUSABLE),
    "stable idle": (relative(), measured(window((0, 900)), window((0, 0))), U, R.BASELINE_UNUSABLE),
    "canary idle": (relative(), measured(window((0, 0)), window((0, 900))), U, R.NO_DATA),
    "frozen baseline": (relative(), measured(window(*minutes(50, 1000)), FROZEN), P, R.WITHIN_MARGIN),
    "frozen baseline, worse": (relative(), measured(window(*minutes(200, 1000)), FROZEN), F, R.MARGIN_EXCEEDED),
    "burst counted before": (
        relative(),
        measured(window(*minutes(15, 100), (0, 30)), window(*minutes(5, 100, 11)), recent=window((0, 30))),
        U,
        R.INCIDENT_COUNTED,
    ),
    "slower first tokens": (TTFT, ttft(SLOW), F, R.MARGIN_EXCEEDED),
    "equal first tokens": (TTFT, ttft(FAST), P, R.WITHIN_MARGIN),
    "another meaning": (TTFT, ttft(SLOW, incomparable="measured otherwise"), U, R.INCOMPARABLE),
    "cold cache": (TTFT, ttft(SLOW, mix=Mix(hit_rate=0.1, prompt_tokens=100.0)), U, R.CACHE_MIX_DIFFERS),
    "warm cache flatters": (TTFT, ttft(FAST, mix=Mix(hit_rate=0.9, prompt_tokens=100.0)), U, R.CACHE_MIX_DIFFERS),
    "longer prompts": (TTFT, ttft(SLOW, mix=Mix(hit_rate=0.5, prompt_tokens=200.0)), U, R.CACHE_MIX_DIFFERS),
    "mix not known": (TTFT, ttft(FAST, mix=None), U, R.CACHE_MIX_UNKNOWN),
    "guard off": (
        relative(Q, quantile=0.95, cache_guard=CacheGuard(enabled=False)),
        ttft(SLOW, mix=None),
        F,
        R.MARGIN_EXCEEDED,
    ),
    "mean, slower": (relative(MEAN), ttft(SLOW), F, R.MARGIN_EXCEEDED),
    "mean, equal": (relative(MEAN), ttft(FAST), P, R.WITHIN_MARGIN),
    "mean, few": (relative(MEAN), ttft(hist(0, 3, 0, 0, 0, 0), 1), U, R.INSUFFICIENT_SAMPLES),
}


@pytest.mark.parametrize("case", RELATIVES)
def test_comparisons_with_stable(case: str) -> None:
    metric, seen, verdict, reason = RELATIVES[case]
    result = judge(metric, seen, BOUND)
    assert (result.verdict, result.reason) == (verdict, reason)
    if verdict is P:
        assert float(result.value) <= 1.25
    if verdict is F:
        assert float(result.value) > 1.25


def test_a_changing_share_of_traffic_does_not_look_like_a_changing_build() -> None:
    """Both revisions have 20 % errors in the first minutes and 1 % later; the canary had little traffic first."""
    canary = window(*minutes(4, 20), *minutes(9, 900))
    stable = window(*minutes(180, 900), *minutes(1, 100))
    assert judge(relative(), measured(canary, stable)).verdict is not F
    mirrored = judge(relative(), measured(stable, canary))
    assert mirrored.verdict is not F, "pooled rates differ thirteenfold, within no minute do they differ"


def test_a_latency_bound_is_frozen_from_before_the_step() -> None:
    before = latencies(*[FAST] * 3, start=T0 - 600)
    seen = ttft(SLOW)
    assert seen.stable is not None
    seen = msgspec.structs.replace(seen, stable=msgspec.structs.replace(seen.stable, before=before))
    judged = judge_sample(analysis(TTFT), [seen], (), T0, T0 + 600)
    assert judged.bounds == (FrozenBound(metric="m", bound=0.5, since=T0),)
    assert judged.verdict is F


def test_a_bound_chosen_within_the_step_judges_only_what_comes_after() -> None:
    first = judge_sample(analysis(TTFT), [ttft(SLOW)], (), T0, T0 + 600)
    assert first.bounds == (FrozenBound(metric="m", bound=0.5, since=T0 + 600),)
    assert (first.verdict, first.results[0].reason) == (U, R.NO_DATA)
    later = judge_sample(analysis(TTFT), [ttft(SLOW, 20)], first.bounds, T0, T0 + 1200)
    assert later.bounds == first.bounds
    assert later.results[0].samples == 1000.0, "the ten minutes after"
    assert later.verdict is F
    thin = both(measured(latencies(SLOW), latencies(hist(0, 9, 0, 0, 0, 0))))
    assert judge_sample(analysis(TTFT), [thin], (), T0, T0 + 60).results[0].reason is R.BASELINE_FORMING


def test_layouts_of_two_versions_are_compared_where_a_bound_is_shared_and_bracketed_where_not() -> None:
    """Report 51: stable's buckets stop at 60 s, the canary's go on to 480 s."""
    old, new = (30.0, 60.0, INF), (60.0, 480.0, INF)
    stable, same = hist(90, 10, 0, bounds=old), hist(97, 3, 0, bounds=new)
    guard = CacheGuard(enabled=False)
    metric = relative(Q, quantile=0.95, cache_guard=guard)
    frozen = (FrozenBound(metric="m", bound=60.0, since=T0),)
    seen = measured(latencies(*[same] * 30), latencies(*[stable] * 30))
    assert judge(metric, seen, frozen).verdict is F, "3 % above 60 s where stable has none"
    inside = (FrozenBound(metric="m", bound=30.0, since=T0),)
    assert judge(metric, seen, inside).reason is R.BUCKET_RESOLUTION
    beyond = (FrozenBound(metric="m", bound=None, since=T0),)
    assert judge(metric, seen, beyond).reason is R.BUCKET_OVERFLOW


GOOD, BAD = window(*minutes(1, 100)), window(*minutes(30, 100))
GUARDS: dict[str, tuple[Metric, NativeObservation, Verdict, Reason]] = {
    "one of four missing": (native(), measured(GOOD, expected=4, missing=("p3",)), U, R.MISSING_PODS),
    "allowed to miss": (native(max_missing=0.25), measured(GOOD, expected=4, missing=("p3",)), P, R.WITHIN_THRESHOLD),
    "failed all the same": (native(), measured(BAD, expected=4, missing=("p3",)), F, R.THRESHOLD_BREACHED),
    "nothing read": (native(), measured(window(), expected=4, missing=("a", "b", "c", "d")), U, R.MISSING_PODS),
    "cold Pod": (native(), measured(GOOD, expected=2, warming=("p1",)), U, R.WARMING_UP),
    "all cold": (native(), measured(window(), expected=2, warming=("p0", "p1")), U, R.WARMING_UP),
    "unattributed is told": (native(), measured(GOOD, unattributed=("x",)), P, R.WITHIN_THRESHOLD),
    "unreadable": (native(), measured(GOOD, unavailable="no such series"), U, R.SIGNAL_UNAVAILABLE),
}


@pytest.mark.parametrize("case", GUARDS)
def test_guards(case: str) -> None:
    metric, seen, verdict, reason = GUARDS[case]
    result = judge(metric, seen)
    assert (result.verdict, result.reason) == (verdict, reason)
    assert result.missing_pods == seen.missing
    assert result.unattributed_pods == seen.unattributed


def test_an_unhealthy_stable_side_is_flagged() -> None:
    """Report 44: stable has 100 % errors, the canary none."""
    seen = measured(window(*minutes(0, 100)), window(*minutes(100, 100)))
    result = judge(native(), seen)
    assert (result.verdict, result.baseline_unhealthy) == (P, True)
    assert judge(relative(), seen).verdict is P
    slow = measured(latencies(FAST), latencies(hist(0, 0, 0, 0, 100, 0)))
    assert judge(native(Q, LT, 1.0, quantile=0.95), slow).baseline_unhealthy
    assert judge(native(MEAN, LT, 1.0), slow).baseline_unhealthy
    assert not judge(native(MEAN, LT, 9.0), slow).baseline_unhealthy


def test_nothing_from_before_the_step_enters() -> None:
    """Report 36: the step began 70 s ago, older errors must not count."""
    old = window(*minutes(90, 100, 5), *minutes(0, 100, 5), start=T0 - 300)
    assert judge(native(), measured(old)).estimate == 0.0


def test_alpha_is_shared_by_the_metrics_that_spend_it() -> None:
    seen = measured(window(*minutes(11, 100, 5)))
    alone = analysis(native(alpha=0.05))
    assert judge_sample(alone, [seen], (), T0, T0).verdict is F
    names = [native(name=f"m{place}", alpha=0.05) for place in range(10)]
    crowd = judge_sample(
        analysis(*names), [msgspec.structs.replace(seen, metric=each.name) for each in names], (), T0, T0
    )
    assert crowd.results[0].evidence == judge(native(), seen).evidence
    assert crowd.results[0].reason is R.INSUFFICIENT_EVIDENCE


def test_results_say_what_they_are_made_of() -> None:
    seen = measured(GOOD, FROZEN, mixed_pairing=True)
    result = judge(native(), seen)
    assert result.measured_by is not None
    assert result.measured_by.value == "router"
    assert result.mixed_pairing
    assert result.baseline == "frozen"
    assert result.baseline_age_seconds == 3600.0 - 600.0
    assert (result.window_start, result.window_end) == (int(T0), int(T0) + 600)
    assert result.design_effect is not None
    assert result.design_effect >= 1.0

"""Merging, quantile brackets and decisions, against a plain walk over the observations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from observer.measure.histograms import (
    at_most,
    degenerate,
    estimate,
    estimates,
    mean,
    merge,
    merge_windows,
    quantiles_of_many,
    window_of,
)
from router_contract.readings import Histogram, Window

INF = math.inf
BOUNDS = (1.0, 2.0, 4.0, 8.0, INF)


def of(values, bounds=BOUNDS):
    return Histogram(
        bounds=bounds, counts=tuple(float(sum(v <= b for v in values)) for b in bounds), sum=float(sum(values))
    )


def made(*counts, bounds=BOUNDS, total=10.0):
    return Histogram(bounds=bounds, counts=tuple(map(float, counts)), sum=total)


VALUES = st.lists(st.floats(0.001, 20, allow_nan=False), min_size=1, max_size=40)


@given(VALUES, st.sampled_from([0.01, 0.25, 0.5, 0.9, 0.99, 1.0]))
def test_the_bracket_holds_the_quantile_of_the_observations(values, q):
    true = sorted(values)[max(1, math.ceil(q * len(values) - 1e-9)) - 1]
    found = estimate(of(values), q)
    assert found.low <= true
    assert found.high is None or (true <= found.high and found.low < found.value < found.high)
    assert found.high is not None or found.value == found.low == 8.0


@given(VALUES, st.sampled_from([0.01, 0.25, 0.5, 0.9, 0.99, 1.0]), st.one_of(st.sampled_from(BOUNDS), st.floats(0, 30)))
def test_a_decision_is_that_of_the_observations_or_none(values, q, threshold):
    true = sorted(values)[max(1, math.ceil(q * len(values) - 1e-9)) - 1] <= threshold
    assert at_most(of(values), q, threshold) in ({true} if threshold in BOUNDS else {true, None})


@given(VALUES, VALUES)
def test_a_merge_is_the_histogram_of_all_observations(one, two):
    merged = merge([of(one), of(two, (2.0, 3.0, 8.0, INF))])
    both = of([*one, *two], (2.0, 8.0, INF))
    assert (merged.bounds, merged.counts) == (both.bounds, both.counts)
    assert merged.sum == pytest.approx(both.sum)
    assert merge([of(one), of(two)]).counts == of([*one, *two]).counts


@given(st.lists(VALUES, min_size=1, max_size=9))
def test_many_at_once_is_one_by_one(lists):
    several = [*map(of, lists), made(0, 0, 0, 0, 0)]
    counts = np.array([each.counts for each in several]).T
    found = quantiles_of_many(BOUNDS, counts, (0.5, 0.99))
    for column, each in enumerate(several):
        for row, q in enumerate((0.5, 0.99)):
            expected = estimate(each, q)
            if expected is None:
                assert math.isnan(found[row, column])
            else:
                assert found[row, column] == pytest.approx(expected.value)


def test_many_with_no_finite_bound_are_not_known():
    assert np.isnan(quantiles_of_many((INF,), np.ones((1, 3)))).all()


def test_after_a_restart_the_family_decides_not_the_series():
    # The case of per-series rates: 5, 20, 100 would put the median into the top bucket.
    assert estimate(made(5, 120, 200, bounds=(1.0, 2.0, INF)), 0.5).value == pytest.approx(1.82, abs=0.01)


@pytest.mark.parametrize(
    ("histograms", "bounds"),
    [
        ([], None),
        ([made(1, bounds=(INF,)), made(2, bounds=(INF,))], (INF,)),
        ([made(1, 2, bounds=(1.0, INF)), made(2, bounds=(INF,))], (INF,)),
        ([made(1, 2, bounds=(1.0, INF)), made(1, 2, bounds=(2.0, INF))], None),
    ],
)
def test_merging_without_common_bounds(histograms, bounds):
    merged = merge(histograms)
    assert (merged.bounds if merged else None) == bounds


@pytest.mark.parametrize(
    ("histogram", "q", "threshold", "expected"),
    [
        (made(0, 0, 0, 0, 0), 0.5, 1.0, None),
        (made(5, 9, 10, 10, 10), 0.9, 2.0, True),
        (made(5, 8, 10, 10, 10), 0.9, 2.0, False),
        (made(5, 8, 10, 10, 10), 0.9, 3.0, None),
        (made(5, 8, 10, 10, 10), 0.9, 5.0, True),
        (made(0, 0, 0, 0, 10), 0.9, 8.0, False),
        (made(0, 0, 0, 0, 10), 0.9, 9.0, None),
        (made(5, 5, 5, 5, 10), 0.9, 7.0, False),
        (made(10, 10, 10, 10, 10), 0.9, 0.5, None),
        (made(10, 10, 10, 10, 10), 0.9, -0.5, False),
        (made(0, 10, 10, 10, 10), 0.9, 0.5, False),
        (made(0, 10, 10, 10, 10), 0.9, INF, True),
    ],
)
def test_decisions(histogram, q, threshold, expected):
    assert at_most(histogram, q, threshold) is expected


@pytest.mark.parametrize(
    ("histogram", "expected"),
    [
        (made(0, 0, 0, 0, 0, total=0), False),
        (made(3, 3, 3, 3, 3, total=0), True),
        (made(3, 3, 3, 3, 3, total=1), False),
        (made(3, 3, 3, 3, 3, total=4), True),
        (made(0, 0, 3, 3, 3, total=3), True),
        (made(0, 0, 3, 3, 3, total=9), False),
        (made(0, 0, 0, 0, 3, total=900), False),
        (made(3, total=0, bounds=(INF,)), False),
        (made(3, 3, 3, 3, 3, total=math.nan), False),
    ],
)
def test_what_contradicts_itself_is_degenerate(histogram, expected):
    assert degenerate(histogram) is expected
    assert estimates(histogram) == () if expected else True


def test_a_mean_needs_observations_and_a_sum():
    assert mean(of([1, 2, 6])) == 3.0
    assert mean(made(0, 0, 0, 0, 0)) is None
    assert mean(made(1, 1, 1, 1, 1, total=math.nan)) is None


def test_a_point_bracket_is_exact():
    found = estimate(made(4, 4, bounds=(0.0, INF), total=0), 0.5)
    assert (found.value, found.low, found.high, found.exact) == (0.0, 0.0, 0.0, True)


def test_windows_merge_with_their_quantiles():
    one, two = window_of(of([1.5] * 9), 60.0, lossy=False), window_of(of([3.0]), 45.0, lossy=True)
    merged = merge_windows([one, two])
    assert (merged.increase, merged.seconds, merged.lossy) == (10.0, 60.0, True)
    assert merged.mean == pytest.approx(1.65)
    assert [q for q, _ in merged.quantiles] == [0.5, 0.9, 0.99]
    assert merged.quantiles[2][1].low == 2.0
    assert merge_windows([]) is None
    assert merge_windows([one, Window(increase=1.0, seconds=1.0)]) is None


ANY = st.floats(allow_nan=True, allow_infinity=True)


@given(st.lists(st.tuples(ANY, ANY), max_size=6), ANY, st.sampled_from([0.01, 0.5, 0.99, 1.0]), ANY)
def test_no_histogram_whatever_its_numbers_makes_anything_fail_or_tell_what_is_not_finite(rows, total, q, threshold):
    given_ = Histogram(bounds=tuple(row[0] for row in rows), counts=tuple(row[1] for row in rows), sum=total)
    _tells_finite_numbers(given_, q, threshold)
    sorted_ = Histogram(bounds=tuple(sorted(given_.bounds)), counts=tuple(sorted(given_.counts)), sum=total)
    _tells_finite_numbers(sorted_, q, threshold)


def _tells_finite_numbers(histogram, q, threshold):
    average, found = mean(histogram), estimate(histogram, q)
    assert average is None or math.isfinite(average)
    assert found is None or (math.isfinite(found.value) and found.low <= found.value)
    assert at_most(histogram, q, threshold) in {True, False, None}
    assert degenerate(histogram) in {True, False}
    made = window_of(histogram, 1.0, lossy=False)
    assert all(math.isfinite(each.value) for _, each in made.quantiles)


def test_a_histogram_of_more_bounds_than_counts_tells_nothing():
    broken = Histogram(bounds=(1.0, INF), counts=(1.0,), sum=1.0)
    assert (mean(broken), estimate(broken, 0.5), at_most(broken, 0.5, 1.0)) == (None, None, None)

"""Histograms added up, and what can be said of their quantiles: a count with a bracket, never a guess sold as exact.

Buckets say how many observations were at most a bound. So a quantile lies in a bracket of two neighbouring bounds; the
published value is interpolated at the middle of its rank, strictly inside the bracket. A threshold that is a bound is
decided exactly. Observations are taken to be at least 0, as durations and token counts are.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from router_contract.readings import Estimate, Histogram, Window

Floats = npt.NDArray[np.float64]
QUANTILES: Final = (0.5, 0.9, 0.99)
_CHUNK: Final = 8192
_SLACK: Final = 1e-9


def merge(histograms: Iterable[Histogram]) -> Histogram | None:
    """The sum of histograms on the bounds that all of them have: cumulative counts add exactly there.

    ``None`` for no histogram, and where histograms that have finite bounds share none (their buckets do not match).
    """
    found = list(histograms)
    if not found:
        return None
    bounds = found[0].bounds
    if all(each.bounds is bounds or each.bounds == bounds for each in found):
        counts = tuple(map(math.fsum, zip(*[each.counts for each in found], strict=True)))
        return Histogram(bounds=bounds, counts=counts, sum=math.fsum([each.sum for each in found]))
    common = sorted(set.intersection(*(set(each.bounds) for each in found)))
    if len(common) == 1 and all(len(each.bounds) > 1 for each in found):
        return None
    counts = tuple(math.fsum(each.counts[each.bounds.index(bound)] for each in found) for bound in common)
    return Histogram(bounds=tuple(common), counts=counts, sum=math.fsum(each.sum for each in found))


def merge_windows(windows: Iterable[Window]) -> Window | None:
    """The sum of histogram windows, with the merged window's mean and quantiles; it spans the longest of them.

    ``None`` for no window, for one without a histogram, and where `merge` gives none.
    """
    found = list(windows)
    merged = merge([each.histogram for each in found if each.histogram is not None])
    if merged is None or any(each.histogram is None for each in found):
        return None
    seconds = max(each.seconds for each in found)
    return window_of(merged, seconds, lossy=any(each.lossy for each in found))


def window_of(delta: Histogram, seconds: float, *, lossy: bool) -> Window:
    """A window from the delta of a histogram, with its mean and quantiles."""
    average, quantiles = summary(delta)
    return Window(
        increase=delta.count,
        seconds=seconds,
        lossy=lossy,
        histogram=delta,
        mean=average,
        quantiles=quantiles,
    )


def summary(histogram: Histogram) -> tuple[float | None, tuple[tuple[float, Estimate], ...]]:
    """`mean` and `estimates` of a histogram, in one go: windows are made by the thousand."""
    bounds, counts = histogram.bounds, histogram.counts
    count = counts[-1] if counts else 0.0
    if not 0 < count < math.inf or len(counts) != len(bounds):
        return None, ()
    average: float | None = None
    if math.isfinite(histogram.sum):
        average = histogram.sum / count
        if not math.isfinite(average):
            average = None
        elif _contradicts(bounds, counts, histogram.sum, average):
            return average, ()
    if len(bounds) < 2:
        return average, ()
    slack, found = _SLACK * max(1.0, count), []
    for q in QUANTILES:
        rank = max(1, math.ceil(q * count - slack))
        made = _in_bracket(bounds, counts, rank, bisect_left(counts, rank - _SLACK))
        if made is not None:
            found.append((q, made))
    return average, tuple(found)


def mean(histogram: Histogram) -> float | None:
    """Sum over count, exact; ``None`` without an observation or without a sum."""
    if not _counted(histogram) or not math.isfinite(histogram.sum):
        return None
    average = histogram.sum / histogram.count
    return average if math.isfinite(average) else None


def estimates(histogram: Histogram, quantiles: Sequence[float] = QUANTILES) -> tuple[tuple[float, Estimate], ...]:
    """``(q, estimate)`` for each quantile that can be told; none of an empty or a degenerate histogram."""
    if degenerate(histogram):
        return ()
    found = ((q, estimate(histogram, q)) for q in quantiles)
    return tuple((q, each) for q, each in found if each is not None)


def estimate(histogram: Histogram, q: float) -> Estimate | None:
    """The bracket of the q-quantile (0 < q ≤ 1) and the value interpolated in it.

    ``None`` without an observation or a finite bound, and where the counts are no cumulative counts. Beyond the last
    finite bound ``high`` is ``None`` and the value is that bound, the least it can be. ``exact`` where the bracket is a
    point.
    """
    if not _counted(histogram) or len(histogram.bounds) < 2:
        return None
    rank = _rank(histogram.count, q)
    return _in_bracket(histogram.bounds, histogram.counts, rank, bisect_left(histogram.counts, rank - _SLACK))


def _in_bracket(bounds: tuple[float, ...], counts: tuple[float, ...], rank: int, place: int) -> Estimate | None:
    """The estimate of the observation of this rank, which lies in the bucket at ``place``."""
    if place >= len(bounds):
        return None
    high = bounds[place]
    low, below = (bounds[place - 1], counts[place - 1]) if place else (min(0.0, high), 0.0)
    if high == math.inf and math.isfinite(low):
        return Estimate(value=low, low=low, high=None, exact=False)
    inside = counts[place] - below
    share = (rank - 0.5 - below) / inside if inside > 0 else math.nan
    value = low + share * (high - low)
    return Estimate(value=value, low=low, high=high, exact=low == high) if low <= value <= high else None


def at_most(histogram: Histogram, q: float, threshold: float) -> bool | None:
    """Whether the q-quantile is at most a threshold: at least ⌈qN⌉ of N observations are.

    Exact where the threshold is a bound; ``None`` where the bracket does not decide, and without an observation.
    """
    if not _counted(histogram):
        return None
    rank = _rank(histogram.count, q) - _SLACK
    place = bisect_left(histogram.bounds, threshold)
    if place >= len(histogram.bounds):
        return None
    if histogram.bounds[place] == threshold:
        return histogram.counts[place] >= rank
    if place and histogram.counts[place - 1] >= rank:
        return True
    return False if histogram.counts[place] < rank or threshold < 0 else None


def degenerate(histogram: Histogram) -> bool:
    """Whether buckets and sum contradict each other, or all is in the first bucket with a sum of 0: nothing measured.

    The mean must lie between the least and the most that the occupied buckets allow.
    """
    average = mean(histogram)
    return average is not None and _contradicts(histogram.bounds, histogram.counts, histogram.sum, average)


def _contradicts(bounds: tuple[float, ...], counts: tuple[float, ...], total: float, average: float) -> bool:
    """`degenerate` of counts with a mean."""
    if total == 0 and len(counts) > 1 and counts[0] == counts[-1]:
        return True
    first = 0
    while not counts[first] > 0:
        first += 1
    low = bounds[first - 1] if first else min(0.0, bounds[0])
    slack = _SLACK * max(1.0, abs(average))
    return not low - slack <= average <= bounds[min(bisect_left(counts, counts[-1]), len(counts) - 1)] + slack


def _counted(histogram: Histogram) -> bool:
    """Whether there are observations: a finite count above 0, and a count for each bound."""
    return 0 < histogram.count < math.inf and len(histogram.counts) == len(histogram.bounds)


def _rank(count: float, q: float) -> int:
    """⌈qN⌉, at least 1; a product that is an integer but for rounding is that integer."""
    return max(1, math.ceil(q * count - _SLACK * max(1.0, count)))


def quantiles_of_many(bounds: Sequence[float], counts: Floats, quantiles: Sequence[float] = QUANTILES) -> Floats:
    """`estimate` values for many histograms with the same bounds at once.

    ``counts`` is bucket-major, shape (buckets, histograms), cumulative; ``bounds`` as in `Histogram`. The result has
    shape (quantiles, histograms): NaN without an observation or a finite bound, the last finite bound beyond it.
    """
    upper = np.asarray(bounds, np.float64)
    out = np.full((len(quantiles), counts.shape[1]), np.nan)
    if len(upper) < 2:
        return out
    lower = np.concatenate(([min(0.0, upper[0])], upper[:-1]))
    finite = upper.copy()
    finite[-1] = upper[-2]
    for start in range(0, counts.shape[1], _CHUNK):
        part = counts[:, start : start + _CHUNK]
        total = part[-1]
        columns = np.arange(part.shape[1])
        for row, q in enumerate(quantiles):
            rank = np.maximum(1.0, np.ceil(q * total - _SLACK * np.maximum(1.0, total)))
            place = np.minimum((part < rank - _SLACK).sum(axis=0), len(upper) - 1)
            above = part[place, columns]
            below = np.where(place > 0, part[np.maximum(place - 1, 0), columns], 0.0)
            share = (rank - 0.5 - below) / np.where(above > below, above - below, 1.0)
            value = lower[place] + share * (finite[place] - lower[place])
            out[row, start : start + _CHUNK] = np.where(total > 0, value, np.nan)
    return out

"""Windows of counts to what is judged: bad requests of all, merged histograms, how many lie beyond a bound."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

import msgspec

from observer.judge.canary.evidence import Bernoulli, Minute, Spread, Stratum
from observer.measure.histograms import degenerate, merge
from router_contract.canary_inputs import Cell, CountWindow
from router_contract.canary_results import Reason
from router_contract.readings import Histogram

MINUTE: Final = 60.0
AUTO_EVENTS: Final = 5
"""A rate is worth a pass once so many events are expected at its limit."""
MEAN_SAMPLES: Final = 50


class Unusable(msgspec.Struct, frozen=True):
    """A window that cannot be judged, and why."""

    reason: Reason
    detail: str


def ratio(window: CountWindow) -> Bernoulli | Unusable:
    """Events of all requests of a window."""
    events = math.fsum(cell.events for cell in window.cells)
    total = math.fsum(cell.total for cell in window.cells)
    if total <= 0:
        return Unusable(Reason.NO_DATA, "no request in the window")
    if events > total:
        return Unusable(
            Reason.SIGNAL_UNAVAILABLE, f"{events:g} events of {total:g} requests: the two do not belong together"
        )
    return Bernoulli(events, total)


def histogram(window: CountWindow) -> Histogram | Unusable:
    """The histograms of all cells, added up on the bounds that all of them have."""
    parts = [cell.histogram for cell in window.cells if cell.histogram is not None and cell.histogram.count > 0]
    if not parts:
        return Unusable(Reason.NO_DATA, "nothing was observed in the window")
    if any(before > after for part in parts for before, after in pairwise(part.counts)):
        return Unusable(Reason.DEGENERATE_HISTOGRAM, "a histogram counts less at a higher bound: a torn read")
    merged = merge(parts)
    if merged is None or len(merged.bounds) < 2:
        return Unusable(Reason.BUCKET_MISMATCH, "the Pods share no finite bucket bound")
    if degenerate(merged):
        return Unusable(Reason.DEGENERATE_HISTOGRAM, "the buckets and the sum contradict each other")
    return merged


def within(data: Histogram, bound: float) -> tuple[float, float]:
    """How many observations are at most ``bound``: the least and the most it can be; equal where it is a bucket's."""
    place = bisect_left(data.bounds, bound)
    if place == len(data.bounds):
        return data.count, data.count
    if data.bounds[place] == bound:
        return data.counts[place], data.counts[place]
    return (data.counts[place - 1] if place else 0.0), data.counts[place]


def beyond(window: CountWindow, bound: float) -> tuple[Bernoulli, Bernoulli]:
    """Observations above ``bound`` of all: the least and the most it can be."""
    least = most = total = 0.0
    for cell in window.cells:
        if cell.histogram is None:
            continue
        low, high = within(cell.histogram, bound)
        least, most, total = (
            least + cell.histogram.count - high,
            most + cell.histogram.count - low,
            total + cell.histogram.count,
        )
    return Bernoulli(least, total), Bernoulli(most, total)


def cells_of_ratio(window: CountWindow, *, flipped: bool = False) -> list[Bernoulli]:
    """Each cell's bad requests of all; ``flipped`` where the events are the good ones."""
    return [Bernoulli(cell.total - cell.events if flipped else cell.events, cell.total) for cell in window.cells]


def cells_beyond(window: CountWindow, bound: float, *, most: bool = False, flipped: bool = False) -> list[Bernoulli]:
    """Each cell's observations above ``bound`` (``flipped``: at most it), the least or the most it can be."""
    found = []
    for cell in window.cells:
        if cell.histogram is not None:
            low, high = within(cell.histogram, bound)
            above = cell.histogram.count - (low if most else high)
            found.append(
                Bernoulli((high if most else low) if flipped else above, cell.histogram.count),
            )
    return found


def since(window: CountWindow, start: float) -> CountWindow:
    """The part of a window whose cells began at or after ``start``."""
    cells = tuple(cell for cell in window.cells if cell.start >= start)
    return msgspec.structs.replace(window, start=max(start, window.start), cells=cells)


def by_minute(cells: Iterable[tuple[Cell, Bernoulli]]) -> list[Spread]:
    """One revision's cells minute by minute, in order of time."""
    found: dict[int, list[Bernoulli]] = {}
    for cell, counts in cells:
        found.setdefault(math.floor(cell.start / MINUTE), []).append(counts)
    return [Spread.of(counts) for _, counts in sorted(found.items())]


def minutes(
    canary: Iterable[tuple[Cell, Bernoulli]], stable: Iterable[tuple[Cell, Bernoulli]], *, pooled: bool
) -> list[Minute]:
    """Both sides minute by minute, so that a changing share of traffic cannot look like a changing build.

    ``pooled`` makes one of all: a frozen baseline shares no minute with the canary.
    """
    sides: dict[int, tuple[list[Bernoulli], list[Bernoulli]]] = {}
    for side, cells in enumerate((canary, stable)):
        for cell, counts in cells:
            key = 0 if pooled else math.floor(cell.start / MINUTE)
            sides.setdefault(key, ([], []))[side].append(counts)
    return [
        Minute(Stratum(added(one), added(other)), Spread.of(one), Spread.of(other))
        for _, (one, other) in sorted(sides.items())
    ]


def added(parts: Iterable[Bernoulli]) -> Bernoulli:
    """The sum of counts."""
    found = list(parts)
    return Bernoulli(math.fsum(each.bad for each in found), math.fsum(each.total for each in found))


def need_for_rate(rate: float) -> int:
    """Requests after which five events are expected at a rate."""
    return math.ceil(round(AUTO_EVENTS / rate, 6)) if rate > 0 else 1


def need_for_quantile(q: float) -> int:
    """Observations after which five lie beyond a quantile: 10 for the median, 100 for p95, 500 for p99."""
    return math.ceil(round(AUTO_EVENTS / min(q, 1 - q), 6))


def time_to(need: int, have: float, seconds: float) -> float | None:
    """Seconds until ``need`` requests are there at the rate measured; 0 when they are, ``None`` when none come."""
    if have >= need:
        return 0.0
    return (need - have) * seconds / have if have > 0 and seconds > 0 else None

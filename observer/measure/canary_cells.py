"""What each Pod counted since a canary step began, in cells of about a minute, from the running totals of its reads.

The totals are reset-aware sums of one target. A Pod that was read before counts from its total at the first look; a Pod
that is known to have started since counts from zero. Cells are also cut at each sample, so that what came after it can
be told apart. Nothing here is stored: after a restart the window begins anew, and says so by its start.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Final

import msgspec

from observer.measure.plan import OurLabels
from observer.measure.totals import Totals, added
from router_contract.canary_inputs import Cell, CountWindow
from router_contract.readings import Histogram

MINUTE: Final = 60.0
MAX_CELLS: Final = 20_000
"""Cells of one metric and one revision. Past it the oldest minute is left out and the window starts later."""

Number = float | Histogram


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One series of cells: what is measured (a metric's name) and on which side."""

    what: str
    canary: bool


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """What one Pod's reads of one target add up to; ``None``: the series was never there."""

    events: float | None = None
    total: float | None = None
    histogram: Histogram | None = None


def by_label(totals: Totals, signal: str, where: OurLabels = (), label: str = "") -> dict[str, Number]:
    """A signal's running totals, added up by the value of ``label`` (all under ``""`` without one).

    Only series with the labels of ``where``. Series that are gone stay in, so a total never falls.
    """
    found: dict[str, list[Number]] = {}
    there = ((totals.columns.series[place].labels, None) for place in totals.columns.of_signal.get(signal, ()))
    gone = ((labels, parked) for (name, labels), parked in totals.parked.items() if name == signal)
    for labels, parked in (*there, *gone):
        told = dict(labels)
        if any(told.get(name) != value for name, value in where) or (label and label not in told):
            continue
        if parked is None:
            number = totals.of_series(signal, labels)
        else:
            number = parked.histogram() if parked.bounds else float(parked.total[0])
        if number is not None:
            found.setdefault(told.get(label, ""), []).append(number)
    return {name: _sum(several) for name, several in found.items()}


def _sum(several: list[Number]) -> Number:
    histograms = [each for each in several if isinstance(each, Histogram)]
    return added(histograms) if histograms else math.fsum(each for each in several if isinstance(each, float))


class _Open:
    """A cell that is still counting."""

    def __init__(self) -> None:
        self.events = self.total = 0.0
        self.histograms: list[Histogram] = []

    def cell(self, pod: str, start: float) -> Cell:
        """The cell as it is now."""
        data = added(self.histograms) if self.histograms else None
        return Cell(pod=pod, start=start, events=self.events, total=self.total, histogram=data)


class Gathering:
    """The counts of one step, from ``opened`` (wall seconds) on. ``plan`` says which gate it is for."""

    def __init__(self, plan: str, opened: float) -> None:
        self.plan = plan
        self.opened = opened
        self._start = opened
        self._mark = opened
        self._last: dict[tuple[Part, Hashable, str], Counted] = {}
        self._open: dict[tuple[Part, str], _Open] = {}
        self._closed: dict[Part, list[Cell]] = {}
        self._since: dict[Part, float] = {}
        self._lossy: set[Part] = set()
        self._cold: set[tuple[Part, Hashable, str]] = set()
        self.warm: set[Hashable] = set()
        self.resets: dict[tuple[Part, Hashable], int] = {}
        self._ways: dict[Part, Hashable] = {}

    def measured(self, part: Part, way: Hashable, now: float) -> None:
        """How ``part`` is measured now. What was measured otherwise is not mixed with it: the window begins anew."""
        if self._ways.setdefault(part, way) == way:
            return
        self._ways[part] = way
        self._closed.pop(part, None)
        self._last = {key: last for key, last in self._last.items() if key[0] != part}
        self._open = {key: cell for key, cell in self._open.items() if key[0] != part}
        self._cut(now)
        self._since[part] = now

    def add(self, part: Part, target: Hashable, pod: str, now: Counted, *, counts: bool, from_zero: bool) -> None:
        """A look at one Pod through one target. What grew before it ``counts`` (is warm) is left out, the growth up to
        the look that found it warm included.

        ``from_zero``: everything in the totals of a first look was counted since the window was opened.
        """
        key = part, target, pod
        before = self._last.get(key)
        self._last[key] = now
        was_cold = key in self._cold
        (self._cold.discard if counts else self._cold.add)(key)
        if not counts or was_cold or (before is None and not from_zero):
            return
        change = _change(before or Counted(), now)
        if change is None:
            self._lossy.add(part)
            return
        if not change.events and not change.total and change.histogram is None:
            return
        cell = self._open.setdefault((part, pod), _Open())
        cell.events += change.events or 0.0
        cell.total += change.total or 0.0
        if change.histogram is not None:
            cell.histograms = [added([*cell.histograms, change.histogram])]

    def restarted(self, part: Part) -> None:
        """A restart inside the window lost at most one read's worth."""
        self._lossy.add(part)

    def tick(self, now: float) -> None:
        """Begin new cells when the minute is over."""
        if math.floor(now / MINUTE) != math.floor(self._start / MINUTE):
            self._cut(now)

    def sampled(self, at: float, *, conclusive: bool) -> None:
        """A sample was completed: what comes now is told apart from what it has seen."""
        self._cut(at)
        if conclusive:
            self._mark = at

    def whole(self, part: Part, end: float) -> CountWindow:
        """Everything since the step began."""
        return self._window(part, max(self.opened, self._since.get(part, self.opened)), end)

    def recent(self, part: Part, end: float) -> CountWindow:
        """What came after the last conclusive sample."""
        return self._window(part, max(self._mark, self._since.get(part, self._mark)), end)

    def _window(self, part: Part, start: float, end: float) -> CountWindow:
        cells = [cell for cell in self._closed.get(part, ()) if cell.start >= start]
        cells += [cell.cell(pod, self._start) for (of, pod), cell in self._open.items() if of == part]
        return CountWindow(start=start, end=max(start, end), cells=tuple(cells), lossy=part in self._lossy)

    def _cut(self, now: float) -> None:
        for (part, pod), cell in self._open.items():
            cells = self._closed.setdefault(part, [])
            cells.append(cell.cell(pod, self._start))
            if len(cells) > MAX_CELLS:
                first = math.floor(cells[0].start / MINUTE)
                cells[:] = [each for each in cells if math.floor(each.start / MINUTE) > first]
                self._since[part] = min((each.start for each in cells), default=now)
        self._open.clear()
        self._start = now


def _change(before: Counted, now: Counted) -> Counted | None:
    """What was counted between two looks; ``None`` where the two do not belong together."""
    events, total = (now.events or 0.0) - (before.events or 0.0), (now.total or 0.0) - (before.total or 0.0)
    if events < 0 or total < 0:
        return None
    if now.histogram is None:
        return Counted(events=events, total=total)
    old = before.histogram
    if old is None:
        return Counted(events=events, total=total, histogram=now.histogram if now.histogram.count else None)
    if old.bounds != now.histogram.bounds or now.histogram.count < old.count:
        return None
    if now.histogram.count == old.count:
        return Counted(events=events, total=total)
    counts = tuple(new - prior for new, prior in zip(now.histogram.counts, old.counts, strict=True))
    data = Histogram(bounds=old.bounds, counts=counts, sum=now.histogram.sum - old.sum)
    return Counted(events=events, total=total, histogram=data)

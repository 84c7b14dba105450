"""From the last read of one target to the values of its signals, at a moment after it.

Most targets have a whole window: the same links for each series. Then windows and totals are cut from vectors;
otherwise every series is asked for by itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from observer.measure.extract import Frame, histogram_of
from observer.measure.histograms import window_of
from observer.measure.layout import Floats
from observer.measure.levels import number_of
from observer.measure.merging import merged_value
from observer.measure.plan import OurLabels, PlanSeries
from observer.measure.window import Chain, Sums
from router_contract.readings import Histogram, Instant, MissingCode, Moment, SignalValue, Window
from router_contract.signals import SIGNALS, Kind

_MOVING: Final = (Kind.COUNTER, Kind.HISTOGRAM)
_Grown = tuple[Window | None, MissingCode | None, float | Histogram | None]
"""The window of a series, or why there is none, and its running total."""
_LEVEL: Final[_Grown] = (None, None, None)


class Maker:
    """Makes the values of one read, signal by signal: ``frame`` read at ``at``, which ``chain`` holds already.

    They have the state and the age of ``moment``, and windows whatever it says of them. ``span`` and ``longest`` are
    seconds, those of `Chain.window`.
    """

    def __init__(self, frame: Frame, chain: Chain, at: Instant, moment: Moment, *, span: float, longest: float) -> None:
        self._frame = frame
        self._chain = chain
        self._at = at
        self.moment = moment
        self._limits = span, longest
        self._cumulative: Floats | None = None
        self._vectors: tuple[Sums, Floats] | None = None
        self._asked = False

    def signal(self, signal: str, source: str) -> tuple[SignalValue, ...]:
        """What the read tells of a signal, or why it tells nothing; ``source`` is the wire name that is looked for."""
        frame, columns = self._frame, self._frame.columns
        gaps: list[tuple[OurLabels, MissingCode]] = []
        found: list[SignalValue] = []
        moving = SIGNALS[signal].kind in _MOVING
        for level, place in columns.numbers.get(signal, ()):
            each, torn = level.series, level.series.family in frame.torn
            number = math.nan if torn else number_of(level, frame.levels)
            if number is None:
                continue
            if math.isnan(number):
                gaps.append((each.labels, MissingCode.UNREADABLE if torn else MissingCode.NOT_FINITE))
            else:
                grown = self._counter(each, place) if moving else _LEVEL
                found.append(self._value(each, number, None, grown))
        for place in columns.histograms.get(signal, ()):
            each = columns.series[place]
            if place in frame.invalid:
                torn = each.family in frame.torn
                gaps.append((each.labels, MissingCode.UNREADABLE if torn else MissingCode.NOT_FINITE))
            else:
                histogram = histogram_of(columns, place, self._numbers()[columns.span(place)])
                found.append(self._value(each, histogram.count, histogram, self._spread(each, place)))
        if not found and not gaps:
            gaps.append(((), frame.missing(signal) or MissingCode.ABSENT))
        return (*(self._missing(signal, labels, source, code) for labels, code in gaps), *found)

    def _value(self, each: PlanSeries, number: float, histogram: Histogram | None, grown: _Grown) -> SignalValue:
        window, why, total = grown
        total_spread = total if isinstance(total, Histogram) else None
        return SignalValue(
            signal=each.signal,
            labels=each.labels,
            value=number,
            histogram=histogram,
            info=each.info,
            state=self.moment.state,
            age_seconds=self.moment.age_seconds,
            observed_at=self._at.wall,
            source=each.source,
            window=window,
            window_missing=why,
            running_total=total.count if isinstance(total, Histogram) else total,
            running_histogram=total_spread,
        )

    def _missing(self, signal: str, labels: OurLabels, source: str, code: MissingCode) -> SignalValue:
        """A signal that a readable body did not have: the age of that body is the age of the finding."""
        return SignalValue(
            signal=signal,
            labels=labels,
            source=source,
            missing=code,
            window_missing=code,
            age_seconds=self.moment.age_seconds,
            observed_at=self._at.wall,
        )

    def _counter(self, each: PlanSeries, place: int) -> _Grown:
        vectors = self._whole() if place >= 0 else None
        if vectors is None:
            return self._by_itself(each)
        sums, totals = vectors
        column = self._frame.columns.starts[place]
        total = totals.item(column)
        if sums.broken(place):
            return None, MissingCode.COUNTER_RESET, total
        increase = sums.deltas.item(column)
        return Window(increase=increase, seconds=sums.seconds, lossy=place in sums.resets), None, total

    def _spread(self, each: PlanSeries, place: int) -> _Grown:
        vectors = self._whole()
        if vectors is None:
            return self._by_itself(each)
        sums, totals = vectors
        columns = self._frame.columns
        span = columns.span(place)
        total = histogram_of(columns, place, totals[span])
        if sums.broken(place):
            return None, MissingCode.COUNTER_RESET, total
        delta = histogram_of(columns, place, sums.deltas[span])
        return window_of(delta, sums.seconds, lossy=place in sums.resets), None, total

    def _by_itself(self, each: PlanSeries) -> _Grown:
        span, longest = self._limits
        found = self._chain.window(each.signal, each.labels, self._at, span, longest)
        total = self._chain.total(each.signal, each.labels)
        return (found, None, total) if isinstance(found, Window) else (None, found, total)

    def _numbers(self) -> Floats:
        if self._cumulative is None:
            self._cumulative = self._frame.cumulative
        return self._cumulative

    def _whole(self) -> tuple[Sums, Floats] | None:
        """What every series moved by in the window, and the running totals; ``None`` where each has its own window."""
        if not self._asked:
            self._asked = True
            chain, columns, (span, longest) = self._chain, self._frame.columns, self._limits
            if chain.tail is None or chain.totals is None or chain.at is None or self._at.mono > chain.at.mono:
                return None
            if chain.tail.columns is columns and chain.totals.columns is columns:
                sums = chain.sums(span, longest)
                self._vectors = None if sums is None else (sums, chain.totals.packed.floats())
        return self._vectors

    def merged(self, signal: str, parts: list[SignalValue]) -> SignalValue | None:
        """Values of several label sets of a histogram signal as one; ``None`` where they share no bound."""
        totals = self._chain.totals
        return merged_value(parts, None if totals is None else totals.histogram(signal))


class Made:
    """What was made of one read so far: by signal the values, and the merged one where there are several histograms.

    Only their age and their state change after that, so that they are made once and aged when they are shown.
    """

    def __init__(self) -> None:
        self._values: dict[str, tuple[SignalValue, ...]] = {}
        self._merged: dict[str, SignalValue | None] = {}

    def shown(
        self, maker: Maker, asked: Mapping[str, str], *, merges: bool
    ) -> tuple[tuple[SignalValue, ...], tuple[SignalValue, ...]]:
        """The values of these signals (with the wire names they are looked for by) at the maker's moment, in this order;
        with ``merges`` also the merged ones.
        """
        found: list[SignalValue] = []
        merged: list[SignalValue] = []
        windows = maker.moment.windows
        for signal, source in asked.items():
            several = self._of(maker, signal, source)
            found += several if windows else map(_windowless, several)
            if merges and len(several) > 1 and several[-1].histogram is not None:
                parts = [value for value in several if value.histogram is not None]
                whole = self._whole(maker, signal, parts) if len(parts) > 1 else None
                if whole is not None:
                    merged.append(whole)
        return tuple(found), tuple(merged)

    def _of(self, maker: Maker, signal: str, source: str) -> tuple[SignalValue, ...]:
        known = self._values.get(signal)
        if known is None:
            known = self._values[signal] = maker.signal(signal, source)
        elif known[0].age_seconds != maker.moment.age_seconds:
            known = self._values[signal] = tuple([_aged(value, maker.moment) for value in known])
        return known

    def _whole(self, maker: Maker, signal: str, parts: list[SignalValue]) -> SignalValue | None:
        if not maker.moment.windows:
            return maker.merged(signal, list(map(_windowless, parts)))
        known = self._merged[signal] if signal in self._merged else maker.merged(signal, parts)
        if known is not None and known.age_seconds != maker.moment.age_seconds:
            known = _aged(known, maker.moment)
        self._merged[signal] = known
        return known


def _aged(value: SignalValue, moment: Moment) -> SignalValue:
    """A value at another moment of the same read."""
    if value.missing is not None:
        return replace(value, age_seconds=moment.age_seconds)
    return replace(value, state=moment.state, age_seconds=moment.age_seconds)


def _windowless(value: SignalValue) -> SignalValue:
    """A window outlives its time no more than a value outlives its end."""
    if value.missing is not None or value.running_total is None:
        return value
    return replace(value, window=None, window_missing=MissingCode.EXPIRED)

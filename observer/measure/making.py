"""From the last read of one target to the values of its signals, at a moment after it.

Most targets have a whole window: the same links for each series. Then windows and totals are cut from vectors;
otherwise every series is asked for by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from observer.measure.extract import Frame
from observer.measure.histograms import window_of
from observer.measure.layout import Floats
from observer.measure.levels import number_of
from observer.measure.merging import merged_value
from observer.measure.plan import OurLabels, PlanSeries
from observer.measure.window import Chain, Sums
from router_contract.readings import Histogram, Instant, MissingCode, Moment, SignalValue, Window
from router_contract.signals import SIGNALS, Kind

_MOVING: Final = (Kind.COUNTER, Kind.HISTOGRAM)
_Grown = tuple[Window | None, MissingCode | None, float | None]
"""The window of a counter, or why there is none, and its running total."""
_Spread = tuple[Window | None, MissingCode | None, Histogram | None]
"""The same of a histogram."""
_Block = tuple[float, ...]
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
        for level in frame.view.levels.of_signal.get(signal, ()):
            each, place = level.series, level.column
            torn = bool(frame.torn) and each.family in frame.torn
            number = math.nan if torn else number_of(level, frame.levels)
            if number is None:
                continue
            if number != number:  # noqa: PLR0124  # NaN
                gaps.append((each.labels, MissingCode.UNREADABLE if torn else MissingCode.NOT_FINITE))
            else:
                found.append(self._number(each, number, self._counter(each, place) if moving else _LEVEL))
        places = columns.histograms.get(signal)
        if places is not None:
            found += self._histograms(places, gaps)
        if not found and not gaps:
            gaps.append(((), frame.missing(signal) or MissingCode.ABSENT))
        return (*(self._missing(signal, labels, source, code) for labels, code in gaps), *found)

    def _number(self, each: PlanSeries, number: float, grown: _Grown) -> SignalValue:
        window, why, total = grown
        return SignalValue(
            signal=each.signal,
            labels=each.labels,
            value=number,
            info=each.info,
            state=self.moment.state,
            age_seconds=self.moment.age_seconds,
            observed_at=self._at.wall,
            source=each.source,
            window=window,
            window_missing=why,
            running_total=total,
        )

    def _histograms(self, places: tuple[int, ...], gaps: list[tuple[OurLabels, MissingCode]]) -> Iterator[SignalValue]:
        """The values of the histograms at some places; those that tell none are added to ``gaps``."""
        frame, columns, vectors = self._frame, self._frame.columns, self._whole()
        # the series of one signal stand in one family, one after the other
        first, stop = columns.starts[places[0]], columns.starts[places[-1] + 1]
        numbers = tuple(self._numbers()[first:stop].tolist())
        grown = None
        if vectors is not None:
            sums, totals = vectors
            grown = sums, tuple(sums.deltas[first:stop].tolist()), tuple(totals[first:stop].tolist())
        for place in places:
            each = columns.series[place]
            if place in frame.invalid:
                torn = each.family in frame.torn
                gaps.append((each.labels, MissingCode.UNREADABLE if torn else MissingCode.NOT_FINITE))
                continue
            at, bounds = columns.starts[place] - first, columns.bounds(place)
            ends = at + len(bounds), columns.starts[place + 1] - first
            histogram = _cut(bounds, numbers, at, ends)
            window, why, total = self._by_itself(each) if grown is None else _spread(place, bounds, grown, at, ends)
            yield SignalValue(
                signal=each.signal,
                labels=each.labels,
                value=histogram.counts[-1],
                histogram=histogram,
                info=each.info,
                state=self.moment.state,
                age_seconds=self.moment.age_seconds,
                observed_at=self._at.wall,
                source=each.source,
                window=window,
                window_missing=why,
                running_total=None if total is None else total.count,
                running_histogram=total,
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
            window, why = self._window(each)
            total = self._chain.total(each.signal, each.labels)
            return window, why, None if isinstance(total, Histogram) else total
        sums, totals = vectors
        column = self._frame.columns.starts[place]
        total = totals.item(column)
        if sums.broken(place):
            return None, MissingCode.COUNTER_RESET, total
        increase = sums.deltas.item(column)
        return Window(increase=increase, seconds=sums.seconds, lossy=place in sums.resets), None, total

    def _by_itself(self, each: PlanSeries) -> _Spread:
        total = self._chain.total(each.signal, each.labels)
        return (*self._window(each), total if isinstance(total, Histogram) else None)

    def _window(self, each: PlanSeries) -> tuple[Window | None, MissingCode | None]:
        span, longest = self._limits
        found = self._chain.window(each.signal, each.labels, self._at, span, longest)
        return (found, None) if isinstance(found, Window) else (None, found)

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
        if totals is None:
            return merged_value(parts, None)
        if self._whole() is not None and len(parts) == len(totals.columns.histograms[signal]):
            # the totals of the parts are those of all columns of the signal, which need not be cut out again
            return merged_value(parts, totals.added(signal, [part.running_histogram for part in parts]))
        return merged_value(parts, totals.histogram(signal))


def _cut(bounds: tuple[float, ...], block: _Block, at: int, ends: tuple[int, int]) -> Histogram:
    """The histogram that begins at a place of a block: its counts end at the first of ``ends``, it with the second."""
    last, stop = ends
    return Histogram(bounds=bounds, counts=block[at:last], sum=block[last] if stop > last else math.nan)


def _spread(
    place: int, bounds: tuple[float, ...], grown: tuple[Sums, _Block, _Block], at: int, ends: tuple[int, int]
) -> _Spread:
    """The window and the total of a histogram, where every series has the same links."""
    sums, deltas, totals = grown
    total = _cut(bounds, totals, at, ends)
    if sums.broken(place):
        return None, MissingCode.COUNTER_RESET, total
    window = window_of(_cut(bounds, deltas, at, ends), sums.seconds, lossy=place in sums.resets)
    return window, None, total


class Made(msgspec.Struct, eq=False, gc=False):
    """What was made of one read so far: the values by signal, or ``every`` one once all were asked for, and the merged
    ones where there are several histograms.

    Only their age and their state change after that, so that they are made once and aged when they are shown.
    """

    values: dict[str, tuple[SignalValue, ...]] = msgspec.field(default_factory=dict)
    merged: dict[str, SignalValue | None] = msgspec.field(default_factory=dict)
    every: tuple[SignalValue, ...] | None = None

    def shown(
        self, maker: Maker, told: Mapping[str, str], signals: frozenset[str] | None, *, merges: bool
    ) -> tuple[tuple[SignalValue, ...], tuple[SignalValue, ...]]:
        """The values of some signals (``None``: all) at the maker's moment, in the order of ``told``, which has the wire
        name that each is looked for by; with ``merges`` also the merged ones.
        """
        if signals is None:
            found = self.every = self._every(maker, told)
        elif self.every is not None:
            found = _aged(tuple([value for value in self.every if value.signal in signals]), maker.moment)
        else:
            several = [self._of(maker, name, told[name]) for name in told if name in signals]
            found = tuple([value for each in several for value in each])
        if not maker.moment.windows:
            found = tuple(map(_windowless, found))
        return found, tuple(self._wholes(maker, found)) if merges else ()

    def _every(self, maker: Maker, told: Mapping[str, str]) -> tuple[SignalValue, ...]:
        if self.every is not None:
            return _aged(self.every, maker.moment)
        found = [value for name, source in told.items() for value in self._of(maker, name, source)]
        self.values = {}
        return tuple(found)

    def _of(self, maker: Maker, signal: str, source: str) -> tuple[SignalValue, ...]:
        known = self.values.get(signal)
        found = self.values[signal] = maker.signal(signal, source) if known is None else _aged(known, maker.moment)
        return found

    def _wholes(self, maker: Maker, found: tuple[SignalValue, ...]) -> Iterator[SignalValue]:
        """The merged values of signals with several histograms."""
        parts: dict[str, list[SignalValue]] = {}
        for value in found:
            if value.histogram is not None:
                parts.setdefault(value.signal, []).append(value)
        for signal, several in parts.items():
            whole = self._whole(maker, signal, several) if len(several) > 1 else None
            if whole is not None:
                yield whole

    def _whole(self, maker: Maker, signal: str, parts: list[SignalValue]) -> SignalValue | None:
        if not maker.moment.windows:
            return maker.merged(signal, parts)
        known = self.merged[signal] if signal in self.merged else maker.merged(signal, parts)
        if known is not None and known.age_seconds != maker.moment.age_seconds:
            known = replace(known, state=maker.moment.state, age_seconds=maker.moment.age_seconds)
        self.merged[signal] = known
        return known


def _aged(values: tuple[SignalValue, ...], moment: Moment) -> tuple[SignalValue, ...]:
    """Values of one read at another moment of it."""
    state, age = moment.state, moment.age_seconds
    if not values or values[0].age_seconds == age:
        return values
    return tuple(
        [
            replace(value, state=state, age_seconds=age) if value.missing is None else replace(value, age_seconds=age)
            for value in values
        ]
    )


def _windowless(value: SignalValue) -> SignalValue:
    """A window outlives its time no more than a value outlives its end."""
    if value.missing is not None or value.running_total is None:
        return value
    return replace(value, window=None, window_missing=MissingCode.EXPIRED)

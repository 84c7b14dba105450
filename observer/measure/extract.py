"""From one body to the signals it tells: `Extractor` reads it, a `Frame` holds what was read.

A frame is cheap: it shares its plan with every body of the same shape and builds series only when they are asked for.
What is not there is said with a code: absent, unreadable, not finite, not yet counted. It is never 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from observer.measure.budget import LayoutBudget
from observer.measure.columns import Columns
from observer.measure.exposition import Limits, NotRead, Reader, Reading, Shape
from observer.measure.layout import Floats
from observer.measure.levels import number_of
from observer.measure.lines import ProblemKind
from observer.measure.packed import Packed, pack
from observer.measure.plan import OurLabels, Plan, PlanSeries, fold
from observer.measure.planner import wanted_families
from observer.measure.views import View, Views
from router_contract.readings import FailureKind, Histogram, MissingCode, Problem, Series
from router_contract.signals import SIGNALS, Combine, Kind, Signal
from router_contract.vocabulary import Vocabulary

PROCESS_START = "process-start-time"


class Unreadable(msgspec.Struct, frozen=True, kw_only=True):
    """A body that told nothing, and why."""

    kind: FailureKind
    detail: str


class Frame(msgspec.Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """What one body told.

    ``levels`` are the numbers that stand by themselves (places as in ``view.levels``), ``packed`` the columns that only
    grow. ``torn`` families had histograms that cannot be true, ``invalid`` are the series (by their place in ``columns``)
    that have no usable number. ``problems`` are everything odd in this body; ``folded_lines`` of it were equal duplicates.
    """

    view: View
    shape: Shape
    levels: Floats
    packed: Packed
    torn: frozenset[str] = frozenset()
    invalid: frozenset[int] = frozenset()
    problems: tuple[Problem, ...] = ()

    @property
    def plan(self) -> Plan:
        """Which rows make which series."""
        return self.view.plan

    @property
    def columns(self) -> Columns:
        """Where the numbers that only grow stand."""
        return self.view.columns

    @property
    def cumulative(self) -> Floats:
        """The columns that only grow, float64, shape (columns.width,); unpacked at each call."""
        return self.packed.floats()

    @property
    def absent(self) -> frozenset[str]:
        """Signals that the program could tell in this version and does not."""
        return self.plan.absent

    @property
    def unknown_families(self) -> tuple[str, ...]:
        """Declared families that have the program's prefix and stand in no table."""
        return self.plan.unknown_families

    @property
    def version(self) -> str | None:
        """The program's version: as given, or as the body tells it."""
        return self.plan.version

    @property
    def samples_kept(self) -> int:
        """Sample lines that were read."""
        return self.shape.kept

    @property
    def samples_dropped(self) -> int:
        """Sample lines that were not: nobody wants them, they repeat others, or their family is unreadable."""
        return self.shape.dropped

    @property
    def truncated(self) -> bool:
        """Whether the body ended too early: then nothing is called absent."""
        return self.shape.truncated

    @property
    def process_start(self) -> float | None:
        """When the process started, wall seconds, where the body tells it."""
        return max((value for _, value in self.numbers(PROCESS_START)), default=None)

    @property
    def nbytes(self) -> int:
        """Bytes of numbers that this frame keeps alive."""
        return self.levels.nbytes + self.packed.nbytes

    def signals(self) -> tuple[str, ...]:
        """Every signal that has at least one series here, in table order."""
        return tuple(signal for signal in self.plan.series if self.numbers(signal))

    def numbers(self, signal: str) -> tuple[tuple[OurLabels, float], ...]:
        """The labels and the number of each readable series of a signal, as `series` has them, without making any."""
        if signal in self.columns.histograms:
            return tuple((each.labels, each.value) for each in self.series(signal))
        found: list[tuple[OurLabels, float]] = []
        for level in self.view.levels.of_signal.get(signal, ()):
            each = level.series
            if self.torn and each.family in self.torn:
                continue
            number = number_of(level, self.levels)
            if number is not None and not math.isnan(number):
                found.append((each.labels, number))
        return tuple(found)

    def series(self, signal: str) -> tuple[Series, ...]:
        """The readable series of a signal; empty when there is none (`missing` says why)."""
        made: list[Series] = []
        for level in self.view.levels.of_signal.get(signal, ()):
            number = None if level.series.family in self.torn else number_of(level, self.levels)
            if number is not None and not math.isnan(number):
                made.append(_series(level.series, number))
        places = self.columns.histograms.get(signal)
        if places is not None:
            made += self._histograms(places)
        return tuple(made)

    def _histograms(self, places: tuple[int, ...]) -> Iterator[Series]:
        columns, cumulative = self.columns, self.cumulative
        for place in places:
            each = columns.series[place]
            if each.family not in self.torn and place not in self.invalid:
                histogram = histogram_of(columns, place, cumulative[columns.span(place)])
                yield _series(each, histogram.count, histogram)

    def gaps(self, signal: str) -> tuple[tuple[OurLabels, MissingCode], ...]:
        """The series of a signal that are there and tell no number, by their labels, and why.

        A sum over ranks with one of these in it is not known. A series whose only values are sentinels is none: what
        it was about is gone.
        """
        found: list[tuple[OurLabels, MissingCode]] = []
        for level in self.view.levels.of_signal.get(signal, ()):
            if level.series.family in self.torn:
                found.append((level.series.labels, MissingCode.UNREADABLE))
                continue
            number = number_of(level, self.levels)
            if number is not None and math.isnan(number):
                found.append((level.series.labels, MissingCode.NOT_FINITE))
        for place in self.columns.histograms.get(signal, ()) if self.invalid else ():
            each = self.columns.series[place]
            if each.family in self.torn:
                found.append((each.labels, MissingCode.UNREADABLE))
            elif place in self.invalid:
                found.append((each.labels, MissingCode.NOT_FINITE))
        return tuple(found)

    def missing(self, signal: str) -> MissingCode | None:
        """Why a signal has no series; ``None`` when it has one. A signal of no term of the version is absent too."""
        if signal in self.plan.series:
            if self.numbers(signal):
                return None
            codes = {code for _, code in self.gaps(signal)}
            if signal in self.plan.unreadable or MissingCode.UNREADABLE in codes:
                return MissingCode.UNREADABLE
            return MissingCode.NOT_FINITE if codes else MissingCode.ABSENT
        if signal in self.plan.unreadable:
            return MissingCode.UNREADABLE
        term = self.plan.terms.get(signal)
        if term is not None and term.paired is not None and self.numbers(term.paired):
            kind = SIGNALS[signal].kind
            return MissingCode.HISTOGRAM_NOT_YET if kind is Kind.HISTOGRAM else MissingCode.COUNTER_NOT_YET
        return MissingCode.ABSENT


def _series(each: PlanSeries, value: float, histogram: Histogram | None = None) -> Series:
    return Series(
        labels=each.labels,
        value=value,
        histogram=histogram,
        info=each.info,
        source=each.source,
        folded=each.folded,
    )


def histogram_of(columns: Columns, place: int, part: Floats) -> Histogram:
    """The histogram that a series' columns hold; its sum is NaN where the program exports none."""
    bounds = columns.bounds(place)
    counts: list[float] = part.tolist()
    total = counts.pop() if len(counts) > len(bounds) else math.nan
    return Histogram(bounds=bounds, counts=tuple(counts), sum=total)


class Extractor:
    """Reads the bodies of one program: one table, one version (or unknown), one model (or any).

    One extractor serves every target of that kind, so that they share layouts and plans. ``cache`` shares the reader
    below it between extractors that differ in model only, ``budget`` bounds its layouts. One task owns it: it is not safe
    for threads.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        version: str | None = None,
        model: str | None = None,
        limits: Limits | None = None,
        cache: dict[object, Reader] | None = None,
        budget: LayoutBudget | None = None,
    ) -> None:
        self.vocabulary = vocabulary
        wanted = wanted_families(vocabulary, version)
        key = (wanted, limits)
        cache = {} if cache is None else cache
        self.reader = cache.setdefault(key, Reader(wanted, limits=limits, budget=budget))
        self._views = Views(vocabulary, version, model)

    def read(self, body: bytes, *, previous: Frame | None = None, openmetrics: bool = False) -> Frame | Unreadable:
        """What a body tells. ``previous`` is the target's last frame, whose layout is tried first.

        ``openmetrics`` says that the response's content type was OpenMetrics, whose bodies must end in ``# EOF``.
        """
        hint = previous.shape if previous is not None else None
        reading = self.reader.read(body, hint=hint, openmetrics=openmetrics)
        if isinstance(reading, NotRead):
            return Unreadable(kind=reading.kind, detail=reading.detail)
        view = self._views.of(reading.shape, hint, None if previous is None else previous.view)
        columns = view.columns
        cumulative = columns.read(reading.values)
        if columns.sound(reading.values, cumulative):
            told = (*reading.shape.problems, *view.plan.problems)
            return Frame(
                view=view,
                shape=reading.shape,
                levels=view.levels.of(reading.values),
                packed=pack(cumulative, sound=True),
                problems=told,
            )
        return _with_faults(reading, view, cumulative)


def _with_faults(reading: Reading, view: View, cumulative: Floats) -> Frame:
    """A frame of a body in whose numbers something is odd."""
    columns = view.columns
    torn = columns.torn(reading.values)
    invalid = columns.unusable(reading.values, cumulative)
    if torn:
        invalid |= {place for place, each in enumerate(columns.series) if each.family in torn}
    levels = view.levels.of(reading.values)
    torn_ones = [Problem(family=name, kind=ProblemKind.TORN, detail=detail) for name, detail in torn.items()]
    found = (*columns.unequal(reading.values), *view.levels.outside(levels), *torn_ones)
    return Frame(
        view=view,
        shape=reading.shape,
        levels=levels,
        packed=pack(cumulative),
        torn=frozenset(torn),
        invalid=invalid,
        problems=(*reading.shape.problems, *view.plan.problems, *_placed(found, reading.shape)),
    )


def _placed(found: Sequence[Problem], shape: Shape) -> Iterator[Problem]:
    """Problems of numbers at the first sample line of their families."""
    for each in found:
        yield msgspec.structs.replace(each, line=shape.families[each.family].line)


def combine(series: Sequence[Series], signal: Signal, weights: Mapping[OurLabels, float] | None = None) -> float | None:
    """Several ranks' (or members') numbers as one, by the signal's rule.

    ``weights`` gives `Combine.WEIGH` the weight of each series by its labels; without it, or where one is missing or
    not above 0, all weigh the same. ``None`` for no series, and for several of a signal that is never combined.
    Histograms are merged by `histograms.merge`; here their counts combine.
    """
    values = [each.value for each in series]
    if not values or (signal.combine is Combine.EACH and len(values) > 1):
        return None
    if signal.combine is Combine.WEIGH and weights is not None:
        known = [weights.get(each.labels, 0.0) for each in series]
        if all(weight > 0 and math.isfinite(weight) for weight in known):
            return math.fsum(value * weight for value, weight in zip(values, known, strict=True)) / math.fsum(known)
    return fold(values, signal.combine)

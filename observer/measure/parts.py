"""From one family of a body and one term to the series they make, remembered.

Bodies change one family at a time: what the others make was worked out before. So a part depends on nothing but the
family's own lines and the term, and its rows are counted from the family's first.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from observer.measure.lines import ProblemKind, shown
from observer.measure.numbers import WANTED, number_in, usable
from observer.measure.plan import Check, OurLabels, PlanSeries, Sets, fold
from observer.measure.shape import Family, SampleKey
from observer.measure.spread import Assembly, Torn, copies_of, identity
from router_contract.signals import SIGNALS, Combine, Kind
from router_contract.vocabulary import Absence, Labels, Term

_SCALAR_SUFFIXES = ("", "_total", "_info")
_HISTOGRAMS = frozenset({"histogram", "summary", "gaugehistogram"})
_SCALARS = frozenset({"counter", "gauge", "info", "stateset", "untyped", "unknown"})
_NO_VALUE = frozenset({"", "none", "null"})
"""What programs write into a label for a number that they do not have."""
_KEPT = 4096


class Facts(msgspec.Struct, frozen=True, eq=False):
    """What a family's lines tell without any table: its series, the models they name, whether it is a histogram."""

    name: str
    type: str
    keys: tuple[SampleKey, ...]
    models: frozenset[str]
    histogram: bool


def is_histogram(declared: str) -> bool | None:
    """Whether a declared type (lower case) has buckets or a count and a sum; ``None`` where it is in no format."""
    return True if declared in _HISTOGRAMS else (False if declared in _SCALARS else None)


class Part(msgspec.Struct, frozen=True, eq=False):
    """The series of a term in a family, and what goes with them. ``series`` is ``None`` where the family is torn."""

    series: tuple[PlanSeries, ...] | None
    checks: tuple[Check, ...]
    copies: tuple[tuple[int, ...], ...]
    problems: tuple[tuple[ProblemKind, str], ...]


class Parts:
    """Makes parts for programs whose labels mean ``labels``, and remembers them. Bounded."""

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self._pairs: dict[tuple[str, str], tuple[str, str]] = {}
        self._facts: dict[tuple[str, str, tuple[bytes, ...]], Facts] = {}
        self._parts: dict[tuple[Facts, Term, str | None], Part] = {}

    def facts(self, family: Family) -> Facts:
        """The facts of a family; the same object for the same lines."""
        key = (family.name, family.type, family.prefixes)
        found = self._facts.get(key)
        if found is None:
            if len(self._facts) >= _KEPT:
                self._facts.clear()
                self._parts.clear()
            written = family.keys()
            keys = tuple(SampleKey(each.name, self._shared(each.labels)) for each in written)
            models = frozenset(
                text for each in keys for label, text in each.labels if label in self.labels.model and text
            )
            histogram = family.type in _HISTOGRAMS or (
                family.type not in {"counter", "gauge", "info", "stateset"}
                and any(each.name == family.name + "_bucket" for each in keys)
            )
            self._facts[key] = found = Facts(family.name, family.type, keys, models, histogram)
        return found

    def _shared(self, labels: OurLabels) -> OurLabels:
        """The labels made of the pairs that others have too: of the many in an info line few differ between targets."""
        if len(self._pairs) >= _KEPT:
            self._pairs.clear()
        return tuple(self._pairs.setdefault(pair, pair) for pair in labels)

    def part(self, facts: Facts, term: Term, model: str | None) -> Part:
        """What a term makes of a family, of one model's series where ``model`` is given."""
        key = (facts, term, model)
        found = self._parts.get(key)
        if found is None:
            work = _Work(self.labels, model)
            series = work.series(term, facts)
            self._parts[key] = found = Part(series, tuple(work.checks), tuple(work.copies), tuple(work.problems))
        return found


class _Work:
    """One part in the making."""

    def __init__(self, labels: Labels, model: str | None) -> None:
        self.labels, self.model = labels, model
        self.checks: list[Check] = []
        self.copies: list[tuple[int, ...]] = []
        self.problems: list[tuple[ProblemKind, str]] = []

    def series(self, term: Term, family: Facts) -> tuple[PlanSeries, ...] | None:
        """The series of a term in a family; empty where it is not present there, ``None`` where it is torn."""
        kind = term.kind or SIGNALS[term.signal].kind
        if (kind is Kind.HISTOGRAM) is not family.histogram:
            return ()
        if family.type in {"counter", "gauge"} and kind in {Kind.COUNTER, Kind.GAUGE} and family.type != kind.value:
            detail = f"type is {family.type}, the table says {kind.value}"
            self.problems.append((ProblemKind.TYPE_UNEXPECTED, detail))
        rows = [(row, key) for row, key in enumerate(family.keys) if self._takes(term, dict(key.labels))]
        if kind is Kind.HISTOGRAM:
            return self._histograms(term, family, rows)
        names = [family.name + suffix for suffix in _SCALAR_SUFFIXES]
        name = term.name if any(key.name == term.name for _, key in rows) else None
        rows = [(row, key) for row, key in rows if key.name == name or (name is None and key.name in names)]
        if kind is Kind.INFO:
            return tuple(self._info(term, family, row, key) for row, key in rows)
        if term.value_label is not None:
            return tuple(self._fixed(term, family, rows))
        return tuple(
            PlanSeries(
                signal=term.signal,
                labels=labels,
                kind=kind,
                combine=self._rule(term, kind),
                family=family.name,
                source=term.name,
                scale=term.scale,
                sets=self._sets(members),
                sentinels=term.sentinels,
                folded=len(members),
                from_zero=_from_zero(term),
            )
            for labels, members in self._groups(term, rows).items()
        )

    def _rule(self, term: Term, kind: Kind) -> Combine:
        """A signal's rule; a level of what is a histogram elsewhere cannot be added up, so it is averaged."""
        signal = SIGNALS[term.signal]
        return Combine.WEIGH if signal.kind is Kind.HISTOGRAM and kind is Kind.GAUGE else signal.combine

    def _takes(self, term: Term, labels: dict[str, str]) -> bool:
        if self.model is not None:
            found = next((labels[name] for name in self.labels.model if labels.get(name)), self.model)
            if found != self.model:
                return False
        return all(matcher.accepts(labels.get(matcher.label, "")) for matcher in term.match)

    def _ours(self, term: Term, labels: dict[str, str]) -> OurLabels:
        """Our labels of a sample: model, rank and what the term keeps. An empty label is no label."""
        rank = "/".join(labels[name] for name in self.labels.rank if labels.get(name))
        model = next((labels[name] for name in self.labels.model if labels.get(name)), "")
        kept = {"model": model, "rank": rank, **{ours: labels.get(wire, "") for ours, wire in term.keep}}
        return tuple(sorted((name, text) for name, text in kept.items() if text))

    def _groups(
        self, term: Term, rows: Iterable[tuple[int, SampleKey]]
    ) -> dict[OurLabels, list[tuple[int, SampleKey]]]:
        groups: dict[OurLabels, list[tuple[int, SampleKey]]] = defaultdict(list)
        for row, key in rows:
            groups[self._ours(term, dict(key.labels))].append((row, key))
        return groups

    def _info(self, term: Term, family: Facts, row: int, key: SampleKey) -> PlanSeries:
        labels = tuple(sorted(item for item in key.labels if item[1]))
        labels = key.labels if labels == key.labels else labels
        return PlanSeries(
            signal=term.signal,
            labels=self._ours(term, dict(key.labels)),
            kind=Kind.INFO,
            combine=Combine.EACH,
            family=family.name,
            source=term.name,
            sets=((row,),),
            info=labels,
            folded=1,
        )

    def _fixed(self, term: Term, family: Facts, rows: list[tuple[int, SampleKey]]) -> Iterator[PlanSeries]:
        """Series whose numbers stand in a label. A label that is empty or says "none" gives none; any other text that is no
        number of the signal makes a series without one.
        """
        rule = self._rule(term, Kind.GAUGE)
        for labels, members in self._groups(term, rows).items():
            numbers: dict[OurLabels, float] = {}
            for _, key in members:
                text = dict(key.labels).get(term.value_label or "", "")
                if text.strip().lower() in _NO_VALUE:
                    continue
                value = number_in(text)
                told = identity(key, self.labels)
                if value is None or not usable(value * term.scale):
                    self.problems.append(
                        (ProblemKind.OUT_OF_RANGE, f"label {term.value_label} is {shown(text.encode())}, {WANTED}")
                    )
                    value = math.nan
                before = numbers.get(told, 0.0)
                numbers[told] = math.nan if math.isnan(value + before) else max(value * term.scale, before)
            if numbers:
                several = list(numbers.values())
                yield PlanSeries(
                    signal=term.signal,
                    labels=labels,
                    kind=Kind.GAUGE,
                    combine=rule,
                    family=family.name,
                    source=term.name,
                    fixed=math.nan if any(map(math.isnan, several)) else fold(several, rule) + 0.0,  # no -0
                    folded=len(members),
                )

    def _histograms(
        self, term: Term, family: Facts, rows: list[tuple[int, SampleKey]]
    ) -> tuple[PlanSeries, ...] | None:
        found: list[PlanSeries] = []
        for labels, members in self._groups(term, rows).items():
            assembly = Assembly(family.name, term.scale, self.labels)
            try:
                assembly.add(members)
                spread, folded = assembly.spread()
            except Torn as error:
                self.problems.append((ProblemKind.TORN, str(error)))
                return None
            self.checks += assembly.checks
            self.copies += assembly.copies
            found.append(
                PlanSeries(
                    signal=term.signal,
                    labels=labels,
                    kind=Kind.HISTOGRAM,
                    combine=Combine.ADD,
                    family=family.name,
                    source=term.name,
                    scale=term.scale,
                    spread=spread,
                    folded=folded,
                    from_zero=_from_zero(term),
                )
            )
        return tuple(found)

    def _sets(self, members: list[tuple[int, SampleKey]]) -> Sets:
        sets, equal = copies_of(members, self.labels)
        self.copies += equal
        return sets


def _from_zero(term: Term) -> str | None:
    return term.paired if term.absence is Absence.NOT_YET else None

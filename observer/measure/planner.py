"""From the shape of a body and a program's table to a `Plan`.

Labels combine here: copies of one number fold to the largest, ranks and models stay apart, all other labels that a term
does not keep are folded by the signal's rule.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator

from observer.measure.lines import ProblemKind
from observer.measure.plan import Check, OurLabels, Plan, PlanSeries, Sets, fold
from observer.measure.shape import Family, SampleKey, Shape
from observer.measure.spread import Assembly, Torn, copies_of, identity, number_in
from router_contract.readings import Problem
from router_contract.signals import SIGNALS, Combine, Kind
from router_contract.vocabulary import Absence, Labels, Term, Vocabulary

_SCALAR_SUFFIXES = ("", "_total", "_info")
_HISTOGRAMS = frozenset({"histogram", "summary", "gaugehistogram"})


def spellings(name: str) -> tuple[str, ...]:
    """The family names under which a term's samples may stand: as written, then with or without ``_total``."""
    return (name, name.removesuffix("_total") if name.endswith("_total") else name + "_total")


def wanted_families(vocabulary: Vocabulary, version: str | None) -> frozenset[str]:
    """Every family name that a reader of this table needs."""
    names = {name for term in vocabulary.select(version) for name in spellings(term.name)}
    return frozenset(names | {name for source, _ in vocabulary.version_terms for name in spellings(source)})


class Planner:
    """Makes the plans of one table, version and model."""

    def __init__(self, vocabulary: Vocabulary, version: str | None, model: str | None) -> None:
        self.vocabulary = vocabulary
        self.version = version
        self.model = model

    def plan(self, shape: Shape) -> Plan:
        """The plan of a shape."""
        keys = {name: family.keys() for name, family in shape.families.items()}
        version = self.version or self._version_in(keys)
        terms: dict[str, list[Term]] = defaultdict(list)
        for term in self.vocabulary.select(version):
            terms[term.signal].append(term)
        work = _Work(shape, keys, self.vocabulary.labels, self._model_filter(keys))
        for signal, candidates in terms.items():
            work.signal(signal, sorted(candidates, key=lambda term: term.preference))
        vocabulary = self.vocabulary
        unknown = (name for name in shape.types if vocabulary.claims(name) and not vocabulary.knows(name))
        return Plan(
            planner=self,
            series=work.series,
            checks=tuple(work.checks.values()),
            copies=tuple(work.copies),
            absent=frozenset(work.absent),
            unreadable=frozenset(work.unreadable),
            terms={signal: min(each, key=lambda term: term.preference) for signal, each in terms.items()},
            problems=(*work.problems.values(), *self._model_problem(keys)),
            unknown_families=tuple(sorted(unknown)),
            version=version,
        )

    def _version_in(self, keys: dict[str, tuple[SampleKey, ...]]) -> str | None:
        for source, label in self.vocabulary.version_terms:
            for name in spellings(source):
                for key in keys.get(name, ()):
                    version = dict(key.labels).get(label)
                    if version:
                        return version
        return None

    def _models(self, keys: dict[str, tuple[SampleKey, ...]]) -> set[str]:
        names = self.vocabulary.labels.model
        return {text for each in keys.values() for key in each for label, text in key.labels if label in names and text}

    def _model_filter(self, keys: dict[str, tuple[SampleKey, ...]]) -> str | None:
        """The model to keep. One sole other model is the same under another name: there is nothing to keep apart."""
        found = self._models(keys)
        return self.model if self.model in found or len(found) > 1 else None

    def _model_problem(self, keys: dict[str, tuple[SampleKey, ...]]) -> Iterator[Problem]:
        found = self._models(keys)
        if self.model is not None and found and self.model not in found:
            shown = ", ".join(sorted(found)[:8])
            detail = f"the deployment names model {self.model!r}, the program has {shown}"
            yield Problem(family="", kind=ProblemKind.MODEL_NOT_FOUND, detail=detail)


class _Work:
    """One plan in the making."""

    def __init__(self, shape: Shape, keys: dict[str, tuple[SampleKey, ...]], labels: Labels, model: str | None) -> None:
        self.shape, self.keys, self.labels, self.model = shape, keys, labels, model
        self.series: dict[str, tuple[PlanSeries, ...]] = {}
        self.checks: dict[tuple[int, ...], Check] = {}
        self.copies: list[tuple[str, tuple[int, ...]]] = []
        self.absent: set[str] = set()
        self.unreadable: set[str] = set()
        self.problems: dict[tuple[str, str], Problem] = {}

    def signal(self, signal: str, candidates: list[Term]) -> None:
        """The first candidate that is present makes the signal's series; the others are never added to it."""
        broken = False
        for term in candidates:
            for name in spellings(term.name):
                family = self.shape.families.get(name)
                broken = broken or name in self.shape.unreadable
                if family is None:
                    continue
                found = self._series(term, family)
                if found is None:
                    broken = True
                elif found:
                    self.series[signal] = found
                    return
        if broken or self.shape.truncated:
            self.unreadable.add(signal)
        else:
            self.absent.add(signal)

    def _series(self, term: Term, family: Family) -> tuple[PlanSeries, ...] | None:
        """The series of a term in a family; empty where it is not present there, ``None`` where it is torn."""
        kind = term.kind or SIGNALS[term.signal].kind
        if (kind is Kind.HISTOGRAM) is not self._is_histogram(family):
            return ()
        if family.type in {"counter", "gauge"} and kind in {Kind.COUNTER, Kind.GAUGE} and family.type != kind.value:
            self._problem(family, ProblemKind.TYPE_UNEXPECTED, f"type is {family.type}, the table says {kind.value}")
        rows = [
            (row, key)
            for row, key in enumerate(self.keys[family.name], family.start)
            if self._takes(term, dict(key.labels))
        ]
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
                sets=self._sets(family, members),
                sentinels=term.sentinels,
                folded=len(members),
                from_zero=_from_zero(term),
            )
            for labels, members in self._groups(term, rows).items()
        )

    def _is_histogram(self, family: Family) -> bool:
        return family.type in _HISTOGRAMS or (
            family.type not in {"counter", "gauge", "info", "stateset"}
            and any(key.name == family.name + "_bucket" for key in self.keys[family.name])
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

    def _info(self, term: Term, family: Family, row: int, key: SampleKey) -> PlanSeries:
        labels = tuple(sorted(item for item in key.labels if item[1]))
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

    def _fixed(self, term: Term, family: Family, rows: list[tuple[int, SampleKey]]) -> Iterator[PlanSeries]:
        """Series whose numbers stand in a label; a label that is no number gives none."""
        rule = self._rule(term, Kind.GAUGE)
        for labels, members in self._groups(term, rows).items():
            numbers: dict[OurLabels, float] = {}
            for _, key in members:
                value = number_in(dict(key.labels).get(term.value_label or "", ""))
                if value is not None:
                    told = identity(key, self.labels)
                    numbers[told] = max(value * term.scale, numbers.get(told, -math.inf))
            if numbers:
                yield PlanSeries(
                    signal=term.signal,
                    labels=labels,
                    kind=Kind.GAUGE,
                    combine=rule,
                    family=family.name,
                    source=term.name,
                    fixed=fold(list(numbers.values()), rule),
                    folded=len(members),
                )

    def _sets(self, family: Family, members: list[tuple[int, SampleKey]]) -> Sets:
        sets, equal = copies_of(members, self.labels)
        self.copies += [(family.name, rows) for rows in equal]
        return sets

    def _histograms(
        self, term: Term, family: Family, rows: list[tuple[int, SampleKey]]
    ) -> tuple[PlanSeries, ...] | None:
        found: list[PlanSeries] = []
        for labels, members in self._groups(term, rows).items():
            assembly = Assembly(family, term.scale, self.labels)
            try:
                assembly.add(members)
                spread, folded = assembly.spread()
            except Torn as error:
                self._problem(family, ProblemKind.TORN, str(error))
                return None
            self.checks.update({(*check.buckets, check.count): check for check in assembly.checks})
            self.copies += [(family.name, copies) for copies in assembly.copies]
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

    def _problem(self, family: Family, kind: ProblemKind, detail: str) -> None:
        problem = Problem(family=family.name, kind=kind, detail=detail, line=family.line)
        self.problems.setdefault((family.name, detail), problem)


def _from_zero(term: Term) -> str | None:
    return term.paired if term.absence is Absence.NOT_YET else None

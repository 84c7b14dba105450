"""From the shape of a body and a program's table to a `Plan`.

Of the terms of a signal that can hold for the version, the first that is present makes its series; others are never
added to it. What a term makes of a family is in `parts`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from observer.measure.lines import ProblemKind
from observer.measure.parts import Facts, Part, Parts, is_histogram
from observer.measure.plan import Check, Plan, PlanSeries
from observer.measure.shape import Shape
from router_contract.readings import Problem
from router_contract.signals import SIGNALS, Kind
from router_contract.vocabulary import Term, Vocabulary


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
        self._parts = Parts(vocabulary.labels)
        self._last: tuple[dict[str, str], tuple[str, ...], tuple[str, ...]] = {}, (), ()
        self._terms: dict[str | None, dict[str, tuple[Term, ...]]] = {}

    def plan(self, shape: Shape, like: Plan | None = None) -> Plan:
        """The plan of a shape; what is equal in the plan that it is ``like`` is shared with that one."""
        facts = {name: self._parts.facts(family) for name, family in shape.families.items()}
        models = frozenset[str]().union(*(each.models for each in facts.values()))
        # One sole other model is the same under another name: there is nothing to keep apart.
        model = self.model if self.model in models or len(models) > 1 else None
        version = self.version or self._version_in(facts)
        terms = self._candidates(version)
        work = _Work(shape, facts, self._parts, model)
        for signal, candidates in terms.items():
            work.signal(signal, candidates)
        work.mistyped()
        families, unknown = self._declared(shape.types)
        made = Plan(
            planner=self,
            series=work.series,
            starts={name: family.start for name, family in shape.families.items()},
            checks=tuple(work.checks),
            copies=tuple(work.copies),
            absent=frozenset(work.absent),
            unreadable=frozenset(work.unreadable),
            terms={signal: candidates[0] for signal, candidates in terms.items()},
            problems=(*work.problems.values(), *self._model_problem(models)),
            families=families,
            unknown_families=unknown,
            version=version,
        )
        return made if like is None else _sharing(made, like)

    def _declared(self, types: dict[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The declared families, and those of them that no table knows; shapes of one kind share what they declare."""
        if self._last[0] is not types:
            families, vocabulary = tuple(sorted(types)), self.vocabulary
            unknown = tuple(name for name in families if vocabulary.claims(name) and not vocabulary.knows(name))
            self._last = types, families, unknown
        return self._last[1:]

    def _candidates(self, version: str | None) -> dict[str, tuple[Term, ...]]:
        """The terms of each signal for a version, best first."""
        if version not in self._terms:
            found: dict[str, list[Term]] = defaultdict(list)
            for term in self.vocabulary.select(version):
                found[term.signal].append(term)
            self._terms = {
                version: {
                    signal: tuple(sorted(each, key=lambda term: term.preference)) for signal, each in found.items()
                }
            }
        return self._terms[version]

    def _version_in(self, facts: dict[str, Facts]) -> str | None:
        for source, label in self.vocabulary.version_terms:
            for name in spellings(source):
                for key in facts[name].keys if name in facts else ():
                    version = dict(key.labels).get(label)
                    if version:
                        return version
        return None

    def _model_problem(self, models: frozenset[str]) -> Iterator[Problem]:
        if self.model is not None and models and self.model not in models:
            shown = ", ".join(sorted(models)[:8])
            detail = f"the deployment names model {self.model!r}, the program has {shown}"
            yield Problem(family="", kind=ProblemKind.MODEL_NOT_FOUND, detail=detail)


def _sharing(plan: Plan, like: Plan) -> Plan:
    """A plan whose parts are those of another where they are equal."""
    parts = {name: (getattr(like, name), getattr(plan, name)) for name in plan.__struct_fields__}
    return Plan(**{name: theirs if theirs == mine else mine for name, (theirs, mine) in parts.items()})


class _Work:
    """One plan in the making."""

    def __init__(self, shape: Shape, facts: dict[str, Facts], parts: Parts, model: str | None) -> None:
        self.shape, self.facts, self.parts, self.model = shape, facts, parts, model
        self.series: dict[str, tuple[PlanSeries, ...]] = {}
        self.checks: dict[Check, None] = {}
        self.copies: dict[tuple[str, tuple[int, ...]], None] = {}
        self.absent: set[str] = set()
        self.unreadable: set[str] = set()
        self.problems: dict[tuple[str, str], Problem] = {}
        self.fitting: set[str] = set()
        self.unfit: list[tuple[str, str, str]] = []

    def signal(self, signal: str, candidates: tuple[Term, ...]) -> None:
        """The first candidate that is present makes the signal's series."""
        broken = False
        for term in candidates:
            for name in spellings(term.name):
                broken = broken or name in self.shape.unreadable
                if name == term.name:
                    self._compare_type(term, name)
                if name not in self.facts:
                    continue
                part = self.parts.part(self.facts[name], term, self.model)
                self._take(name, part)
                if part.series is None:
                    broken = True
                elif part.series:
                    self.series[signal] = part.series
                    return
        if broken or self.shape.truncated:
            self.unreadable.add(signal)
        else:
            self.absent.add(signal)

    def _compare_type(self, term: Term, name: str) -> None:
        """Note whether a family can be what the row says: buckets where a histogram is wanted, else none."""
        kind = term.kind or SIGNALS[term.signal].kind
        declared, facts = self.shape.types.get(name, ""), self.facts.get(name)
        histogram = facts.histogram if facts is not None else is_histogram(declared)
        if histogram is not None and histogram is not (kind is Kind.HISTOGRAM):
            self.unfit.append((term.signal, name, f"type is {declared or 'not told'}, the table says {kind.value}"))
        else:
            self.fitting.add(name)

    def mistyped(self) -> None:
        """Call what stands there as another type unreadable, and say so: its numbers are there and are not absent."""
        for signal, name, detail in self.unfit:
            if name not in self.fitting and signal not in self.series:
                self.absent.discard(signal)
                self.unreadable.add(signal)
                line = self.shape.families[name].line if name in self.shape.families else 0
                problem = Problem(family=name, kind=ProblemKind.WRONG_TYPE, detail=detail, line=line)
                self.problems.setdefault((name, detail), problem)

    def _take(self, family: str, part: Part) -> None:
        self.checks.update(dict.fromkeys(part.checks))
        self.copies.update(dict.fromkeys((family, rows) for rows in part.copies))
        for kind, detail in part.problems:
            problem = Problem(family=family, kind=kind, detail=detail, line=self.shape.families[family].line)
            self.problems.setdefault((family, detail), problem)

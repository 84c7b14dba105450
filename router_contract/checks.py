"""Checks of a whole table, so that a wrong row is named when it is written and not when a body is read.

`faults` is pure and knows no particular table; the catalog's tests run it over every table.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations

from router_contract.signals import Kind, Signal
from router_contract.vocabulary import Absence, Term, Vocabulary, has_version, parse_version

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_RESERVED_LABELS = frozenset({"le", "quantile", "__name__"})
_HISTOGRAM_PARTS = ("_bucket", "_sum", "_count", "_created")
# What a wire kind may stand for: a last-value gauge where later releases have a histogram or a counter.
_STANDS_FOR = frozenset({(Kind.GAUGE, Kind.HISTOGRAM), (Kind.GAUGE, Kind.COUNTER)})


def faults(table: Vocabulary, signals: Mapping[str, Signal]) -> tuple[str, ...]:
    """Every fault of a table as ``<table>: <row>: <what was found, what was wanted>``; empty when there is none."""
    found = [*_term_faults(table, signals), *_pair_faults(table), *_table_faults(table, signals)]
    return tuple(f"{table.name}: {fault}" for fault in found)


def _row(term: Term) -> str:
    return f"{term.signal} <- {term.name}"


def _term_faults(table: Vocabulary, signals: Mapping[str, Signal]) -> Iterator[str]:
    here = {term.signal for term in table.terms}
    for term in table.terms:
        row = _row(term)
        signal = signals.get(term.signal)
        if signal is None:
            yield f"{row}: unknown signal {term.signal!r}, want an id of SIGNALS"
        else:
            yield from (f"{row}: {fault}" for fault in _kind_faults(term, signal))
        if not _METRIC.fullmatch(term.name):
            yield f"{row}: {term.name!r} is no metric name"
        yield from (f"{row}: {fault}" for fault in (*_label_faults(term), *_version_faults(term)))
        if term.absence is Absence.NOT_YET and term.paired is None:
            yield f"{row}: absence means not yet, want a paired signal"
        if term.paired is not None and term.paired not in here:
            yield f"{row}: paired with {term.paired!r}, which this table does not read"
        if term.paired == term.signal:
            yield f"{row}: paired with itself"


def _kind_faults(term: Term, signal: Signal) -> Iterator[str]:
    kind = signal.kind if term.kind is None else term.kind
    if term.kind is not None and (term.kind, signal.kind) not in _STANDS_FOR:
        yield f"kind {term.kind} where the signal is a {signal.kind}"
    if kind is Kind.HISTOGRAM and term.name.endswith(_HISTOGRAM_PARTS):
        yield f"{term.name!r} is a part of a histogram, want its base name"
    if kind is Kind.GAUGE and term.name.endswith("_created"):
        yield f"{term.name!r} tells when, not how much"
    if term.value_label is not None and kind is not Kind.GAUGE:
        yield f"a value from label {term.value_label!r} is a gauge, the signal is a {kind}"
    if kind is Kind.INFO and (term.scale != 1.0 or term.sentinels):
        yield "an info signal has no number to scale or to leave out"


def _label_faults(term: Term) -> Iterator[str]:
    ours = [label for label, _ in term.keep]
    wire = [*(label for _, label in term.keep), *(matcher.label for matcher in term.match)]
    if term.value_label is not None:
        wire.append(term.value_label)
    for label in (*ours, *wire):
        if not _LABEL.fullmatch(label) or label in _RESERVED_LABELS:
            yield f"bad label name {label!r}"
    yield from (f"label {label!r} is kept twice" for label, count in Counter(ours).items() if count > 1)
    yield from (f"matcher of {matcher.label!r} lists no value" for matcher in term.match if not matcher.values)


def _version_faults(term: Term) -> Iterator[str]:
    for bound, text in (("since", term.since), ("before", term.before)):
        if text is not None and not has_version(text):
            yield f"{bound} {text!r} is no version"
    if term.since is not None and term.before is not None and parse_version(term.since) >= parse_version(term.before):
        yield f"since {term.since!r} is not before {term.before!r}: the row never holds"


def _overlap(one: Term, other: Term) -> bool:
    """Whether some version selects both."""
    lows = [parse_version(term.since) for term in (one, other) if term.since is not None]
    highs = [parse_version(term.before) for term in (one, other) if term.before is not None]
    return not lows or not highs or max(lows) < min(highs)


def _disjoint(one: Term, other: Term) -> bool:
    """Whether no sample passes both rows' matchers: a common label with value lists that share nothing."""
    return any(
        mine.label == theirs.label
        and not mine.negate
        and not theirs.negate
        and not set(mine.values) & set(theirs.values)
        for mine in one.match
        for theirs in other.match
    )


def _pair_faults(table: Vocabulary) -> Iterator[str]:
    for one, other in combinations(table.terms, 2):
        if one.signal != other.signal or not _overlap(one, other) or _disjoint(one, other):
            continue
        if (one.name, one.match, one.kind) == (other.name, other.match, other.kind):
            yield f"{_row(one)}: the row is there twice"
        elif one.preference == other.preference:
            yield f"{_row(one)} and {other.name}: hold in one version with equal preference {one.preference}"


def _table_faults(table: Vocabulary, signals: Mapping[str, Signal]) -> Iterator[str]:
    here = {term.signal for term in table.terms}
    used = {term.name for term in table.terms}
    for name, count in Counter(table.ignored).items():
        if count > 1:
            yield f"ignored {name!r} is there twice"
        if name in used:
            yield f"ignored {name!r} is used by a row"
        if not table.claims(name):
            yield f"ignored {name!r} has none of the prefixes {table.prefixes}"
    for field, listed in (
        ("progress", table.progress),
        ("self_moving", table.self_moving),
        ("idle_levels", table.idle_levels),
    ):
        yield from (
            f"{field} names {signal!r}, which this table does not read" for signal in listed if signal not in here
        )
    for signal in table.progress:
        if signal in signals and not signals[signal].progress:
            yield f"progress names {signal!r}, which is not marked as moved by work only"
    roles = {"model": table.labels.model, "rank": table.labels.rank, "copy": table.labels.copy}
    roles["process"] = table.labels.process
    named = Counter(label for labels in roles.values() for label in labels)
    yield from (f"label {label!r} has two meanings" for label, count in named.items() if count > 1)
    yield from (f"bad label name {label!r}" for label in named if not _LABEL.fullmatch(label))

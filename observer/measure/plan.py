"""A plan: which rows of a body's shape make which series of which signal. Values only; `planner` makes them.

A plan is made once for each shape and shared by every target whose bodies have it.
"""

from __future__ import annotations

import math

import msgspec

from router_contract.readings import Problem
from router_contract.signals import Combine, Kind
from router_contract.vocabulary import Term

OurLabels = tuple[tuple[str, str], ...]
Sets = tuple[tuple[int, ...], ...]
"""Rows of one number, counted from the first of its family: the outer tuple combines by the signal's rule, each inner
one holds copies (the largest counts)."""


class Spread(msgspec.Struct, frozen=True):
    """The rows of a histogram: ``bounds`` scaled, a `Sets` for each bound and for the sum (empty: none)."""

    bounds: tuple[float, ...]
    buckets: tuple[Sets, ...]
    sums: Sets


class PlanSeries(msgspec.Struct, frozen=True, kw_only=True):
    """One series of a signal: where its number stands (``sets``), or its histogram (``spread``), or its ``fixed`` value.

    ``fixed`` numbers stand in labels and are combined already. ``kind`` is how it behaves on the wire. ``from_zero``
    names the signal whose earlier presence proves that this one, when new, counted from 0.
    """

    signal: str
    labels: OurLabels
    kind: Kind
    combine: Combine
    family: str
    source: str
    scale: float = 1.0
    sets: Sets = ()
    spread: Spread | None = None
    fixed: float | None = None
    info: OurLabels = ()
    sentinels: tuple[float, ...] = ()
    folded: int = 0
    from_zero: str | None = None


class Check(msgspec.Struct, frozen=True):
    """One wire histogram to check in every body: rows of its buckets by bound, of its count and its sum (or -1), counted
    from the first of its family.
    """

    family: str
    buckets: tuple[int, ...]
    count: int
    total: int


class Plan(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What one shape gives: its series by signal, histograms to check, copies that should agree, and what is missing.

    ``terms`` holds every signal that the version can have; one without series is in ``absent`` or ``unreadable``.
    ``starts`` are the first rows of the families, ``families`` all that the body declares, sorted. ``planner`` is who made it.
    """

    planner: object
    series: dict[str, tuple[PlanSeries, ...]]
    starts: dict[str, int]
    checks: tuple[Check, ...]
    copies: tuple[tuple[str, tuple[int, ...]], ...]
    absent: frozenset[str]
    unreadable: frozenset[str]
    terms: dict[str, Term]
    problems: tuple[Problem, ...]
    families: tuple[str, ...]
    unknown_families: tuple[str, ...]
    version: str | None


def fold(values: list[float], rule: Combine) -> float:
    """Several numbers as one by a rule; `Combine.EACH` and `Combine.MAX` take the largest."""
    if rule is Combine.ADD:
        return math.fsum(values)
    return math.fsum(values) / len(values) if rule is Combine.WEIGH else max(values)

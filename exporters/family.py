"""What one of our own metric families is: its name, help, type, labels and where its rows come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum

import msgspec

from exporters.snapshot import Snapshot
from router_contract.readings import Histogram

Row = tuple[tuple[str, ...], float | Histogram]
"""The label values of one series, in the order of the family's labels (empty: not written), and its number."""

DEPLOYMENT = ("namespace", "deployment")
ROLE = (*DEPLOYMENT, "role")
POD = (*ROLE, "pod", "port")
RANK = (*POD, "rank")


class FamilyType(StrEnum):
    """The type of a family as an exposition writes it."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


def no_rows(_: Snapshot) -> Iterable[Row]:
    """The rows of a family that the renderer fills itself."""
    return ()


def state_set(
    labels: tuple[str, ...], states: Iterable[str], holds: str | None
) -> Iterator[tuple[tuple[str, ...], float]]:
    """One series for each state of a closed list, 1 at the one that holds and 0 at the others; ``None``: at none."""
    for state in states:
        yield (*labels, str(state)), float(state == holds)


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """One family. ``help`` is one line without quotes or backslashes. ``rows`` yields what is known and nothing else.

    ``signals`` are those whose values ``rows`` looks at, ``totals`` those of which it takes only the running totals of
    roles (and what of a role cannot be merged), so that nothing else need be made for it. ``counts_series`` marks the
    family that the renderer fills with the number of series of each family before it.
    """

    name: str
    help: str
    type: FamilyType = FamilyType.GAUGE
    labels: tuple[str, ...]
    rows: Callable[[Snapshot], Iterable[Row]] = no_rows
    signals: frozenset[str] = frozenset()
    totals: frozenset[str] = frozenset()
    counts_series: bool = False


def signals_of(families: Iterable[Family]) -> frozenset[str]:
    """Every signal that a table of families looks at."""
    return frozenset().union(*(family.signals for family in families))


def totals_of(families: Iterable[Family]) -> frozenset[str]:
    """Every signal of which a table of families takes running totals of roles."""
    return frozenset().union(*(family.totals for family in families))

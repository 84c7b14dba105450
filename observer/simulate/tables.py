"""Family tables of the engines, derived from recordings, and the registry of one engine process made from them."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources

import msgspec

from observer.simulate.exposition import Family, Labels, Registry, Style


class RowTable(msgspec.Struct, frozen=True):
    """One label set of a family, without the labels of its scope; ``lazy`` rows appear with their first event."""

    labels: dict[str, str]
    value: float | str = 0.0
    lazy: bool = False


class FamilyTable(msgspec.Struct, frozen=True):
    """One family as recorded. ``scope`` is ``rank``, ``model`` or ``process``: which base labels are added;
    ``base`` names those that a family takes where it does not take them all.
    """

    name: str
    type: str
    scope: str
    bounds: tuple[str, ...] = ()
    series: tuple[RowTable, ...] = (RowTable(labels={}),)
    created: bool = False
    dynamic: bool = False
    lazy: bool = False
    pd: bool = False
    base: tuple[str, ...] = ()


class EngineTable(msgspec.Struct, frozen=True):
    """Every family of one engine variant in the order it exposes them."""

    families: tuple[FamilyTable, ...]


@lru_cache
def load(variant: str) -> EngineTable:
    """The table of a variant, for example ``vllm-0.32.0-single``. A missing file is an error that names it."""
    text = resources.files("observer.simulate").joinpath(f"data/{variant}.json").read_bytes()
    return msgspec.json.decode(text, type=EngineTable)


class ProcessMetrics:
    """The registry of one engine process life, addressed by family name, rank and the labels beyond the scope's.

    ``ranks[i]`` are the base label sets of rank ``i``; more than one where tensor ranks report copies.
    """

    def __init__(
        self,
        table: EngineTable,
        style: Style,
        *,
        ranks: tuple[tuple[Labels, ...], ...],
        model: Labels,
        pid: str,
        started: float,
        disaggregated: bool = False,
        info: dict[str, str] | None = None,
    ) -> None:
        self.registry = Registry(style)
        self._tables = {family.name: family for family in table.families if disaggregated or not family.pd}
        self._ranks = ranks
        self._model = model
        self._pid = pid
        self._started = started
        self._info = info or {}
        for family in self._tables.values():
            if not family.lazy:
                self._declare(family)

    def _declare(self, family: FamilyTable) -> Family:
        declared = self.registry.declare(family.name, family.type, bounds=family.bounds, created=family.created)
        if not family.dynamic and not family.lazy:
            for row in family.series:
                if not row.lazy:
                    for labels in self._all_labels(family, row.labels):
                        declared.at(labels, self._started).value = float(row.value)
        return declared

    def _labels(self, base: Labels, extra: dict[str, str]) -> Labels:
        filled = {name: self._info.get(name, value) for name, value in extra.items()}
        pairs = ((name, self._pid if value == "<pid>" else value) for name, value in filled.items())
        return tuple(sorted((*base, *pairs)))

    def _all_labels(self, family: FamilyTable, extra: dict[str, str]) -> list[Labels]:
        if family.scope == "rank":
            return [self._labels(_taken(base, family), extra) for copies in self._ranks for base in copies]
        return [self._labels(self._model if family.scope == "model" else (), extra)]

    def _where(self, name: str, rank: int, extra: dict[str, str]) -> list[Labels]:
        family = self._tables[name]
        if name not in self.registry.families:
            self._declare(family)
        if family.scope == "rank":
            return [self._labels(_taken(base, family), extra) for base in self._ranks[rank]]
        return [self._labels(self._model if family.scope == "model" else (), extra)]

    def add(self, name: str, amount: float = 1.0, *, rank: int = 0, now: float = 0.0, **extra: str) -> None:
        """Raise a counter."""
        for labels in self._where(name, rank, extra):
            self.registry.add(name, labels, amount, now)

    def put(self, name: str, value: float, *, rank: int = 0, **extra: str) -> None:
        """Set a gauge."""
        for labels in self._where(name, rank, extra):
            self.registry.put(name, labels, value)

    def observe(
        self, name: str, value: float, times: float = 1.0, *, rank: int = 0, now: float = 0.0, **extra: str
    ) -> None:
        """Record observations in a histogram or summary."""
        for labels in self._where(name, rank, extra):
            self.registry.observe(name, labels, value, times, now)

    def has(self, name: str) -> bool:
        """Whether this variant knows a family."""
        return name in self._tables


def _taken(base: Labels, family: FamilyTable) -> Labels:
    return tuple(pair for pair in base if pair[0] in family.base) if family.base else base

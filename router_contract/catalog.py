"""From the name that a user or an operator writes to the table of that program.

The three folders are scanned once, at import: a module that holds a `VOCABULARY` is a program. A new engine, router or
store is one new file and nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType, ModuleType

from router_contract import engines, routers, stores
from router_contract.checks import faults
from router_contract.signals import SIGNALS
from router_contract.targets import Component
from router_contract.vocabulary import Vocabulary


class BadTableError(Exception):
    """A table in one of the three folders is wrong; the text lists every fault."""


class UnknownSoftware(LookupError):  # noqa: N818  # it names the state, as `FailureKind` does
    """No table has this name. ``known`` are the names that would have been understood, aliases included."""

    def __init__(self, component: Component, name: str, known: tuple[str, ...]) -> None:
        self.component = component
        self.name = name
        self.known = known
        super().__init__(f"unknown {component.value} {name!r}; known: {', '.join(known)}")


def _fold(name: str) -> str:
    """Letter case, blanks and the choice of ``-``, ``_`` or ``.`` do not tell programs apart."""
    return "".join(character for character in name.casefold() if character not in "-_. ")


def scan(component: Component, folder: ModuleType) -> Mapping[str, Vocabulary]:
    """Every table of a folder by its name, in alphabetical order.

    Raises `BadTableError` for a module without a `Vocabulary`, one of another component, one whose name is not the
    module's, and for any fault that `checks.faults` finds.
    """
    tables: dict[str, Vocabulary] = {}
    wrong: list[str] = []
    for module in sorted(iter_modules(folder.__path__), key=lambda found: found.name):
        table = getattr(import_module(f"{folder.__name__}.{module.name}"), "VOCABULARY", None)
        if not isinstance(table, Vocabulary):
            wrong.append(f"{module.name}: VOCABULARY is {table!r}, want a Vocabulary")
            continue
        if table.name != module.name:
            wrong.append(f"{module.name}: the table's name is {table.name!r}, want the module's")
        if table.component is not component:
            wrong.append(f"{module.name}: the table's component is {table.component.value}, want {component.value}")
        wrong += faults(table, SIGNALS)
        tables[table.name] = table
    if wrong:
        raise BadTableError("; ".join(wrong))
    return MappingProxyType(tables)


def _names(tables: Mapping[str, Vocabulary]) -> Mapping[str, Vocabulary]:
    """Every folded name and alias; raises `BadTableError` when two programs claim one."""
    names: dict[str, Vocabulary] = {}
    for table in tables.values():
        for name in (table.name, *table.aliases):
            taken = names.setdefault(_fold(name), table)
            if taken is not table:
                raise BadTableError(f"{name!r} names both {taken.name} and {table.name}")
    return MappingProxyType(names)


TABLES: Mapping[Component, Mapping[str, Vocabulary]] = MappingProxyType(
    {
        Component.ENGINE: scan(Component.ENGINE, engines),
        Component.ROUTER: scan(Component.ROUTER, routers),
        Component.STORE: scan(Component.STORE, stores),
    }
)
"""Every table by component and by its own name. Immutable."""

_BY_NAME = MappingProxyType({component: _names(tables) for component, tables in TABLES.items()})


def known(component: Component) -> tuple[str, ...]:
    """The names and aliases understood for a component, in alphabetical order."""
    return tuple(sorted({name for table in TABLES[component].values() for name in (table.name, *table.aliases)}))


def lookup(component: Component, name: str) -> Vocabulary:
    """The table of a program by its name or an alias, in any letter case; raises `UnknownSoftware`."""
    table = _BY_NAME[component].get(_fold(name))
    if table is None:
        raise UnknownSoftware(component, name, known(component))
    return table

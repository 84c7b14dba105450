"""Which signals a metrics document looks at: what its tables name, and what the programs' tables name for idleness."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from exporters.expectation_tables import (
    BUSY_SIGNALS,
    ENGINE_ENTRIES,
    IDLE_SIGNALS,
    ROLE_LATENCY,
    ROUTER_ENTRIES,
    TALLIES,
    TIERS,
)
from router_contract.catalog import TABLES
from router_contract.signals import SIGNALS
from router_contract.targets import DeploymentKey
from router_contract.verdicts import DeploymentReport, TargetState


def _named() -> Iterator[str]:
    for entry in (*ENGINE_ENTRIES, *ROUTER_ENTRIES):
        yield from entry.signals
        if entry.companion:
            yield entry.companion
    for tier in TIERS:
        yield from (tier.hits, tier.queries)
    for tally in TALLIES:
        yield from tally.signals
    yield from (*IDLE_SIGNALS, *BUSY_SIGNALS, *(signal for _, signal in ROLE_LATENCY))
    for tables in TABLES.values():
        for table in tables.values():
            yield from (*table.progress, *table.idle_levels)


def _with_weights(signals: Iterable[str]) -> frozenset[str]:
    """The signals, and those that their ratios are weighed by."""
    found = frozenset(signals)
    return found | {weight for signal in found if (weight := SIGNALS[signal].weight)}


DOCUMENT_SIGNALS = _with_weights(_named())
"""Nothing else of a report's values is looked at for a document, but whether there is any value at all."""
NO_SIGNALS: frozenset[str] = frozenset()
"""For what shows statuses and verdicts alone."""


class _Reports(Protocol):
    def deployment(
        self, key: DeploymentKey, signals: frozenset[str] | None = None, totals: frozenset[str] = frozenset()
    ) -> DeploymentReport | None: ...


def document_report(source: _Reports, key: DeploymentKey) -> DeploymentReport | None:
    """A deployment's report of this moment with the values that its document is made of.

    With all of them where no target answers: whether there is anything to show is then a question to every value.
    """
    report = source.deployment(key, DOCUMENT_SIGNALS)
    if report is None or any(target.status.state is TargetState.UP for target in report.targets):
        return report
    return source.deployment(key)

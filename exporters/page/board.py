"""The lines of all deployments, made again in turn within a share of the processor, and their past sampled on the way.

One report costs some milliseconds, and there may be a thousand: so a page never makes them all at once. Each line says
when it was made.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from exporters.encoding import UNRENDERABLE, in_words
from exporters.page.protocols import Services
from exporters.page.render import Fragment, Renderer, element_id
from exporters.page.rows import Row, recent, row, unrendered
from exporters.signals_read import document_report
from router_contract.targets import DeploymentKey

_log = logging.getLogger(__name__)


LONGEST_STEP = 0.005
"""For how long preparing a line may keep the event loop from everything else, in seconds."""


class Line:
    """One deployment's row with its HTML."""

    def __init__(self, made: Row, part: Fragment) -> None:
        self.row = made
        self.part = part


class Board:
    """Keeps one line for each deployment. `turn` makes some again; everything else answers at once."""

    def __init__(self, services: Services, renderer: Renderer) -> None:
        self._services = services
        self._renderer = renderer
        self._lines: dict[DeploymentKey, Line] = {}
        self._tried: dict[DeploymentKey, int] = {}
        self._tries = 0
        self._faults: dict[DeploymentKey, str] = {}

    async def turn(self, budget: float) -> int:
        """Make lines until the budget (seconds) is spent, at least one; how many were made."""
        now = self._services.kv.now
        started, keys = now().mono, self._services.reports.keys()
        alive = set(keys)
        self._lines = {key: line for key, line in self._lines.items() if key in alive}
        self._tried = {key: at for key, at in self._tried.items() if key in alive}
        self._faults = {key: why for key, why in self._faults.items() if key in alive}
        self._services.history.forget(keys)
        made = 0
        for key in sorted(keys, key=self._tried_at):
            # Counted and not timed: two tries within one tick of the clock still have an order.
            self._tries += 1
            self._tried[key] = self._tries
            await self._prepare(key)
            try:
                self._make(key)
                self._faults.pop(key, None)
            except UNRENDERABLE as error:
                self._failed(key, error)
            made += 1
            if now().mono - started >= budget:
                break
            await asyncio.sleep(0)
        return made

    async def _prepare(self, key: DeploymentKey) -> None:
        now = self._services.kv.now
        worked = now().mono
        for _ in self._services.prepare(key):
            if now().mono - worked >= LONGEST_STEP:
                await asyncio.sleep(0)
                worked = now().mono
        await asyncio.sleep(0)

    def _tried_at(self, key: DeploymentKey) -> int:
        return self._tried.get(key, 0)

    def _make(self, key: DeploymentKey) -> None:
        report = document_report(self._services.reports, key)
        if report is None:
            self._lines.pop(key, None)
            return
        made = row(report)
        history = self._services.history
        if report.judged:
            history.sample(key, report.at, made.numbers)
        past = recent(history.past(key, report.at), "tokensPerSecond")
        part = self._renderer.part("row.html", element_id("d", key.namespace, key.name), row=made, past=past)
        self._lines[key] = Line(made, part)

    def _failed(self, key: DeploymentKey, error: Exception) -> None:
        """A line that says so in place of the one that cannot be made, as old as the last one that could."""
        why = in_words(error)
        if self._faults.get(key) != why:
            _log.warning("the line of %s cannot be made: %s", key, why)
        self._faults[key] = why
        last = self._lines.get(key)
        at = last.row.at if last is not None else self._services.kv.now()
        made = unrendered(key, error, at, last.row.seen_at if last is not None else None)
        part = self._renderer.part("row.html", element_id("d", key.namespace, key.name), row=made, past=())
        self._lines[key] = Line(made, part)

    def lines(self) -> Sequence[Line]:
        """Every line there is, by namespace and name."""
        return [self._lines[key] for key in sorted(self._lines)]

    def waiting(self) -> int:
        """How many deployments have no line yet."""
        keys = self._services.reports.keys()
        return sum(key not in self._lines for key in keys)

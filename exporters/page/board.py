"""The lines of all deployments, made again in turn within a share of the processor, and their past sampled on the way.

One report costs some milliseconds, and there may be a thousand: so a page never makes them all at once. Each line says
when it was made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from exporters.page.protocols import Services
from exporters.page.render import Fragment, Renderer, element_id
from exporters.page.rows import Row, recent, row
from router_contract.targets import DeploymentKey


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

    async def turn(self, budget: float) -> int:
        """Make lines until the budget (seconds) is spent, at least one; how many were made."""
        now = self._services.kv.now
        started, keys = now().mono, self._services.reports.keys()
        alive = set(keys)
        self._lines = {key: line for key, line in self._lines.items() if key in alive}
        self._services.history.forget(keys)
        made = 0
        for key in sorted(keys, key=self._made_at):
            self._make(key)
            made += 1
            if now().mono - started >= budget:
                break
            await asyncio.sleep(0)
        return made

    def _made_at(self, key: DeploymentKey) -> float:
        line = self._lines.get(key)
        return float("-inf") if line is None else line.row.at.mono

    def _make(self, key: DeploymentKey) -> None:
        report = self._services.reports.deployment(key)
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

    def lines(self) -> Sequence[Line]:
        """Every line there is, by namespace and name."""
        return [self._lines[key] for key in sorted(self._lines)]

    def waiting(self) -> int:
        """How many deployments have no line yet."""
        keys = self._services.reports.keys()
        return sum(key not in self._lines for key in keys)

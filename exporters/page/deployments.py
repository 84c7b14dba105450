"""The first page: every deployment in a line."""

from __future__ import annotations

from collections.abc import Mapping

from exporters.page.board import Board
from exporters.page.query import checked, headings
from exporters.page.render import Built, Renderer, Twin
from exporters.page.rows import COLUMNS, FILTERS, chosen, twin
from router_contract.status import Phase

MOST_ROWS = 2_000
"""Deployments on one page; with more the page says that it does not show all."""


class DeploymentsPage:
    """The board's lines, filtered and sorted."""

    def __init__(self, board: Board, renderer: Renderer) -> None:
        self._board = board
        self._renderer = renderer

    def build(self, _: Mapping[str, str], query: Mapping[str, str]) -> Built:
        """The lines that pass the query."""
        told = checked(query, FILTERS)
        lines = {line.row.key: line for line in self._board.lines()}
        rows = [line.row for line in lines.values()]
        found = chosen(rows, told)
        parts = [lines[row.key].part for row in found[:MOST_ROWS]]
        phases = {phase.value: sum(row.summary.phase == phase for row in rows) for phase in Phase}
        summary = self._renderer.part(
            "deployments_summary.html",
            "deployments-summary",
            phases=phases,
            unjudged=sum(row.summary.phase is None for row in rows),
            waiting=self._board.waiting(),
            shown=len(parts),
            found=len(found),
            total=len(rows),
        )
        context = {
            "headings": headings(COLUMNS, "/", told),
            "query": told,
            "phases": list(phases),
            "namespaces": sorted({row.key.namespace for row in rows}),
        }
        groups = {"summary": (summary,), "rows": parts}
        return Built(template="deployments.html", title="Deployments", context=context, groups=groups)

    def twin(self, _: Mapping[str, str], query: Mapping[str, str]) -> Twin:
        """The same lines: the API's summaries with what the page adds."""
        found = chosen([line.row for line in self._board.lines()], checked(query, FILTERS))
        return Twin(
            value={
                "items": [twin(row) for row in found[:MOST_ROWS]],
                "notShown": max(0, len(found) - MOST_ROWS),
                "notMadeYet": self._board.waiting(),
            }
        )

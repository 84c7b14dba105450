"""The verb ``limits``: what a running observer uses of each of its bounds."""

from __future__ import annotations

from typing import Any

import click
from rich.console import RenderableType
from rich.table import Table

from exporters.grid import UNKNOWN
from exporters.tables import number
from observer.cli.exits import EPILOG
from observer.cli.output import show
from observer.cli.show import Asked, asking


@click.command(epilog=EPILOG)
@asking(all_namespaces=False)
def limits(asked: Asked) -> None:
    """Show every limit with what is used of it, the most that ever was, and how often it was met; the nearest first.

    A dash is not measured and never zero. `-o wide` adds what happens at each limit.
    """
    show(lambda: asked.get("/api/v1/limits"), asked.form, limits_table, asked.watch)


def limits_table(answer: Any, wide: bool, _: int | None) -> RenderableType:
    """The table of limits."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("LIMIT", "STATE", "USE", "MOST", "OF", "MET", "SETTING", *(["THEN"] if wide else [])):
        table.add_column(head, overflow="fold", justify="right" if head in {"USE", "MOST", "OF", "MET"} else "left")
    for item in answer["items"]:
        met = UNKNOWN if item["reached"] is None else str(item["reached"])
        numbers = (number(item["use"]), number(item["highWater"]), number(item["limit"]), met)
        cells = (item["name"], item["state"], *numbers, item["setting"] or UNKNOWN)
        table.add_row(*cells, *([item["effect"]] if wide else []))
    return table

"""Grids for a terminal: columns that give way where the width does not do, and cells in their colours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text

UNKNOWN = "-"

_COLUMN = re.compile(r"^(.*?)([>~]?)(?: (\d))?$")


class Column(NamedTuple):
    """A column: its title, whether it holds numbers, whether its text may be broken into lines, and when it goes.

    Where the width does not do, columns with the highest ``drop`` go first; 0 stays.
    """

    title: str
    numeric: bool = False
    breaks: bool = False
    drop: int = 0


def columns_of(text: str) -> tuple[Column, ...]:
    """Columns from titles with commas between: ``>`` marks numbers, ``~`` text that may break, a last digit ``drop``."""
    found = []
    for part in text.split(","):
        title, marks, drop = _COLUMN.findall(part.strip())[0]
        found.append(Column(title, ">" in marks, "~" in marks, int(drop or 0)))
    return tuple(found)


def grid(columns: Sequence[Column], rows: Sequence[Sequence[Text]], width: int | None) -> Table:
    """A table without lines, of the columns that fit into ``width`` characters (``None``: all of them)."""
    needs = [max([len(c.title), *(cell.cell_len for cell in cells)]) for c, cells in _transposed(columns, rows)]
    needs = [min(need, 30) if column.breaks else need for column, need in zip(columns, needs, strict=True)]
    kept = list(range(len(columns)))
    while width is not None and sum(needs[i] + 2 for i in kept) - 2 > width and any(columns[i].drop for i in kept):
        kept.remove(max(kept, key=lambda i: (columns[i].drop, i)))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for index in kept:
        column = columns[index]
        justify: JustifyMethod = "right" if column.numeric else "left"
        table.add_column(column.title, justify=justify, no_wrap=not column.breaks, overflow="fold")
    for row in rows:
        table.add_row(*(row[index] for index in kept))
    return table


def _transposed(columns: Sequence[Column], rows: Sequence[Sequence[Text]]) -> Iterator[tuple[Column, tuple[Text, ...]]]:
    cells = zip(*rows, strict=True) if rows else (() for _ in columns)
    return zip(columns, cells, strict=True)


def cells_of(values: Iterable[str | Text]) -> list[Text]:
    """Values as they are (no markup), the unknown ones dimmed."""
    texts = [value if isinstance(value, Text) else Text(value) for value in values]
    return [Text(UNKNOWN, "dim") if text.plain == UNKNOWN else text for text in texts]

"""Grids for a terminal: columns that give way where the width does not do, and cells in their colours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text

UNKNOWN = "-"

_COLUMN = re.compile(r"^(.*?)([>~^/]?)(?: (\d))?$")
_EXTRA = 5
"""Columns with this ``drop`` or a higher one go before any text is cut shorter than `_ROOMY`."""
_ROOMY, _SHORTEST = 24, 8
_BROKEN = 30
"""How wide a column whose text breaks is at least kept, where its text is as long."""


class Cut(Enum):
    """Where a text that is too long loses characters."""

    NONE = ""
    MIDDLE = "^"
    END = "/"


class Column(NamedTuple):
    """A column: its title, whether it holds numbers, whether its text may be broken into lines, and when it goes.

    Where the width does not do, texts of columns with a ``cut`` get shorter, and columns with the highest ``drop`` go
    first; 0 stays. Numbers are never cut.
    """

    title: str
    numeric: bool = False
    breaks: bool = False
    drop: int = 0
    cut: Cut = Cut.NONE


def columns_of(text: str) -> tuple[Column, ...]:
    """Columns from titles with commas between, each with one mark and a last digit, its ``drop``.

    ``>`` marks numbers, ``~`` text that may break, ``^`` text that may lose its middle, ``/`` text that may lose its end.
    """
    found = []
    for part in text.split(","):
        title, mark, drop = _COLUMN.findall(part.strip())[0]
        cut = Cut(mark) if mark in {"^", "/"} else Cut.NONE
        found.append(Column(title, mark == ">", mark == "~", int(drop or 0), cut))
    return tuple(found)


def grid(columns: Sequence[Column], rows: Sequence[Sequence[Text]], width: int | None) -> Table:
    """A table without lines, of the columns that fit into ``width`` characters (``None``: all of them, uncut)."""
    cells = list(zip(*rows, strict=True)) if rows else [() for _ in columns]
    fitted = [_Fitted(index, column, cells[index]) for index, column in enumerate(columns)]
    gap = 2 if width is None else _fit(fitted, width)
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for each in fitted:
        justify: JustifyMethod = "right" if each.column.numeric else "left"
        table.add_column(each.column.title, justify=justify, no_wrap=not each.column.breaks, overflow="fold")
    shown = [each.shown() for each in fitted]
    for row in zip(*shown, strict=True):
        table.add_row(*row)
    return table


class _Fitted:
    """A column while it is fitted: how wide its texts are, and how narrow they may become."""

    def __init__(self, index: int, column: Column, cells: Sequence[Text]) -> None:
        self.index, self.column, self.cells = index, column, cells
        title = len(column.title)
        need = max([title, *(cell.cell_len for cell in cells)])
        if column.breaks:
            words = (len(word) for cell in cells for word in cell.plain.split())
            need = min(need, max([title, _BROKEN, *words]), 2 * _BROKEN)
        self.width = need
        self._cut = column.cut
        self._sixths = 2
        self.floor = need if column.cut is Cut.NONE else min(need, max(title, self._least(need)))

    def _least(self, need: int) -> int:
        """The smallest width at which texts that differ are still shown as different ones."""
        if self._cut is Cut.END:
            return _SHORTEST
        texts = {cell.plain for cell in self.cells}
        for size in range(_SHORTEST, need):
            for self._sixths in (2, 3, 4):
                if len({self._short(text, size) for text in texts}) == len(texts):
                    return size
        return need

    def _short(self, text: str, size: int) -> str:
        if len(text) <= size:
            return text
        if self._cut is Cut.END:
            return text[: size - 1] + "…"
        head = size * self._sixths // 6  # at a larger size no character less is shown: what differs still does
        return text[:head] + "…" + text[head + 1 - size :]

    def shown(self) -> list[Text]:
        """The cells, cut where they are wider than the column became."""
        if self._cut is Cut.NONE:
            return list(self.cells)
        return [Text(self._short(cell.plain, self.width), cell.style) for cell in self.cells]


def _fit(fitted: list[_Fitted], width: int) -> int:
    """Drop columns and shorten texts until all fits; the blanks between columns."""

    def total(gap: int, least: int) -> int:
        return sum(min(each.width, max(each.floor, least)) + gap for each in fitted) - gap

    def drop(lowest: int) -> bool:
        goes = max(fitted, key=lambda each: (each.column.drop, each.index))
        if goes.column.drop < lowest:
            return False
        fitted.remove(goes)
        return True

    while total(2, _ROOMY) > width and drop(_EXTRA):
        pass
    while total(1, 0) > width and drop(1):
        pass
    gap = 2 if total(2, 0) <= width else 1
    while total(gap, 1 << 30) > width and (cut := [each for each in fitted if each.width > each.floor]):
        max(cut, key=lambda each: each.width).width -= 1
    return gap


def cells_of(values: Iterable[str | Text]) -> list[Text]:
    """Values as they are (no markup), the unknown ones dimmed."""
    texts = [value if isinstance(value, Text) else Text(value) for value in values]
    return [Text(UNKNOWN, "dim") if text.plain == UNKNOWN else text for text in texts]

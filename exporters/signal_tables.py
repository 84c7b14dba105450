"""The table of one exposition's canonical signals: a line for each series, and what is absent or unknown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from exporters.grid import UNKNOWN, cells_of, columns_of, grid
from exporters.tables import MOMENT, moment, number, state, unit_name

Json = Mapping[str, Any]

SIGNALS = columns_of("SIGNAL^, LABELS~, VALUE>, UNIT 1, STATE")
_PAIR = 30
"""Characters of one label pair in a terminal."""


def signals(answer: Json, *, wide: bool = False, width: int | None = None) -> Group:
    """What `observer read` answers: a line for each series; ``wide`` also names what is absent and what is unknown."""
    rows = []
    for name, entries in answer["signals"].items():
        for entry in entries:
            value = entry["value"]
            shown = f"n={number(value['count'])} mean={_mean(value)}" if isinstance(value, Mapping) else _plain(entry)
            labels = _labels(entry["labels"], whole=wide, width=width)
            rows.append(cells_of([name, labels, shown, unit_name(entry["unit"]), state(entry["state"])]))
    counts = f"{len(answer['absent'])} signals of the table absent, {len(answer['unknown'])} families unknown"
    parts: list[Table | Text] = [
        grid(SIGNALS, rows, width),
        Text(""),
        Text(counts + ("" if wide else " (-o wide names them)")),
    ]
    if wide:
        parts += [Text("absent: " + ", ".join(answer["absent"])), Text("unknown: " + ", ".join(answer["unknown"]))]
    return Group(*parts)


def _mean(histogram: Json) -> str:
    count, total = histogram["count"], histogram["sum"]
    return UNKNOWN if not count or total is None else f"{total / count:.4g}"


def _plain(entry: Json) -> str:
    value, unit = entry["value"], entry["unit"]
    return moment(value) if unit == MOMENT and value is not None else number(value)


def _labels(labels: Json, *, whole: bool, width: int | None) -> str:
    """Pairs with commas between. On a terminal a blank follows each, where the line may break, and long ones are cut."""
    pairs = [f"{label}={text}" for label, text in labels.items()]
    if width is not None:
        return ", ".join(pair if whole or len(pair) <= _PAIR else f"{pair[: _PAIR - 1]}…" for pair in pairs)
    text = ",".join(pairs)
    return text if whole or len(text) <= 60 else f"{text[:59]}…"

"""The picture of `observer top`: lines sorted and filtered from the API's JSON, deployments above their replicas."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from exporters.grid import UNKNOWN, cells_of, columns_of, grid
from exporters.tables import number, percent, seconds, state

Json = Mapping[str, Any]
_COLUMNS = columns_of(
    "NAMESPACE^ 7, DEPLOYMENT^, ROLE^ 5, POD^, STATE/, READY> 4, RUNNING>, WAITING>, KV>, REQ/S> 3, TOK/S> 2, TTFT P50> 1, "
    "HIT> 1, AGE>"
)
_NUMBERS: dict[str, tuple[str, Callable[[float | None], str]]] = {
    "running": ("running", number),
    "waiting": ("waiting", number),
    "kv": ("kvCacheUsage", percent),
    "requests": ("requestsPerSecond", number),
    "tokens": ("tokensPerSecond", number),
    "ttft": ("ttft", seconds),
    "hit": ("cacheHit", percent),
    "age": ("ageSeconds", seconds),
}
SORTS = ("name", *_NUMBERS)
"""By what lines can be sorted."""
_GROUPS = {"Eligible": "green", "NotReady": "red", "Incomplete": "red", "Retiring": "magenta", "Replacing": "magenta"}


def arranged(items: Sequence[Json], sort: str, *, reverse: bool, text: str) -> list[Json]:
    """Deployments (and the replicas of each) in order, of those that hold a text in a name or state.

    Numbers go from the largest; what is not known comes last, whatever the direction.
    """
    wanted = text.casefold()
    kept: list[Json] = []
    for item in items:
        own = any(wanted in str(item[name]).casefold() for name in ("namespace", "name", "phase", "state"))
        replicas = [each for each in item["replicas"] if own or _holds(each, wanted)]
        if own or replicas:
            ordered = _ordered(replicas, sort, reverse, lambda each: (each["role"], each["pod"]))
            kept.append({**item, "replicas": ordered})
    return _ordered(kept, sort, reverse, lambda item: (item["namespace"], item["name"]))


def _holds(replica: Json, wanted: str) -> bool:
    return any(wanted in str(replica[name]).casefold() for name in ("role", "pod", "software", "group", "target"))


def _ordered(lines: list[Json], sort: str, reverse: bool, name: Callable[[Json], tuple[str, ...]]) -> list[Json]:
    by_name = sorted(lines, key=name, reverse=reverse and sort == "name")
    if sort == "name":
        return by_name
    field, _ = _NUMBERS[sort]

    def key(line: Json) -> float:
        value = line["figures"][field]
        if value is None:
            return math.inf
        return float(value) if reverse else -float(value)

    return sorted(by_name, key=key)


def picture(items: Sequence[Json], width: int | None, *, replicas: bool = True) -> Table:
    """The table: a line for each deployment and, with ``replicas``, one for each of its Pods."""
    rows: list[list[Text]] = []
    for item in items:
        ready = "/".join("?" if item[name] is None else str(item[name]) for name in ("ready", "desired"))
        head = [item["namespace"], item["name"], "", "", _phase(item), ready]
        rows.append([_bold(cell) for cell in cells_of([*head, *_figures(item["figures"])])])
        rows += [
            cells_of(["", "", each["role"], each["pod"], _standing(each), "", *_figures(each["figures"])])
            for each in (item["replicas"] if replicas else ())
        ]
    return grid(_COLUMNS, rows, width)


def _phase(item: Json) -> Text:
    """The phase, and that sums are of some Pods only where they are."""
    phase = state(item["phase"] or UNKNOWN)
    return phase if item["state"] == "Complete" else Text.assemble(phase, " ", state(item["state"]))


def _bold(cell: Text) -> Text:
    made = cell.copy()
    made.stylize("bold")
    return made


def _figures(figures: Json) -> list[str | Text]:
    """The numbers; one of which a part is stale has a mark."""
    cells: list[str | Text] = []
    for field, show in _NUMBERS.values():
        text = show(figures[field])
        cells.append(Text(f"{text}~", "yellow") if field in figures["stale"] and text != UNKNOWN else text)
    return cells


def _standing(replica: Json) -> Text:
    """How a Pod stands: that it cannot be read comes before what was concluded of it."""
    if replica["target"] not in {"Up", None}:
        return Text(f"{replica['target']} {replica['group'] or ''}".strip(), "red")
    if replica["group"] is not None:
        return Text(replica["group"], _GROUPS.get(replica["group"], "yellow"))
    return Text(replica["target"] or UNKNOWN)

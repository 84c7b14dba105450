"""Reads the tables that the command line prints, as a person reads them, and compares them with the JSON of the API.

The numbers are read from the text, not made by the product's own formats: what is not known must be ``-`` and not 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

_SCALES = {
    "%": 0.01,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "/s": 1.0,
    "": 1.0,
}
_NUMBER = re.compile(r"([0-9.e+-]*[0-9])(%|µs|ms|s|m|h|k|M|G|/s|)(~?)")
_COUNTS = (("ELIGIBLE", "eligible"), ("RUNNING", "running"), ("WAITING", "waiting"), ("KV", "kvCacheUsage"))


def table(text: str, first: str) -> list[dict[str, str]]:
    """The rows of the table whose first column has this title, by the titles of the columns."""
    lines = text.splitlines()
    begin = next(place for place, line in enumerate(lines) if line.startswith(f"{first} "))
    end = next((place for place in range(begin, len(lines)) if not lines[place].strip()), len(lines))
    kept = [line for line in lines[begin:end] if not line.startswith("~ ")]
    width = max(map(len, kept))
    padded = [line.ljust(width) for line in kept]
    blank = [all(line[place] == " " for line in padded) for place in range(width)]
    # Between two columns are two blanks; a single one stands inside a cell.
    starts = [place for place in range(width) if not blank[place] and all(blank[max(0, place - 2) : place])]
    spans = list(zip(starts, [*starts[1:], width], strict=True))
    names = [padded[0][start:stop].strip() for start, stop in spans]
    return [
        {name: line[start:stop].strip() for name, (start, stop) in zip(names, spans, strict=True)}
        for line in padded[1:]
    ]


def same(text: str, value: float | None, where: object, state: str | None = None) -> None:
    """A cell says this value, marked where it is stale; ``-`` where there is none."""
    if value is None:
        assert text == "-", (where, text)
        return
    found = _NUMBER.fullmatch(text)
    assert found, (where, text, value)
    assert float(found[1]) * _SCALES[found[2]] == pytest.approx(value, rel=0.06, abs=0.006), (where, text)
    assert (found[3] == "~") is (state == "Stale"), (where, text, state)


def compare_deployments(text: str, items: Sequence[Mapping[str, Any]]) -> int:
    """The list of deployments beside the API's: how many cells were equal."""
    rows = iter(table(text, "NAMESPACE"))
    compared = 0
    for item in items:
        for role in item["roles"]:
            row = next(rows)
            assert row["ROLE"] == role["name"]
            ready, wanted = row["READY"].split("/")
            for shown, count in ((ready, role["ready"]), (wanted, role["desired"])):
                same("-" if shown == "?" else shown, count, (item["name"], role["name"], "READY"))
            for title, name in _COUNTS:
                same(row[title], role[name], (item["name"], role["name"], title), role.get(f"{name}State"))
            serving = role["serving"]
            if serving is None or serving["state"] in {"Unknown", "Confirmed"}:
                known = serving is not None and serving["state"] == "Confirmed"
                same(row["SERVING"], serving["value"] if known else None, (item["name"], role["name"], "SERVING"))
            compared += len(_COUNTS) + 3
        if item["router"]:
            same(
                next(rows)["RUNNING"],
                item["router"]["running"],
                (item["name"], "router"),
                item["router"]["runningState"],
            )
            compared += 1
    assert next(rows, None) is None
    return compared


def compare_document(text: str, made: Mapping[str, Any]) -> int:
    """One metrics document as tables: every level and window with its value and state, every gap with its reason."""
    levels = [entry for name in ("processing", "queueing") for entry in made.get(name, ())]
    windows = [(e["pod"], e) for name in ("latency", "traffic", "transfer") for e in made.get(name, ())]
    windows += [(f"all of {role['role']}", e) for role in made.get("roles", ()) for e in role["latency"]]
    for row, entry in zip(table(text, "LEVEL") if levels else [], levels, strict=True):
        assert (row["LEVEL"], row["SCOPE"], row["STATE"]) == (entry["name"], entry["scope"], entry["state"])
        same(row["VALUE"], entry["value"], entry)
    for row, (pod, entry) in zip(table(text, "WINDOW") if windows else [], windows, strict=True):
        assert (row["WINDOW"], row["POD"], row["STATE"]) == (entry["name"], pod, entry["state"])
        same(row["VALUE"], entry["value"] * (1e-3 if entry["unit"] == "milliseconds" else 1.0), entry)
        over, *lossy = row["OVER"].split()
        assert lossy == (["lossy"] if entry.get("lossy") else []), entry
        same(over, entry["windowSeconds"], entry)
    gaps = made.get("missing", ())
    shown = [row["MISSING"] for row in table(text, "MISSING")] if gaps else []
    assert [each for each in shown if each] == [gap["code"] for gap in gaps]
    return len(levels) + len(windows) + len(gaps)

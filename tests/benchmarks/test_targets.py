"""The table of targets: what a run says is judged as it is, and what nothing measured is never met."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.targets import TARGETS, Target, line, normalised, printed, table

TARGET = Target("a path", "at most 5", (("one", r"cost"),))


def row(name: str, value: float, *, good: bool | None) -> dict[str, Any]:
    return {"name": name, "figure": f"{value} ms", "value": value, "target": "want at most 5", "good": good}


@pytest.mark.parametrize(
    ("rows", "verdict"),
    [
        pytest.param([row("cost", 3.0, good=True)], "met", id="met"),
        pytest.param([row("cost", 3.0, good=True), row("cost of more", 9.0, good=False)], "MISSED", id="one is missed"),
        pytest.param([row("other", 3.0, good=True)], "not measured", id="another figure"),
        pytest.param([], "not measured", id="a run without figures"),
        pytest.param([row("cost", 3.0, good=None)], "not judged", id="its only figure is not judged"),
        pytest.param(
            [row("cost", 3.0, good=None), row("cost", 4.0, good=None)], "not measured", id="none of several is judged"
        ),
    ],
)
def test_a_target_is_what_its_figures_say(rows: list[dict[str, Any]], verdict: str) -> None:
    assert line(TARGET, {"one": rows}).verdict == verdict


def test_nothing_measured_meets_nothing() -> None:
    assert {each.verdict for each in table({})} == {"not measured"}
    assert len({each.path for each in TARGETS}) == len(TARGETS)


def test_a_missed_target_is_told_with_its_note() -> None:
    missed = line(TARGET, {"one": [row("cost", 9.0, good=False)]})
    assert "note: tried all" in printed([missed], {"a path": "tried all"})
    assert "no note is written" in printed([missed], {})


def test_figures_of_every_form_are_read() -> None:
    ours = {"name": "a", "figure": "x2", "value": 2.0, "limit": 3.0, "at_least": True, "good": False}
    kv = {"name": "b", "value": 1.5, "target": "want at least 1.3", "good": True}
    exposition = {
        "benchmark": "exposition",
        "results": [{"body": "20 families", "ratios": {"again": 180.0, "first": 9.0}, "targets": {"again": 150}}],
    }
    found = normalised({"benchmark": "kv_events", "rows": [ours, kv]})
    assert [(each["target"], each["good"]) for each in found] == [
        ("want at least 3", False),
        ("want at least 1.3", True),
    ]
    assert [(each["name"], each["good"]) for each in normalised(exposition)] == [
        ("20 families, again", True),
        ("20 families, first", None),
    ]

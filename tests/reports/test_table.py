"""Every reported row has a test, and no test claims a row that is not reported."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.judge.canary.test_reports import ALL
from tests.reports.rows import FURTHER, ROWS, SAID

SKIPPED: dict[int | str, str] = {}
"""Rows that nothing here can try, with the reason."""
CANARY_ROWS = 42


def test_every_row_is_tried() -> None:
    for file in sorted(Path(__file__).parent.glob("test_*.py")):
        import_module(f"tests.reports.{file.stem}")
    assert set(SAID) | set(SKIPPED) == set(ROWS) | set(FURTHER)
    assert not set(SAID) & set(SKIPPED)


def test_the_rows_about_canaries_are_a_table_of_their_own() -> None:
    """`tests/judge/canary/test_reports.py` has them, and checks by itself that each has its case."""
    assert len(ALL) == CANARY_ROWS

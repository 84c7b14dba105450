"""The reference pages are what the tables say, and every table row is in them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from exporters.families import FAMILIES
from observer.judge.meanings import CONDITIONS
from observer.settings import describe
from router_contract import catalog
from router_contract.signals import SIGNALS

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference"


def test_the_pages_are_what_the_tables_say(capsys: pytest.CaptureFixture[str]) -> None:
    done = subprocess.run(
        [sys.executable, "scripts/reference.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    with capsys.disabled():
        print(f"\n{done.stdout.splitlines()[0] if done.stdout else done.stderr}")
    assert done.returncode == 0, done.stdout + done.stderr


NAMES = {
    "settings": [row.path.partition(".")[2] for row in describe()],
    "metrics": [family.name for family in FAMILIES],
    "conditions": [reason for asked in CONDITIONS.values() for reason in (*asked.reasons,)],
    "signals": [*SIGNALS, *(term.name for found in catalog.TABLES.values() for each in found.values() for term in each.terms)],
}  # fmt: skip


@pytest.mark.parametrize("page", NAMES)
def test_no_name_is_left_out(page: str) -> None:
    text = (FOLDER / f"{page}.md").read_text("utf-8")
    assert [name for name in NAMES[page] if f"`{name}`" not in text] == []


def test_every_key_and_reason_says_something() -> None:
    empty = [
        line
        for page in NAMES
        for line in (FOLDER / f"{page}.md").read_text("utf-8").splitlines()
        if page in {"settings", "metrics"} and line.startswith("| `") and not line.split(" | ")[3].strip(" |")
    ]
    assert empty == []

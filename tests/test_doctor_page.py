"""The doctor's page is what its table says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from observer.judge.diagnosis import TABLE

ROOT = Path(__file__).parents[1]


def test_the_page_is_what_the_table_says() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/doctor_page.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_cause_is_on_it() -> None:
    text = (ROOT / "docs" / "doctor.md").read_text("utf-8")
    assert [row.cause for _, rows in TABLE for row in rows if f"### {row.cause}\n" not in text] == []

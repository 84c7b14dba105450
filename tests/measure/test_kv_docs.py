"""The page about KV-event streams is drawn from the table that runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_shows_the_table_as_it_is():
    done = subprocess.run(
        [sys.executable, "scripts/kv_diagram.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr

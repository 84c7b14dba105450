"""Reading what is shipped, and seeing that a committed file is not what is generated."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dashboards
from dashboards.generate import differing, main, texts


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for part in ("grafana", "rules"):
        shutil.copytree(Path(dashboards.__file__).parent / part, tmp_path / part)
    return tmp_path


def test_a_shipped_dashboard_is_json_and_an_unknown_one_names_the_others():
    for uid in dashboards.dashboard_names():
        assert json.loads(dashboards.dashboard_text(uid))["uid"] == uid
    with pytest.raises(KeyError, match="found 'observer-nothing', want one of observer-canary"):
        dashboards.dashboard_text("observer-nothing")


def test_nothing_differs_in_a_true_copy(copy):
    assert differing(copy) == []


def test_a_changed_a_missing_and_a_forgotten_file_are_named(copy):
    changed, missing, forgotten = "grafana/observer-kv.json", "rules/observer.rules.yaml", "grafana/observer-old.json"
    (copy / changed).write_text((copy / changed).read_text("utf-8") + " ", "utf-8")
    (copy / missing).unlink()
    (copy / forgotten).write_text("{}", "utf-8")
    assert differing(copy) == sorted([changed, missing, forgotten])


def test_check_writes_nothing_and_says_so(capsys):
    assert main(["--check"]) == 0
    assert capsys.readouterr().out == "nothing differs\n"
    assert len(texts()) == 8


def test_reading_what_is_shipped_needs_no_grafana_package():
    program = (
        "import sys; sys.modules['grafana_foundation_sdk'] = None; import dashboards, dashboards.rules;"
        "print(len(dashboards.dashboard_names()), len(dashboards.shipped_rules()) > 1000)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["6", "True"]

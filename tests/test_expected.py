"""The reader against the documents checked in for every recording, and the independent judge of those documents."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from router_contract.signals import SIGNALS

ROOT = Path(__file__).parent.parent


def script(name: str) -> ModuleType:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        return __import__(name)
    finally:
        sys.path.remove(str(ROOT / "scripts"))


expected = script("expected")
recompute = script("recompute")


def documents() -> list[Path]:
    return sorted(expected.EXPECTED.rglob("*.json"))


@pytest.mark.parametrize("path", expected.recordings(), ids=expected.place_of)
def test_the_reader_prints_the_document_that_is_checked_in(path: Path) -> None:
    document = json.loads(expected.document_path(path).read_text(encoding="utf-8"))
    assert expected.read(path) == document


def test_every_document_belongs_to_a_recording() -> None:
    assert documents() == sorted(expected.document_path(path) for path in expected.recordings())


def test_an_independent_script_recomputes_every_number() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/recompute.py", "--compare", "tests/expected"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    print(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("change", ["value", "label", "extra", "lost", "bucket"])
def test_the_judge_sees_one_changed_number(change: str) -> None:
    path = recompute.RECORDINGS / "vllm-0.32.0" / "metrics-03-load.prom"
    document = json.loads(expected.document_path(path).read_text(encoding="utf-8"))
    before = recompute.compare(path, document)[1]
    changed = copy.deepcopy(document)
    entry = changed["signals"]["requests-running"][0]
    if change == "value":
        entry["value"] += 1
    elif change == "label":
        entry["labels"]["rank"] = "7"
    elif change == "extra":
        changed["signals"]["requests-running"].append({**entry, "labels": {"rank": "7"}})
    elif change == "lost":
        del changed["signals"]["requests-running"]
    else:
        changed["signals"]["time-to-first-token"][0]["value"]["buckets"][3][1] += 1
    after = recompute.compare(path, changed)[1]
    assert len(after) > len(before)


def test_the_judge_knows_the_kind_combination_and_unit_of_each_signal() -> None:
    wrong = {
        signal: facts
        for signal, facts in recompute.facts().items()
        if facts != (SIGNALS[signal].kind, SIGNALS[signal].combine, SIGNALS[signal].unit)
    }
    assert not wrong

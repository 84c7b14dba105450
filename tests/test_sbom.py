"""The SBOM's own check: every entry of a lock is in it, or a marker of another platform says why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.security import Pin, compared, locked

HERE, ELSEWHERE = "python_version >= '3'", "sys_platform == 'no-such-system'"
LOCK = f"""\
# made by a tool
plain==1.0 \\
    --hash=sha256:{"0" * 64}
Two_Names[extra]==2.0 ; {HERE} \\
    --hash=sha256:{"1" * 64}
two-names==1.9 ; {ELSEWHERE} \\
    --hash=sha256:{"2" * 64}
    # via plain
"""
PLAIN, TWO, OLD = Pin("plain", "1.0"), Pin("Two_Names", "2.0", HERE), Pin("two-names", "1.9", ELSEWHERE)


def test_an_entry_is_a_name_a_version_and_a_marker(tmp_path: Path) -> None:
    lock = tmp_path / "run.lock"
    lock.write_text(LOCK)
    assert locked(lock) == [PLAIN, TWO, OLD]


@pytest.mark.parametrize(
    ("components", "counted", "left_out", "lacking"),
    [
        pytest.param([("plain", "1.0"), ("two-names", "2.0"), ("two-names", "1.9")], "3 of 3", "none", [], id="whole"),
        pytest.param([("plain", "1.0"), ("two.names", "2.0")], "2 of 3", "two-names 1.9", [], id="its marker is false"),
        pytest.param([("plain", "1.0"), ("two-names", "1.9")], "2 of 3", "none", [TWO], id="its marker is true"),
        pytest.param([("plain", "9"), ("two-names", "2.0")], "1 of 3", "two-names", [PLAIN], id="another version"),
    ],
)
def test_only_a_marker_of_another_platform_excuses_an_entry(components, counted, left_out, lacking) -> None:
    said, found = compared([PLAIN, TWO, OLD], components)
    assert found == lacking
    assert said[0] == f"{counted} locked entries (2 names)"
    assert said[1].startswith(f"left out: {left_out}")
    assert (f"1.9 (for {ELSEWHERE})" in said[1]) is (("two-names", "1.9") not in components)

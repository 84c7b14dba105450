"""The page of platforms is what their documents say, and each says what cannot be seen on it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from observer.discover.platforms import Platform, built_in

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "platforms.md"


def test_the_page_is_what_the_documents_say() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/platforms_page.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("platform", built_in(), ids=lambda each: each.name)
def test_each_platform_says_what_cannot_be_seen_on_it(platform: Platform) -> None:
    text = PAGE.read_text("utf-8")
    assert len(platform.document.blind) >= 2, "no platform tells everything"
    assert [each for each in platform.document.blind if f"- {each}\n" not in text] == []


@pytest.mark.parametrize("platform", built_in(), ids=lambda each: each.name)
def test_each_platforms_own_words_are_on_it(platform: Platform) -> None:
    text = PAGE.read_text("utf-8")
    words = [*platform.document.facts.order, *(each.reason for each in platform.document.reasons if each.reason)]
    assert [each for each in words if f"`{each}`" not in text] == []

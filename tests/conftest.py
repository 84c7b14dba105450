"""Shared fixtures: where the recordings are, and what to do when a tool of a marked test is missing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

RECORDINGS = Path(__file__).parent / "recordings"


@pytest.fixture(scope="session")
def recordings() -> Path:
    return RECORDINGS


def require(tool: str, why: str = "") -> str:
    """The path of a tool; without it the test is skipped by name locally and fails where CI=true."""
    found = shutil.which(tool)
    if found:
        return found
    message = f"{tool} is not installed{': ' + why if why else ''}"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Keep how the run ended: CI repeats what failed only after a run that went to its end."""
    cache = getattr(session.config, "cache", None)  # there is none under ``-p no:cacheprovider``
    if cache is not None:
        cache.set("observer/exitstatus", int(exitstatus))

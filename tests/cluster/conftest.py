"""One real control plane for all tests marked `cluster`, and one of its own for a test that breaks it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.control_plane import ControlPlane


def _running(folder: Path) -> Iterator[ControlPlane]:
    plane = ControlPlane(folder)
    try:
        seconds = plane.start()
        print(f"kube-apiserver ready after {seconds:.1f} s")
        yield plane
    finally:
        plane.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that tests share: each works in a namespace of its own and leaves it running."""
    yield from _running(tmp_path_factory.mktemp("cluster"))


@pytest.fixture
def breakable_cluster(tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane of the test's own, whose programs it may stop."""
    yield from _running(tmp_path)

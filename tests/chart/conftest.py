"""One real control plane of this folder's own: releases are installed in it, an APIService among them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chart.rendering import ROOT
from tests.cluster.control_plane import ControlPlane, program

NAMESPACES = ("observer", "team-a", "team-b", "demo", "roles-only")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with the chart's CRDs and a few namespaces."""
    program("helm")
    plane = ControlPlane(tmp_path_factory.mktemp("chart-cluster"))
    try:
        plane.start()
        for name in NAMESPACES:
            plane.namespace(name)
        plane.kubectl("apply", "--server-side", "-f", str(ROOT / "charts" / "observer" / "crds"))
        yield plane
    finally:
        plane.stop()

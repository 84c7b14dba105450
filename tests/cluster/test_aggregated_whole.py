"""`observer serve --kubernetes` with its aggregated API: a simulated deployment, read with kubectl, drained at the end."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from observer.clock import SystemClock
from observer.simulate.fleet import SimulatedFleet
from tests.cluster.aggregated import BASE, GROUP, Load, grant, register, unregister, wait_available, wait_for
from tests.cluster.conftest import _running
from tests.cluster.control_plane import ControlPlane, free_port
from tests.cluster.gpustack_world import OURS, Operated, define
from tests.cluster.observed import KIND, SETTINGS, Observed, Process
from tests.whole.world import small_fleet

pytestmark = pytest.mark.cluster
NAMESPACE = "whole"
GRACE = 5.0


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    yield from _running(tmp_path_factory.mktemp("aggregated"))


@asynccontextmanager
async def observed_with_api(plane: ControlPlane) -> AsyncIterator[tuple[Observed, int]]:
    """An observer of one simulated deployment whose aggregated API is registered; the port of that."""
    port = free_port()
    settings = SETTINGS.replace("identity: observer-test", "identity: observer-test\n  namespace: observer")
    settings += f'aggregated: {{enabled: true, listen: "127.0.0.1:{port}", drainGrace: {GRACE:g}s, reread: 1s}}\n'
    define(plane, KIND)
    define(plane, OURS)
    plane.namespace(NAMESPACE)
    grant(plane)
    register(plane, port)
    process = Process(plane.folder, plane.admin, NAMESPACE, settings)
    async with SimulatedFleet(small_fleet(), clock=SystemClock()) as fleet:
        (simulated,) = fleet.deployments.values()
        operated = Operated(plane, NAMESPACE, simulated)
        await asyncio.to_thread(operated.create)
        process.start()
        try:
            yield Observed(plane, fleet, operated, process), port
        finally:
            await asyncio.to_thread(process.stop)
            unregister(plane)


async def test_kubectl_reads_what_a_whole_observer_measured_and_it_is_unready_before_it_closes(
    plane: ControlPlane,
) -> None:
    async with observed_with_api(plane) as (world, _):
        await world.settled()
        await asyncio.to_thread(wait_available, plane)
        name = world.operated.name
        mdm = f"{BASE}/namespaces/{NAMESPACE}/modeldeploymentmetrics/{name}"

        def complete() -> bool:
            found = plane.call("GET", mdm)
            return any(entry["value"] > 0 for entry in found.get("traffic", ())) and "latency" in found

        seconds = await world.until(complete, "traffic was measured")
        print(f"figure: measured values through the aggregator after {seconds:.1f} s")
        text = await world.kubectl("get", "mdm", "-l", "team=chat", "-o", "wide")
        print(text)
        assert name in text
        assert "No resources" in await asyncio.to_thread(
            lambda: plane.kubectl("get", "mdm", "-n", NAMESPACE, "-l", "team=other", check=False)
        )
        observed = await world.kubectl("get", f"modeldeployments.{GROUP}", name, "--no-headers")
        assert observed.split()[:2] == [name, "Ready"]
        plain = json.loads(await world.kubectl("get", "modeldeployments", name, "-o", "json"))
        assert plain["apiVersion"] == "worker.gpustack.ai/v1alpha1"
        status, text = await asyncio.to_thread(
            world.process.ask, "/api/v1/namespaces/whole/modeldeployments/" + name + "/metrics"
        )
        assert status == 200
        ours = json.loads(text)
        theirs = await asyncio.to_thread(plane.call, "GET", mdm)
        assert set(ours) == set(theirs), "the same document over both listeners"
        with Load(plane, mdm) as load:
            await asyncio.to_thread(wait_for, lambda: load.answers > 10, lambda: load.failures)
            begun = time.monotonic()
            world.process._process.send_signal(signal.SIGTERM)
            unready = await asyncio.to_thread(wait_for, lambda: world.process.ask("/readyz")[0] == 503, lambda: "ready")
            answers = load.answers
            await asyncio.to_thread(wait_for, lambda: load.answers > answers + 20, lambda: load.failures)
            assert time.monotonic() - begun < GRACE, "it answered while it was unready"
            assert load.failures == []
        print(f"figure: unready {unready:.1f} s after SIGTERM, answering until it closed {GRACE:g} s later")

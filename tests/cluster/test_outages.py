"""The control plane goes away and comes back: no crash, nothing stale, nothing wrong; how long the recovery took."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.cluster.observed import Observed, observed

pytestmark = pytest.mark.cluster

SECONDS = float(os.environ.get("OBSERVER_OUTAGE_SECONDS", "3"))
"""How long the API server is away; the proof takes 20 s."""
LONGEST = 45.0
"""A recovery may take the longest pause between two tries, 30 s, a list and a round of reads."""
STATUS = "/api/v1/namespaces/out/modeldeployments/chat/status"


async def down(world: Observed, change: Callable[[], Awaitable[None]]) -> None:
    """The API server is killed and away; whatever is asked of the observer meanwhile is answered, and true."""
    await asyncio.to_thread(world.cluster.apiserver.kill)
    begun = time.monotonic()
    await change()
    while time.monotonic() - begun < SECONDS:
        assert world.process.running
        assert (await asyncio.to_thread(world.process.ask, "/livez"))[0] == 200
        assert (await asyncio.to_thread(world.process.ask, STATUS))[0] == 200
        await asyncio.sleep(0.5)
    world.cluster.apiserver.start()
    await asyncio.to_thread(world.cluster.wait_ready)


async def test_the_api_server_is_killed_etcd_restarts_a_delete_is_missed(breakable_cluster: ControlPlane) -> None:
    async with observed(breakable_cluster, "out") as world:
        await world.settled()

        # An engine dies while the API server is away: we know at once, the cluster as soon as it can.
        engine = world.operated.simulated.replicas[0].engine
        await down(world, engine.die)
        begun = time.monotonic()
        assert "connection refused" in world.process.ask(STATUS)[1], (
            "what we read ourselves does not need the API server"
        )
        await world.until(lambda: "is Down" in " ".join(world.operated.status["explanation"]), "it is told", LONGEST)
        told = time.monotonic() - begun
        await asyncio.to_thread(world.operated.pod_says, engine.name, ready=False)
        await world.until(lambda: world.operated.status["summary"]["eligible"] == "1", "it is revoked", LONGEST)
        print(
            f"figure: API server killed for {SECONDS:g} s: what was seen meanwhile stood in the cluster {told:.1f} s "
            f"after it was back, what a kubelet said then {time.monotonic() - begun - told:.1f} s later"
        )
        await world.heals()
        await world.settled(LONGEST)

        # etcd restarts under the API server.
        await asyncio.to_thread(world.cluster.etcd.stop)
        await asyncio.sleep(1.0)
        world.cluster.etcd.start()
        await asyncio.to_thread(world.cluster.wait_ready)
        begun = time.monotonic()
        await patiently(world.breaks)
        await world.until(lambda: world.operated.status["summary"]["eligible"] == "1", "it is told", LONGEST)
        print(f"figure: etcd restarted: a change stood in the cluster {time.monotonic() - begun:.1f} s later")

        # The observer stands still while its object goes and its watches are cut.
        held = world.process.pid
        os.kill(held, signal.SIGSTOP)
        try:
            await asyncio.to_thread(world.operated.delete)
            await asyncio.to_thread(world.cluster.apiserver.kill)
            world.cluster.apiserver.start()
            await asyncio.to_thread(world.cluster.wait_ready)
        finally:
            os.kill(held, signal.SIGCONT)
        took = await world.until(lambda: world.process.ask(STATUS)[0] == 404, "it is forgotten", LONGEST)
        print(f"figure: watch cut with a delete missed: forgotten {took:.1f} s after")
        took = await world.until(lambda: world.operated.observation is None, "its observation is gone", LONGEST)
        print(f"figure: its observation gone {took:.1f} s later")
        assert "is broken" not in world.process.said, "nothing crashed and was started again"


async def patiently(work: Callable[[], Awaitable[None]]) -> None:
    """A change of the world, tried again while the API server finds its etcd."""
    for _ in range(20):
        with contextlib.suppress(OSError):
            await work()
            return
        await asyncio.sleep(0.5)
    raise AssertionError("the API server does not find its etcd")

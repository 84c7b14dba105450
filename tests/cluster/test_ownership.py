"""A deployment that changes hands: the loser reads and writes no more, the winner begins with what was remembered."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator

import msgspec
import pytest

from observer.app.cluster import Cluster
from observer.app.watcher import Watcher
from observer.clock import SystemClock
from observer.discover.platforms import load_platforms
from observer.kube.options import KubernetesSettings, StatusSettings, WatchScope
from observer.settings import HttpSettings, SecuritySettings
from observer.simulate.fleet import SimulatedFleet
from tests.cluster.conftest import _running
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gpustack_world import OURS, Operated, define
from tests.cluster.observed import KIND
from tests.cluster.running import client_for
from tests.kube.steady import until
from tests.whole.world import SETTINGS, small_fleet

pytestmark = pytest.mark.cluster

NAMESPACE = "owned"
TOLD = msgspec.structs.replace(
    SETTINGS,
    http=HttpSettings(listen="127.0.0.1:0"),
    security=SecuritySettings(allow_cidrs=("127.0.0.0/8",)),
    kubernetes=KubernetesSettings(
        identity="observer-test",
        watch=WatchScope(namespaces=(NAMESPACE,)),
        status=StatusSettings(
            interval=0.5, dwell_to_true=0.0, dwell_from_true=0.0, start_spread=0.0, orphan_after=1.0, rate=50.0
        ),
    ),
)


class Switch:
    """An owner of everything or of nothing."""

    def __init__(self) -> None:
        self.owner = True
        self._changed: list[Callable[[], None]] = []

    def owns(self, uid: str) -> bool:
        assert uid
        return self.owner

    def writes(self) -> bool:
        return self.owner

    def subscribe(self, changed: Callable[[], None]) -> None:
        self._changed.append(changed)

    def turn(self, owner: bool) -> None:
        self.owner = owner
        for changed in self._changed:
            changed()


@pytest.fixture
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with the kinds of this test."""
    yield from _running(tmp_path_factory.mktemp("owned"))


async def test_a_deployment_that_is_lost_is_left_alone_and_one_that_is_gained_has_its_past(plane: ControlPlane) -> None:
    define(plane, KIND)
    define(plane, OURS)
    plane.namespace(NAMESPACE)
    clock, switch = SystemClock(), Switch()
    async with (
        SimulatedFleet(small_fleet(), clock=clock) as fleet,
        client_for(plane.admin) as client,
        Watcher(TOLD, clock) as watcher,
    ):
        (simulated,) = fleet.deployments.values()
        operated = Operated(plane, NAMESPACE, simulated)
        await asyncio.to_thread(operated.create)
        cluster = Cluster(
            watcher, client, load_platforms(), TOLD, clock, ownership=switch, chance=random.Random(1).random
        )
        cluster.start()

        async def stored(true: Callable[[], object]) -> None:
            async with asyncio.timeout(40):
                while not await asyncio.to_thread(true):
                    await asyncio.sleep(0.1)

        await stored(lambda: operated.status.get("summary", {}).get("serving") == "2")
        before = operated.status["memory"]

        switch.turn(False)
        await until(lambda: not watcher.source.keys() and not watcher.source.targets())
        version = (operated.observation or {})["metadata"]["resourceVersion"]
        await asyncio.to_thread(operated.pod_says, simulated.replicas[0].engine.name, ready=False)
        await asyncio.sleep(3 * TOLD.kubernetes.status.orphan_after)
        held = operated.observation
        assert held is not None, "another replica's observation is no orphan"
        assert held["metadata"]["resourceVersion"] == version
        await asyncio.to_thread(operated.pod_says, simulated.replicas[0].engine.name, ready=True)

        switch.turn(True)
        await until(watcher.source.keys)
        recalled = watcher.judging.stored()[watcher.source.keys()[0]]
        assert [each.qualified_at for each in recalled.groups] == [each["qualifiedAt"] for each in before["groups"]]
        await asyncio.to_thread(operated.pod_says, simulated.replicas[0].engine.name, ready=False)
        await stored(lambda: operated.status["summary"]["eligible"] == "1")
        assert watcher.supervisor.broken() == ()

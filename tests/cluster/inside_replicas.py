"""What `test_replicas` runs in a network namespace: two replicas as the chart runs them, behind the real aggregator."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from observer.clock import SystemClock
from observer.simulate.fleet import SimulatedFleet
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gpustack_world import OURS, Operated, define
from tests.cluster.observed import KIND
from tests.cluster.replicas import (
    API,
    DURATION,
    GRACE,
    LEASES,
    PERIOD,
    Answers,
    Endpoints,
    Replica,
    addresses,
    bearer,
    holder,
    install,
    kubeconfig,
    windowless,
)
from tests.whole.world import small_fleet

pytestmark = pytest.mark.cluster
NAMESPACE = "pair"
BOUND = DURATION + PERIOD
"""An owner is back within one Lease duration and one period; a busy machine is given three times that."""


class World:
    """A deployment, its API server, and the replicas that watch it."""

    def __init__(self, plane: ControlPlane, operated: Operated, endpoints: Endpoints, replicas: list[Replica]) -> None:
        self.plane = plane
        self.operated = operated
        self.endpoints = endpoints
        self.replicas = {each.name: each for each in replicas}
        self.path = f"{API}/namespaces/{NAMESPACE}/modeldeploymentmetrics/{operated.name}"
        self.token = bearer(plane)

    async def until(self, true: Callable[[], Any], what: str, seconds: float = 40.0) -> float:
        """Wait until something holds; the seconds that took."""
        begun = time.monotonic()
        last: Any = None
        while time.monotonic() - begun < seconds:
            last = await asyncio.to_thread(true)
            if last:
                return time.monotonic() - begun
            await asyncio.sleep(0.05)
        said = "\n".join(f"--- {name}\n{each.said[-2500:]}" for name, each in self.replicas.items())
        raise AssertionError(f"{what}: still {last!r} after {seconds:g} s\n{said}")

    def owner(self) -> Replica:
        return self.replicas[holder(self.plane)]

    def standby(self) -> Replica:
        held = holder(self.plane)
        return next(each for each in self.replicas.values() if each.name != held and each.process is not None)

    def whole(self, replica: Replica) -> bool:
        """Whether a replica gives the whole document, windows and all, when it is asked itself."""
        status, text = replica.api(self.path, self.token)
        if status != 200:
            return False
        answer = json.loads(text)
        return not answer["partial"] and not windowless(answer) and bool(answer.get("latency"))

    async def settled(self) -> None:
        """The deployment serves, as stored; every replica is ready, every one answers for its owner."""
        await self.until(lambda: self.operated.status.get("summary", {}).get("serving") == "2", "it serves", 60)
        alive = [each for each in self.replicas.values() if each.process is not None]
        await self.until(lambda: all(self.endpoints.ready.get(each.name) for each in alive), "all are ready")
        for each in alive:
            await self.until(lambda each=each: self.whole(each), f"{each.name} gives the whole document")


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[World]:
    plane = ControlPlane(folder, "--enable-aggregator-routing=true")
    replicas: list[Replica] = []
    try:
        plane.start()
        define(plane, KIND)
        define(plane, OURS)
        define(plane, OURS.with_name("canaryanalyses.yaml"))
        plane.namespace(NAMESPACE)
        objects = install(plane)
        credentials = kubeconfig(plane)
        names = {"observer-0-a": "10.200.0.11", "observer-0-b": "10.200.0.12", "observer-0-c": "10.200.0.13"}
        assert set(names.values()) <= addresses()
        replicas += [Replica(plane, objects, credentials, *each) for each in names.items()]
        async with SimulatedFleet(small_fleet(), clock=SystemClock()) as fleet:
            (simulated,) = fleet.deployments.values()
            operated = Operated(plane, NAMESPACE, simulated)
            await asyncio.to_thread(operated.create)
            with Endpoints(plane) as endpoints:
                endpoints.replicas = replicas
                for each in replicas[:2]:
                    each.start()
                yield World(plane, operated, endpoints, replicas)
    finally:
        for each in replicas:
            each.stop()
        plane.stop()


async def test_drained_killed_and_standing_still(tmp_path: Path) -> None:
    async with world(tmp_path) as told:
        await told.settled()
        await asyncio.to_thread(only_the_owner_exports, told)
        await drained(told)
        await killed(told)
        await stands_still(told)


def only_the_owner_exports(told: World) -> None:
    owner, standby = told.owner(), told.standby()
    assert (owner.exports(), standby.exports()) == (True, False)
    for replica, value in ((owner, "1.0"), (standby, "0.0")):
        assert f'observer_shard_owner{{shard="0"}} {value}' in replica.plain("/metrics")[1]
    # What the standby is asked is answered by the owner, on both listeners.
    plain = f"/api/v1/namespaces/{NAMESPACE}/modeldeployments/{told.operated.name}"
    status, text = standby.plain(f"{plain}/status")
    assert (status, '"Ready"' in text) == (200, True), text
    assert json.loads(standby.plain(f"{plain}/metrics")[1])["partial"] is False
    listed = json.loads(standby.plain("/api/v1/deployments")[1])
    assert told.operated.name in json.dumps(listed)
    assert (standby.plain("/readyz")[0], owner.plain("/readyz")[0]) == (200, 200)


async def drained(told: World) -> None:
    """SIGTERM to the owner: unready, handed over, another owner at once; nobody who asks notices."""
    owner, standby = told.owner(), told.standby()
    with Answers(told.plane, told.path) as answers:
        await told.until(lambda: len(answers.good) > 10, "answers come")
        begun = time.monotonic()
        owner.send(signal.SIGTERM)
        unready = await told.until(lambda: owner.plain("/readyz")[0] == 503, "it is unready")
        back = await told.until(lambda: holder(told.plane) == standby.name, "the other holds the Lease") + unready
        # Before it has read anything itself it has the windows that were handed over.
        first = await told.until(standby.exports, "the other exports") + back
        _, text = await asyncio.to_thread(standby.api, told.path, told.token)
        assert (json.loads(text)["partial"], windowless(json.loads(text))) == (False, []), owner.said[-2000:]
        await told.until(lambda: owner.process is not None and owner.process.poll() is not None, "it ended", 30)
        ended = time.monotonic() - begun
        answers_after = len(answers.good)
        await told.until(lambda: len(answers.good) > answers_after + 20, "answers go on")
    assert owner.stop() == 0, owner.said[-3000:]
    assert answers.failures == []
    during = answers.since(begun)
    assert [found for each in during if not each["partial"] and (found := windowless(each))] == []
    partial = sum(each["partial"] for each in during)
    assert first < 3 * BOUND
    assert ended >= GRACE
    print(
        f"figure: drained: unready {unready:.2f} s after SIGTERM, another owner {back:.2f} s and exporting {first:.2f} s after it "
        f"(bound {BOUND:g} s), closed after {ended:.1f} s; {len(during)} reads through the aggregator, none failed, none lacked "
        f"a window, {partial} were direct and said so"
    )
    await told.until(
        lambda: f"{LEASES}/observer-0-{owner.name}" not in json.dumps(told.plane.call("GET", LEASES)), "its Lease went"
    )


async def killed(told: World) -> None:
    """SIGKILL to the owner: the standby, alone then, answers directly, says so, and takes over."""
    third = told.replicas["observer-0-c"]
    third.start()
    await told.until(lambda: told.endpoints.ready.get(third.name), "the third is ready")
    owner, standby = told.owner(), told.standby()
    owner.stop(signal.SIGKILL)
    begun = time.monotonic()
    status, text = await asyncio.to_thread(standby.api, told.path, told.token)
    answer = json.loads(text)
    assert (status, answer["partial"]) == (200, True), text
    assert answer["processing"], "values were read directly"
    assert "latency" not in answer or not answer["latency"], "and have no windows"
    back = await told.until(lambda: holder(told.plane) == standby.name, "the standby holds the Lease", 3 * BOUND)
    exporting = await told.until(standby.exports, "it exports", 3 * BOUND) + back
    whole = await told.until(lambda: told.whole(standby), "windows are back", 3 * BOUND) + exporting
    assert time.monotonic() - begun < 3 * BOUND + 2.0
    assert exporting < 3 * BOUND
    with Answers(told.plane, told.path) as answers:
        await told.until(lambda: len(answers.good) > 30, "answers come")
    assert answers.failures == [], "the dead one is no endpoint any more"
    print(
        f"figure: killed: another owner after {back:.2f} s, exporting after {exporting:.2f} s (bound {BOUND:g} s), its "
        f"windows whole after {whole:.2f} s; until then answers were partial and said so"
    )


async def stands_still(told: World) -> None:
    """The owner is stopped for longer than its Lease. What it wakes up with it neither writes nor exports."""
    told.replicas["observer-0-a"].start()
    await told.until(lambda: told.endpoints.ready.get("observer-0-a"), "the first is back")
    owner = told.owner()
    owner.send(signal.SIGSTOP)
    try:
        await told.until(lambda: holder(told.plane) not in {"", owner.name}, "another takes over", 3 * BOUND)
        other = told.owner()
        await told.until(lambda: told.operated.status.get("observer") == other.name, "the other writes", 60)
    finally:
        owner.send(signal.SIGCONT)
    woken = time.monotonic()
    stepped = await told.until(lambda: owner.plain("/metrics")[0] == 200 and not owner.exports(), "it steps down", 10)
    while time.monotonic() - woken < 3.0:
        assert holder(told.plane) == other.name
        assert told.operated.status["observer"] == other.name, "the old owner wrote"
        await asyncio.sleep(0.2)
    print(
        f"figure: stopped for longer than its Lease: it wrote nothing and exported nothing {stepped:.2f} s after it woke"
    )

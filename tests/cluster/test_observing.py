"""`observer serve --kubernetes` on a real kube-apiserver: what is written, what a restart keeps, what goes with its object."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.conftest import _running
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gpustack_world import MERGE
from tests.cluster.observed import Observed, observed

pytestmark = pytest.mark.cluster

PREFIX = "observer.modeldeployment.io/"
ELIGIBLE = "EndpointEligibility"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane whose kinds are those of this module's tests."""
    yield from _running(tmp_path_factory.mktemp("observing"))


async def ticks(world: Observed, count: int = 10) -> None:
    """Wait until so many more judging passes were looked at by the publisher: its period is a second."""
    writes = world.process.counted("observer_loop_lag_seconds_count")
    before = sum(writes.values())
    await world.until(
        lambda: sum(world.process.counted("observer_loop_lag_seconds_count").values()) >= before + count, "time passes"
    )


def writes(world: Observed) -> dict[str, float]:
    counted = world.process.counted("observer_status_writes_total")
    found: dict[str, float] = {}
    for labels, value in counted.items():
        match = re.search(r'result="([^"]+)"', labels)
        assert match is not None
        found[match.group(1)] = found.get(match.group(1), 0.0) + value
    return found


def times(world: Observed) -> dict[str, Any]:
    """Everything that must outlive a restart."""
    status = world.operated.status
    groups = [group for role in status["roles"] for group in role["groups"]]
    return {
        "conditions": {kind: each["lastTransitionTime"] for kind, each in world.operated.conditions.items()},
        "target": {kind: each["lastTransitionTime"] for kind, each in world.operated.target_conditions.items()},
        "qualified": [group["qualifiedAt"] for group in groups],
        "transitions": status["transitions"],
    }


async def test_what_is_observed_stands_in_the_cluster(plane: ControlPlane) -> None:
    async with observed(plane, "told") as world:
        took = await world.settled()
        print(f"figure: observed {took:.1f} s after the observer began")
        await world.until(lambda: PREFIX + ELIGIBLE in world.operated.target_conditions, "ours stand there")
        await _as_kubectl_shows_it(world)
        _as_it_is_stored(world)
        assert world.operated.events() == [], "a start is no news"
        assert world.process.ask("/readyz")[0] == 200
        assert world.process.ask("/livez")[0] == 200
        await _nothing_is_written_while_nothing_changes(world)
        await _a_revocation_is_at_once(world)
        await _an_operator_that_rewrites_everything_starts_no_duel(world)


async def _as_kubectl_shows_it(world: Observed) -> None:
    head, row = (await world.kubectl("get", "mdo", "-o", "wide")).strip().splitlines()
    assert head.split() == [
        "NAME", "PHASE", "ROLES", "ELIGIBLE", "SERVING", "CACHE", "CANARY", "AGE", "ENDPOINT", "MODEL",
    ]  # fmt: skip
    assert row.split()[:5] == ["gpustack-chat", "Ready", "1R2S", "2", "2"]
    assert row.split()[-2:] == ["http://chat-router.told.svc:8081", "tiny"]
    assert (await world.kubectl("get", "mdo")).split()[:8] == head.split()[:8]
    assert "Starting, Ready, Degraded, Deleting or Unknown" in await world.kubectl("explain", "mdo.status.phase")


def _as_it_is_stored(world: Observed) -> None:
    stored = world.operated.observation
    assert stored is not None
    assert stored["metadata"]["ownerReferences"][0]["uid"] == world.operated.uid
    assert stored["status"]["observedGeneration"] == 1
    managers = {each["manager"] for each in stored["metadata"]["managedFields"] if each.get("subresource")}
    assert managers == {"modeldeployment-observer"}
    assert {("Workload", "NotInstalled")} <= {(each["kind"], each["why"]) for each in stored["status"]["sources"]}
    theirs = world.operated.target_conditions
    assert theirs["RoleKindsReady"]["reason"] == "Reconciled", "the operator's own is left as it is"
    assert theirs[PREFIX + ELIGIBLE]["status"] == "True"
    assert all(kind.startswith(PREFIX) for kind in theirs if kind != "RoleKindsReady")
    target = world.cluster.call("GET", world.operated.path)
    assert target["status"]["roles"] == [{"name": "server", "desired": 2, "ready": 2}]


async def _nothing_is_written_while_nothing_changes(world: Observed) -> None:
    await ticks(world)
    before, version = writes(world), (world.operated.observation or {})["metadata"]["resourceVersion"]
    await ticks(world, 12)
    assert writes(world) == before, "six seconds in which nothing changed"
    assert (world.operated.observation or {})["metadata"]["resourceVersion"] == version


async def _a_revocation_is_at_once(world: Observed) -> None:
    await world.breaks()
    took = await world.until(lambda: world.operated.conditions[ELIGIBLE]["status"] == "False", "it is revoked")
    print(f"figure: a revocation stood in the cluster after {took:.1f} s")
    assert world.operated.status["summary"]["eligible"] == "1"
    await world.until(lambda: world.operated.target_conditions[PREFIX + ELIGIBLE]["status"] == "False", "told there")
    await world.until(lambda: any(each["reason"] == "Revoked" for each in world.operated.events()), "it is told")
    told = next(each for each in world.operated.events() if each["reason"] == "Revoked")
    assert told["type"] == "Warning"
    assert told["regarding"]["kind"] == "ModelDeployment"
    assert told["related"]["name"] == "gpustack-chat"
    assert "was True, is False" in told["note"]
    assert "was True, is False" in await world.kubectl("describe", "md", "chat")


async def _an_operator_that_rewrites_everything_starts_no_duel(world: Observed) -> None:
    for number in range(40):
        await asyncio.to_thread(world.operated.operator_writes, f"Round{number}")
        await asyncio.sleep(0.1)
    counted = world.process.counted("observer_status_writes_total")
    ours = sum(value for labels, value in counted.items() if '"ModelDeployment"' in labels)
    print(f"figure: an operator put its whole status 40 times; we wrote there {ours:.0f} times in all, then no more")
    assert ours <= 8
    assert not [kind for kind in world.operated.target_conditions if kind.startswith(PREFIX)]
    await world.until(lambda: any(e["reason"] == "StatusRewritten" for e in world.operated.events()), "it is told")
    assert world.operated.conditions[ELIGIBLE]["status"] == "False", "the observation goes on"


async def test_a_restart_forgets_nothing(plane: ControlPlane) -> None:
    async with observed(plane, "restart") as world:
        await world.settled()
        await ticks(world)
        before = times(world)
        assert before["transitions"]
        await asyncio.to_thread(world.process.stop, signal.SIGKILL)
        world.process.start()
        await world.until(lambda: world.process.ask("/readyz")[0] == 200, "it is ready again")
        await ticks(world)
        assert times(world) == before
        own = world.process.ask("/api/v1/namespaces/restart/modeldeployments/chat/status")[1]
        assert before["qualified"][0] in own, "the document says the same"
        assert world.operated.events() == []
        # What broke while nobody looked is a transition like any other; what held keeps its time.
        await asyncio.to_thread(world.process.stop)
        await world.breaks()
        world.process.start()
        await world.until(lambda: world.operated.conditions[ELIGIBLE]["status"] == "False", "it is revoked")
        kept = world.operated.conditions["DomainRegistered"]["lastTransitionTime"]
        assert kept == before["conditions"]["DomainRegistered"]
        what = [each["what"] for each in world.operated.status["transitions"]]
        assert what.count(ELIGIBLE) == 1 + [each["what"] for each in before["transitions"]].count(ELIGIBLE)


async def test_the_observation_goes_with_its_object_and_a_new_one_has_no_past(plane: ControlPlane) -> None:
    async with observed(plane, "gone") as world:
        await world.settled()
        first = world.operated.observation
        await asyncio.to_thread(world.operated.delete)
        took = await world.until(lambda: world.operated.observation is None, "the observation is gone")
        print(f"figure: an observation went {took:.1f} s after its object (no garbage collector here)")
        assert world.process.ask("/api/v1/namespaces/gone/modeldeployments/chat/status")[0] == 404
        await asyncio.to_thread(world.operated.create)
        await world.settled()
        second = world.operated.observation
        assert first is not None
        assert second is not None
        assert second["spec"]["targetRef"]["uid"] == world.operated.uid != first["spec"]["targetRef"]["uid"]
        since = [each["lastTransition"] for each in second["status"]["memory"]["conditions"]]
        assert min(since) > max(each["lastTransition"] for each in first["status"]["memory"]["conditions"])
        note = {"metadata": {"annotations": {PREFIX + "ignore": "true"}}}
        await asyncio.to_thread(plane.call, "PATCH", world.operated.path, note, MERGE)
        await world.until(lambda: world.operated.observation is None, "that of an ignored object is gone")


async def test_ready_needs_the_cluster_and_not_the_engines(plane: ControlPlane) -> None:
    async with observed(plane, "ready", dead=True) as world:
        await world.until(lambda: world.process.ask("/readyz")[0] == 200, "ready while no engine answers")
        await world.until(lambda: world.operated.status.get("summary"), "it is observed")
        assert world.operated.status["summary"]["eligible"] in {"0", "Unknown"}

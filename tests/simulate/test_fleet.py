"""The whole fleet: it serves, its books agree, scenarios act and are undone, the control API and the document."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from observer.clock import SystemClock
from observer.settings import load_files
from observer.simulate.control import control_listener
from observer.simulate.deployment import SimulatedDeployment
from observer.simulate.engine import Phase
from observer.simulate.fleet import SimulatedFleet
from observer.simulate.kv_fleet import publishers_of, publishing
from observer.simulate.scenarios import SCENARIOS
from observer.simulate.spec import DeploymentSpec, EngineSpec, FleetSpec, RoleSpec, RouterSpec, demo_fleet
from tests.simulate.harness import FAST, QUICK, total, until


def small(**router: Any) -> FleetSpec:
    options = {**FAST, "replicas": 2, **router}
    return FleetSpec(
        deployments=(
            DeploymentSpec(
                name="small",
                roles=(RoleSpec(replicas=3, size=2, engine=EngineSpec(**QUICK)),),
                router=RouterSpec(software="vllm_router", **options),
                rate=0.0,
            ),
        )
    )


@pytest.fixture
async def fleet() -> AsyncIterator[SimulatedFleet]:
    made = SimulatedFleet(small())
    await made.start()
    yield made
    await made.stop()


async def ask(deployment: SimulatedDeployment, count: int) -> list[int | None]:
    body = {"prompt": "some words to answer", "max_tokens": 4}
    return [await deployment.clients.send("/v1/completions", body) for _ in range(count)]


async def test_the_demo_fleet_serves_and_its_books_agree() -> None:
    clock = SystemClock()
    async with SimulatedFleet(demo_fleet(rate=0.0), clock=clock, hooks=publishing(clock)) as fleet:
        assert len(fleet.deployments) == 4
        for deployment in fleet.deployments.values():
            await asyncio.gather(*(deployment.clients.send_drawn() for _ in range(6)))
            truth = deployment.clients.truth
            assert truth.answers == {200: 6}
            assert truth.sent == 6
            answered = sum(engine.answers[200] for engine in deployment.engines())
            assert answered >= 6
            async with aiohttp.ClientSession() as session:
                for router in deployment.routers:
                    async with session.get(f"{router.metrics.url}/metrics") as response:
                        assert response.status == 200
            lengths = [publisher.publishers[0].sequence for publisher in publishers_of(deployment)]
            assert max(lengths, default=0) >= 0


async def test_clients_send_by_themselves_at_a_bounded_rate(fleet: SimulatedFleet) -> None:
    clients = fleet.deployments["small"].clients
    clients.rate = 200.0
    await until(lambda: clients.truth.answers[200] >= 20, "answers")
    clients.rate = 0.0


async def test_the_document_is_read_by_the_observers_own_loader(tmp_path: Path) -> None:
    clock = SystemClock()
    async with SimulatedFleet(demo_fleet(rate=0.0), clock=clock, hooks=publishing(clock)) as fleet:
        path = tmp_path / "fleet.yaml"
        fleet.write_document(path)
        found = {each.key.name: each for each in load_files([path]).deployments}
        assert set(found) == set(fleet.deployments)
        engines = {target.address.port for each in found.values() for target in each.targets()}
        assert engines == {
            port
            for deployment in fleet.deployments.values()
            for port in (
                *(engine.listener.port for engine in deployment.engines()),
                *(router.metrics.port for router in deployment.routers),
            )
        }
        reason = found["reason"]
        assert [len(member.kv_events) for role in reason.roles for member in role.members()] == [2, 2]
        decode = found["long-context"].roles[1]
        assert [member.serves for member in decode.members()] == [True, False, True, False]


@pytest.mark.parametrize("name", SCENARIOS)
async def test_every_scenario_applies_and_is_undone(name: str) -> None:
    clock = SystemClock()
    async with SimulatedFleet(small(), clock=clock, hooks=publishing(clock)) as fleet:
        assert await fleet.apply(name) == ["small"]
        assert fleet.state()["scenario"] == name
        await asyncio.sleep(0)
        await fleet.apply("steady")
        deployment = fleet.deployments["small"]
        await until(lambda: all(engine.phase is Phase.SERVING for engine in deployment.engines()), "serving engines")
        await until(
            lambda: all(
                len(router.workers) == 3 and all(w.healthy for w in router.workers) for router in deployment.routers
            ),
            "routers that know three healthy workers",
        )
        await asyncio.sleep(FAST["breaker_open_seconds"])
        assert await ask(deployment, 6) == [200] * 6
        assert len(deployment.replicas) == 3


async def test_split_brain_is_one_router_against_the_other(fleet: SimulatedFleet) -> None:
    await fleet.apply("router-split-brain")
    deployment = fleet.deployments["small"]
    first, second = deployment.routers
    url = deployment.replica().engine.url
    await until(lambda: not next(w for w in second.workers if w.address.url == url).healthy, "an unhealthy worker")
    assert next(worker for worker in first.workers if worker.address.url == url).healthy


async def test_a_kept_dead_worker_stays_selected(fleet: SimulatedFleet) -> None:
    await fleet.apply("router-keeps-dead-worker")
    deployment = fleet.deployments["small"]
    assert None not in await ask(deployment, 6)
    url = deployment.replica().engine.url
    for router in deployment.routers:
        worker = next(worker for worker in router.workers if worker.address.url == url)
        assert worker.healthy
        assert not worker.circuit_open


async def test_an_open_circuit_comes_from_real_failures(fleet: SimulatedFleet) -> None:
    await fleet.apply("circuit-open")
    deployment = fleet.deployments["small"]
    await ask(deployment, 24)
    url = deployment.replica().engine.url
    assert all(next(w for w in router.workers if w.address.url == url).circuit_open for router in deployment.routers)
    assert deployment.clients.truth.answers == {200: 24}


async def test_half_a_gang_misses_a_member_and_hangs(fleet: SimulatedFleet) -> None:
    whole = fleet.document()["deployments"][0]["roles"][0]["replicas"]
    await fleet.apply("half-gang")
    half = fleet.document()["deployments"][0]["roles"][0]["replicas"]
    assert [len(replica["members"]) for replica in whole] == [2, 2, 2]
    assert [len(replica["members"]) for replica in half] == [1, 2, 2]
    assert fleet.deployments["small"].replica().engine.behaviour.hanging


async def test_retirement_is_written_down_and_drains(fleet: SimulatedFleet) -> None:
    await fleet.apply("retirement")
    replicas = fleet.document()["deployments"][0]["roles"][0]["replicas"]
    assert [replica.get("retiring", False) for replica in replicas] == [False, False, True]
    deployment = fleet.deployments["small"]
    assert all(len(router.workers) == 2 for router in deployment.routers)
    assert await ask(deployment, 4) == [200] * 4
    assert deployment.replicas[-1].engine.answers[200] == 0


async def test_a_replaced_worker_has_another_name_at_the_same_address(fleet: SimulatedFleet) -> None:
    before = fleet.document()["deployments"][0]["roles"][0]["replicas"][0]["members"][0]
    await fleet.apply("worker-replaced-same-ip")
    after = fleet.document()["deployments"][0]["roles"][0]["replicas"][0]["members"][0]
    assert before["address"] == after["address"]
    assert before["name"] != after["name"]


async def test_the_ledger_tells_answers_by_status_and_engine(fleet: SimulatedFleet) -> None:
    deployment = fleet.deployments["small"]
    for engine in deployment.engines():
        engine.behaviour.error_rate = 1.0
    assert await ask(deployment, 2) == [500, 500]
    truth = fleet.state()["deployments"]["small"]
    assert truth["clients"]["answers"] == {"500": 2}
    assert sum(engine["answers"]["500"] for engine in truth["engines"].values() if engine["answers"]) == 4
    async with aiohttp.ClientSession() as session:
        exhausted = 0.0
        for router in deployment.routers:
            async with session.get(f"{router.metrics.url}/metrics") as response:
                exhausted += total(await response.text(), "vllm_router_retries_exhausted_total")
    assert exhausted == 2


async def test_the_control_api(fleet: SimulatedFleet) -> None:
    control = control_listener(fleet)
    await control.start()
    try:
        async with aiohttp.ClientSession(control.url) as session:
            async with session.get("/simulate/scenarios") as response:
                assert set(await response.json()) == set(SCENARIOS)
            async with session.post("/simulate/scenarios/engine-down") as response:
                assert await response.json() == {"scenario": "engine-down", "deployments": ["small"]}
            async with session.get("/simulate") as response:
                state = await response.json()
            assert state["deployments"]["small"]["engines"]["small-server-0"]["phase"] == "Stopped"
            async with session.post("/simulate/scenarios/no-such") as response:
                assert response.status == 404
                assert "no-such" in (await response.json())["error"]
            async with session.post("/simulate/scenarios/steady", params={"deployment": "other"}) as response:
                assert response.status == 404
            async with session.get("/simulate/fleet") as response:
                assert (await response.json())["kind"] == "Fleet"
    finally:
        await control.close()


async def test_a_scenario_that_cannot_apply_says_so() -> None:
    spec = FleetSpec(deployments=(DeploymentSpec(name="bare", rate=0.0),))
    async with SimulatedFleet(spec) as fleet:
        with pytest.raises(ValueError, match="router-split-brain"):
            await fleet.apply("router-split-brain")


async def test_stopping_gives_every_port_back() -> None:
    fleet = SimulatedFleet(small())
    await fleet.start()
    ports = [engine.listener.port for engine in fleet.deployments["small"].engines()]
    await fleet.stop()
    for port in ports:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", port)
        server.close()
        await server.wait_closed()

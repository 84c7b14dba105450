"""A simulated fleet and the observer on it: in each scenario status, explanation and metrics say what is so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from observer.app.watcher import Watcher
from observer.clock import SystemClock
from observer.collect.options import ScrapeSettings
from observer.settings import JudgingSettings, RouterSettings, Settings, load_files
from observer.simulate.fleet import SimulatedFleet
from observer.simulate.spec import DeploymentSpec, EngineSpec, FleetSpec, RoleSpec, RouterSpec
from tests.simulate.harness import FAST

SETTINGS = Settings(
    scrape=ScrapeSettings(period=0.5, timeout=0.4),
    routers=RouterSettings(view_period=0.5, view_timeout=0.4, view_valid=3.0),
    judging=JudgingSettings(period=0.2, stall_after=5.0),
)
ENGINE = EngineSpec(token_seconds=0.002)
LATE = 40.0
"""Seconds in which a busy machine must have come to any of these answers."""


def fleet_of(*roles: RoleSpec, routers: int = 2) -> FleetSpec:
    spec = DeploymentSpec(
        name="chat",
        roles=roles,
        router=RouterSpec(software="vllm_router", replicas=routers, **FAST),
        rate=8.0,
    )
    return FleetSpec(deployments=(spec,))


PLAIN = fleet_of(RoleSpec(replicas=2, engine=ENGINE))
GANG = fleet_of(RoleSpec(replicas=2, size=2, engine=ENGINE))


class World:
    """The fleet, the observer's address, and what it says."""

    def __init__(self, fleet: SimulatedFleet, watcher: Watcher, session: aiohttp.ClientSession, file: Any) -> None:
        self.fleet, self._watcher, self._session, self._file = fleet, watcher, session, file

    async def apply(self, scenario: str) -> None:
        """Change the fleet and tell the observer what there is now."""
        await self.fleet.apply(scenario)
        await self.follow()

    async def follow(self) -> None:
        """Let the observer watch the fleet as it is described now."""
        self.fleet.write_document(self._file)
        await self._watcher.watch(load_files([self._file]).deployments)

    async def ask(self, part: str) -> Any:
        """One of the deployment's documents."""
        async with self._session.get(f"/api/v1/namespaces/demo/modeldeployments/chat/{part}") as answer:
            return await answer.json()

    async def metrics(self) -> list[str]:
        """The lines of the exposition."""
        async with self._session.get("/metrics") as answer:
            return (await answer.text()).splitlines()

    async def until(self, part: str, holds: Callable[[Any], bool]) -> Any:
        """The first document of which something holds; fails with the last one that came."""
        found: Any = None
        try:
            async with asyncio.timeout(LATE):
                while True:
                    found = await self.ask(part)
                    if found.get("kind") != "Status" and holds(found):
                        return found
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"not within {LATE} s; the last {part} was {found}") from None


@asynccontextmanager
async def world(spec: FleetSpec, tmp_path: Any) -> AsyncIterator[World]:
    clock = SystemClock()
    async with (
        SimulatedFleet(spec, clock=clock) as fleet,
        Watcher(SETTINGS, clock, listen="127.0.0.1:0") as watcher,
        aiohttp.ClientSession(watcher.url) as session,
    ):
        made = World(fleet, watcher, session, tmp_path / "fleet.yaml")
        await made.follow()
        await made.until("status", lambda found: reason(found, "RouterConverged") == "Converged")
        yield made


def condition(found: Any, kind: str) -> Any:
    return next((item for item in found["status"]["conditions"] if item["type"] == kind), {})


def reason(found: Any, kind: str) -> str:
    return condition(found, kind).get("reason", "")


def groups(found: Any) -> list[str]:
    return [group["state"] for role in found["status"]["roles"] for group in role["groups"]]


def eligible(found: Any) -> int | None:
    return found["status"]["roles"][0]["endpoints"]["eligible"]


async def test_all_is_well_and_the_numbers_agree_everywhere(tmp_path) -> None:
    async with world(PLAIN, tmp_path) as observed:
        found = await observed.until("status", lambda made: made["status"]["phase"] == "Ready")
        told = found["status"]
        assert (told["roleSummary"], eligible(found), groups(found)) == ("2R2S", 2, ["Eligible", "Eligible"])
        assert told["roles"][0]["endpoints"]["serving"]["value"] == 2
        assert [len(view["workers"]) for view in told["routerViews"]] == [2, 2]
        lines = await observed.metrics()
        labels = 'deployment="chat",namespace="demo"'
        assert f'modeldeployment_status_phase{{{labels},phase="Ready"}} 1.0' in lines
        assert f'modeldeployment_replicas{{{labels},role="server",state="eligible"}} 2.0' in lines
        assert f'modeldeployment_router_converged{{{labels},router="vllm-router"}} 1.0' in lines
        assert f'modeldeployment_router_endpoints{{{labels},router="vllm-router",state="missing"}} 0.0' in lines
        count = next(line for line in lines if line.startswith("modeldeployment_router_convergence_seconds_count"))
        # Routers that already agreed when we began were followed by nobody: there is no time to count.
        assert float(count.split()[-1]) == 0.0


async def test_an_engine_that_is_gone_is_down_and_loses_its_eligibility(tmp_path) -> None:
    async with world(PLAIN, tmp_path) as observed:
        await observed.apply("engine-down")
        found = await observed.until("status", lambda made: "NotReady" in groups(made) and eligible(made) == 1)
        assert condition(found, "EndpointEligibility")["status"] == "False"
        made = await observed.until("explain", lambda made: made.get("main", {}).get("reason") == "Down")
        assert (len(made["sentences"]), made["phase"]) == (3, "Degraded")
        assert "connection refused" in made["sentences"][1]
        history = (await observed.ask("explain?history=true"))["history"]
        assert ("Eligible", "NotReady") in {(item["from"], item["to"]) for item in history}
        lines = await observed.metrics()
        held = [line for line in lines if line.startswith("modeldeployment_endpoint_ineligible_reason")]
        assert [line.endswith(" 1.0") for line in held if 'reason="MembersReady"' in line].count(True) == 1


async def test_a_hung_engine_is_stalled_and_stays_eligible(tmp_path) -> None:
    async with world(PLAIN, tmp_path) as observed:
        await observed.apply("engine-hang")
        found = await observed.until("status", lambda made: reason(made, "EngineProgressing") == "Stalled")
        assert (eligible(found), found["status"]["phase"]) == (2, "Ready")
        made = await observed.until("explain", lambda made: made.get("main", {}).get("reason") == "Stalled")
        assert "no progress" in made["sentences"][1]
        stalls = [
            line for line in await observed.metrics() if line.startswith("modeldeployment_endpoint_stall_seconds{")
        ]
        assert max(float(line.split()[-1]) for line in stalls) >= 5.0


async def test_an_engine_that_starts_again_is_revoked_and_comes_back(tmp_path) -> None:
    async with world(PLAIN, tmp_path) as observed:
        first = await observed.ask("status")
        await observed.apply("cold-start")
        await observed.until("status", lambda made: eligible(made) != 2)
        found = await observed.until(
            "status", lambda made: eligible(made) == 2 and reason(made, "RouterConverged") == "Converged"
        )
        before, after = (
            [group["qualifiedAt"] for group in made["status"]["roles"][0]["groups"]] for made in (first, found)
        )
        assert sum(old != new for old, new in zip(before, after, strict=True)) == 1


async def test_an_open_circuit_is_a_missing_endpoint(tmp_path) -> None:
    async with world(PLAIN, tmp_path) as observed:
        await observed.apply("circuit-open")
        found = await observed.until("status", lambda made: reason(made, "RouterConverged") == "MissingEndpoint")
        assert eligible(found) == 2
        assert len(found["status"]["convergence"]["missing"]) == 1
        workers = [worker for view in found["status"]["routerViews"] for worker in view["workers"]]
        assert {"open", "half_open"} & {worker["circuit"] for worker in workers}


async def test_routers_that_disagree_are_named(tmp_path) -> None:
    async with world(PLAIN, tmp_path) as observed:
        await observed.apply("router-split-brain")
        found = await observed.until("status", lambda made: reason(made, "RouterConverged") == "ViewsDisagree")
        told = found["status"]["convergence"]
        assert (told["serving"]["state"], "value" in told["serving"]) == ("NotConverged", False)
        assert (told["missing"], told["extra"]) == (None, None)
        made = await observed.until("explain", lambda made: made.get("main", {}).get("type") == "RouterConverged")
        assert "selected and refused" in made["sentences"][1]


async def test_half_a_gang_is_incomplete(tmp_path) -> None:
    async with world(GANG, tmp_path) as observed:
        await observed.apply("half-gang")
        found = await observed.until("status", lambda made: "Incomplete" in groups(made))
        (group,) = [group for group in found["status"]["roles"][0]["groups"] if group["state"] == "Incomplete"]
        assert (group["reason"], eligible(found)) == ("MemberSetComplete", 1)
        made = await observed.until("explain", lambda made: made["phase"] == "Degraded")
        assert "Incomplete" in " ".join(made["sentences"])


@pytest.mark.parametrize("part", ["status", "explain", "contract"])
async def test_nothing_is_said_of_what_is_not_there(tmp_path, part: str) -> None:
    async with (
        Watcher(SETTINGS, SystemClock(), listen="127.0.0.1:0") as watcher,
        aiohttp.ClientSession(watcher.url) as session,
        session.get(f"/api/v1/namespaces/demo/modeldeployments/chat/{part}") as answer,
    ):
        assert answer.status == 404

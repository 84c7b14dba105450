"""Every scenario about routers and replicas: a simulated fleet, a whole observer on it, and what it says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from observer.app.watcher import Watcher
from observer.clock import SystemClock
from observer.collect.options import ScrapeSettings
from observer.settings import HttpSettings, JudgingSettings, RouterSettings, Settings, load_files
from observer.simulate.fleet import SimulatedFleet
from observer.simulate.spec import DeploymentSpec, EngineSpec, FleetSpec, RoleSpec, RouterSpec
from router_contract.targets import DeploymentKey, RoleKind
from router_contract.verdicts import DeploymentReport

PERIOD = 0.3
SETTINGS = Settings(
    scrape=ScrapeSettings(period=PERIOD, timeout=0.25),
    routers=RouterSettings(view_period=PERIOD, view_timeout=0.25, view_valid=2.0),
    judging=JudgingSettings(period=0.1, stall_after=2.0),
    http=HttpSettings(listen="127.0.0.1:0"),
)
VLLM = EngineSpec(software="vllm")
SGLANG = EngineSpec(software="sglang")
QUICK = {"health_interval": 0.2, "health_timeout": 0.2}
FLEETS = {
    "chat": DeploymentSpec(
        name="chat",
        roles=(RoleSpec(replicas=3, engine=VLLM),),
        router=RouterSpec(software="vllm_router", replicas=2, **QUICK),
        rate=8.0,
    ),
    "gang": DeploymentSpec(
        name="gang",
        roles=(
            RoleSpec(name="prefill", kind=RoleKind.PREFILL, replicas=1, engine=SGLANG),
            RoleSpec(name="decode", kind=RoleKind.DECODE, replicas=2, size=2, engine=SGLANG),
        ),
        router=RouterSpec(software="sglang_gateway", **QUICK),
        rate=8.0,
    ),
    "vision": DeploymentSpec(
        name="vision",
        roles=tuple(RoleSpec(name=kind.value.lower(), kind=kind, engine=VLLM) for kind in list(RoleKind)[1:]),
        router=RouterSpec(software="llm_d", observer_endpoints=True, **QUICK),
        rate=8.0,
    ),
}


class Whole:
    """A running fleet of one deployment and the observer on it."""

    def __init__(self, name: str, fleet: SimulatedFleet, watcher: Watcher) -> None:
        self.fleet = fleet
        self.watcher = watcher
        self.key = DeploymentKey("demo", name)

    def report(self) -> DeploymentReport:
        found = self.watcher.source.deployment(self.key)
        assert found is not None
        return found

    def said(self, kind: str) -> str:
        return next((f"{c.status.value}/{c.reason}" for c in self.report().conditions if c.type == kind), "")

    def states(self) -> list[str]:
        return sorted(group.state.value for role in self.report().role_status for group in role.groups)

    def eligible(self) -> list[int | None]:
        return [role.endpoints.eligible for role in self.report().role_status]

    async def until(self, condition: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    await asyncio.sleep(0.02)
        except TimeoutError:
            answers = {c.type: f"{c.status.value}/{c.reason}: {c.message}" for c in self.report().conditions}
            raise AssertionError(f"{what}: never; {self.states()} {self.eligible()} {answers}") from None

    async def settled(self) -> None:
        await self.until(lambda: self.said("RouterConverged") == "True/Converged", "converged at first")


@asynccontextmanager
async def whole(name: str, folder: Path) -> AsyncIterator[Whole]:
    file = folder / "fleet.yaml"
    async with (
        SimulatedFleet(FleetSpec(deployments=(FLEETS[name],))) as fleet,
        Watcher(SETTINGS, SystemClock()) as watcher,
    ):

        async def follow() -> None:
            shown = None
            while True:
                if (document := fleet.document()) != shown:
                    shown = document
                    fleet.write_document(file)
                    await watcher.watch(load_files([file]).deployments)
                await asyncio.sleep(0.05)

        watcher.supervise("follow the simulated fleet", follow)
        made = Whole(name, fleet, watcher)
        await asyncio.sleep(0.2)
        await made.settled()
        yield made


@pytest.mark.parametrize(
    ("name", "scenario", "condition", "eligible", "state"),
    [
        pytest.param("chat", "steady", ("RouterConverged", "True/Converged"), [3], "Eligible", id="steady"),
        pytest.param(
            "vision", "steady", ("RoleKindsReady", "True/AllKindsReady"), [1, 1, 1], "Eligible", id="three kinds"
        ),
        pytest.param(
            "chat", "circuit-open", ("RouterConverged", "False/MissingEndpoint"), [3], "Eligible", id="circuit open"
        ),
        pytest.param(
            "chat", "router-split-brain", ("RouterConverged", "False/ViewsDisagree"), [3], "Eligible", id="split brain"
        ),
        pytest.param(
            "chat",
            "router-keeps-dead-worker",
            ("RouterConverged", "False/ExtraEndpoint"),
            [2],
            "NotReady",
            id="keeps a dead worker",
        ),
        pytest.param(
            "chat", "router-view-lost", ("RouterConverged", "Unknown/ViewUnavailable"), [3], "Eligible", id="view lost"
        ),
        pytest.param(
            "chat", "router-down", ("RouterConverged", "Unknown/ViewUnavailable"), [3], "Eligible", id="router down"
        ),
        pytest.param(
            "chat", "engine-down", ("EndpointEligibility", "False/Revoked"), [2], "NotReady", id="engine down"
        ),
        pytest.param(
            "chat", "slow-load", ("EndpointEligibility", "False/Revoked"), [2], "NotReady", id="slow load after serving"
        ),
        pytest.param("chat", "engine-stall", ("EngineProgressing", "False/Stalled"), [3], "Eligible", id="stall"),
        pytest.param(
            "chat", "engine-hang", ("EngineProgressing", "False/Stalled"), [3], "Eligible", id="hang with a good health"
        ),
        pytest.param(
            "chat",
            "saturation",
            ("EngineProgressing", "True/Progressing"),
            [3],
            "Eligible",
            id="saturation is no stall",
        ),
        pytest.param("chat", "retirement", ("EndpointEligibility", "False/Revoked"), [2], "Retiring", id="retirement"),
        pytest.param("chat", "rollout", ("EndpointEligibility", "False/Revoked"), None, "Replacing", id="rollout"),
        pytest.param(
            "gang", "half-gang", ("EndpointEligibility", "False/Revoked"), [1, 1], "Incomplete", id="half a gang"
        ),
    ],
)
async def test_scenario(
    name: str, scenario: str, condition: tuple[str, str], eligible: list[int] | None, state: str, tmp_path: Path
) -> None:
    async with whole(name, tmp_path) as made:
        await made.fleet.apply(scenario)
        await made.until(
            lambda: (
                made.said(condition[0]) == condition[1]
                and state in made.states()
                and (eligible is None or made.eligible() == eligible)
            ),
            f"{scenario} as {condition}",
        )
        report = made.report()
        assert len(report.explanation.sentences) == 3
        if condition[1].startswith("False"):
            wrong = [report.explanation.main, *report.explanation.others]
            assert condition[0] in {finding.type for finding in wrong if finding is not None}


@pytest.mark.parametrize("scenario", ["worker-replaced-same-ip", "engine-restart"])
async def test_a_life_that_ends_is_left_and_qualified_anew(scenario: str, tmp_path: Path) -> None:
    async with whole("chat", tmp_path) as made:
        before = {group.generation: group.qualified_at for role in made.report().role_status for group in role.groups}
        await made.fleet.apply(scenario)
        await made.settled()
        after = {group.generation: group.qualified_at for role in made.report().role_status for group in role.groups}
        assert made.eligible() == [3]
        assert sum(after.get(key) == value for key, value in before.items()) >= 2


async def test_a_restart_loop_is_left_and_comes_back(tmp_path: Path) -> None:
    async with whole("chat", tmp_path) as made:
        await made.fleet.apply("restart-loop")
        await made.until(lambda: "NotReady" in made.states(), "revoked")
        await made.until(lambda: made.eligible() == [3], "back")
        changes = [item.what for item in made.report().transitions]
        assert any(item.startswith("group ") for item in changes)

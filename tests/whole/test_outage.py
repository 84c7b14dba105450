"""An engine dies, comes back, and a router dies: what was read ages, the others stay fresh, totals never fall."""

from __future__ import annotations

import asyncio
from pathlib import Path

from observer.app.watcher import Watcher
from observer.simulate.fleet import SimulatedFleet
from router_contract.readings import FailureKind, MissingCode, SignalValue, State
from router_contract.verdicts import DeploymentReport, TargetState, TargetStatus
from tests.whole.world import SETTINGS, Asking, MovableClock, asking, deployments_of, small_fleet

TOKENS = "generation-tokens"
TTFT = "time-to-first-token"
DEAD, ALIVE, ROUTER = "chat-server-0", "chat-server-1", "chat-router-0"


def status(report: DeploymentReport, name: str) -> TargetStatus:
    return next(each.status for each in report.targets if each.status.member == name)


def value(report: DeploymentReport, name: str, signal: str = TOKENS) -> SignalValue:
    (found,) = next(each.of(signal) for each in report.targets if each.status.member == name)
    return found


def states(report: DeploymentReport, name: str) -> set[State]:
    target = next(each for each in report.targets if each.status.member == name)
    return {each.state for each in target.values if each.state is not State.MISSING} or {State.MISSING}


def condition(report: DeploymentReport, kind: str) -> str:
    return next(f"{each.status.value}/{each.reason}" for each in report.conditions if each.type == kind)


class Totals:
    """Running totals as they are published, watched so that none ever falls."""

    def __init__(self) -> None:
        self.engine: dict[str, float] = {}
        self.role = 0.0
        self.samples = 0

    async def watch(self, asked: Asking) -> None:
        while True:
            report = asked.report()
            for target in report.targets:
                for each in target.of(TOKENS):
                    total, name = each.running_total, target.status.member
                    assert total is None or total >= self.engine.get(name, 0.0), name
                    self.engine[name] = total if total is not None else self.engine.get(name, 0.0)
                    assert each.window is None or each.window.increase >= 0, each
            whole = next((each for role in report.roles for each in role.values if each.signal == TTFT), None)
            if whole is not None and whole.running_total is not None:
                assert whole.running_total >= self.role
                self.role = whole.running_total
            self.samples += 1
            await asyncio.sleep(0.05)


async def test_an_engine_dies_and_comes_back_and_a_router_dies(tmp_path: Path) -> None:
    clock, totals = MovableClock(), Totals()
    async with (
        SimulatedFleet(small_fleet(routers=2)) as fleet,
        asking(Watcher(SETTINGS, clock, listen="127.0.0.1:0")) as asked,
        asyncio.TaskGroup() as group,
    ):
        await asked.watcher.watch(deployments_of(fleet, tmp_path))
        await asked.ready(5)
        watching = group.create_task(totals.watch(asked))
        await engine_restarts(asked, fleet)
        before = await engine_dies(asked, clock, fleet)
        await engine_returns(asked, fleet, before)
        await router_dies(asked, fleet)
        watching.cancel()
    assert totals.samples > 20
    assert totals.role > 0


async def engine_restarts(asked: Asking, fleet: SimulatedFleet) -> None:
    before = value(asked.report(), ALIVE)
    await fleet.deployments["chat"].replica(1).engine.restart()
    await asked.until(lambda: status(asked.report(), ALIVE).resets == 1, "the restart is seen")
    after = value(asked.report(), ALIVE)
    assert after.value < before.value, "the new process counts from 0"
    assert after.window.lossy
    assert after.window.increase >= 0
    assert after.running_total >= before.running_total


async def engine_dies(asked: Asking, clock: MovableClock, fleet: SimulatedFleet) -> SignalValue:
    engine = fleet.deployments["chat"].replica(0).engine
    await engine.die()
    await asked.until(lambda: status(asked.report(), DEAD).consecutive_failures >= 1, "the dead engine fails")
    report = asked.report()
    shown = status(report, DEAD)
    assert (shown.state, shown.last_error_kind) == (TargetState.FAILING, FailureKind.REFUSED)
    assert states(report, DEAD) == {State.FRESH}, "what was read is still young"
    before = value(report, DEAD)
    await asked.until(lambda: states(asked.report(), DEAD) == {State.STALE}, "the dead engine's values go stale")
    report = asked.report()
    assert value(report, DEAD).value == before.value
    assert states(report, ALIVE) == {State.FRESH}
    await asked.until(lambda: condition(asked.report(), "MetricsFresh").startswith("False"), "MetricsFresh")
    clock.move(SETTINGS.windows.expire_after)
    # All others are read again within a period and are as fresh as before; the dead one has expired.
    await asked.until(lambda: states(asked.report(), ALIVE) == {State.FRESH}, "the living engine is read again")
    report = asked.report()
    assert {each.missing for each in report.targets[0].values} == {MissingCode.EXPIRED}
    assert status(report, DEAD).member == DEAD
    document = await asked.document()
    assert document["partial"] is True
    assert any(gap["pod"] == DEAD and gap["code"] == "ScrapeFailed" for gap in document["missing"])
    assert document["coverage"]["failed"] == 1
    return before


async def engine_returns(asked: Asking, fleet: SimulatedFleet, before: SignalValue) -> None:
    engine = fleet.deployments["chat"].replica(0).engine
    await engine.start()
    await asked.until(lambda: states(asked.report(), DEAD) == {State.FRESH}, "the engine is read again")
    await asked.until(lambda: value(asked.report(), DEAD).window is not None, "its window begins again")
    report = asked.report()
    again = value(report, DEAD)
    assert again.value < before.value, "the new process counts from 0"
    assert again.window.seconds < SETTINGS.windows.max, "no window reaches over the outage"
    assert again.running_total >= before.running_total
    assert status(report, DEAD).resets == 1
    await asked.until(lambda: value(asked.report(), DEAD).running_total > before.running_total, "it counts on", 20.0)


async def router_dies(asked: Asking, fleet: SimulatedFleet) -> None:
    await fleet.deployments["chat"].routers[0].die()
    await asked.until(lambda: status(asked.report(), ROUTER).consecutive_failures >= 1, "the dead router fails")
    await asked.until(lambda: states(asked.report(), ROUTER) == {State.STALE}, "its values go stale")
    report = asked.report()
    assert all(states(report, name) == {State.FRESH} for name in (DEAD, ALIVE, "chat-router-1"))
    assert condition(report, "RouterConverged").startswith("Unknown") or report.convergence.views_usable == 2
    await asked.until(lambda: any("Refused" in str(view) for view in asked.report().views), "its view fails too")

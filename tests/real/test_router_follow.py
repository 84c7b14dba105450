"""The observer follows real routers: a killed engine, an open circuit, a worker added and one removed.

The router is asked beside the observer, by its own `/workers` and its own circuit series. From the moment a change
stands there the observer may need two reads of its own; the states it goes through and their order are asserted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from observer.clock import SystemClock
from router_contract.router_views import Circuit, RouterView
from router_contract.status import GroupState
from tests.real.observed import ENGINES, KEY, Observed, observed
from tests.real.routers import change_worker, listed, real_router
from tests.simulate.harness import Bench, bench, samples

pytestmark = pytest.mark.real
CIRCUIT = {"sglang_gateway": "smg_worker_cb_state", "vllm_router": "vllm_router_cb_state"}
READS = 2
FAST = {"health_check_interval_secs": "1", "cb_timeout_duration_secs": "2"}
CONVERGED, MISSING, EXTRA = "True/Converged", "False/MissingEndpoint", "False/ExtraEndpoint"
ELIGIBLE, NOT_READY, AWAITING = GroupState.ELIGIBLE, GroupState.NOT_READY, GroupState.AWAITING_OBSERVATION


class Said(NamedTuple):
    """What the observer says at one moment: about one engine, and about all."""

    group: GroupState | None
    converged: str
    eligible: int | None
    serving: int | None


class Story:
    """What the router shows and what the observer says, each change with its time (mono seconds)."""

    def __init__(self, made: Bench, seen: Observed) -> None:
        self._made = made
        self._seen = seen
        self._clock = SystemClock()
        self.healthy: dict[str, bool] = {}
        self.circuits: dict[str, float] = {}
        self.about = ""
        self.said: list[tuple[float, Said]] = []

    def now(self) -> float:
        return self._clock.now().mono

    async def follow_router(self) -> None:
        """The router's own answers, again and again."""
        router = self._seen.router
        while True:
            rows = await listed(router, self._made.session)
            self.healthy = {url: bool(row["is_healthy"]) for url, row in rows.items()}
            text = (await self._made.get(f"{router.metrics}/metrics"))[1]
            self.circuits = {url: state for url in rows for state in samples(text, CIRCUIT[router.kind], worker=url)}
            await asyncio.sleep(0.03)

    async def follow_observer(self) -> None:
        """What the observer answers, when it changes."""
        while True:
            said = self.look()
            if said is not None and (not self.said or self.said[-1][1] != said):
                self.said.append((self.now(), said))
            await asyncio.sleep(0.01)

    def look(self) -> Said | None:
        report = self._seen.watcher.source.deployment(KEY)
        if report is None or not report.judged or report.convergence is None:
            return None
        role = report.role_status[0]
        groups = {member.name: group.state for group in role.groups for member in group.members}
        converged = next(f"{c.status.value}/{c.reason}" for c in report.conditions if c.type == "RouterConverged")
        return Said(groups.get(self.about), converged, role.endpoints.eligible, report.convergence.serving.value)

    def view(self) -> RouterView | None:
        report = self._seen.watcher.source.deployment(KEY)
        views = [view for view in report.views if isinstance(view, RouterView)] if report is not None else []
        return views[-1] if views else None

    def begin(self, engine: Any) -> None:
        """From here on the story is about one engine."""
        self.about = engine.name
        said = self.look()
        assert said is not None
        self.said = [(self.now(), said)]

    async def until(self, condition: Callable[[], bool], what: str, seconds: float = 20.0) -> float:
        """When a condition came to hold; fails by telling the story so far."""
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise AssertionError(f"{what}: not within {seconds} s; {self.told()}; {self.view()}") from None
        return self.now()

    async def says(self, said: Said) -> float:
        """When the observer came to say this."""
        await self.until(lambda: self.said[-1][1] == said, f"{said}")
        return self.said[-1][0]

    def told(self) -> list[Said]:
        return [said for _, said in self.said]

    def reads(self, since: float, to: float) -> int:
        """How many views the observer read in between; the last of them told it."""
        return sum(since < at <= to for at in self._seen.watcher.views)

    def reads_of_a_circuit(self, since: float, to: float) -> int:
        """The read of the metrics that had the circuit, and the views from then on that were joined with it."""
        had = next((at for at in self._seen.watcher.router_reads if at > since), to)
        return 1 + self.reads(had, to)


@asynccontextmanager
async def telling(made: Bench, seen: Observed) -> AsyncIterator[Story]:
    story = Story(made, seen)
    tasks = [asyncio.ensure_future(run()) for run in (story.follow_router, story.follow_observer)]
    try:
        yield story
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended


async def killed(story: Story, engine: Any) -> int:
    """We see it first; while the router still selects it, it has one too many."""
    story.begin(engine)
    await engine.die()
    changed = await story.until(lambda: story.healthy.get(engine.url) is False, "the router finds it dead")
    seen = await story.says(Said(NOT_READY, CONVERGED, 2, 2))
    assert story.told() == [
        Said(ELIGIBLE, CONVERGED, 3, 3),
        Said(NOT_READY, EXTRA, 2, 3),
        Said(NOT_READY, CONVERGED, 2, 2),
    ]
    return story.reads(changed, seen)


async def revived(story: Story, engine: Any) -> int:
    story.begin(engine)
    await engine.start()
    changed = await story.until(lambda: story.healthy.get(engine.url) is True, "the router finds it alive")
    seen = await story.says(Said(ELIGIBLE, CONVERGED, 3, 3))
    between = set(story.told()[1:-1])
    # Either may find it first: ours before the router's is one that gets no traffic, the other way round one too many.
    assert between <= {Said(ELIGIBLE, MISSING, 3, 2), Said(NOT_READY, EXTRA, 2, 3)}, story.told()
    return story.reads(changed, seen)


async def circuit_opened(story: Story, made: Bench, api: str, engine: Any) -> int:
    """Its answers fail, so the router selects it no longer; it stays eligible, because it serves what it is asked."""
    story.begin(engine)
    engine.behaviour.error_rate = 1.0
    while story.circuits.get(engine.url) != 1.0:
        assert await made.post(api) == 200
    changed = story.now()
    assert story.healthy[engine.url] is True, "the worker list does not show a circuit"
    seen = await story.says(Said(ELIGIBLE, MISSING, 3, 2))
    view = story.view()
    assert view is not None
    assert {row.circuit for row in view.workers if row.url == engine.url} == {Circuit.OPEN}
    return story.reads_of_a_circuit(changed, seen)


async def circuit_closed(story: Story, made: Bench, api: str, engine: Any) -> int:
    engine.behaviour.steady()
    changed = 0.0
    async with asyncio.timeout(20):
        while story.circuits.get(engine.url) != 0.0:
            assert await made.post(api) == 200
            await asyncio.sleep(0.05)
            # Half-open is selected again already.
            changed = changed or (story.now() if story.circuits.get(engine.url) != 1.0 else 0.0)
    seen = await story.says(Said(ELIGIBLE, CONVERGED, 3, 3))
    told = story.told()
    assert [said for said in told if said.converged == MISSING] == [Said(ELIGIBLE, MISSING, 3, 2)], told
    assert {said.group for said in told} == {ELIGIBLE}
    return story.reads_of_a_circuit(changed, seen)


async def added(story: Story, made: Bench, seen: Observed, engines: list[Any]) -> int:
    """It serves, and no router lists it: it awaits observation, and nobody says how many are eligible."""
    story.begin(engines[3])
    await seen.watch({"Server": engines})
    await story.until(lambda: story.told()[-1].group is AWAITING, "it awaits observation")
    await change_worker(seen.router, made.session, engines[3].url, add=True)
    changed = await story.until(lambda: story.healthy.get(engines[3].url) is True, "the router lists it")
    done = await story.says(Said(ELIGIBLE, CONVERGED, 4, 4))
    groups = list(dict.fromkeys(said.group for said in story.told() if said.group is not None))
    assert groups[-2:] == [AWAITING, ELIGIBLE], story.told()
    assert {said.eligible for said in story.told()[1:-1]} == {None}, story.told()
    return story.reads(changed, done)


async def removed(story: Story, made: Bench, seen: Observed, engines: list[Any]) -> int:
    """The router forgets one that is still there: it gets no traffic until the fleet says that it left too."""
    story.begin(engines[2])
    await change_worker(seen.router, made.session, engines[2].url, add=False)
    changed = await story.until(lambda: engines[2].url not in story.healthy, "the router lists it no longer")
    done = await story.says(Said(ELIGIBLE, MISSING, 4, 3))
    await seen.watch({"Server": [engine for engine in engines if engine is not engines[2]]})
    await story.says(Said(None, CONVERGED, 3, 3))
    assert story.told() == [
        Said(ELIGIBLE, CONVERGED, 4, 4),
        Said(ELIGIBLE, MISSING, 4, 3),
        Said(None, CONVERGED, 3, 3),
    ]
    return story.reads(changed, done)


@pytest.mark.parametrize("kind", ENGINES)
async def test_the_observer_follows_within_two_reads_and_in_order(kind: str, tmp_path: Path) -> None:
    async with bench() as made:
        engines = await made.started(4, ENGINES[kind])
        async with (
            real_router(kind, [engine.url for engine in engines[:3]], tmp_path, **FAST) as router,
            observed(router, {"Server": engines[:3]}, tmp_path) as seen,
            telling(made, seen) as story,
        ):
            story.about = engines[0].name
            await story.until(lambda: bool(story.said), "judged")
            await story.says(Said(ELIGIBLE, CONVERGED, 3, 3))
            needed = {
                "killed": await killed(story, engines[0]),
                "revived": await revived(story, engines[0]),
                "circuit open": await circuit_opened(story, made, router.api, engines[1]),
                "circuit closed": await circuit_closed(story, made, router.api, engines[1]),
                "added": await added(story, made, seen, engines),
                "removed": await removed(story, made, seen, engines),
            }
        print(f"figure: {kind}: reads until the observer followed: {needed}")
        assert all(count <= READS for count in needed.values()), needed

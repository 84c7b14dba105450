"""The queries that `docs/why-numbers-differ.md` states give what our documents say, within one scrape, on a real Prometheus."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from observer.app.watcher import Watcher
from observer.clock import SystemClock
from observer.collect.options import ScrapeSettings
from observer.settings import HttpSettings, JudgingSettings, RouterSettings, Settings, WindowSettings, load_files
from observer.simulate.fleet import SimulatedFleet
from observer.simulate.spec import demo_fleet
from router_contract.targets import Component
from router_contract.verdicts import DeploymentReport
from tests.prometheus.server import SCRAPE_SECONDS, Prometheus, job, prometheus

pytestmark = pytest.mark.prometheus
PAGE = Path(__file__).parents[2] / "docs" / "why-numbers-differ.md"
SPAN = 12.0
SETTINGS = Settings(
    scrape=ScrapeSettings(period=1.0, timeout=0.9),
    routers=RouterSettings(view_period=1.0, view_timeout=0.9, view_valid=5.0),
    judging=JudgingSettings(period=0.5),
    windows=WindowSettings(span=SPAN),
    http=HttpSettings(listen="127.0.0.1:0"),
)
COUNTERS = {
    "generation-tokens": "modeldeployment_output_tokens_total",
    "prompt-tokens": "modeldeployment_input_tokens_total",
    "preemptions": "modeldeployment_preemptions_total",
}
WATCHED_SECONDS = SPAN + 6.0


def stated() -> dict[str, str]:
    """The queries of the page by the family that they rate, with our span in place of the minute."""
    queries = re.findall(r"\| `([^`]*modeldeployment_[^`]*)` \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    found = {}
    for query in queries:
        family = re.search(r"modeldeployment_[a-z_]+", query)
        assert family is not None
        found[family.group()] = query.replace("[1m]", f"[{SPAN:.0f}s]")
    return found


def totals(reports: Iterable[DeploymentReport], signal: str) -> dict[str, float]:
    """The observer's own running total of a counter for each engine that has one."""
    found: dict[str, float] = {}
    for report in reports:
        for target in report.targets:
            known = [value.running_total for value in target.of(signal) if value.running_total is not None]
            if target.status.component is Component.ENGINE and known:
                found[target.status.member] = sum(known)
    return found


def windows(reports: Iterable[DeploymentReport], signal: str) -> dict[str, float]:
    """What a counter moves by in a second, for each engine whose window is whole."""
    found: dict[str, float] = {}
    for report in reports:
        for target in report.targets:
            values = [value.window for value in target.of(signal) if value.window is not None]
            if (
                target.status.component is Component.ENGINE
                and values
                and min(each.seconds for each in values) > SPAN - 3
            ):
                found[target.status.member] = sum(each.per_second for each in values)
    return found


class Kept:
    """Our totals each half second, to know how much one scrape may hide."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._clock = SystemClock()
        self.seen: list[tuple[float, dict[str, dict[str, float]]]] = []

    def reports(self) -> list[DeploymentReport]:
        found = [self._watcher.source.deployment(key) for key in tuple(self._watcher.source.keys())]
        return [report for report in found if report is not None]

    def look(self) -> None:
        reports = self.reports()
        self.seen.append((self._clock.now().wall, {signal: totals(reports, signal) for signal in COUNTERS}))

    def before(self, wall: float, signal: str) -> dict[str, float]:
        """The last totals that were there at a moment."""
        return next((found[signal] for at, found in reversed(self.seen) if at <= wall), {})

    def largest_step(self, signal: str, pod: str) -> float:
        """The most that a total grew by within one scrape and the two reads at its ends."""
        hidden = 2 * SCRAPE_SECONDS + SETTINGS.scrape.period
        steps = [
            found[signal].get(pod, 0.0) - self.before(at - hidden, signal).get(pod, found[signal].get(pod, 0.0))
            for at, found in self.seen
        ]
        return max(steps, default=0.0)


@pytest.mark.timeout(180)
async def test_stated_queries_agree_with_documents_within_one_scrape(tmp_path: Path, capsys: Any) -> None:
    queries = stated()
    assert set(COUNTERS.values()) < set(queries)
    async with AsyncExitStack() as stack:
        fleet = await stack.enter_async_context(SimulatedFleet(demo_fleet(rate=6.0)))
        watcher = await stack.enter_async_context(Watcher(SETTINGS, SystemClock()))
        file = tmp_path / "fleet.yaml"
        fleet.write_document(file)
        await watcher.watch(load_files([file]).deployments)
        address = watcher.url.removeprefix("http://")
        server = await stack.enter_async_context(prometheus(tmp_path, [job("one", [address], honoured=True)]))
        kept, began = Kept(watcher), SystemClock().now().mono
        while SystemClock().now().mono - began < WATCHED_SECONDS:
            kept.look()
            await asyncio.sleep(0.5)
        compared, worst = await compare(server, kept, queries)
    with capsys.disabled():
        print(f"\nfigure: {compared} counters of engines agree within one scrape, the farthest by {worst:.0%} of one")
    assert compared > 20


async def compare(server: Prometheus, kept: Kept, queries: dict[str, str]) -> tuple[int, float]:
    """How many totals and rates were compared, and the largest difference as a share of what one scrape may hide."""
    compared, worst = 0, 0.0
    for signal, family in COUNTERS.items():
        kept.look()
        scraped = {
            each["metric"]["pod"]: float(each["value"][1])
            for each in await server.query(f"min by (pod) (timestamp({family}))")
        }
        there = {each["metric"]["pod"]: each for each in await server.query(f"sum by (pod) ({family})")}
        kept.look()
        for pod, most in kept.seen[-1][1][signal].items():
            assert pod in there, f"{family} of {pod} is not in Prometheus"
            found = float(there[pod]["value"][1])
            # The scrape's own moment: it shows what we had then, or some of what came while it was answered.
            least = kept.before(scraped[pod], signal).get(pod, 0.0)
            assert least <= found <= most, f"{family} of {pod}"
            compared += 1
        rates = {each["metric"]["pod"]: float(each["value"][1]) for each in await server.query(queries[family])}
        for pod, ours in windows(kept.reports(), signal).items():
            hidden = kept.largest_step(signal, pod) / SPAN
            apart = abs(rates[pod] - ours)
            assert apart <= hidden + 1e-9, (
                f"{signal} of {pod}: {rates[pod]:g}/s there, {ours:g}/s ours, {hidden:g}/s hidden"
            )
            worst = max(worst, apart / hidden if hidden else 0.0)
            compared += 1
    return compared, worst

"""A real router in front of simulated engines, and a whole observer on them: what it says follows the router.

Each change is first seen in the router's own `/workers`, or for a circuit in its `cb_state` series; from then on two
reads of that router's view, and the judging pass after them, must be enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest

from observer.app.watcher import Watcher
from observer.clock import SystemClock
from observer.collect.options import ScrapeSettings
from observer.settings import HttpSettings, JudgingSettings, RouterSettings, Settings
from router_contract.targets import Address, Deployment, DeploymentKey, Member, Replica, Role, RouterDeclaration
from tests.real.routers import RealRouter, change_worker, listed, real_router
from tests.simulate.harness import bench, samples

pytestmark = pytest.mark.real
KEY = DeploymentKey("default", "tiny")
ENGINES = {"sglang_gateway": "sglang", "vllm_router": "vllm"}
CIRCUIT = {"sglang_gateway": "smg_worker_cb_state", "vllm_router": "vllm_router_cb_state"}
PERIOD = 0.5
SETTINGS = Settings(
    scrape=ScrapeSettings(period=PERIOD, timeout=0.4),
    routers=RouterSettings(view_period=PERIOD, view_timeout=0.4, view_valid=3.0),
    judging=JudgingSettings(period=0.1),
    http=HttpSettings(listen="127.0.0.1:0"),
)


def address(url: str) -> Address:
    parts = urlsplit(url)
    return Address(host=parts.hostname or "", port=parts.port or 0)


def member(uid: str, api: str, metrics: str) -> Member:
    return Member(uid=uid, name=uid, host="127.0.0.1", api=address(api), metrics=address(metrics), declared_total=1)


def described(engines, router: RealRouter, kind: str) -> Deployment:
    replicas = tuple(
        Replica(ordinal=number, size=1, members=(member(f"engine-{number}", engine.url, engine.url),))
        for number, engine in engines
    )
    role = Role(name="serve", engine=ENGINES[kind], desired=len(replicas), replicas=replicas)
    routing = RouterDeclaration(
        name="router", software=kind, desired=1, members=(member("router-0", router.api, router.metrics),)
    )
    return Deployment(key=KEY, uid="uid", model="tiny", roles=(role,), router=routing)


class Watched(Watcher):
    """A watcher that counts the views it was handed and keeps what each judging pass said, without repeats."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, SystemClock())
        self.views = 0
        self.said: list[str] = []

    def on_view(self, key, view) -> None:
        super().on_view(key, view)
        self.views += 1

    async def _pass(self, now) -> float:
        worked = await super()._pass(now)
        if (line := self.line()) and line != (self.said or [""])[-1]:
            self.said.append(line)
        return worked

    def line(self) -> str:
        """`serving eligible convergence [group states]` of the last pass."""
        report = self.source.deployment(KEY)
        if report is None or report.convergence is None:
            return ""
        converged = next(item.reason for item in report.conditions if item.type == "RouterConverged")
        serving, (role,) = report.convergence.serving, report.role_status
        states = ",".join(sorted(group.state.value for group in role.groups))
        return f"{serving.value} {role.endpoints.eligible} {converged} [{states}]"

    async def says(self, wanted: str, *, within_reads: int | None = None, seconds: float = 20.0) -> int:
        """Wait until the verdict begins with this; the reads of the router's view that it took."""
        start = self.views
        try:
            async with asyncio.timeout(seconds):
                while not self.line().startswith(wanted):
                    # one judging pass after the last allowed read may be under way
                    assert within_reads is None or self.views - start <= within_reads, (wanted, self.said[-8:])
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"never said {wanted!r}: {self.said[-8:]}") from None
        return self.views - start


async def seen(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait until the router itself shows a change."""
    try:
        async with asyncio.timeout(20):
            while not await condition():
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"the router never showed {what}") from None


def in_order(said: list[str], *wanted: str) -> None:
    """These verdicts, by their beginnings, one after another; others may stand between."""
    rest = iter(said)
    for each in wanted:
        assert any(line.startswith(each) for line in rest), (each, said)


@pytest.mark.parametrize("kind", ENGINES)
async def test_views_convergence_and_eligibility_follow_the_router(kind: str, tmp_path: Path) -> None:
    async with bench() as made:
        engines = await made.started(4, ENGINES[kind])
        first = [*enumerate(engines[:3])]
        async with (
            real_router(kind, [engine.url for _, engine in first], tmp_path) as router,
            Watched(SETTINGS) as watcher,
        ):

            async def healthy(url: str) -> object:
                return (await listed(router, made.session)).get(url, {}).get("is_healthy")

            async def circuit(url: str) -> list[float]:
                text = (await made.get(f"{router.metrics}/metrics"))[1]
                return samples(text, CIRCUIT[kind], worker=url)

            await watcher.watch([described(first, router, kind)])
            await watcher.says("3 3 Converged")
            reads = {}

            # a circuit opens: healthy, listed, and not selected
            engines[0].behaviour.error_rate = 1.0
            for _ in range(12):
                await made.post(router.api)
            assert await circuit(engines[0].url) == [1.0]
            reads["circuit"] = await watcher.says("2 3 MissingEndpoint", within_reads=2)
            assert await healthy(engines[0].url) is True

            # it closes again
            engines[0].behaviour.error_rate = 0.0
            await asyncio.sleep(5.0)

            async def closed() -> bool:
                await made.post(router.api)
                return await circuit(engines[0].url) == [0.0]

            await seen(closed, "the circuit closed")
            reads["closed"] = await watcher.says("3 3 Converged", within_reads=2)

            # an engine dies: revoked by our own read first, then the router lets go
            await engines[1].die()

            async def unhealthy() -> bool:
                return await healthy(engines[1].url) is not True

            await seen(unhealthy, "the dead engine")
            reads["killed"] = await watcher.says("2 2 Converged", within_reads=2)

            # a worker is removed and added again
            await change_worker(router, made.session, engines[2].url, add=False)
            reads["removed"] = await watcher.says("1 2 MissingEndpoint", within_reads=2)
            await change_worker(router, made.session, engines[2].url, add=True)

            async def back() -> bool:
                return await healthy(engines[2].url) is True

            await seen(back, "the worker again")
            reads["added"] = await watcher.says("2 2 Converged", within_reads=2)

            # a new engine waits for the router to list it
            await watcher.watch([described([*first, (3, engines[3])], router, kind)])
            await watcher.says("2 None EligibilityUnknown [AwaitingObservation,Eligible,Eligible,NotReady]")
            await change_worker(router, made.session, engines[3].url, add=True)

            async def new() -> bool:
                return await healthy(engines[3].url) is True

            await seen(new, "the new worker")
            reads["new"] = await watcher.says("3 3 Converged", within_reads=2)

            in_order(
                watcher.said,
                "3 3 Converged [Eligible,Eligible,Eligible]",
                "2 3 MissingEndpoint",
                "3 3 Converged",
                "3 2 ExtraEndpoint [Eligible,Eligible,NotReady]",
                "2 2 Converged",
                "1 2 MissingEndpoint",
                "2 2 Converged",
                "2 None EligibilityUnknown [AwaitingObservation",
                "3 3 Converged [Eligible,Eligible,Eligible,NotReady]",
            )
            print(f"figure: {kind}: reads until said: {reads}")
            assert max(reads.values()) <= 3, reads


def test_settings_here_are_allowed_ones() -> None:
    assert msgspec.convert(msgspec.to_builtins(SETTINGS.routers), RouterSettings) == SETTINGS.routers

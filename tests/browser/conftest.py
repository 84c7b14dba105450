"""A headless Chromium from the system's package, pages that remember what went wrong in them, and a watched fleet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, async_playwright

from observer.app.watcher import Watcher
from observer.clock import SystemClock
from observer.collect.options import ScrapeSettings
from observer.settings import JudgingSettings, RouterSettings, Settings, load_files
from observer.simulate.fleet import SimulatedFleet
from observer.simulate.kv_fleet import publishing
from tests.conftest import require

ARTIFACTS = Path(__file__).parents[2] / "artifacts"
SETTINGS = Settings(
    scrape=ScrapeSettings(period=2.0, timeout=1.9),
    routers=RouterSettings(view_period=2.0, view_timeout=1.9, view_valid=8.0),
    judging=JudgingSettings(period=0.5),
)
LATE = 40_000.0
"""Milliseconds in which a busy machine must have shown anything."""


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """Chromium, without any download."""
    path = require("chromium", "apt-get install --no-install-recommends chromium")
    async with async_playwright() as driver:
        # Test machines run as root in containers, where Chromium's own sandbox cannot be made.
        made = await driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield made
        await made.close()


class Faults(list[str]):
    """What a page complained of: errors in its console, exceptions, refusals of its content policy."""

    def follow(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.append(str(error)))
        page.on("console", lambda said: self.append(said.text) if said.type in {"error", "warning"} else None)


async def opened(browser: Browser, url: str, *, width: int = 1280, scheme: Any = "light") -> tuple[Page, Faults]:
    """A page of its own at a URL."""
    page = await browser.new_page(viewport={"width": width, "height": 850}, color_scheme=scheme)
    page.set_default_timeout(LATE)
    faults = Faults()
    faults.follow(page)
    await page.goto(url)
    return page, faults


async def serious(page: Page) -> list[str]:
    """The serious and critical faults that axe finds."""
    found = await Axe().run(page)
    return [
        f"{each['id']}: {each['help']}: {each['nodes'][0]['html'][:200]}"
        for each in found.response["violations"]
        if each["impact"] in {"serious", "critical"}
    ]


class World:
    """A simulated fleet that is watched; the observer can be stopped and started again on its port."""

    def __init__(self, fleet: SimulatedFleet, file: Path) -> None:
        self.fleet = fleet
        self._file = file
        self._clock = SystemClock()
        self._watcher: Watcher | None = None
        self.url = ""

    async def start(self) -> None:
        watcher = Watcher(SETTINGS, self._clock, listen=self.url.removeprefix("http://") or "127.0.0.1:0")
        await watcher.__aenter__()
        self._watcher = watcher
        self.url = watcher.url
        await self.follow()

    async def follow(self) -> None:
        """Watch what the fleet is now."""
        assert self._watcher is not None
        self.fleet.write_document(self._file)
        configuration = load_files([self._file])
        await self._watcher.watch(configuration.deployments)
        await self._watcher.canaries.watch(configuration.canaries)

    async def stop(self) -> None:
        if self._watcher is not None:
            watcher, self._watcher = self._watcher, None
            await watcher.__aexit__(None, None, None)

    async def until(self, holds: Callable[[Watcher], bool]) -> None:
        """Wait until something holds of the observer."""
        async with asyncio.timeout(LATE / 1000):
            while self._watcher is None or not holds(self._watcher):
                await asyncio.sleep(0.1)


@asynccontextmanager
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """The demo's fleet, watched, once everything was read and judged."""
    clock = SystemClock()
    async with SimulatedFleet(clock=clock, hooks=publishing(clock)) as fleet:
        made = World(fleet, tmp_path / "fleet.yaml")
        try:
            await made.start()
            await made.until(lambda watcher: watcher.source.ready()[0] and not watcher.page.board.waiting())
            yield made
        finally:
            await made.stop()


async def eventually(look: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait until a look at a page says yes."""
    try:
        async with asyncio.timeout(LATE / 1000):
            while not await look():
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"not within {LATE / 1000:g} s: {what}") from None

"""What the page costs: bytes over the wire, first paint and scrolling with a thousand deployments."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from playwright.async_api import Browser

from router_contract.targets import DeploymentKey
from tests.browser.conftest import LATE, opened, world
from tests.browser.test_page import canary
from tests.exporters.judged import judged
from tests.exporters.page_world import PageWorld, serving

pytestmark = pytest.mark.browser

BUDGET = 600_000
"""Bytes over the wire of one page with everything that it loads."""
PATHS = ("/", "/deployments/demo/chat", "/targets", "/routers", "/kv", "/canary", "/canary/demo/chat-2", "/mapping")
FIRST_PAINT = 3 * 1000.0
FRAME = 3 * 50.0
"""Milliseconds: three times the goal, because test machines are shared."""

SCROLL = """async () => {
  const steps = 120, gaps = [];
  const far = document.documentElement.scrollHeight - innerHeight;
  let last = await new Promise(requestAnimationFrame);
  for (let step = 1; step <= steps; step++) {
    window.scrollTo(0, far * step / steps);
    const now = await new Promise(requestAnimationFrame);
    gaps.push(now - last);
    last = now;
  }
  const mean = gaps.reduce((sum, gap) => sum + gap, 0) / steps;
  gaps.sort((one, other) => one - other);
  return { mean, middle: gaps[steps / 2], late: gaps[Math.floor(steps * 0.95)], worst: gaps[steps - 1], far };
}"""


async def weighed(browser: Browser, url: str) -> tuple[float, float]:
    """Bytes over the wire of a page in a new browser: at its first paint, and with everything that it loads."""
    context = await browser.new_context()
    page = await context.new_page()
    page.set_default_timeout(LATE)
    session = await context.new_cdp_session(page)
    sizes: dict[str, float] = {}
    await session.send("Network.enable")
    session.on("Network.loadingFinished", lambda told: sizes.update({told["requestId"]: told["encodedDataLength"]}))
    await page.goto(url)
    before = sum(sizes.values())
    charts = page.locator("#charts")
    if await charts.count():
        await charts.scroll_into_view_if_needed()
        await page.locator("#charts .bk-Plot").first.wait_for(state="attached")
    total = sum(sizes.values())
    await context.close()
    return before, total


async def test_pages_with_all_they_load_keep_to_their_weight(browser: Browser, tmp_path, capsys) -> None:
    async with world(tmp_path) as watched:
        await canary(watched, "canary", lambda view: view.status is not None and view.status.sample_id >= 1)
        weights = {path: await weighed(browser, watched.url + path) for path in PATHS}
    with capsys.disabled():
        for path, (before, total) in weights.items():
            print(
                f"\npage weight {path}: {before / 1000:.0f} kB at first, {total / 1000:.0f} kB in all (budget 600 kB)"
            )
        heaviest = max(weights, key=lambda path: weights[path][1])
        print(
            f"figure: {len(weights)} pages, heaviest {heaviest}: {weights[heaviest][1] / 1000:.0f} kB of 600 kB compressed"
        )
    assert all(0 < total <= BUDGET for _, total in weights.values())


async def test_a_thousand_deployments_paint_and_scroll(browser: Browser, capsys) -> None:
    base = judged()
    made = [
        replace(base, deployment=replace(base.deployment, key=DeploymentKey(f"team-{n % 20}", f"model-{n:04d}")))
        for n in range(1000)
    ]
    world = PageWorld(*made)
    for _ in range(40):
        for report in made:
            world.history.sample(report.key, world.clock.now(), {"tokensPerSecond": 100.0 + hash(report.key) % 50})
        world.clock.forward(60)
    async with serving(world) as session:
        page, faults = await opened(browser, str(session._base_url))
        assert await page.locator("tbody[data-group=rows] > tr").count() == 1000
        paints = await page.evaluate("performance.getEntriesByType('paint').map(e => [e.name, e.startTime])")
        size = await page.evaluate("performance.getEntriesByType('navigation')[0].encodedBodySize")
        paint = dict(paints)["first-contentful-paint"]
        cost = await page.evaluate(SCROLL)
        await page.close()
    with capsys.disabled():
        print(
            f"\nfigure: 1,000 deployments: first paint {paint:.0f} ms (goal 1,000), page {size / 1000:.0f} kB; scrolling "
            f"{cost['far']:.0f} px: mean frame {cost['mean']:.0f} ms (goal 50), median {cost['middle']:.0f} ms, 95th {cost['late']:.0f} ms, "
            f"worst {cost['worst']:.0f} ms"
        )
    assert not faults
    assert paint <= FIRST_PAINT
    assert cost["mean"] <= FRAME
    assert size <= BUDGET

"""The page in a real browser: it opens, updates by itself, survives a restart, filters, sorts, and can be used by all."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.async_api import Browser, Page

from router_contract.canary_view import CanaryView
from tests.browser.conftest import ARTIFACTS, Faults, World, eventually, opened, serious, world

pytestmark = pytest.mark.browser

PAGES = {
    "deployments": "/",
    "deployment": "/deployments/demo/chat",
    "targets": "/targets",
    "routers": "/routers",
    "kv": "/kv",
    "canaries": "/canary",
    "canary": "/canary/demo/chat-2",
    "mapping": "/mapping",
}
LOOKS = (("wide", 1280, "light"), ("wide-dark", 1280, "dark"), ("phone", 390, "light"), ("phone-dark", 390, "dark"))
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


async def rows(page: Page) -> list[str]:
    return await page.locator("tbody[data-group=rows] > tr").evaluate_all("rows => rows.map(row => row.id)")


async def live(page: Page) -> None:
    """The page follows its stream."""
    await page.locator("#live", has_text="connected").wait_for()


async def first_target(browser: Browser, url: str) -> str:
    page, _ = await opened(browser, f"{url}/targets?deployment=chat&component=engine")
    found = await page.locator("tbody th a").first.get_attribute("href")
    await page.close()
    assert found
    return found


async def canary(watched: World, scenario: str, holds: Callable[[CanaryView], bool]) -> None:
    """A canary of the demo's chat, once something holds of its analysis."""
    await watched.fleet.apply(scenario, "chat")
    await watched.follow()
    await watched.until(lambda watcher: any(holds(view) for view in watcher.canaries.canaries()))


@pytest.mark.parametrize(
    "names",
    [("deployments", "deployment"), ("targets", "target", "routers"), ("kv", "mapping"), ("canaries", "canary")],
    ids="-".join,
)
async def test_pages_open_in_every_look_and_axe_finds_no_serious_fault(
    browser: Browser, tmp_path, capsys, names: tuple[str, ...]
) -> None:
    ARTIFACTS.mkdir(exist_ok=True)
    found: list[str] = []
    async with world(tmp_path) as watched:
        if "canary" in names:
            await canary(watched, "canary-errors", lambda view: view.status is not None and view.status.sample_id >= 2)
        else:
            await watched.fleet.apply("engine-hang")
        for name in names:
            path = PAGES.get(name) or await first_target(browser, watched.url)
            for look, width, scheme in LOOKS:
                page, faults = await opened(browser, f"{watched.url}{path}", width=width, scheme=scheme)
                found += [f"{name} {look}: {each}" for each in await looked_at(page, faults, name, look)]
                await page.close()
    with capsys.disabled():
        print(f"\nfigure: {', '.join(names)}: {len(names) * len(LOOKS)} screenshots, {len(found)} faults")
    assert not found, "\n".join(found)


async def looked_at(page: Page, faults: Faults, name: str, look: str) -> list[str]:
    """What is wrong with a page in one look; its picture goes to ``artifacts/``."""
    assert await page.locator("h1").count() == 1
    if name in {"deployment", "canary"}:
        await page.locator("#charts").scroll_into_view_if_needed()
        await page.locator("#charts .bk-Plot").first.wait_for(state="attached")
        await page.evaluate("window.scrollTo(0, 0)")
    # What the page itself complained of: axe then writes styles of its own, which the page's policy refuses.
    found = [*faults, *await serious(page)]
    over = await page.evaluate(OVERFLOW)
    await page.screenshot(path=ARTIFACTS / f"page-{name}-{look}.png", full_page=True)
    return [*found, *([f"{over} pixels wider than the screen"] if over > 0 else [])]


CUT = "cells => cells.filter(cell => cell.getClientRects().length && cell.getBoundingClientRect().right > innerWidth).length"


async def test_on_a_phone_no_value_and_no_column_of_a_router_is_beyond_the_edge(browser: Browser, tmp_path) -> None:
    async with world(tmp_path) as watched:
        for path, cells in ((await first_target(browser, watched.url), "td.num"), ("/routers", "td")):
            page, faults = await opened(browser, f"{watched.url}{path}", width=390)
            found = page.locator(f"table tbody {cells}")
            assert await found.count() > 10
            assert await found.evaluate_all(CUT) == 0, path
            assert not faults
            await page.close()


async def test_it_updates_by_itself_and_survives_a_restart_of_the_observer(browser: Browser, tmp_path) -> None:
    async with world(tmp_path) as watched:
        page, _ = await opened(browser, watched.url)
        await live(page)
        await page.evaluate("window.neverReloaded = true")
        chat = page.locator("#d-demo-chat")
        await chat.locator("text=3 of").or_(chat.locator("text=5 of 5 targets up")).first.wait_for()
        await watched.fleet.apply("engine-down", "chat")
        await chat.locator("text=4 of 5 targets up").wait_for()
        await watched.stop()
        await page.locator("#live", has_text="observer not reachable; values are").wait_for()
        assert await page.locator("body.lost").count() == 1
        await watched.start()
        await live(page)
        assert await page.locator("body.lost").count() == 0
        await chat.locator("text=4 of 5 targets up").wait_for()
        await watched.fleet.apply("steady")
        await chat.locator("text=5 of 5 targets up").wait_for()
        assert await page.evaluate("window.neverReloaded") is True


async def test_ages_count_on_and_what_was_opened_stays_open(browser: Browser, tmp_path) -> None:
    async with world(tmp_path) as watched:
        page, faults = await opened(browser, f"{watched.url}/deployments/demo/chat")
        await live(page)
        first = page.locator("details.replica").first
        ident = await first.get_attribute("id")
        await first.locator("summary").click()
        await page.evaluate("id => { document.getElementById(id).querySelector('summary').focus() }", ident)
        cell = page.locator("details.replica:nth-of-type(2) table time[data-at]").first
        before = await cell.get_attribute("data-at")

        async def renewed() -> bool:
            return await cell.get_attribute("data-at") != before

        await eventually(renewed, "a value was read again")
        assert await first.get_attribute("open") is None
        assert await page.evaluate("document.activeElement.parentElement.id") == ident
        assert not faults


async def test_filters_and_sorts_by_mouse_and_keyboard_stand_in_the_url(browser: Browser, tmp_path) -> None:
    async with world(tmp_path) as watched:
        page, faults = await opened(browser, watched.url)
        assert await rows(page) == ["d-demo-chat", "d-demo-long_2Dcontext", "d-demo-reason", "d-demo-vision"]
        await page.get_by_role("link", name="Deployment", exact=True).click()
        await page.wait_for_url("**/?sort=name")
        await page.locator("thead a").first.click()
        await page.wait_for_url("**/?sort=-name")
        assert (await rows(page))[0] == "d-demo-vision"
        assert await page.locator("th[aria-sort=descending]").count() == 1
        await page.get_by_label("Find").fill("qwen3")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/?q=qwen3&sort=-name")
        assert await rows(page) == ["d-demo-vision", "d-demo-reason"]
        await page.goto(f"{watched.url}/targets")
        await page.get_by_label("Kind").select_option("router")
        await page.wait_for_url("**/targets?component=router")
        assert len(await rows(page)) == 5
        await live(page)
        assert len(await rows(page)) == 5
        assert not faults


async def test_the_keyboard_reaches_the_content_and_reads_why_a_value_is_unknown(browser: Browser, tmp_path) -> None:
    async with world(tmp_path) as watched:
        page, _ = await opened(browser, watched.url)
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.textContent") == "Skip to the content"
        await page.keyboard.press("Enter")
        assert await page.evaluate("document.activeElement.id") == "main"
        dash = page.get_by_role("img", name="unknown: no canary analysis is set up").first
        await dash.focus()
        shown = await dash.evaluate("node => getComputedStyle(node, '::after').content")
        assert "no canary analysis is set up" in shown


async def test_a_target_is_read_now_its_body_shown_and_a_paste_explained(browser: Browser, tmp_path) -> None:
    async with world(tmp_path) as watched:
        page, faults = await opened(browser, f"{watched.url}/targets?deployment=chat&component=engine")
        await page.locator("tbody th a").first.click()
        await page.get_by_text("No body is kept yet").or_(page.get_by_text("The last one came")).first.wait_for()
        await page.get_by_role("button", name="Read it now").click()
        await page.locator("#raw-text").wait_for()
        await page.locator("#raw-text summary").click()
        text = await page.locator("#raw-text pre").inner_text()
        assert "num_requests_running" in text
        await page.goto(f"{watched.url}/mapping")
        await page.get_by_label("Table").select_option("engine/vllm")
        await page.get_by_label("Metrics text").fill(text)
        await page.get_by_role("button", name="What does it mean?").click()
        await page.get_by_role("rowheader", name="requests-running", exact=True).first.wait_for()
        assert await page.get_by_label("Metrics text").input_value() == text
        assert await page.locator("[role=alert]").count() == 0
        assert not faults


async def test_a_look_up_of_blocks_answers_on_the_page(browser: Browser, tmp_path) -> None:
    async with world(tmp_path) as watched:
        page, faults = await opened(browser, f"{watched.url}/kv")
        await page.locator("text=Live").first.wait_for()
        await page.get_by_label("Deployment").select_option("demo/chat")
        await page.get_by_label("Block hashes").fill("1, 2, 3")
        await page.get_by_role("button", name="Look up").click()
        await page.get_by_text("3 hashes were asked for").wait_for()
        await page.get_by_label("Block hashes").fill("not-a-hash")
        await page.get_by_role("button", name="Look up").click()
        await page.get_by_role("alert").wait_for()
        assert not faults


async def test_a_canary_is_followed_live_from_its_deployment_to_its_decision(browser: Browser, tmp_path) -> None:
    async with world(tmp_path) as watched:
        await canary(watched, "canary-errors", lambda view: view.status is not None)
        page, faults = await opened(browser, f"{watched.url}/deployments/demo/chat")
        await page.locator("#dep-canary a").click()
        await live(page)
        await page.get_by_role("heading", name="Canary demo/chat-2").wait_for()
        await page.evaluate("window.neverReloaded = true")
        await page.locator("#canary-head", has_text="Rollback").wait_for()
        await page.locator("#canary-samples tbody tr").first.wait_for()
        assert await page.locator("#canary-sides", has_text="ThresholdBreached").count() == 1
        assert await page.evaluate("window.neverReloaded") is True
        await page.goto(f"{watched.url}/canary?verdict=Failed&sort=-age")
        assert await rows(page) == ["c-demo-chat_2D2"]
        assert not faults

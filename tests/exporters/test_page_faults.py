"""A deployment that cannot be shown: its line says so with its real age, and the others go on."""

from __future__ import annotations

import asyncio

import msgspec

from exporters.page.board import Board
from exporters.page.pages import Page
from exporters.page.targets import value_rows, value_twin
from router_contract.targets import DeploymentKey
from router_contract.verdicts import DeploymentReport
from tests.exporters.page_world import PageWorld, serving
from tests.exporters.reports import gauge
from tests.exporters.sources import Reports
from tests.exporters.test_hostile import BAD, HUGE, healthy, impossible

GOOD = DeploymentKey("prod", "chat")


class Breaking(Reports):
    """One report can be made until it is told otherwise; reports are of the clock's moment."""

    broken = False

    def deployment(
        self, key: DeploymentKey, signals: frozenset[str] | None = None, totals: frozenset[str] = frozenset()
    ) -> DeploymentReport | None:
        if self.broken and key == BAD:
            raise OverflowError("int too large to convert to float")
        return super().deployment(key)


def world() -> tuple[PageWorld, Breaking]:
    made = PageWorld(healthy(), impossible(3.0))
    source = Breaking(*made.reports.reports.values())
    return made, source


def board(made: PageWorld, source: Breaking) -> Board:
    services = made.page._services
    fields = {name: getattr(services, name) for name in services.__struct_fields__}
    return Board(type(services)(**(fields | {"reports": source})), made.page._renderer)


async def test_a_line_that_cannot_be_made_keeps_its_age_and_spares_the_others(caplog):
    made, source = world()
    lines = board(made, source)
    assert await lines.turn(10.0) == 2
    before = {line.row.key: line.row for line in lines.lines()}
    source.broken = True
    for _ in range(3):
        made.clock.forward(60.0)
        assert await lines.turn(10.0) == 2
    after = {line.row.key: line.row for line in lines.lines()}
    assert after[BAD].at == before[BAD].at
    assert after[BAD].seen_at == before[BAD].seen_at
    assert after[BAD].summary.state == "Unavailable"
    assert "could not be rendered: OverflowError" in after[BAD].sentence
    assert after[GOOD].summary.state == before[GOOD].summary.state
    assert caplog.text.count("cannot be made") == 1
    source.broken = False
    await lines.turn(10.0)
    healed = {line.row.key: line.row for line in lines.lines()}
    assert healed[BAD].summary.state == before[BAD].summary.state


async def test_a_line_that_always_fails_does_not_starve_the_others():
    made, source = world()
    source.broken = True
    lines = board(made, source)
    for _ in range(2):
        made.clock.forward(1.0)
        assert await lines.turn(0.0) == 1
    assert len(lines.lines()) == 2


def test_a_worker_label_shows_no_credential():
    labels = (("worker", "http://user:hunter2@10.0.0.1:8000"),)
    value = msgspec.structs.replace(gauge("router-worker-active-requests", 1.0), labels=labels)
    shown = repr((value_rows([value]), value_twin(value)))
    assert "http://10.0.0.1:8000" in shown
    assert "hunter2" not in shown


async def test_a_watched_page_that_breaks_does_not_end_the_task():
    made = PageWorld(healthy(), impossible(3.0))
    task: asyncio.Task[None] | None = None
    page: Page = made.page
    async with serving(made) as session:
        async with session.get("/deployments/prod/bad") as answer:
            assert answer.status == 200
        (view,) = [view for view in page._views._by_place.values() if not view.gone]
        woken = asyncio.Event()
        view.watchers.add(woken)
        made.reports.reports[BAD] = impossible(HUGE)
        task = asyncio.ensure_future(page.run())
        try:
            async with asyncio.timeout(10):
                await woken.wait()
            assert view.gone
            assert not task.done()
            async with session.get("/deployments/prod/bad") as answer:
                assert answer.status == 500
            async with session.get("/deployments/prod/chat") as answer:
                assert answer.status == 200
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

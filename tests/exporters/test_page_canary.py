"""The canary pages: both sides, what is remembered of samples, what is too old, filters, and links from deployments."""

from __future__ import annotations

import math
import re

import pytest
from msgspec.structs import replace

from exporters.page.trail import MOST_SAMPLES, conviction
from router_contract.canary import Relative
from router_contract.canary_results import Decision, Reason, Verdict
from router_contract.targets import DeploymentKey
from router_contract.verdicts import Condition, Status
from tests.exporters.canaries import METRIC, PASSED, status, view
from tests.exporters.judged import judged
from tests.exporters.page_world import PageWorld, as_of, serving

PAGE = "/canary/demo/chat-2"
KEY = DeploymentKey("demo", "chat-2")
HTML = {"Accept": "text/html"}
JSON = {"Accept": "application/json"}


def sampled(world: PageWorld, number: int, **told: object) -> None:
    """The analysis as it stands after sample ``number``, counted just now."""
    made = as_of(world.clock.now(), view(replace(status(**told), sample_id=number), age=0.0))
    world.canaries.views = (made,)
    world.page.trail.turn()


async def test_both_sides_the_decision_and_what_holds_the_step_are_in_words() -> None:
    result = replace(PASSED, evidence=1.5, low=0.001, high=0.004)
    world = PageWorld()
    sampled(world, 7, results=(result,))
    async with serving(world) as session, session.get(PAGE, headers=HTML) as answer:
        html = await answer.text()
    assert "Step 1 of 2 is held by its bake: 30s left." in html
    for shown in ("0.002", "0.003", "0.001", "0.004", "LTE 0.01", "1000", "900", "of 500", "1 of 4 Pods were not read"):
        assert shown in html, shown
    assert re.search(r"<span>3(\.\d+)?</span> convicts", html)
    assert "/api/v1/canary/demo/chat-2/engine" in html


@pytest.mark.parametrize(
    ("share", "weight", "shown"),
    [
        pytest.param(0.2, 30, r"<span>20%</span> measured, 30 % programmed", id="both"),
        pytest.param(0.2, None, r"<span>20%</span> measured</dd>", id="measured"),
        pytest.param(None, None, r"unknown: no requests of both sides were counted in this step", id="neither"),
    ],
)
async def test_the_share_of_the_requests_stands_beside_the_programmed_weight(
    share: float | None, weight: int | None, shown: str
) -> None:
    world = PageWorld()
    made = as_of(world.clock.now(), view(replace(status(), observed_weight=weight), age=0.0))
    world.canaries.views = (replace(made, share=share),)
    async with serving(world) as session, session.get(PAGE, headers=HTML) as answer:
        assert re.search(shown, await answer.text())


def test_what_convicts_is_the_share_of_the_steps_budget() -> None:
    assert conviction(view(), "errors") == pytest.approx(math.log(20))
    assert conviction(view(), "another") is None
    assert conviction(view(status(step=2)), "errors") is None


async def test_each_sample_is_remembered_once_and_charts_have_a_gap_where_a_number_is_unknown() -> None:
    world = PageWorld()
    for number, estimate in enumerate((0.001, None, 0.5), 1):
        found = replace(PASSED, value="", estimate=estimate, evidence=-0.5)
        sampled(world, number, results=(found,))
        world.page.trail.turn()
        world.clock.forward(30)
    async with serving(world) as session:
        async with session.get(f"{PAGE}/history") as answer:
            past = await answer.json()
        async with session.get(PAGE, headers=JSON) as answer:
            twin = await answer.json()
    assert past["series"]["errors/canary"] == [0.001, None, 0.5]
    assert past["series"]["errors/level"] == [pytest.approx(math.log(20), rel=1e-4)] * 3
    assert [chart[0] for chart in past["charts"]] == ["errors: both sides", "errors: evidence"]
    assert past["charts"][1][3] == "signed"
    assert [each["sampleID"] for each in twin["samples"]] == [3, 2, 1]
    assert twin["evidence"]["errors"]["series"]["canary"] == [0.001, None, 0.5]


async def test_what_is_remembered_is_bounded_and_goes_with_its_analysis() -> None:
    world = PageWorld()
    for number in range(MOST_SAMPLES + 20):
        sampled(world, number)
        world.clock.forward(1)
    assert len(world.page.trail.told(KEY)) == MOST_SAMPLES
    world.clock.forward(3600)
    assert world.page.trail.told(KEY) == []
    world.canaries.views = ()
    world.page.trail.turn()
    assert list(world.page.trail.past(KEY)) == []
    async with serving(world) as session, session.get(PAGE, headers=HTML) as answer:
        assert answer.status == 404
        assert "is not observed" in await answer.text()


async def test_before_the_first_look_and_when_stale_no_verdict_is_shown_as_one_of_now() -> None:
    world = PageWorld()
    world.canaries.views = (as_of(world.clock.now(), view(judged=False)),)
    async with serving(world) as session:
        async with session.get(PAGE, headers=HTML) as answer:
            html = await answer.text()
        assert "Not judged yet." in html
        assert "Passed" not in html
        world.canaries.views = (as_of(world.clock.now(), view(age=500.0)),)
        async with session.get("/canary", headers=HTML) as answer:
            row = (await answer.text()).split("<tbody")[1]
        assert "Stale" in row
        assert "Passed" not in row
        async with session.get(PAGE, headers=HTML) as answer:
            assert "too old to say anything of now" in await answer.text()


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["chat-2", "other-3"]),
        ("?sort=-analysis", ["other-3", "chat-2"]),
        ("?verdict=Failed", ["other-3"]),
        ("?decision=Hold", ["chat-2"]),
        ("?deployment=other", ["other-3"]),
        ("?q=CHAT", ["chat-2"]),
        ("?namespace=nowhere", []),
    ],
)
async def test_analyses_are_filtered_and_sorted_by_the_url(query: str, names: list[str]) -> None:
    world = PageWorld()
    first = world.canaries.views[0]
    target = replace(first.definition.target, name="other")
    failed = status(Verdict.FAILED, Decision.ROLLBACK, Reason.THRESHOLD_BREACHED)
    other = replace(first, definition=replace(first.definition, name="other-3", target=target), status=failed)
    world.canaries.views = (first, other)
    async with serving(world) as session, session.get(f"/canary{query}", headers=JSON) as answer:
        assert [each["metadata"]["name"] for each in (await answer.json())["items"]] == names


async def test_unknown_filters_are_refused_by_name() -> None:
    async with serving(PageWorld()) as session, session.get("/canary?verdict=Maybe", headers=JSON) as answer:
        assert answer.status == 400
        assert "want one of Failed, Inconclusive, Passed" in (await answer.json())["error"]


async def test_deployments_lead_to_their_analyses() -> None:
    base = judged()
    key = DeploymentKey("demo", "chat")
    condition = Condition(type="CanaryAnalysis", status=Status.UNKNOWN, reason="Bake")
    deployment = replace(base.deployment, key=key)
    world = PageWorld(replace(base, deployment=deployment, conditions=(*base.conditions, condition)))
    async with serving(world) as session:
        async with session.get("/", headers=HTML) as answer:
            assert '<a href="/canary?namespace=demo&amp;deployment=chat">' in await answer.text()
        async with session.get("/deployments/demo/chat", headers=HTML) as answer:
            assert f'<a href="{PAGE}">chat-2</a>' in await answer.text()


async def test_the_number_of_a_relative_metric_is_told_as_a_multiple_and_never_drawn_beside_stables() -> None:
    world = PageWorld()
    made = as_of(world.clock.now(), view(status(results=(replace(PASSED, estimate=1.5, threshold="1.25"),)), age=0.0))
    metric = replace(METRIC, limit=1.25, measure=replace(METRIC.measure, relative=Relative(margin=1.25)))
    steps = tuple(replace(step, analysis=replace(step.analysis, metrics=(metric,))) for step in made.definition.steps)
    world.canaries.views = (replace(made, definition=replace(made.definition, steps=steps)),)
    world.page.trail.turn()
    async with serving(world) as session:
        async with session.get(f"{PAGE}/history") as answer:
            (chart,) = (await answer.json())["charts"]
        async with session.get(PAGE, headers=HTML) as answer:
            html = await answer.text()
    assert chart == ["errors: canary", "times stable", [["canary", "errors/canary"], ["at most", "errors/threshold"]]]
    assert "at most 1.25 times stable" in html
    assert "<small>times stable</small>" in html

"""The stream of changes: only what changed is sent, a lost view is loaded again, viewers are bounded, streams end."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import aiohttp
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from exporters.page import events
from exporters.page.render import Built, Fragment, element_id
from exporters.page.shown import ago, retime
from exporters.page.views import Tag, View, Views, parse_tag
from exporters.timestamps import rfc3339
from router_contract.status import Phase
from router_contract.verdicts import DeploymentReport
from tests.exporters.judged import EVERYTHING, judged
from tests.exporters.page_world import PageWorld, serving
from tests.exporters.reports import KEY

CHAT = "/deployments/prod/chat"
HTML = {"Accept": "text/html"}


async def tag_of(session: aiohttp.ClientSession, path: str) -> str:
    async with session.get(path, headers=HTML) as answer:
        found = re.search(r'data-tag="([^"]*)"', await answer.text())
    assert found
    return found[1]


async def message(stream: aiohttp.ClientResponse) -> tuple[str, str, Any]:
    """The next event: its kind, its id and its data."""
    fields: dict[str, str] = {}
    async with asyncio.timeout(10):
        while True:
            line = (await stream.content.readline()).decode().rstrip("\n")
            if not line and "data" in fields:
                return fields.get("event", ""), fields.get("id", ""), orjson.loads(fields["data"])
            name, _, text = line.partition(": ")
            fields[name] = text


async def test_only_what_changed_is_sent() -> None:
    world = PageWorld(judged())
    async with serving(world) as session:
        tag = await tag_of(session, CHAT)
        async with session.get("/events", params={"tag": tag}) as stream:
            assert stream.content_type == "text/event-stream"
            assert stream.headers["Cache-Control"] == "no-store"
            kind, _, first = await message(stream)
            assert (kind, first["groups"]) == ("change", {})
            changed = replace(judged(), phase=Phase.READY, phase_message="all is well")
            world.reports.reports[KEY] = changed
            (view,) = world.page._views.watched()
            view.update()
            kind, ident, second = await message(stream)
    assert kind == "change"
    assert set(second["groups"]) == {"head"}
    assert set(second["groups"]["head"]["set"]) == {"dep-head"}
    assert "order" not in second["groups"]["head"]
    assert "all is well" in second["groups"]["head"]["set"]["dep-head"]
    assert ident != tag


async def test_the_passing_of_time_alone_changes_nothing() -> None:
    world = PageWorld(EVERYTHING)
    async with serving(world) as session:
        await tag_of(session, CHAT)
        (view,) = world.page._views._by_place.values()
        before = view.step
        told = EVERYTHING.explanation
        older = replace(told, main=replace(told.main, age_seconds=told.main.age_seconds + 1))
        voices = tuple(
            replace(voice, age_seconds=None if voice.age_seconds is None else voice.age_seconds + 1)
            for voice in EVERYTHING.operator
        )
        world.clock.forward(1)
        world.reports.reports[KEY] = replace(
            aged(EVERYTHING, 1), at=world.clock.now(), explanation=older, operator=voices
        )
        view.update()
        assert view.step == before


def aged(made: DeploymentReport, seconds: float) -> DeploymentReport:
    """The same report later: its values and targets are older, and nothing else is."""
    targets = []
    for target in made.targets:
        age = target.status.age_seconds
        status = replace(target.status, age_seconds=None if age is None else age + seconds)
        values = tuple(
            replace(value, age_seconds=None if value.age_seconds is None else value.age_seconds + seconds)
            for value in target.values
        )
        targets.append(replace(target, status=status, values=values))
    return replace(made, targets=tuple(targets))


async def test_a_view_that_is_not_known_is_to_be_loaded_again() -> None:
    async with serving(PageWorld(EVERYTHING)) as session:
        for params in ({"tag": "other-life:3"}, {"tag": "garbage"}, {}):
            async with session.get("/events", params=params) as stream:
                kind, _, _ = await message(stream)
                assert kind == "again"
                async with asyncio.timeout(10):
                    assert await stream.content.read() == b""


async def test_a_deployment_that_goes_is_to_be_loaded_again() -> None:
    world = PageWorld(EVERYTHING)
    async with serving(world) as session:
        tag = await tag_of(session, CHAT)
        async with session.get("/events", params={"tag": tag}) as stream:
            await message(stream)
            del world.reports.reports[KEY]
            (view,) = world.page._views.watched()
            view.update()
            kind, _, _ = await message(stream)
    assert kind == "again"


async def test_viewers_are_bounded_and_told_so() -> None:
    world = PageWorld(EVERYTHING)
    world.page.events._most = 2
    async with serving(world) as session:
        tag = await tag_of(session, "/")
        first = await session.get("/events", params={"tag": tag})
        second = await session.get("/events", params={"tag": tag})
        assert world.page.events.clients == 2
        async with session.get("/events", params={"tag": tag}) as third:
            assert third.status == 503
            assert "followed live already" in (await third.json())["message"]
        first.close()
        second.close()


async def test_streams_end_when_the_page_closes() -> None:
    world = PageWorld(EVERYTHING)
    async with serving(world) as session:
        tag = await tag_of(session, "/")
        async with session.get("/events", params={"tag": tag}) as stream:
            await message(stream)
            world.page.close()
            async with asyncio.timeout(events.PING_SECONDS):
                await stream.content.read()
        async with session.get("/events", params={"tag": tag}) as refused:
            assert refused.status == 503


def built(*parts: tuple[str, str]) -> Built:
    return Built(template="x", title="x", groups={"rows": [Fragment(*part) for part in parts]})


def test_a_view_tells_order_only_when_it_changed() -> None:
    view = View("v", built)
    view.update(built(("a", "1"), ("b", "2")))
    assert view.since(0, 0.0) == {"rows": {"order": ["a", "b"], "set": {"a": "1", "b": "2"}}}
    view.update(built(("a", "1"), ("b", "3")))
    assert view.since(1, 0.0) == {"rows": {"set": {"b": "3"}}}
    view.update(built(("b", "3")))
    assert view.since(2, 0.0) == {"rows": {"order": ["b"], "set": {}}}
    assert view.since(3, 0.0) == {}


Parts = st.lists(
    st.tuples(st.sampled_from("abcde"), st.sampled_from("123")), max_size=5, unique_by=lambda part: part[0]
)


@given(st.lists(Parts, min_size=1, max_size=8), st.data())
def test_whoever_applies_the_changes_has_what_the_page_has(states: list[list[tuple[str, str]]], data: Any) -> None:
    view = View("v", built)
    screen: dict[str, str] = {}
    order: list[str] = []
    step = 0
    for state in states:
        view.update(built(*state))
        if data.draw(st.booleans()):
            continue
        changed = view.since(step, 0.0).get("rows", {"set": {}})
        step = view.step
        screen |= changed["set"]
        order = changed.get("order", order)
    changed = view.since(step, 0.0).get("rows", {"set": {}})
    screen |= changed["set"]
    order = changed.get("order", order)
    assert [(ident, screen[ident]) for ident in order] == states[-1]


def test_views_are_bounded_and_watched_ones_stay() -> None:
    views = Views(most=3)
    kept, _ = views.open("/kept", built)
    assert kept is not None
    kept.watchers.add(asyncio.Event())
    for place in range(10):
        views.open(f"/{place}", built)
    assert views.find(kept.id) is kept
    assert len(views._by_place) == 3


@pytest.mark.parametrize("text", ["", "x", ":1", "a:", "a:-1", "a:1.5", "a:" + "9" * 13, "a:\u0661"])
def test_texts_that_are_no_tag(text: str) -> None:
    assert parse_tag(text) is None


def test_a_tag_is_read_as_written() -> None:
    assert parse_tag(str(Tag("life-3", 12))) == Tag("life-3", 12)


@given(st.lists(st.text(max_size=8), min_size=1, max_size=4), st.lists(st.text(max_size=8), min_size=1, max_size=4))
def test_element_ids_are_words_and_never_the_same_for_other_names(one: list[str], other: list[str]) -> None:
    first = element_id(*one)
    assert not re.search(r"[\s<>\"'&]", first)
    assert (first == element_id(*other)) is (one == other)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0 s ago"),
        (0.4, "0 s ago"),
        (99.4, "99 s ago"),
        (100, "2 min ago"),
        (5990, "100 min ago"),
        (7200, "2 h ago"),
    ],
)
def test_ages_in_words(seconds: float, text: str) -> None:
    assert ago(seconds) == text
    html = f'<time datetime="{rfc3339(100.0)}" title="t" data-at="100.000"></time>'
    assert retime(html, 100 + seconds).endswith(f">{text}</time>")

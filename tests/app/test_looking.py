"""What is looked at on demand: which Events are told, and that those who ask at once share one look."""

from __future__ import annotations

import asyncio

from observer.app.looking import KEPT_SECONDS, Looking, told
from observer.clock import Instant
from observer.collect.url_check import UrlAnswer
from router_contract.discovered import Discovered, ObjectReference
from router_contract.platform_facts import PlatformFacts
from router_contract.platform_words import EventFact, UrlFact
from router_contract.targets import Deployment, DeploymentKey

KEY = DeploymentKey("team", "chat")
TARGET = ObjectReference(group="g", version="v1", kind="K", plural="ks", namespace="team", name="chat", uid="u")
ROW = EventFact(reason="GrowthClaimUnplaced", course="ClearsByItself", whose="cluster", hint="find room")


def event(reason="GrowthClaimUnplaced", note="no device", **more):
    return {"reason": reason, "note": note, "metadata": {"creationTimestamp": "2026-11-01T00:00:00Z"}, **more}


def test_only_the_reasons_that_the_platform_names_are_told_the_latest_first():
    items = [
        event(note="old"),
        event(note="new", eventTime="2026-11-03T00:00:00.000000Z"),
        event(note="again", series={"lastObservedTime": "2026-11-04T00:00:00Z"}),
        event("Scheduled"),
        "no event",
        event(note="", message="of core v1", deprecatedLastTimestamp="never"),
    ]
    found = told(items, {ROW.reason: ROW}, TARGET)
    assert [each.said for each in found] == ["again", "new", "old", "of core v1"]
    assert {(each.kind, each.name, each.advice, each.whose, each.hint) for each in found} == {
        ("Event", "chat", "ClearsByItself", "cluster", "find room")
    }


class Clock:
    def __init__(self):
        self.mono = 0.0

    def now(self) -> Instant:
        return Instant(self.mono, 1000.0 + self.mono)


class Urls:
    """Answers once it may."""

    def __init__(self):
        self.asked = []
        self.may = asyncio.Event()

    async def check(self, url, path, seconds):
        self.asked.append(url + path)
        await self.may.wait()
        return UrlAnswer(reason="Answered", said="yes")


def discovered(**facts) -> Discovered:
    return Discovered(deployment=Deployment(key=KEY, uid="u"), facts=PlatformFacts(**facts), target=TARGET)


async def test_who_asks_at_once_shares_one_look_and_a_later_one_looks_again():
    clock, urls = Clock(), Urls()
    looking = Looking(clock, urls)
    found = discovered(urls=(UrlFact(name="qwen-a", url="http://x/a", path="/v1/models"),))
    looking.use(None, lambda key: found if key == KEY else None)
    both = asyncio.gather(looking.look(KEY), looking.look(KEY))
    await asyncio.sleep(0)
    urls.may.set()
    one, two = await both
    assert one == two
    assert [(each.kind, each.name, each.reason, each.said, each.at) for each in one] == [
        ("URL", "qwen-a", "Answered", "http://x/a: yes", 1000.0)
    ]
    assert urls.asked == ["http://x/a/v1/models"]
    clock.mono += KEPT_SECONDS
    await looking.look(KEY)
    assert len(urls.asked) == 2
    assert await looking.look(DeploymentKey("team", "other")) == ()


async def test_who_waits_looks_by_itself_when_the_first_leaves():
    urls = Urls()
    looking = Looking(Clock(), urls)
    looking.use(None, lambda _: discovered(urls=(UrlFact(name="qwen-a", url="http://x/a"),)))
    first = asyncio.ensure_future(looking.look(KEY))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(looking.look(KEY))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    urls.may.set()
    assert [each.reason for each in await second] == ["Answered"]
    assert first.cancelled()


async def test_outside_a_cluster_and_without_anything_to_look_at_nothing_is_asked():
    urls = Urls()
    looking = Looking(Clock(), urls)
    assert await looking.look(KEY) == ()
    looking.use(None, lambda _: discovered())
    assert await looking.look(KEY) == ()
    assert urls.asked == []

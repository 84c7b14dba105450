"""The informer against a scripted API server over real HTTP: cuts, 410, silence, missed deletions, restored backups."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from observer.clock import SystemClock
from observer.kube.answers import Outcome
from observer.kube.cache import Change
from observer.kube.client import ApiClient, ClientTuning
from observer.kube.informer import Informer
from observer.kube.records import Document, watched_documents
from observer.kube.resources import PODS
from observer.kube.watching import Ending, WatchTuning
from tests.fakes.kube_api import FakeKube
from tests.kube.steady import QUICK, PlainCredentials, until

FAST = ClientTuning(rate=1000.0, burst=1000.0, seconds=5.0)


class Following:
    """An informer that runs, and the changes it told."""

    def __init__(self, kube: FakeKube, tuning: WatchTuning, limits: ClientTuning, **selectors: str) -> None:
        self.kube = kube
        self.changes: list[Change[Document]] = []
        self.client = ApiClient(PlainCredentials(kube.url), SystemClock(), limits)
        self.informer = Informer(
            self.client,
            watched_documents(PODS, **selectors),
            SystemClock(),
            on_change=self.changes.append,
            chance=random.Random(1).random,
            tuning=tuning,
        )

    @property
    def names(self) -> list[str]:
        return sorted(record.name for record in self.informer)

    @property
    def told(self) -> list[str]:
        return [f"{change.kind}{'*' if change.synthesised else ''} {change.record.name}" for change in self.changes]

    def endings(self, name: str) -> int:
        return dict(self.informer.health.endings).get(name, 0)

    async def settle(self, *names: str) -> None:
        await until(lambda: self.names == sorted(names))


@pytest.fixture
async def kube() -> AsyncIterator[FakeKube]:
    async with FakeKube() as fake:
        yield fake


@contextlib.asynccontextmanager
async def following(
    kube: FakeKube, tuning: WatchTuning = QUICK, limits: ClientTuning = FAST, **selectors: str
) -> AsyncIterator[Following]:
    it = Following(kube, tuning, limits, **selectors)
    async with it.client:
        task = asyncio.create_task(it.informer.run())
        try:
            yield it
        finally:
            assert not task.done(), f"the informer ended: {task}"
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def test_a_list_is_read_in_pages_and_watched_from_its_version(kube: FakeKube) -> None:
    for name in "abcdefg":
        kube.put("pods", name)
    async with following(kube, label_selector="app=x") as it:
        await it.informer.synced()
        await kube.opened(1)
        lists = [query for method, _, query in kube.log if "watch" not in query]
        assert [(query["limit"], query.get("continue")) for query in lists] == [("3", None), ("3", "3"), ("3", "6")]
        assert {query["labelSelector"] for _, _, query in kube.log} == {"app=x"}
        watch = kube.log[-1][2]
        assert (watch["resourceVersion"], watch["allowWatchBookmarks"]) == (str(kube.version), "true")
        assert 24 <= int(watch["timeoutSeconds"]) <= 36
        kube.put("pods", "h")
        kube.put("pods", "a", spec={"new": True})
        kube.delete("pods", "b")
        await it.settle(*"acdefgh")
        assert it.told == [*(f"Added {name}" for name in "abcdefg"), "Added h", "Modified a", "Deleted b"]
        assert it.informer.health.complete
        assert it.informer.health.heard_at is not None
        agents = {headers["User-Agent"] for headers in kube.headers}
        assert agents == {"modeldeployment-observer"}, "curl and browsers get indented JSON"


@pytest.mark.parametrize("script", ["gone-status", "gone-event"])
async def test_410_as_status_and_as_event(kube: FakeKube, script: str) -> None:
    kube.put("pods", "a")
    kube.put("pods", "b")
    kube.scripts.extend(["", script])
    async with following(kube) as it:
        await kube.opened(1)
        await it.settle("a", "b")
        kube.delete("pods", "a", heard=False)
        kube.end_watches()
        await it.settle("b")
        assert it.told[-1] == "Deleted* a"
        await kube.opened(3)
        kube.put("pods", "c")
        await it.settle("b", "c")
        assert it.informer.health.trouble == ""
        assert it.endings("WatchExpired") == 1


async def test_410_for_ever_does_not_become_a_hot_loop(kube: FakeKube) -> None:
    kube.scripts.extend(["gone-event"] * 1000)
    tuning = msgspec.structs.replace(QUICK, back_off=msgspec.structs.replace(QUICK.back_off, first=0.8, longest=30.0))
    async with following(kube, tuning) as it:
        await it.informer.synced()
        await asyncio.sleep(0.6)
        assert kube.watches_opened <= 5
        assert "Expired" in it.informer.health.trouble


async def test_watch_ends_silently(kube: FakeKube) -> None:
    """A clean end before the time asked for: resumed from the last version, nothing lost, nothing told twice."""
    kube.put("pods", "a")
    kube.scripts.extend(["", "end", "end"])
    async with following(kube) as it:
        await kube.opened(1)
        kube.put("pods", "b")
        await it.settle("a", "b")
        seen = kube.version
        kube.end_watches()
        kube.put("pods", "c")
        await kube.opened(4)
        await it.settle("a", "b", "c")
        watches = [query["resourceVersion"] for _, _, query in kube.log if "watch" in query]
        assert watches[1] == str(seen)
        assert (kube.lists, it.told) == (1, ["Added a", "Added b", "Added c"])


async def test_a_watch_that_served_its_time_is_followed_by_the_next_without_a_list(kube: FakeKube) -> None:
    async with following(kube, msgspec.structs.replace(QUICK, watch=1.0)) as it:
        await kube.opened(2)
        await until(lambda: it.endings("WatchServed"))
        assert (kube.lists, it.endings("WatchCut"), it.informer.health.trouble) == (1, 0, "")


async def test_a_cut_connection_is_resumed(kube: FakeKube) -> None:
    kube.put("pods", "a")
    async with following(kube) as it:
        await kube.opened(1)
        await it.settle("a")
        kube.cut_watches()
        kube.put("pods", "b")
        await it.settle("a", "b")
        assert kube.lists == 1
        assert it.endings("WatchNoAnswer") == 1


async def test_a_watch_cut_with_a_deletion_missed_is_listed_again(kube: FakeKube) -> None:
    for name in "abcd":
        kube.put("pods", name)
    async with following(kube) as it:
        await kube.opened(1)
        await it.settle(*"abcd")
        kube.delete("pods", "c", heard=False)
        kube.cut_watches()
        await it.settle("a", "b", "d")
        assert it.told[-1] == "Deleted* c"


async def test_half_open_connection_75_s(kube: FakeKube) -> None:
    """A peer that says nothing, not even a bookmark, is given up after the silence; here that is 0.2 s."""
    kube.put("pods", "a")
    kube.scripts.append("half-open")
    assert WatchTuning().silence == 75.0
    async with following(kube, msgspec.structs.replace(QUICK, silence=0.2)) as it:
        await kube.opened(1)
        kube.put("pods", "b")
        await it.settle("a", "b")
        assert it.endings("WatchSilent") == 1
        assert kube.lists == 1, "resumed from the version, not listed"


async def test_a_bookmark_moves_the_version_and_says_that_the_server_lives(kube: FakeKube) -> None:
    async with following(kube) as it:
        await kube.opened(1)
        await it.informer.synced()
        before = it.informer.health.heard_at
        await until(lambda: kube._watches)
        kube.bookmark(5000)
        await until(lambda: it.informer.health.heard_at != before)
        kube.version = 5000
        kube.end_watches()
        await kube.opened(2)
        assert kube.log[-1][2]["resourceVersion"] == "5000"
        assert it.changes == []


async def test_future_resourceversion(kube: FakeKube) -> None:
    """A restored backup: our version lies in the server's future, where a watch is silently empty."""
    kube.put("pods", "a")
    kube.version = 900
    kube.put("pods", "late")
    async with following(kube) as it:
        await kube.opened(1)
        await it.settle("a", "late")
        kube.cut_watches()
        kube.restore(200)
        kube.put("pods", "b")
        await it.settle("a", "b")
        assert it.endings("LookBackward") == 1
        kube.put("pods", "c")
        await it.settle("a", "b", "c")


@pytest.mark.parametrize("script", ["too-new-status", "too-new-event", "error-500"])
async def test_a_server_that_cannot_serve_the_version_is_listed_again(kube: FakeKube, script: str) -> None:
    kube.put("pods", "a")
    kube.scripts.append(script)
    async with following(kube) as it:
        await kube.opened(2)
        kube.put("pods", "b")
        await it.settle("a", "b")
        assert kube.lists == 2


async def test_api_down_4_s(kube: FakeKube) -> None:
    """The API server goes away and comes back on its port: what was held stays held, named as old, and then is right."""
    kube.put("pods", "a")
    async with following(kube) as it:
        await kube.opened(1)
        await it.settle("a")
        await kube.down()
        await until(lambda: it.informer.health.outcome is Outcome.NO_ANSWER and it.endings("LookNoAnswer") >= 2)
        assert it.names == ["a"]
        assert "look of pods.v1: NoAnswer" in it.informer.health.trouble
        kube.put("pods", "b")
        kube.delete("pods", "a")
        await kube.up()
        await it.settle("b")
        await until(lambda: it.endings("LookForward"))
        kube.bookmark()
        await until(lambda: it.informer.health.trouble == "")


async def test_what_is_not_installed_or_forbidden_is_named_and_tried_again(kube: FakeKube) -> None:
    kube.faults.extend(
        [("GET", 404, "404 page not found"), ("GET", 403, {"kind": "Status", "message": "pods is forbidden"})]
    )
    kube.put("pods", "a")
    async with following(kube) as it:
        await until(lambda: it.informer.health.outcome is Outcome.FORBIDDEN)
        assert it.informer.health.trouble == "list of pods.v1: Forbidden: pods is forbidden"
        assert not it.informer.health.synced
        await it.settle("a")
        assert it.informer.health.trouble == ""


async def test_a_list_whose_token_ran_out_is_asked_for_in_one_piece(kube: FakeKube) -> None:
    for name in "abcde":
        kube.put("pods", name)
    kube.expire_tokens = True
    async with following(kube) as it:
        await it.settle(*"abcde")
        limits = [query.get("limit") for _, _, query in kube.log if "watch" not in query]
        assert limits == ["3", "3", None]


async def test_an_object_that_cannot_be_read_costs_its_neighbours_nothing(kube: FakeKube) -> None:
    kube.put("pods", "a")
    kube.put("pods", "b")
    async with following(kube, msgspec.structs.replace(QUICK, watch=1.0, spread=0.0)) as it:
        await kube.opened(1)
        await it.settle("a", "b")
        kube.objects["/api/v1/pods", "ns", "b"]["metadata"]["generation"] = "seven"
        kube.put("pods", "c")
        kube.raw(b'{"type":"MODIFIED","object":{"metadata":{"resourceVersion":"%d","name":7}}}' % kube.version)
        await until(lambda: it.informer.health.unread == 1)
        assert not it.informer.health.complete
        await until(lambda: it.informer.health.lists == 2)
        assert (it.informer.health.unread, it.names) == (1, ["a", "b", "c"]), "b may still be there"
        kube.objects["/api/v1/pods", "ns", "b"]["metadata"]["generation"] = 7
        await until(lambda: it.informer.health.complete)


@pytest.mark.parametrize("line", [b"{", b'{"type": "ADDED"}', b"\xff\xfe", b'{"type":"ADDED","object":[]}'])
async def test_a_line_that_is_no_event_is_followed_by_a_list(kube: FakeKube, line: bytes) -> None:
    kube.put("pods", "a")
    async with following(kube) as it:
        await kube.opened(1)
        await until(lambda: kube._watches)
        kube.raw(line)
        await until(lambda: kube.lists == 2)
        assert it.endings("WatchMalformed") == 1
        assert it.names == ["a"]


async def test_a_list_longer_than_the_limit_is_asked_for_in_smaller_pages(kube: FakeKube) -> None:
    for name in "abcdef":
        kube.put("pods", name, spec={"padding": "x" * 300})
    async with following(kube, limits=msgspec.structs.replace(FAST, body=900)) as it:
        await it.settle(*"abcdef")
        assert it.endings("ListTooLarge") == 1


async def test_a_line_longer_than_the_limit_ends_the_watch_and_not_the_process(kube: FakeKube) -> None:
    async with following(kube, limits=msgspec.structs.replace(FAST, line=1000)) as it:
        await kube.opened(1)
        await until(lambda: kube._watches)
        kube.raw(b'{"type":"ADDED","object":' + b"x" * 200_000)
        await until(lambda: it.endings("WatchTooLarge") or it.endings("WatchMalformed"))


async def test_an_object_created_again_under_its_name_is_another_object(kube: FakeKube) -> None:
    kube.put("pods", "a")
    async with following(kube) as it:
        await kube.opened(1)
        await it.settle("a")
        first: Any = it.informer.get("a", "ns")
        kube.delete("pods", "a")
        kube.put("pods", "a")
        await until(lambda: (held := it.informer.get("a", "ns")) is not None and held.uid != first.uid)
        assert it.told == ["Added a", "Deleted a", "Added a"]
        assert it.endings(f"Watch{Ending.CUT}") == 0

"""Events on transitions: one for each kind of change, counted while it repeats, never a flood."""

from __future__ import annotations

import re
from collections import deque
from typing import Any

import msgspec
import pytest

from observer.kube.answers import Answer, Outcome
from observer.kube.events import EventTeller, EventTuning, Notice, event
from router_contract.discovered import ObjectReference
from tests.cluster.running import background
from tests.kube.steady import TurnedClock, until

MD = ObjectReference(
    group="worker.gpustack.ai",
    version="v1alpha1",
    kind="ModelDeployment",
    plural="modeldeployments",
    namespace="prod",
    name="chat",
    uid="uid-chat",
)
NOTICE = Notice(
    regarding=MD,
    kind="EndpointEligibility False",
    reason="Revoked",
    note="EndpointEligibility was True, is False: 1 of 2",
    warning=True,
    at=1_700_000_000.0,
)


class Server:
    """Takes Events and answers as scripted, with success where nothing is."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Any]] = []
        self.answers: deque[Answer] = deque()

    async def request(self, method: str, path: str, **more: Any) -> Answer:
        self.calls.append((method, path, more["body"]))
        return self.answers.popleft() if self.answers else Answer(outcome=Outcome.OK, status=201)

    @property
    def methods(self) -> list[str]:
        return [method for method, _, _ in self.calls]


class Telling:
    def __init__(self, tuning: EventTuning = EventTuning(rate=1e3, burst=1e3)) -> None:  # noqa: B008 - frozen
        self.server = Server()
        self.clock = TurnedClock()
        self.results: list[str] = []
        self.teller = EventTeller(
            self.server,  # type: ignore[arg-type]  # a small stand-in that takes the same calls
            self.clock,
            instance="observer-0",
            told=self.results.append,
            tuning=tuning,
        )

    async def said(self, *notices: Notice) -> list[str]:
        """Tell these, and wait until each has a result."""
        wanted = len(self.results) + len(notices)
        async with background(self.teller.run):
            for notice in notices:
                self.teller.tell(notice)
            await until(lambda: len(self.results) >= wanted)
        return self.results


def test_an_event_says_what_the_api_wants() -> None:
    made = event(NOTICE, "observer-0")
    assert made["apiVersion"] == "events.k8s.io/v1"
    assert made["type"] == "Warning"
    assert made["reason"] == "Revoked"
    assert made["note"].startswith("EndpointEligibility was True")
    assert made["regarding"]["uid"] == "uid-chat"
    assert made["metadata"]["namespace"] == "prod"
    assert re.fullmatch(r"chat\.[0-9a-f]{16}", made["metadata"]["name"])
    assert made["eventTime"].endswith(".000000Z"), "a MicroTime without a fraction is refused"
    assert made["action"]
    assert made["reportingController"]
    assert made["reportingInstance"] == "observer-0"


def test_texts_are_cut_to_what_the_api_takes() -> None:
    long = msgspec.structs.replace(NOTICE, note="ä" * 2000, reason="R" * 500)
    made = event(long, "observer-0")
    assert len(made["note"].encode()) <= 1024
    assert len(made["reason"]) == 128


async def test_a_repeat_is_counted_in_the_event_it_repeats() -> None:
    telling = Telling()
    assert await telling.said(NOTICE, NOTICE, NOTICE) == ["ok", "counted", "counted"]
    assert telling.server.methods == ["POST", "PATCH", "PATCH"]
    assert [body["series"]["count"] for _, _, body in telling.server.calls[1:]] == [2, 3]
    assert telling.server.calls[1][1].endswith(f"/events/{telling.server.calls[0][2]['metadata']['name']}")


async def test_another_change_and_a_late_repeat_are_events_of_their_own() -> None:
    telling = Telling()
    other = msgspec.structs.replace(NOTICE, kind="EndpointEligibility True", reason="Qualified")
    assert await telling.said(NOTICE, other) == ["ok", "ok"]
    telling.clock.turned += 601
    assert await telling.said(NOTICE) == ["ok", "ok", "ok"]


async def test_a_series_whose_event_expired_begins_anew() -> None:
    telling = Telling()
    await telling.said(NOTICE)
    telling.server.answers.append(Answer(outcome=Outcome.NOT_FOUND, status=404))
    assert await telling.said(NOTICE) == ["ok", "ok"]
    assert telling.server.methods == ["POST", "PATCH", "POST"]


async def test_a_refusal_is_counted_and_the_next_is_told() -> None:
    telling = Telling()
    telling.server.answers.append(Answer(outcome=Outcome.FORBIDDEN, status=403, message="no events for you"))
    assert await telling.said(NOTICE, NOTICE) == ["error", "ok"]


@pytest.mark.parametrize(
    ("seconds", "more"), [(0, 0), (31, 1), (3600, 10)], ids=["at once", "half a minute", "an hour"]
)
async def test_an_object_that_flaps_is_limited(seconds: float, more: int) -> None:
    telling = Telling()
    flaps = [msgspec.structs.replace(NOTICE, kind=f"k{n}") for n in range(30)]
    results = await telling.said(*flaps)
    assert results.count("limited") == 20
    telling.clock.turned += seconds
    results = await telling.said(*flaps)
    assert results.count("ok") + results.count("counted") == 10 + more
    other = msgspec.structs.replace(NOTICE, regarding=msgspec.structs.replace(MD, uid="another"))
    assert (await telling.said(other))[-1] == "ok", "another object has its own allowance"


async def test_the_queue_is_bounded() -> None:
    telling = Telling(EventTuning(waiting=2, object_burst=100.0))
    for _ in range(5):
        telling.teller.tell(NOTICE)
    assert telling.results == ["limited"] * 3


@pytest.mark.parametrize("name", ["a" * 253, "a" * 235 + "-" + "b" * 17, "a" * 234 + "-." + "b" * 17])
def test_an_event_of_the_longest_name_has_a_name_that_the_server_takes(name: str) -> None:
    made = event(msgspec.structs.replace(NOTICE, regarding=msgspec.structs.replace(MD, name=name)), "observer-0")
    told = made["metadata"]["name"]
    assert len(told) <= 253
    assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", part) for part in told.split("."))


@pytest.mark.parametrize("note", ["x" * 5000, "é" * 700, "\U0001f600" * 300, ""])
def test_a_note_stays_within_the_limit_of_bytes(note: str) -> None:
    made = event(msgspec.structs.replace(NOTICE, note=note), "observer-0")
    assert len(made["note"].encode()) <= 1024

"""Tells transitions as Events (``events.k8s.io/v1``): one Event for each kind of change, counted up while it repeats.

A busy cluster must not drown in them: each object has an allowance, the replica has one, and what waits is bounded. What
is not told is counted; it stands in the observation's transitions all the same.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import msgspec

from observer.clock import Clock
from observer.kube.answers import Outcome
from observer.kube.client import ApiClient
from observer.kube.electing import micro_time
from observer.kube.pacing import Bucket
from observer.kube.resources import Resource
from router_contract.discovered import ObjectReference

EVENTS = Resource(group="events.k8s.io", version="v1", plural="events", kind="Event")
CONTROLLER = "observer.modeldeployment.io/observer"
MERGE = "application/merge-patch+json"
LONGEST_NOTE = 1024
LONGEST_REASON = 128

_log = logging.getLogger(__name__)


class EventTuning(msgspec.Struct, frozen=True, kw_only=True):
    """Events per second and at once, of one object and of this replica. ``series`` (s): later repeats are a new Event.

    ``waiting`` bounds the queue, ``remembered`` the series and allowances that are kept.
    """

    object_rate: float = 1 / 30
    object_burst: float = 10.0
    rate: float = 2.0
    burst: float = 25.0
    series: float = 600.0
    waiting: int = 1000
    remembered: int = 10_000


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """One change to tell. ``kind`` is what makes two changes the same; ``reason`` is CamelCase, ``note`` a sentence."""

    regarding: ObjectReference
    related: ObjectReference | None = None
    kind: str
    reason: str
    note: str
    warning: bool = False
    at: float


class _Series(msgspec.Struct, frozen=True):
    name: str
    count: int
    began: float


class EventTeller:
    """``instance`` is this replica's name. ``told`` hears each result: ``ok``, ``counted``, ``limited``, ``error``.

    ``may`` is asked before each write; what may not be told then is left out.
    """

    def __init__(
        self,
        client: ApiClient,
        clock: Clock,
        *,
        instance: str,
        told: Callable[[str], None],
        tuning: EventTuning = EventTuning(),  # noqa: B008 - frozen
        may: Callable[[], bool] = lambda: True,
    ) -> None:
        self._client = client
        self._clock = clock
        self._instance = instance[:128]
        self._told = told
        self._may = may
        self._tuning = tuning
        now = clock.now().mono
        self._bucket = Bucket.full(tuning.rate, tuning.burst, now)
        self._allowances: OrderedDict[str, Bucket] = OrderedDict()
        self._series: OrderedDict[tuple[str, str, str], _Series] = OrderedDict()
        self._queue: deque[Notice] = deque()
        self._wake = asyncio.Event()
        self._trouble = ""

    def tell(self, notice: Notice) -> None:
        """Queue one change. One beyond an allowance or the queue's bound is counted and not told."""
        if len(self._queue) >= self._tuning.waiting or not self._allowed(notice.regarding.uid):
            self._told("limited")
            return
        self._queue.append(notice)
        self._wake.set()

    async def run(self) -> None:
        """Tell what is queued until cancelled. A change that the server did not take is not told again."""
        while True:
            while not self._queue:
                self._wake.clear()
                await self._wake.wait()
            self._bucket, pause = self._bucket.take(self._clock.now().mono)
            if pause:
                await asyncio.sleep(pause)
            notice = self._queue.popleft()
            if self._may():
                await self._send(notice)
            else:
                self._told("limited")

    def _allowed(self, uid: str) -> bool:
        now = self._clock.now().mono
        tuning = self._tuning
        before = self._allowances.pop(uid, None) or Bucket.full(tuning.object_rate, tuning.object_burst, now)
        after, pause = before.take(now)
        self._allowances[uid] = before if pause else after
        while len(self._allowances) > tuning.remembered:
            self._allowances.popitem(last=False)
        return not pause

    async def _send(self, notice: Notice) -> None:
        key = (notice.regarding.uid, notice.kind, notice.reason)
        known = self._series.get(key)
        if known is not None and self._clock.now().mono - known.began <= self._tuning.series:
            count = known.count + 1
            series = {"count": count, "lastObservedTime": micro_time(notice.at)}
            path = EVENTS.path(known.name, _namespace(notice.regarding))
            answer = await self._client.request("PATCH", path, body={"series": series}, content_type=MERGE)
            if answer.ok:
                self._series[key] = msgspec.structs.replace(known, count=count)
            if answer.outcome is not Outcome.NOT_FOUND:
                self._result("counted" if answer.ok else "error", answer.message)
                return
        body = event(notice, self._instance)
        answer = await self._client.request("POST", EVENTS.collection(_namespace(notice.regarding)), body=body)
        if answer.ok:
            self._series.pop(key, None)
            self._series[key] = _Series(body["metadata"]["name"], 1, self._clock.now().mono)
            while len(self._series) > self._tuning.remembered:
                self._series.popitem(last=False)
        self._result("ok" if answer.ok else "error", answer.message)

    def _result(self, result: str, message: str) -> None:
        self._told(result)
        trouble = message if result == "error" else ""
        if trouble and trouble != self._trouble:
            _log.warning("an Event was not taken: %s", trouble)
        self._trouble = trouble


def event(notice: Notice, instance: str) -> dict[str, Any]:
    """The Event of a change. Its name is made from what it says and when, as the API's own clients do."""
    regarding = notice.regarding
    mark = hashlib.blake2b(
        f"{regarding.uid} {notice.kind} {notice.reason} {notice.at!r} {instance}".encode(), digest_size=8
    ).hexdigest()
    body: dict[str, Any] = {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        # What is cut off must not leave a name that ends in what no name may end in.
        "metadata": {"name": f"{regarding.name[:236].rstrip('-.')}.{mark}", "namespace": _namespace(regarding)},
        "eventTime": micro_time(notice.at),
        "type": "Warning" if notice.warning else "Normal",
        "reason": notice.reason[:LONGEST_REASON],
        "action": "Observed",
        "note": _note(notice),
        "regarding": _reference(regarding),
        "reportingController": CONTROLLER,
        "reportingInstance": instance,
    }
    if notice.related is not None:
        body["related"] = _reference(notice.related)
    return body


def _reference(of: ObjectReference) -> dict[str, str]:
    return {"apiVersion": of.api_version, "kind": of.kind, "namespace": of.namespace, "name": of.name, "uid": of.uid}


def _namespace(of: ObjectReference) -> str:
    return of.namespace or "default"


def _note(notice: Notice) -> str:
    """The sentence within the API's limit of bytes, cut at a character."""
    data = notice.note.encode()
    if len(data) < LONGEST_NOTE:
        return notice.note
    return data[: LONGEST_NOTE - 4].decode("utf-8", "ignore") + "…"

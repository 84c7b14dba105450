"""What is looked at only because somebody asks for an explanation: Events about the object, and URLs it publishes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from observer.clock import Clock
from observer.collect.fetch import Fetcher
from observer.collect.url_check import UrlCheck, plain
from observer.discover.admission import refusal
from observer.kube.client import ApiClient
from router_contract.discovered import Discovered, ObjectReference
from router_contract.platform_facts import PlatformFacts
from router_contract.platform_words import EventFact, Look, UrlFact
from router_contract.targets import DeploymentKey

KEPT_SECONDS = 15.0
"""How long an answer serves everybody who asks for the same deployment."""
LOOK_SECONDS = 3.0
"""The most that one look takes."""
MAX_KEPT = 1000
MAX_EVENTS = 500
MAX_TOLD = 20
"""Most Events of one deployment that are told."""


class Looking:
    """Looks for whoever asks. Nothing is looked at before `use` said with what; outside a cluster there is nothing."""

    def __init__(self, clock: Clock, urls: UrlCheck) -> None:
        self._clock = clock
        self._client: ApiClient | None = None
        self._urls = urls
        self._find: Callable[[DeploymentKey], Discovered | None] = lambda _: None
        self._kept: dict[DeploymentKey, tuple[float, asyncio.Future[tuple[Look, ...]]]] = {}

    def use(self, client: ApiClient, find: Callable[[DeploymentKey], Discovered | None]) -> None:
        """Look in a cluster from now on; ``find`` gives what was discovered of a deployment."""
        self._client, self._find = client, find

    async def look(self, key: DeploymentKey) -> tuple[Look, ...]:
        """Everything that a deployment's platform wants looked at; who asks at the same time shares one look."""
        found = self._find(key)
        if found is None or not (found.facts.events or found.facts.urls):
            return ()
        now = self._clock.now().mono
        held = self._kept.get(key)
        if held is not None and now - held[0] < KEPT_SECONDS and not held[1].cancelled():
            try:
                return await asyncio.shield(held[1])
            except asyncio.CancelledError:
                # who looked for both of us left: then we look ourselves
                if not held[1].cancelled():
                    raise
        while len(self._kept) >= MAX_KEPT:
            self._kept.pop(next(iter(self._kept)))
        made: asyncio.Future[tuple[Look, ...]] = asyncio.get_running_loop().create_future()
        self._kept[key] = (now, made)
        try:
            looks = await self._looks(found)
            made.set_result(looks)
        finally:
            if not made.done():
                made.cancel()
        return looks

    async def _looks(self, found: Discovered) -> tuple[Look, ...]:
        events, urls = await asyncio.gather(self._events(found), self._checked(found.facts))
        return (*events, *urls)

    async def _events(self, found: Discovered) -> list[Look]:
        rows, target = {row.reason: row for row in found.facts.events}, found.target
        if not rows or target is None or self._client is None:
            return []
        path = f"/apis/events.k8s.io/v1/namespaces/{target.namespace}/events"
        query = {"fieldSelector": f"regarding.uid={target.uid}", "limit": str(MAX_EVENTS)}
        answer = await self._client.request("GET", path, query=query, seconds=LOOK_SECONDS)
        why = answer.message or answer.outcome.value
        try:
            items = answer.document().get("items") if answer.ok else None
        except msgspec.DecodeError as error:
            items, why = None, str(error)
        if not isinstance(items, list):
            return [Look(kind="Event", name=target.name, reason="NotObserved", said=f"Events cannot be read: {why}")]
        return told(items, rows, target)

    async def _checked(self, facts: PlatformFacts) -> list[Look]:
        return list(await asyncio.gather(*map(self._check, facts.urls)))

    async def _check(self, fact: UrlFact) -> Look:
        answer = await self._urls.check(fact.url, fact.path, LOOK_SECONDS)
        at = self._clock.now().wall
        said = f"{plain(fact.url) or 'a text that is no URL'}: {answer.said}"
        return Look(kind="URL", name=fact.name, reason=answer.reason, said=said, at=at)


def make_looking(clock: Clock, fetcher: Fetcher, allow: Sequence[str]) -> Looking:
    """One that dials with ``fetcher`` what discovered targets may be, and the networks of ``allow``."""
    return Looking(clock, UrlCheck(fetcher, clock, partial(refusal, allow=tuple(allow))))


def told(items: Iterable[Any], rows: dict[str, EventFact], target: ObjectReference) -> list[Look]:
    """The Events with one of the reasons, the latest first; one that cannot be read is left out."""
    found: list[Look] = []
    for item in items:
        row = rows.get(str(item.get("reason"))) if isinstance(item, dict) else None
        if row is None:
            continue
        found.append(
            Look(
                kind="Event",
                name=target.name,
                reason=row.reason,
                said=str(item.get("note") or item.get("message") or ""),
                advice=row.course,
                whose=row.whose,
                hint=row.hint,
                at=_when(item),
            )
        )
    return sorted(found, key=lambda each: -(each.at or 0.0))[:MAX_TOLD]


def _when(item: dict[str, Any]) -> float | None:
    """When an Event happened last, in wall seconds; its writers use one of several fields."""
    series = item.get("series")
    places = [series.get("lastObservedTime")] if isinstance(series, dict) else []
    metadata = item.get("metadata")
    made = metadata.get("creationTimestamp") if isinstance(metadata, dict) else None
    for written in (*places, item.get("deprecatedLastTimestamp"), item.get("eventTime"), made):
        if isinstance(written, str):
            try:
                return datetime.fromisoformat(written).timestamp()
            except ValueError:
                continue
    return None

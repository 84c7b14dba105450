"""Informers shared by platforms: each resource, namespace and selector is followed once, whoever asks for it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec

from observer.clock import Clock
from observer.discover.platforms import paths
from observer.kube.answers import Outcome
from observer.kube.cache import Change, ChangeKind
from observer.kube.client import ApiClient
from observer.kube.informer import Informer
from observer.kube.records import Document, PodDecoder, Watched, document
from observer.kube.resources import PODS, Resource
from observer.kube.watching import WatchTuning
from observer.supervise import Supervisor
from router_contract.platform_facts import SourceFault

Told = Callable[[Change[Any]], None]
"""Hears each change of a feed."""

_MAY_NOT = {Outcome.FORBIDDEN: "Forbidden", Outcome.UNAUTHORIZED: "Forbidden", Outcome.NOT_FOUND: "NotInstalled"}


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What to follow. ``namespace`` is ``None`` for all; of documents only ``keep`` (paths) stays, empty for all."""

    resource: Resource
    namespace: str | None = None
    label_selector: str = ""
    keep: tuple[str, ...] = ()


class Feed:
    """One informer and who hears it."""

    def __init__(self, wanted: Wanted, client: ApiClient, clock: Clock, tuning: WatchTuning, grace: float) -> None:
        self.wanted = wanted
        self._clock = clock
        self._grace = grace
        self._told: list[Told] = []
        self._since: float | None = None
        watched: Watched[Any] = Watched(
            resource=wanted.resource,
            decode=PodDecoder() if wanted.resource == PODS else _kept(wanted.keep),
            namespace=wanted.namespace,
            label_selector=wanted.label_selector,
        )
        self.informer: Informer[Any] = Informer(
            client, watched, clock, on_change=self._tell, chance=random.SystemRandom().random, tuning=tuning
        )

    def hear(self, told: Told) -> None:
        """Tell of every object held now, and of each change from now on."""
        self._told.append(told)
        for record in self.informer:
            told(Change(kind=ChangeKind.ADDED, record=record))

    def _tell(self, change: Change[Any]) -> None:
        for told in self._told:
            told(change)

    @property
    def synced(self) -> bool:
        """Whether a whole list was read."""
        return self.informer.health.synced

    @property
    def settled(self) -> bool:
        """Whether it is known that it can be read, or that it cannot: who may not read need not be waited for."""
        health = self.informer.health
        return health.synced or health.outcome in _MAY_NOT

    @property
    def tried(self) -> bool:
        """Whether anything was learnt at all."""
        return self.synced or bool(self.informer.health.trouble)

    def fault(self) -> SourceFault | None:
        """Why it cannot be believed now, ``None`` while it can. A trouble that passes within the grace is none."""
        health = self.informer.health
        if health.complete and not health.trouble:
            self._since = None
            return None
        now = self._clock.now()
        if self._since is None:
            self._since = now.wall
        why = _MAY_NOT.get(health.outcome) if isinstance(health.outcome, Outcome) and health.trouble else None
        heard = health.heard_at
        if why is None and health.complete and heard is not None and now.wall - self._since < self._grace:
            return None
        detail = health.trouble or (
            f"{health.unread} objects cannot be read" if health.unread else "no list was read yet"
        )
        kind = self.wanted.resource.kind
        return SourceFault(kind=kind, why=why or "Failing", since=self._since, detail=detail)


class Feeds:
    """All feeds of one observer."""

    def __init__(
        self, client: ApiClient, clock: Clock, supervisor: Supervisor, tuning: WatchTuning, grace: float
    ) -> None:
        self._client = client
        self._clock = clock
        self._supervisor = supervisor
        self._tuning = tuning
        self._grace = grace
        self._feeds: dict[Wanted, Feed] = {}

    def open(self, wanted: Wanted) -> Feed:
        """The feed, started when it is new."""
        feed = self._feeds.get(wanted)
        if feed is None:
            feed = self._feeds[wanted] = Feed(wanted, self._client, self._clock, self._tuning, self._grace)
            place = f" in {wanted.namespace}" if wanted.namespace else ""
            self._supervisor.start(f"watch {wanted.resource.full_name}{place}", feed.informer.run)
        return feed


def _kept(keep: tuple[str, ...]) -> Callable[[msgspec.Raw], Document]:
    """A decoder that keeps little of an object: its identity, owners, marks, and some paths whole."""
    if not keep:
        return document
    steps = tuple(tuple(step.key for step in paths.parse(path)) for path in keep)

    def decode(raw: msgspec.Raw) -> Document:
        whole = document(raw)
        metadata = whole.body.get("metadata", {})
        names = ("name", "namespace", "uid", "ownerReferences", "deletionTimestamp", "creationTimestamp")
        body: dict[str, Any] = {"metadata": {name: metadata[name] for name in names if name in metadata}}
        for keys in steps:
            _copy(whole.body, body, keys)
        return msgspec.structs.replace(whole, body=body)

    return decode


def _copy(source: dict[str, Any], into: dict[str, Any], keys: tuple[str, ...]) -> None:
    """Copy the value at a path of plain keys, if there is one."""
    for key in keys[:-1]:
        below = source.get(key)
        if not isinstance(below, dict):
            return
        source, into = below, into.setdefault(key, {})
    if keys[-1] in source:
        into[keys[-1]] = source[keys[-1]]

"""Follows the stored observations, in one namespace each or in the whole cluster, and makes and deletes them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from observer.clock import Clock
from observer.kube.answers import Answer, Outcome
from observer.kube.cache import Change
from observer.kube.client import ApiClient
from observer.kube.informer import Informer
from observer.kube.intent import Key, Stored
from observer.kube.observations import OBSERVATIONS, resource_of, target_of
from observer.kube.records import Document, watched_documents
from observer.kube.records import document as document_of
from observer.kube.watching import WatchTuning
from router_contract.platform_facts import SourceFault
from router_contract.readings import Instant

_WHY = {Outcome.NOT_FOUND: "NotInstalled", Outcome.FORBIDDEN: "Forbidden"}
_log = logging.getLogger(__name__)


class Observations:
    """The stored observations as the API server has them. ``on_change`` hears the key of each that changed."""

    def __init__(
        self,
        client: ApiClient,
        clock: Clock,
        namespaces: tuple[str, ...],
        *,
        on_change: Callable[[Key], None],
        chance: Callable[[], float],
        tuning: WatchTuning = WatchTuning(),  # noqa: B008 - frozen
    ) -> None:
        self._client = client
        self._clock = clock
        self._on_change = on_change
        self._failing: Instant | None = None
        self._informers = {
            namespace: Informer(
                client,
                watched_documents(OBSERVATIONS, namespace),
                clock,
                on_change=self._changed,
                chance=chance,
                tuning=tuning,
            )
            for namespace in namespaces or (None,)
        }

    @property
    def runs(self) -> tuple[tuple[str, Callable[[], Any]], ...]:
        """What must run: a name and a coroutine function for each informer."""
        return tuple(
            (f"follow observations{f' in {namespace}' if namespace else ''}", informer.run)
            for namespace, informer in self._informers.items()
        )

    def get(self, namespace: str, name: str) -> Document | None:
        """One observation, ``None`` when none is known."""
        informer = self._informers.get(None) or self._informers.get(namespace)
        return informer.get(name, namespace) if informer is not None else None

    def __iter__(self) -> Iterator[Document]:
        for informer in self._informers.values():
            yield from informer

    def stored(self, key: Key) -> Stored | None:
        """What a writer needs of one."""
        found = self.get(key[1], key[2])
        return None if found is None else Stored.of(found)

    @property
    def synced(self) -> bool:
        """Whether every list was read once, so that what is not held is not there."""
        return all(informer.health.synced for informer in self._informers.values())

    async def known(self, period: float = 0.1) -> None:
        """Wait until it is known what is stored: all was listed, or cannot be for lack of the kind or of a right."""
        while not all(  # noqa: ASYNC110 - informers tell how they do by a value
            informer.health.synced or informer.health.outcome in _WHY for informer in self._informers.values()
        ):
            await asyncio.sleep(period)

    def fault(self) -> SourceFault | None:
        """Why they cannot be read now, ``None`` while they can."""
        for informer in self._informers.values():
            health = informer.health
            if health.trouble:
                self._failing = self._failing or self._clock.now()
                why = next((text for outcome, text in _WHY.items() if outcome == health.outcome), "Failing")
                return SourceFault(kind=OBSERVATIONS.kind, why=why, since=self._failing.wall, detail=health.trouble)
        self._failing = None
        return None

    async def create(self, body: dict[str, Any]) -> Answer:
        """Make one; that it is there already is no failure, for its event comes."""
        namespace = str(body["metadata"]["namespace"])
        return await self._client.request("POST", OBSERVATIONS.collection(namespace), body=body)

    async def delete(self, document: Document) -> Answer:
        """Delete exactly this one; its status and whoever made another of the same name are left alone."""
        path = OBSERVATIONS.path(document.name, document.namespace)
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": document.uid}}
        answer = await self._client.request("DELETE", path, body=body)
        _log.info("observation %s/%s deleted: %s", document.namespace, document.name, answer.outcome)
        return answer

    async def orphaned(self, document: Document, ignore: str, *, ownerless: bool) -> bool:
        """Whether what it is about is surely gone, asked of the server itself, or asks by an annotation to be ignored.

        Of what has no object of its own nobody can be asked: ``ownerless`` says what then holds.
        """
        target = target_of(document)
        if target is None:
            return ownerless
        answer = await self._client.request("GET", resource_of(target).path(target.name, target.namespace))
        if answer.outcome is Outcome.NOT_FOUND:
            return True
        if not answer.ok:
            return False
        try:
            there = document_of(msgspec.Raw(answer.body))
        except (msgspec.DecodeError, UnicodeDecodeError):
            return False  # what is no object says nothing of one
        annotations = there.body["metadata"].get("annotations") or {}
        return there.uid != target.uid or annotations.get(ignore) == "true"

    def _changed(self, change: Change[Document]) -> None:
        self._on_change((OBSERVATIONS, change.record.namespace, change.record.name))

"""Lists of objects: those of this replica made for one page only, those of other replicas as they sent them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from exporters.aggregated import objects
from exporters.aggregated.forwarding import Elsewhere, Peers, said_by
from exporters.aggregated.listing import Place, Query, page
from exporters.aggregated.resources import BASE
from exporters.encoding import UNRENDERABLE, in_words
from exporters.signals_read import document_report
from router_contract.targets import DeploymentKey
from router_contract.verdicts import DeploymentReport

Json = dict[str, Any]
_TURN = 16
"""After so many objects others get their turn: a list of thousands must not keep the loop from the probes."""


class Reports(Protocol):
    """The part of a report source that this API reads."""

    def keys(self) -> tuple[DeploymentKey, ...]:
        """The deployments that exist now, sorted."""
        ...

    def deployment(
        self, key: DeploymentKey, signals: frozenset[str] | None = None, totals: frozenset[str] = frozenset()
    ) -> DeploymentReport | None:
        """One deployment's report at this instant."""
        ...


class Listed(msgspec.Struct, frozen=True):
    """One page of objects and the list's metadata."""

    items: tuple[Json, ...]
    metadata: Json


class Lists:
    """The lists over one source; ``pods`` bounds those of one object (0 does not)."""

    def __init__(
        self,
        source: Reports,
        described: objects.Described,
        peers: Peers,
        elsewhere: Elsewhere,
        now: Callable[[], float],
        pods: int,
    ) -> None:
        self._source = source
        self._described = described
        self._peers = peers
        self._elsewhere = elsewhere
        self._now = now
        self._pods = pods

    async def page(self, plural: str, namespace: str, query: Query, *, forwarded: bool) -> Listed:
        """The page that a query asks for. ``forwarded`` leaves out what other replicas own. Raises `RefusalError`."""
        foreign = {} if forwarded else await self._of_others(plural, namespace, query)
        mine: dict[Place, DeploymentKey] = {
            (key.namespace, key.name): key
            for key in self._keys(forwarded=forwarded)
            if namespace in {"", key.namespace}
            and not (forwarded and self._peers.owner(key) is not None)
            and query.selects((key.namespace, key.name), self._described(key))
        }
        part = page({*mine, *foreign}, query, self._now())
        items: list[Json] = []
        for number, place in enumerate(part.places, 1):
            item = foreign.get(place) or self._item(mine[place])
            if item is not None:  # one that went away meanwhile is no part of the page
                items.append(item)
            if number % _TURN == 0:
                await asyncio.sleep(0)
        return Listed(tuple(items), part.metadata)

    def _keys(self, *, forwarded: bool) -> tuple[DeploymentKey, ...]:
        """What is listed: what is ours, and in an answer to a user also what exists elsewhere and nobody sent."""
        mine = self._source.keys()
        return mine if forwarded else tuple({*mine, *self._elsewhere.keys()})

    def _item(self, key: DeploymentKey) -> Json | None:
        """One deployment's object as this replica knows it; what another owns, and did not send, is partial."""
        try:
            report, whole = document_report(self._source, key), True
            if report is None:
                report, whole = self._elsewhere.known(key), False
            if report is None:
                return None
            item = objects.listed_metrics(report, self._described, self._pods)
        except UNRENDERABLE as error:
            return objects.unrendered(key.namespace, key.name, f"cannot be rendered: {in_words(error)}")
        return item if whole and self._peers.owner(key) is None else item | {"partial": True}

    async def _of_others(self, plural: str, namespace: str, query: Query) -> dict[Place, Json]:
        """The objects that other replicas own and the query selects, asked for all at once."""
        others = self._peers.others()
        place = f"/namespaces/{namespace}" if namespace else ""
        path = f"{BASE}{place}/{plural}"
        answers = await asyncio.gather(*(said_by(self._peers, peer, path, {}) for peer in others))
        found = {_place(item): item for answer in answers if answer is not None for item in answer.get("items") or ()}
        return {at: item for at, item in found.items() if query.selects(at, _labels(item))}


def _place(item: Json) -> Place:
    return str(item["metadata"].get("namespace", "")), str(item["metadata"]["name"])


def _labels(item: Json) -> Mapping[str, str]:
    return item["metadata"].get("labels") or {}

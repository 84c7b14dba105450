"""Lists: what a query selects, in order, a page at a time."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from exporters.aggregated.refusals import RefusalError
from exporters.aggregated.selectors import Selector, field_selector, label_selector, matches

Json = dict[str, Any]
Place = tuple[str, str]
"""Namespace and name."""
TOKEN_SECONDS = 300.0
"""How long a page's token may be used; after that the list begins anew (410), as it does with every API server."""
VERSION = "1"
"""The version of every list: nobody can watch from it, so that it says nothing is all there is to say."""
_MOST = 100_000


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """What a list request asks for. ``after`` is the place (namespace and name) behind which the page begins."""

    labels: Selector = ()
    fields: Selector = ()
    limit: int = 0
    after: Place | None = None

    def selects(self, place: Place, labels: Mapping[str, str]) -> bool:
        """Whether an object is asked for, whatever its page."""
        fields = {"metadata.namespace": place[0], "metadata.name": place[1]}
        return matches(self.fields, fields) and matches(self.labels, labels)


class Page(msgspec.Struct, frozen=True):
    """A part of a list: which objects are on it, and the list's metadata."""

    places: tuple[Place, ...]
    metadata: Json


def read_query(query: Mapping[str, str], now: float) -> Query:
    """The query of a list at wall second ``now``. Raises `RefusalError`: 400 for what cannot be read, 410 for an old token."""
    return Query(
        labels=label_selector(query.get("labelSelector", "")),
        fields=field_selector(query.get("fieldSelector", "")),
        limit=_limit(query.get("limit", "")),
        after=_after(query.get("continue", ""), now),
    )


def _limit(text: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise RefusalError(400, f"invalid limit {text[:40]!r}: must be a number, 0 for no limit")
    return min(int(text), _MOST)


def page(places: Iterable[Place], query: Query, now: float) -> Page:
    """The page of objects that were selected, sorted by namespace and name."""
    rest = sorted(place for place in places if query.after is None or place > query.after)
    if not query.limit or len(rest) <= query.limit:
        return Page(tuple(rest), {"resourceVersion": VERSION})
    kept = tuple(rest[: query.limit])
    token = base64.urlsafe_b64encode(msgspec.json.encode([int(now), *kept[-1]])).decode().rstrip("=")
    more = {"continue": token, "remainingItemCount": len(rest) - len(kept)}
    return Page(kept, {"resourceVersion": VERSION, **more})


def _after(token: str, now: float) -> Place | None:
    if not token:
        return None
    try:
        padded = token + "=" * (-len(token) % 4)
        made, namespace, name = msgspec.json.decode(
            base64.b64decode(padded, altchars=b"-_", validate=True), type=tuple[int, str, str]
        )
    except (binascii.Error, ValueError) as error:
        raise RefusalError(400, "continue key is not valid: want metadata.continue of the page before") from error
    if not -TOKEN_SECONDS <= now - made <= TOKEN_SECONDS:
        raise RefusalError(410, "The provided continue parameter is too old to display a consistent list. Begin anew.")
    return namespace, name

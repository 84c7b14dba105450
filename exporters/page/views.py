"""What viewers have on their screens, and what of it has changed since: a view for each URL that somebody looks at."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from exporters.page.render import Built
from exporters.page.shown import retime

MOST_VIEWS = 128
Build = Callable[[], Built]


class _Group:
    """The fragments of one group: their order, and of each its HTML and the step at which it last changed."""

    def __init__(self) -> None:
        self.order: tuple[str, ...] = ()
        self.ordered_at = 0
        self.html: dict[str, str] = {}
        self.changed_at: dict[str, int] = {}

    def update(self, parts: Mapping[str, str], step: int) -> bool:
        changed = [ident for ident, html in parts.items() if self.html.get(ident) != html]
        order = tuple(parts)
        moved = order != self.order
        self.html = dict(parts)
        self.changed_at = {ident: self.changed_at.get(ident, step) for ident in parts} | dict.fromkeys(changed, step)
        if moved:
            self.order, self.ordered_at = order, step
        return moved or bool(changed)

    def since(self, step: int, now: float) -> dict[str, Any] | None:
        parts = {ident: retime(self.html[ident], now) for ident, at in self.changed_at.items() if at > step}
        if self.ordered_at > step:
            return {"order": list(self.order), "set": parts}
        return {"set": parts} if parts else None


class View:
    """One page as it was last built, with the steps at which its parts changed."""

    def __init__(self, ident: str, build: Build) -> None:
        self.id = ident
        self.step = 0
        self.watchers: set[asyncio.Event] = set()
        self.gone = False
        self._build = build
        self._groups: dict[str, _Group] = {}

    def update(self, built: Built | None = None) -> Built:
        """Build the page again and wake those who look at it if anything has changed.

        A page that is not live any more (what it was about is not observed) is ``gone``: it must be loaded again.
        """
        found = built or self._build()
        self.gone = not found.live
        step = self.step + 1
        changed = [
            self._groups.setdefault(name, _Group()).update({part.id: part.html for part in parts}, step)
            for name, parts in found.groups.items()
        ]
        if any(changed):
            self.step = step
        if any(changed) or self.gone:
            for watcher in self.watchers:
                watcher.set()
        return found

    def end(self) -> None:
        """The page cannot be built any more: it must be loaded again."""
        self.gone = True
        for watcher in self.watchers:
            watcher.set()

    def since(self, step: int, now: float) -> dict[str, Any]:
        """What changed after a step: by group the fragments that changed and, if it did, the order of all."""
        found = {name: group.since(step, now) for name, group in self._groups.items()}
        return {name: changed for name, changed in found.items() if changed is not None}


class Tag(msgspec.Struct, frozen=True):
    """What a viewer has: a view and its step, written ``view:step``."""

    view: str
    step: int

    def __str__(self) -> str:
        return f"{self.view}:{self.step}"


def parse_tag(text: str) -> Tag | None:
    """A tag from its text; ``None`` for any other text."""
    view, _, step = text.partition(":")
    if not view or len(step) > 12 or not (step.isascii() and step.isdecimal()):
        return None
    return Tag(view, int(step))


class Views:
    """The views that exist. The one that was asked for least lately goes first, watched ones last."""

    def __init__(self, most: int = MOST_VIEWS) -> None:
        self._most = most
        self._life = secrets.token_hex(4)
        self._made = 0
        self._by_place: OrderedDict[str, View] = OrderedDict()

    def open(self, place: str, build: Build) -> tuple[View | None, Built]:
        """The view of a URL, built for this moment; none for a page that is not live."""
        built = build()
        if not built.live:
            return None, built
        view = self._by_place.get(place)
        if view is None:
            self._made += 1
            view = self._by_place[place] = View(f"{self._life}-{self._made}", build)
            self._trim()
        self._by_place.move_to_end(place)
        view.update(built)
        return view, built

    def find(self, ident: str) -> View | None:
        """A view by its id; ``None`` when it is gone, as after a restart of the observer."""
        return next((view for view in self._by_place.values() if view.id == ident), None)

    def watched(self) -> list[View]:
        """The views that somebody looks at."""
        return [view for view in self._by_place.values() if view.watchers]

    def _trim(self) -> None:
        idle = [place for place, view in self._by_place.items() if not view.watchers]
        for place in idle[: max(0, len(self._by_place) - self._most)]:
            del self._by_place[place]

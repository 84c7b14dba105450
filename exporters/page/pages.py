"""The page as one thing: its routes, the task that keeps it live, and how each request becomes HTML or JSON."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from aiohttp import web

from exporters.encoding import UNRENDERABLE, encode
from exporters.page.board import Board
from exporters.page.canaries import CanariesPage, CanaryPage
from exporters.page.deployment import DeploymentPage
from exporters.page.deployments import DeploymentsPage
from exporters.page.events import EVENTS, Events
from exporters.page.kv import KvPage
from exporters.page.mapping import BadPasteError, MappingPage, mapped_twin, read_paste
from exporters.page.protocols import Services
from exporters.page.query import BadPageQueryError, link
from exporters.page.render import Built, Renderer, Twin, path_of
from exporters.page.routers import RoutersPage
from exporters.page.security import HEADERS, foreign, headers
from exporters.page.static import Assets
from exporters.page.targets import TargetPage, TargetsPage
from exporters.page.trail import Trail
from exporters.page.views import Tag, Views

DEPLOYMENT = "/deployments/{namespace}/{name}"
TARGET = "/targets/{namespace}/{name}/{component}/{uid}/{port:[0-9]{1,5}}"
CANARY = "/canary/{namespace}/{name}"
PERIOD = 1.0
"""Seconds between two looks at what changed on watched pages; more when looking takes long."""
SHARE = 0.25
UNWATCHED_SHARE = 0.005
"""How much of its time the task that keeps pages live may compute: while somebody looks or a line was never made, and else."""
LONGEST_PAUSE = 5.0
"""Seconds that somebody who begins to look waits at most for the first update."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Kind(Protocol):
    """One page: both of its forms from the path's names and the query. They raise `BadPageQueryError`."""

    def build(self, args: Mapping[str, str], query: Mapping[str, str]) -> Built:
        """The page's parts."""
        ...

    def twin(self, args: Mapping[str, str], query: Mapping[str, str]) -> Twin:
        """The page's JSON."""
        ...


class Page:
    """Everything under the listener's root. ``run`` must run for pages to be live; ``close`` ends their streams."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._now = services.kv.now
        self._assets = Assets()
        self._renderer = Renderer(self._assets.urls, services.version)
        self.board = Board(services, self._renderer)
        self._views = Views()
        self.events = Events(self._views, self._now, services.watchers)
        self._deployment = DeploymentPage(services, self._renderer)
        self._target = TargetPage(services, self._renderer)
        self._mapping = MappingPage(services, self._renderer)
        self.trail = Trail(services)
        self._canary = CanaryPage(services, self._renderer, self.trail)
        self._kinds: dict[str, Kind] = {
            "/": DeploymentsPage(self.board, self._renderer),
            DEPLOYMENT: self._deployment,
            "/targets": TargetsPage(services, self._renderer),
            TARGET: self._target,
            "/routers": RoutersPage(services, self._renderer),
            "/kv": KvPage(services, self._renderer),
            "/canary": CanariesPage(services, self._renderer),
            CANARY: self._canary,
            "/mapping": self._mapping,
        }

    def routes(self) -> list[web.AbstractRouteDef]:
        """Every path with its handler."""
        return [
            *(web.get(path, self._shows(kind)) for path, kind in self._kinds.items()),
            web.get(f"{DEPLOYMENT}/history", self._history(self._deployment.history)),
            web.get(f"{CANARY}/history", self._history(self._canary.history)),
            web.post(f"{TARGET}/fetch", self._fetch),
            web.post("/mapping", self._try),
            web.get(EVENTS, self.events.stream),
            *self._assets.routes(),
        ]

    async def run(self) -> None:
        """Make the board's lines, and keep the pages that are looked at up to date."""
        while True:
            started = self._now().mono
            watched = self._views.watched()
            self.trail.turn()
            share = SHARE if watched or self.board.waiting() else UNWATCHED_SHARE
            await self.board.turn(PERIOD * share)
            for view in watched:
                try:
                    view.update()
                except UNRENDERABLE:
                    view.end()  # whoever looks at it loads it again, and is told why it cannot be made
                await asyncio.sleep(0)
            spent = self._now().mono - started
            # One line may cost more than the whole budget: the pause after it keeps the share all the same.
            await self._pause(max(PERIOD - spent, spent * (1 / share - 1), 0.05), watched=bool(watched))

    async def _pause(self, seconds: float, *, watched: bool) -> None:
        """Rest; while nobody looks for as long as the share wants, but not on when somebody begins to."""
        until = self._now().mono + (min(seconds, LONGEST_PAUSE) if watched else seconds)
        while (left := until - self._now().mono) > 0:
            await asyncio.sleep(left if watched else min(left, LONGEST_PAUSE))
            if not watched and (self._views.watched() or self.board.waiting()):
                return

    def close(self) -> None:
        """End the streams."""
        self.events.close()

    def _shows(self, kind: Kind) -> Handler:
        async def shows(request: web.Request) -> web.StreamResponse:
            args, query = dict(request.match_info), dict(request.query)
            try:
                if wants_json(request):
                    return _json(kind.twin(args, query))
                return self._html(request, lambda: kind.build(args, query), follow=True)
            except BadPageQueryError as error:
                return self._bad(request, str(error))

        return shows

    def _html(self, request: web.Request, build: Callable[[], Built], *, follow: bool) -> web.Response:
        here = link(request.path, request.query)
        tag = ""
        if follow:
            view, built = self._views.open(here, build)
            tag = str(Tag(view.id, view.step)) if view is not None else ""
        else:
            built = build()
        nonce = secrets.token_urlsafe(16)
        html = self._renderer.page(built, self._now().wall, path=request.path, here=here, view=tag, nonce=nonce)
        response = web.Response(text=html, content_type="text/html", status=built.status, headers=headers(nonce))
        response.headers["Vary"] = "Accept, Accept-Encoding"
        response.enable_compression()
        return response

    def _bad(self, request: web.Request, why: str, status: int = 400) -> web.Response:
        if wants_json(request):
            return _json(Twin(value={"error": why}, status=status))
        built = Built(template="bad.html", title="Not possible", context={"why": why}, status=status, live=False)
        return self._html(request, lambda: built, follow=False)

    def _history(self, past: Callable[[Mapping[str, str]], Twin]) -> Handler:
        async def history(request: web.Request) -> web.StreamResponse:
            return _json(past(dict(request.match_info)))

        return history

    async def _fetch(self, request: web.Request) -> web.StreamResponse:
        """Read a target once more now, then show it."""
        refused = foreign(request)
        if refused:
            return self._bad(request, refused, 403)
        args = dict(request.match_info)
        if not await self._target.fetch(args):
            return self._bad(request, f"target {args['uid']} of {args['namespace']}/{args['name']} is not watched", 404)
        if wants_json(request):
            return _json(self._target.twin(args, {}))
        place = path_of("targets", *(args[name] for name in ("namespace", "name", "component", "uid", "port")))
        return web.Response(status=303, headers={**HEADERS, "Location": place})

    async def _try(self, request: web.Request) -> web.StreamResponse:
        """Read a pasted exposition by a table."""
        refused = foreign(request)
        if refused:
            return self._bad(request, refused, 403)
        try:
            paste = await read_paste(request)
        except BadPasteError as error:
            if wants_json(request):
                return _json(Twin(value={"error": str(error)}, status=error.status))
            why, status = str(error), error.status
            return self._html(request, lambda: self._mapping.refused(why, status), follow=False)
        found = self._mapping.tried(paste)
        if wants_json(request):
            return _json(Twin(value=mapped_twin(paste, found)))
        return self._html(request, lambda: self._mapping.result(paste, found), follow=False)


def wants_json(request: web.Request) -> bool:
    """Whether the JSON twin is asked for: ``?format=json``, or an Accept that names JSON and not HTML."""
    told = request.query.get("format")
    if told is not None:
        return told == "json"
    accept = request.headers.get("Accept", "")
    return "application/json" in accept and "text/html" not in accept


def _json(twin: Twin) -> web.Response:
    headers = {**HEADERS, "Vary": "Accept"}
    return web.Response(body=encode(twin.value), content_type="application/json", status=twin.status, headers=headers)

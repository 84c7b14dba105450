"""The one stream of server-sent events: what changed of the page that a viewer looks at, and a sign of life.

A viewer names what it has (``view:step``). Where that is not known, as after a restart, it is told to load its page
again, which it does in place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web

from exporters.encoding import encode
from exporters.page.security import HEADERS
from exporters.page.views import Tag, View, Views, parse_tag
from exporters.statuses import failure
from router_contract.readings import Instant

EVENTS = "/events"
MOST_CLIENTS = 64
PING_SECONDS = 5.0
TAKE_SECONDS = 30.0
"""For how long a viewer may not take what it was sent; then its place is another's."""
RETRY_MS = 2000


class Events:
    """The handler of the stream. ``close`` ends every stream, so that a listener can stop."""

    def __init__(self, views: Views, now: Callable[[], Instant], most: int = MOST_CLIENTS) -> None:
        self._views = views
        self._now = now
        self._most = most
        self._waiting: set[asyncio.Event] = set()
        self._closing = False

    @property
    def clients(self) -> int:
        """How many viewers are connected."""
        return len(self._waiting)

    def close(self) -> None:
        """End every stream and take no new one."""
        self._closing = True
        for event in self._waiting:
            event.set()

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """One viewer's stream; 503 when there are too many."""
        if self._closing or len(self._waiting) >= self._most:
            text = f"{self._most} pages are followed live already; this one shows what it was when it was loaded"
            return failure(503, text, headers={"Retry-After": "10"})
        told = request.headers.get("Last-Event-ID") or request.query.get("tag", "")
        tag = parse_tag(told)
        view = self._views.find(tag.view) if tag is not None else None
        response = web.StreamResponse(headers={**HEADERS, "Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        response.content_type = "text/event-stream"
        event = asyncio.Event()
        # Counted before the first await, so that no two viewers can take the last place.
        self._waiting.add(event)
        try:
            await response.prepare(request)
            await _send(response, f"retry: {RETRY_MS}\n\n".encode())
            if view is None or tag is None or view.gone:
                await _send(response, _message("again", {"now": self._now().wall}))
            else:
                await self._follow(response, view, tag.step, event)
        except ConnectionError:
            pass  # The viewer has gone: there is nobody left to tell.
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._waiting.discard(event)
        return response

    async def _follow(self, response: web.StreamResponse, view: View, step: int, event: asyncio.Event) -> None:
        view.watchers.add(event)
        try:
            while not self._closing:
                event.clear()
                now = self._now().wall
                changed = view.since(step, now)
                if view.gone:
                    await _send(response, _message("again", {"now": now}))
                    return
                step = view.step
                message = {"now": now, "groups": changed}
                await _send(response, _message("change", message, str(Tag(view.id, step))))
                await _wait(event, PING_SECONDS)
        finally:
            view.watchers.discard(event)


async def _send(response: web.StreamResponse, data: bytes) -> None:
    """Send some bytes. Raises ``TimeoutError`` for a viewer that does not take them."""
    async with asyncio.timeout(TAKE_SECONDS):
        await response.write(data)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


def _message(kind: str, value: object, ident: str = "") -> bytes:
    """One event: JSON has no line break, so it is one ``data`` line."""
    head = f"id: {ident}\n" if ident else ""
    return f"event: {kind}\n{head}data: ".encode() + encode(value) + b"\n\n"

"""A real listener in a thread of its own, for commands that run their own event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from exporters.api import Api
from exporters.families import FAMILIES
from exporters.listening import Listen
from exporters.prometheus import Renderer
from exporters.server import Server
from tests.exporters.sources import Reports


@contextmanager
def served(source: Reports | None, *extra: web.AbstractRouteDef, token: str | None = None) -> Iterator[str]:
    """The URL of a listener over a source (or of one with only ``extra`` routes)."""
    started: list[str] = []
    ready = threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def run() -> None:
        routes = Api(source, Renderer(FAMILIES)).routes() if source is not None else []
        server = Server([*extra, *routes], Listen(port=0, token=token, stop_seconds=0.1))
        await server.start()
        started.append(server.url)
        ready.set()
        await stop.wait()
        await server.stop()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    try:
        assert ready.wait(10)
        yield started[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()

"""Connections that nobody uses make room for new ones, the one that has been idle longest first."""

from __future__ import annotations

from typing import Any

import aiohttp
from aiohttp import web

from observer.collect.connections import BoundedConnector


async def peer(request: web.Request) -> web.Response:
    """The port that the client asks from: the same one twice is the same connection."""
    assert request.transport is not None
    return web.Response(text=str(request.transport.get_extra_info("peername")[1]))


async def test_the_connection_that_has_been_idle_longest_is_closed_first(aiohttp_server: Any) -> None:
    urls = []
    for _ in range(3):
        app = web.Application()
        app.add_routes([web.get("/", peer)])
        urls.append((await aiohttp_server(app)).make_url("/"))
    connector = BoundedConnector(2)

    async with aiohttp.ClientSession(connector=connector) as session:

        async def ask(place: int) -> str:
            async with session.get(urls[place]) as answer:
                return await answer.text()

        first, second = await ask(0), await ask(1)
        third = await ask(2)
        assert (connector.closed_idle, connector.open) == (1, 2), "the first was idle longest"
        assert await ask(1) == second
        assert await ask(0) != first
        assert connector.closed_idle == 2, "now the third was idle longest"
        assert await ask(1) == second
        assert await ask(2) != third
        assert (connector.closed_idle, connector.open) == (3, 2)

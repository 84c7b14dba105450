"""A simulated process's listener: what it does when a client leaves while it is answered."""

from __future__ import annotations

import logging

import aiohttp
import pytest
from aiohttp import web

from observer.simulate.node import Listener


async def test_a_client_that_leaves_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    async def closing(_: web.Request) -> web.Response:
        raise aiohttp.ClientConnectionResetError("Cannot write to closing transport")

    def made() -> web.Application:
        app = web.Application()
        app.router.add_get("/", closing)
        return app

    listener = Listener(made)
    await listener.start()
    try:
        with caplog.at_level(logging.ERROR):
            async with aiohttp.ClientSession() as session, session.get(listener.url) as answer:
                assert answer.status == 499
    finally:
        await listener.close()
    assert not caplog.records

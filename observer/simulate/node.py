"""One simulated process seen from the network: a listener on a loopback port that can die and come back on it."""

from __future__ import annotations

from collections.abc import Callable

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

from observer.simulate.ports import HeldPort

CLIENT_LEFT = 499
"""The status of an answer that nobody waits for any more; it never reaches a client."""


class Listener:
    """An HTTP server on one port that stays held while nothing listens: then connections are refused."""

    def __init__(self, make_app: Callable[[], web.Application], host: str = "127.0.0.1", port: int = 0) -> None:
        self._make_app = make_app
        self._host = host
        self._runner: web.AppRunner | None = None
        self._held: HeldPort | None = HeldPort(host, port)
        self.port = self._held.port

    @property
    def url(self) -> str:
        """The base URL without a path."""
        return f"http://{self._host}:{self.port}"

    @property
    def listening(self) -> bool:
        """Whether connections are accepted."""
        return self._runner is not None

    async def start(self) -> None:
        """Accept connections. A listener that already listens stays as it is."""
        if self._runner is not None:
            return
        if self._held is None:
            self._held = HeldPort(self._host, self.port)
        app = self._make_app()
        app.middlewares.insert(0, _left)
        runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.001, keepalive_timeout=75.0
        )
        await runner.setup()
        socket = None
        try:
            socket = self._held.listen()
            await web.SockSite(runner, socket, backlog=256).start()
            self._runner = runner
        finally:
            if self._runner is None:
                await runner.cleanup()
                if socket is not None:
                    socket.close()

    async def die(self) -> None:
        """Break every connection and refuse new ones; the port stays held for the next life."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def close(self) -> None:
        """Stop and give the port back."""
        await self.die()
        if self._held is not None:
            self._held.close()
            self._held = None


@web.middleware
async def _left(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A client that leaves while it is answered, as when a router dies, is no error of this process."""
    try:
        return await handler(request)
    except ConnectionResetError:
        return web.Response(status=CLIENT_LEFT)


def reply(value: object, status: int = 200, content_type: str = "application/json") -> web.Response:
    """A JSON answer without spaces, as the real programs write it, under whatever content type they give it."""
    return web.Response(status=status, body=orjson.dumps(value), headers={"Content-Type": content_type})

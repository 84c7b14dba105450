"""One simulated process seen from the network: a listener on a loopback port that can die and come back on it."""

from __future__ import annotations

import socket
from collections.abc import Callable

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

CLIENT_LEFT = 499
"""The status of an answer that nobody waits for any more; it never reaches a client."""


class Listener:
    """An HTTP server on one port that stays reserved while nothing listens: then connections are refused."""

    def __init__(self, make_app: Callable[[], web.Application], host: str = "127.0.0.1", port: int = 0) -> None:
        self._make_app = make_app
        self._host = host
        self._socket: socket.socket | None = None
        self._runner: web.AppRunner | None = None
        self.port = port
        self._reserve()

    @property
    def url(self) -> str:
        """The base URL without a path."""
        return f"http://{self._host}:{self.port}"

    @property
    def listening(self) -> bool:
        """Whether connections are accepted."""
        return self._runner is not None

    def _reserve(self) -> None:
        """Bind without listening: connections are refused, and nobody else is given the port.

        Two bound sockets that both allow reuse may share a port until one listens, so a reservation must not allow it.
        Only taking the same port again, while connections of the former life linger on it, needs it for a moment.
        """
        self._socket = socket.socket(socket.AF_INET6 if ":" in self._host else socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(self.port != 0))
        self._socket.bind((self._host, self.port))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        self.port = self._socket.getsockname()[1]

    async def start(self) -> None:
        """Accept connections. A listener that already listens stays as it is."""
        if self._runner is not None:
            return
        if self._socket is None:
            self._reserve()
        app = self._make_app()
        app.middlewares.insert(0, _left)
        runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.001, keepalive_timeout=75.0
        )
        await runner.setup()
        assert self._socket is not None  # noqa: S101 - _reserve above made it
        # What it accepts inherits this, so that a next life may take the port while those connections linger.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        await web.SockSite(runner, self._socket, backlog=256).start()
        self._runner = runner

    async def die(self) -> None:
        """Break every connection and refuse new ones; the port stays reserved for the next life."""
        runner, self._runner = self._runner, None
        if runner is not None:
            self._socket = None
            await runner.cleanup()
            self._reserve()

    async def close(self) -> None:
        """Stop and give the port back."""
        runner, self._runner = self._runner, None
        if runner is not None:
            self._socket = None
            await runner.cleanup()
        if self._socket is not None:
            self._socket.close()
            self._socket = None


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

"""The plain listener: who may ask, how much may be asked at once, and how it starts and stops.

Without a token or an authority of clients it is open on loopback only, and there only to requests that were addressed
to a loopback name: a web page that points its own name at 127.0.0.1 is refused.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
from collections.abc import Iterable
from typing import Protocol

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler
from aiohttp.web_protocol import RequestHandler

from exporters.api import PATHS
from exporters.canary import PATHS as CANARY_PATHS
from exporters.connections import Connections
from exporters.encoding import UNRENDERABLE
from exporters.kv import PATHS as KV_PATHS
from exporters.listening import Listen, ListenError, host_of, is_loopback
from exporters.statuses import failure

_log = logging.getLogger(__name__)

PROBES = frozenset({"/livez", "/readyz"})
ALWAYS = PROBES | {"/api/v1/limits"}
"""What is answered however many other requests are: who asks wants to know how near a limit we are."""
HANDSHAKE_SECONDS = 10.0
STREAMS = frozenset({"/events"})
"""Answers that go on for as long as somebody listens; whoever gives them bounds their number."""


class _OnlyOurs(logging.Filter):
    """Keeps what strangers send out of the log: each bad request would be a line of it, as often as they like."""

    def filter(self, record: logging.LogRecord) -> bool:
        told = record.exc_info[1] if record.exc_info else None
        return not isinstance(told, HttpProcessingError)


_http_log = logging.getLogger(f"{__name__}.http")
_http_log.addFilter(_OnlyOurs())


class Tally(Protocol):
    """Counts answers."""

    def answered(self, route: str, code: int) -> None:
        """A request was answered; ``route`` is the pattern and not the path."""
        ...

    def render_failed(self, what: str) -> None:
        """An answer could not be rendered."""
        ...


class Relay(Protocol):
    """The other replicas, where there are any."""

    async def relayed(self, request: web.Request) -> web.StreamResponse | None:
        """What the replica that owns what is asked for answers; ``None`` for what is answered here."""
        ...


class Server:
    """One listener over one set of routes. ``relay`` is asked first, once it is set."""

    def __init__(self, routes: Iterable[web.AbstractRouteDef], options: Listen, tally: Tally | None = None) -> None:
        if not options.guarded and not is_loopback(options.host):
            raise ListenError(
                f"refusing to listen on {options.host!r} without a token: the plain listener is open only on loopback. "
                "Listen on 127.0.0.1, or set a token"
            )
        self._tls = options.tls.context() if options.tls is not None else None
        self._options = options
        self._tally = tally
        self._running = 0
        self._draining = False
        self.relay: Relay | None = None
        self.busiest = 0
        self.turned_away = 0
        self.largest = 0
        self.too_large = 0
        self._listener: asyncio.Server | None = None
        self.connections = Connections(
            options.connections, self._protocol, self._connected, 1.0 if self._tls is None else HANDSHAKE_SECONDS
        )
        self._app = web.Application(middlewares=[self._count, self._guard], client_max_size=options.body_bytes)
        self._app.add_routes(routes)
        self._runner = web.AppRunner(
            self._app,
            access_log=None,
            logger=_http_log,
            max_line_size=options.header_bytes,
            max_field_size=options.header_bytes,
            shutdown_timeout=options.stop_seconds,
            handle_signals=False,
            keepalive_timeout=options.keep_alive_seconds,
        )
        self.url = ""

    async def start(self) -> None:
        """Open the listener; `url` is then where it is. Raises `ListenError` when the port cannot be had."""
        options = self._options
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        try:
            self._listener = await loop.create_server(
                self.connections,
                options.host,
                options.port,
                ssl=self._tls,
                ssl_handshake_timeout=None if self._tls is None else HANDSHAKE_SECONDS,
            )
        except OSError as error:
            await self._runner.cleanup()
            raise ListenError(
                f"cannot listen on {options.host}:{options.port}: {error.strerror or error}. Choose another with --listen"
            ) from error
        port = self._listener.sockets[0].getsockname()[1]
        host = f"[{options.host}]" if ":" in options.host else options.host
        self.url = f"{'http' if self._tls is None else 'https'}://{host}:{port}"

    def drain(self) -> None:
        """End each connection after its next answer; requests are still answered."""
        self._draining = True

    async def stop(self) -> None:
        """Stop taking requests, let those in hand end within the budget, and close."""
        if self._listener is not None:
            self._listener.close()
        await self._runner.cleanup()

    @property
    def running(self) -> int:
        """Requests that are being answered."""
        return self._running

    def _protocol(self) -> RequestHandler:
        server = self._runner.server
        assert server is not None, "the listener opens after the runner is set up"  # noqa: S101 - for the type checker
        return server()

    def _connected(self) -> list[RequestHandler]:
        return self._runner.server.connections if self._runner.server is not None else []

    @web.middleware
    async def _count(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self.connections.begun(request.protocol)
        try:
            response = await handler(request)
            if self._draining and not response.prepared:
                response.force_close()
            if not response.prepared:
                response.headers.setdefault("Cache-Control", "no-store")
                response.headers["X-Content-Type-Options"] = "nosniff"
                await self._send(request, response)
        finally:
            self.connections.ended(request.protocol)
        if self._tally is not None:
            resource = request.match_info.route.resource
            self._tally.answered(resource.canonical if resource else "other", response.status)
        return response

    async def _send(self, request: web.Request, response: web.StreamResponse) -> None:
        """Send an answer within the time of one. A client that does not take it loses its connection."""
        try:
            async with asyncio.timeout(self._options.answer_seconds):
                await response.prepare(request)
                await response.write_eof()
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
        except ConnectionError:
            pass  # The client has gone: there is nobody left to tell.

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        refused = self._refusal(request)
        if refused is not None:
            return refused
        self._running += 1
        self.busiest = max(self.busiest, self._running)
        try:
            async with asyncio.timeout(None if request.path in STREAMS else self._options.answer_seconds):
                relayed = None if self.relay is None or request.path in ALWAYS else await self.relay.relayed(request)
                return self._bounded(request, await handler(request) if relayed is None else relayed)
        except UNRENDERABLE as error:
            # A value that nobody expected, in one deployment: whoever asks for it is told, and nobody else is.
            _log.exception("the answer at %s could not be made", request.path)
            if self._tally is not None:
                self._tally.render_failed("answer")
            return failure(500, f"the answer at {request.path} could not be made: {type(error).__name__}")
        except TimeoutError:
            return failure(504, f"{request.path} took longer than {self._options.answer_seconds:g} s")
        except web.HTTPException as error:
            return _as_status(request, error)
        finally:
            self._running -= 1

    def _bounded(self, request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
        """The response, or that it is larger than one answer may be."""
        limit = self._options.response_bytes
        body = response.body if isinstance(response, web.Response) else None
        if isinstance(body, bytes) and request.path != "/metrics":
            self.largest = max(self.largest, len(body))
        if request.path == "/metrics" or not isinstance(body, bytes) or len(body) <= limit:
            return response
        self.too_large += 1
        return failure(
            413,
            f"the answer has {len(body)} bytes, at most {limit} are sent (limits.response): ask for less, with "
            "?namespace= or other filters, or page by page with ?limit= and ?continue= where the path has pages",
        )

    def _refusal(self, request: web.Request) -> web.Response | None:
        options = self._options
        told = request.headers.getall("Host", [])
        header = ", ".join(told)
        host = host_of(header) if told else ""
        if host is None:
            return failure(400, f"Host is {header[:80]!r}; want host or host:port")
        if not options.guarded:
            if not is_loopback(host):
                return failure(403, f"this listener answers on loopback names only, not on {header[:80]!r}")
        elif request.path not in PROBES and not self._proven(request):
            wanted = "the header Authorization: Bearer with this listener's token" if options.token is not None else ""
            certificate = "a certificate of this listener's client authority" if options.tls is not None else ""
            scheme = {"WWW-Authenticate": "Bearer"} if options.token is not None else None
            return failure(401, f"want {wanted or certificate}", headers=scheme)
        if self._running >= options.in_flight and request.path not in ALWAYS:
            self.turned_away += 1
            return failure(
                429, f"{options.in_flight} requests are being answered; try again", headers={"Retry-After": "1"}
            )
        return None

    def _proven(self, request: web.Request) -> bool:
        """Whether a request bears the token, or came over a connection with a certificate of the client authority."""
        options = self._options
        transport = request.transport
        asked = options.tls is not None and options.tls.client_ca_file is not None
        if asked and transport is not None and transport.get_extra_info("peercert"):
            return True
        sent = request.headers.get("Authorization", "")
        return options.token is not None and hmac.compare_digest(_borne(sent), _raw(options.token))


def _borne(sent: str) -> bytes:
    """The token of an ``Authorization`` header: after ``Bearer``, or the password of ``Basic``, which is all that a client
    which only takes a URL can send. Empty for anything else.
    """
    scheme, _, rest = sent.partition(" ")
    if scheme == "Basic":
        try:
            return base64.b64decode(rest, validate=True).partition(b":")[2]
        except ValueError:
            return b""
    return _raw(rest) if scheme == "Bearer" else b""


def _raw(text: str) -> bytes:
    """A header's bytes as they came: what is no UTF-8 arrives as lone surrogates."""
    return text.encode("utf-8", "surrogateescape")


def _as_status(request: web.Request, error: web.HTTPException) -> web.Response:
    if error.status == 404:
        return failure(404, f"nothing is at {request.path}; there are {', '.join((*PATHS, *KV_PATHS, *CANARY_PATHS))}")
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        message = f"{request.method} is not possible on {request.path}; possible: {allowed}"
        return failure(405, message, headers={"Allow": allowed})
    return failure(error.status, error.reason)

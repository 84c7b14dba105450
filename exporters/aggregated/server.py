"""The HTTPS listener: handshakes, who may ask what, refusals, compression, and how it drains before it closes."""

from __future__ import annotations

import asyncio
import gzip
import logging
import ssl
from collections.abc import Callable
from typing import Protocol

from aiohttp import web

from exporters.aggregated.access import Access
from exporters.aggregated.api import AggregatedContent, Reply
from exporters.aggregated.forwarding import FORWARDED
from exporters.aggregated.peer import Peer
from exporters.aggregated.refusals import RefusalError
from exporters.aggregated.request import Asked, ask
from exporters.aggregated.tls import ServingTls
from exporters.encoding import UNRENDERABLE, encode
from exporters.listening import Listen, ListenError

_log = logging.getLogger(__name__)

ANSWER_SECONDS = 7.0
"""The longest that one answer takes; kube-apiserver's availability check gives us five seconds for the small ones."""
COMPRESSED_FROM = 128 << 10
"""Smaller bodies (bytes) are sent as they are, as every API server does."""
ROUTE = "aggregated"
PROBES = ("/readyz", "/livez", "/healthz")
_IMPERSONATE = "impersonate-"


class Health(Protocol):
    """What the probes ask."""

    def ready(self) -> tuple[bool, str]:
        """Whether answers can be trusted yet, and one sentence."""
        ...

    def alive(self) -> tuple[bool, str]:
        """Whether the observer still works on time, and one sentence."""
        ...


class AggregatedServer:
    """The listener over one content. ``wall`` tells wall seconds; ``told`` is told `ROUTE` and the status of each answer."""

    def __init__(
        self,
        content: AggregatedContent,
        access: Access,
        tls: ServingTls,
        health: Health,
        options: Listen,
        wall: Callable[[], float],
        told: Callable[[str, int], None] | None = None,
    ) -> None:
        self._content = content
        self._access = access
        self._tls = tls
        self._health = health
        self._options = options
        self._wall = wall
        self._told = told
        self._running = 0
        self._draining = False
        self.answered: dict[int, int] = {}
        """How many requests were answered, by status."""
        app = web.Application(client_max_size=1)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            max_line_size=options.header_bytes,
            max_field_size=options.header_bytes,
            shutdown_timeout=options.stop_seconds,
            keepalive_timeout=75.0,
            handle_signals=False,
        )
        self.port = 0

    async def start(self) -> None:
        """Open the listener. Raises `ListenError` when the port cannot be had."""
        options = self._options
        await self._runner.setup()
        site = web.TCPSite(self._runner, options.host, options.port, ssl_context=self._tls.outer)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            raise ListenError(
                f"cannot listen on {options.host}:{options.port}: {error.strerror or error}. Choose another with aggregated.listen"
            ) from error
        self.port = self._runner.addresses[0][1]

    def drain(self) -> None:
        """Be unready from now on, and end each connection after its next answer; requests are still answered."""
        self._draining = True

    async def stop(self) -> None:
        """Let requests in hand end within the budget, and close."""
        await self._runner.cleanup()

    def standing(self) -> tuple[bool, str]:
        """Whether this listener can serve: not draining, a certificate to show, and known whom to believe."""
        if self._draining:
            return False, "shutting down"
        if not self._tls.ready:
            return False, "there is no serving certificate yet"
        if self._access.proxy is None:
            return False, self._access.trouble
        return True, "callers can be identified"

    def readiness(self) -> tuple[bool, str]:
        """Whether requests should be sent here. It does not depend on any engine."""
        standing = self.standing()
        return self._health.ready() if standing[0] else standing

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        response, close = await self._guarded(request)
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers.setdefault("Cache-Control", "no-cache, private")
        self.answered[response.status] = self.answered.get(response.status, 0) + 1
        if self._told is not None:
            self._told(ROUTE, response.status)
        if self._draining or close:
            response.force_close()
        return response

    async def _guarded(self, request: web.Request) -> tuple[web.Response, bool]:
        """The answer, and whether the connection ends with it."""
        if request.path in PROBES:
            return self._probe(request.path), False
        if self._running >= self._options.in_flight:
            return _refused(
                RefusalError(429, "too many requests are being answered, please try again", retry_after=1)
            ), False
        self._running += 1
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._answer(request), False
        except RefusalError as refusal:
            return _refused(refusal), refusal.close
        except TimeoutError:
            return _refused(
                RefusalError(504, f"the answer took longer than {ANSWER_SECONDS:g} s", retry_after=1)
            ), False
        except UNRENDERABLE as error:
            _log.exception("the answer at %s could not be made", request.path)
            return _refused(RefusalError(500, f"the answer could not be made: {type(error).__name__}")), False
        finally:
            self._running -= 1

    def _probe(self, path: str) -> web.Response:
        good, sentence = self.readiness() if path == "/readyz" else self._health.alive()
        return web.Response(status=200 if good else 503, text="ok" if good else f"{path[1:]} check failed: {sentence}")

    async def _answer(self, request: web.Request) -> web.Response:
        identity = await self._access.identify(self._peer(request), request.headers)
        if any(name.lower().startswith(_IMPERSONATE) for name in request.headers):
            raise RefusalError(403, "impersonation is for kube-apiserver alone: ask it instead")
        asked = ask(request.method, request.raw_path.partition("?")[0], request.query)
        await self._access.authorize(identity, asked.attributes)
        _check_method(request, asked)
        # From anybody the header does no harm: it only keeps us from asking other replicas.
        forwarded = FORWARDED in request.headers
        reply = await self._content.answer(asked, request.headers, request.query, forwarded=forwarded)
        return await _sent(reply, request)

    def _peer(self, request: web.Request) -> Peer:
        transport = request.transport
        handshake = transport.get_extra_info("ssl_object") if transport is not None else None
        if not isinstance(handshake, ssl.SSLObject):
            return Peer(address=request.remote or "", wall=self._wall())
        return Peer(
            address=request.remote or "",
            certificate=handshake.getpeercert(binary_form=True),
            current=self._tls.verified_by_current(handshake),
            wall=self._wall(),
        )


def _check_method(request: web.Request, asked: Asked) -> None:
    if request.method != "GET":
        what = asked.attributes
        raise RefusalError(
            405,
            f"the server does not allow this method on the requested resource: found {request.method}, GET is all there is",
            plural=what.resource,
            name=what.name,
            headers={"Allow": "GET"},
        )
    if request.can_read_body:
        raise RefusalError(
            415, "the body of the request was in an unknown format: no request here has a body", close=True
        )


async def _sent(reply: Reply, request: web.Request) -> web.Response:
    headers = {"Content-Type": reply.content_type}
    if reply.etag:
        headers["ETag"] = reply.etag
    if reply.vary:
        headers["Vary"] = "Accept"
    if reply.status == 304:
        return web.Response(status=304, headers=headers)
    body = reply.body
    if len(body) >= COMPRESSED_FROM and _takes_gzip(request):
        body = await asyncio.to_thread(gzip.compress, body, 1)
        headers |= {"Content-Encoding": "gzip", "Vary": "Accept, Accept-Encoding"}
    return web.Response(body=body, headers=headers)


def _takes_gzip(request: web.Request) -> bool:
    offered = (part.strip().partition(";") for part in request.headers.get("Accept-Encoding", "").lower().split(","))
    return any(name == "gzip" and rest.replace(" ", "") not in {"q=0", "q=0.0"} for name, _, rest in offered)


def _refused(refusal: RefusalError) -> web.Response:
    headers = {**refusal.headers, "Content-Type": "application/json"}
    return web.Response(status=refusal.code, body=encode(refusal.status()), headers=headers)

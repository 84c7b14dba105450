"""One bounded GET: an address in, a body or a failure out. It never raises for anything a server or network does.

Plain http goes over `observer.collect.wire`; https, and what is out of the usual, over aiohttp.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from types import SimpleNamespace, TracebackType
from typing import Any, Self

import aiohttp
import msgspec
from yarl import URL

from observer.clock import Clock
from observer.collect.answer import REDIRECTS, Fetched
from observer.collect.body import Body, SharedBytes
from observer.collect.connections import BoundedConnector, ReadSlots, Room
from observer.collect.credentials import TlsContexts, TokenFiles
from observer.collect.failures import (
    Failure,
    Progress,
    classify,
    http_status,
    not_http,
    redirected,
    timed_out,
    too_large,
)
from observer.collect.http_head import MAX_HEAD
from observer.collect.options import BodyLimits
from observer.collect.plain_request import plain_request
from observer.collect.resolve import Resolver
from observer.collect.wire import WireClient
from router_contract.targets import Address

__all__ = ["EXPOSITION", "USER_AGENT", "Fetched", "Fetcher", "Request", "progress_trace"]

EXPOSITION = "text/plain;version=0.0.4;q=1,*/*;q=0.1"
"""What is accepted by default: the plain text format, which costs a program least."""
USER_AGENT = "modeldeployment-observer"
_MAX_PREPARED = 50_000
_MAX_LOWER = 64
_MAX_FIELDS = 256
"""Header fields of an answer over the library, each as long as a whole head may be: so much memory at most."""


class Request(msgspec.Struct, frozen=True, gc=False):
    """What is sent to an address. ``plain`` is the head without its last line; without it the other two are used."""

    plain: bytes | None = None
    url: str | URL = ""
    headers: dict[str, str] = {}


class Fetcher:
    """Holds the connections. Use as a context; `fetch` may then be called any number of times at once.

    No redirect is followed, no cookie kept, no proxy taken from the environment, no body decompressed unbounded.
    """

    def __init__(
        self,
        clock: Clock,
        limits: BodyLimits,
        *,
        keep_alive: float = 60.0,
        reads: int = 0,
        resolver: Resolver | None = None,
    ) -> None:
        """``reads`` bounds how many run at once and how many connections are open; 0 does not.

        ``resolver``: who looks up names for every connection, whatever makes it; the system's without one. It is closed
        with this.
        """
        self._resolver = Resolver(clock) if resolver is None else resolver
        self._keep_alive = keep_alive
        self._limits = limits
        self.shared = SharedBytes(limits.shared)
        self.slots = ReadSlots(reads)
        self._room = Room(reads)
        self._wire = WireClient(clock, self._resolver, self._room, self.shared, keep_alive=keep_alive)
        self._connector: BoundedConnector | None = None
        self._tls = TlsContexts()
        self._tokens = TokenFiles()
        self._prepared: dict[tuple[Address, str], Request] = {}
        self._lower: dict[int, BodyLimits] = {}
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._connector = connector = BoundedConnector(
            self.slots.most,
            room=self._room,
            limit_per_host=0,
            use_dns_cache=False,
            resolver=self._resolver,
            keepalive_timeout=self._keep_alive,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None),
            auto_decompress=False,
            trust_env=False,
            raise_for_status=False,
            trace_configs=[progress_trace()],
            read_bufsize=1 << 18,
            max_line_size=MAX_HEAD,
            max_field_size=MAX_HEAD,
            max_headers=_MAX_FIELDS,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
        await self._wire.close()
        await self._resolver.close()

    @property
    def open_connections(self) -> int:
        """Connections to targets that are open, idle ones included."""
        return self._room.open

    @property
    def closed_idle(self) -> int:
        """Idle connections that were closed, oldest first, to make room for others."""
        return self._room.closed_idle

    async def fetch(
        self, address: Address, seconds: float, *, accept: str = EXPOSITION, limit: int | None = None
    ) -> Fetched | Failure:
        """GET an address within so many ``seconds``, from resolving its name to the last byte.

        Where reads are bounded it waits for its turn first; that time is not of the ``seconds``.

        ``limit`` bounds the body below the general limit (bytes).
        """
        if self._session is None:
            raise RuntimeError("the fetcher is used outside its context")
        progress = Progress()
        limits = self._limits if limit is None else self._limited(limit)
        try:
            async with self.slots:
                request = self._request(address, accept)
                token = None if address.bearer_token_file is None else self._tokens.get(address.bearer_token_file)
                if isinstance(token, Failure):
                    return token
                if request.plain is not None:
                    end = b"\r\n" if token is None else f"Authorization: Bearer {token}\r\n\r\n".encode("ascii")
                    return await self._wire.get(address, request.plain + end, limits, seconds, progress)
                async with asyncio.timeout(seconds):
                    return await self._exchange(self._session, address, request, token, limits, progress)
        except (aiohttp.ClientError, OSError, RuntimeError) as error:
            if type(error) is TimeoutError and error.errno is None:
                return timed_out(progress, seconds, address)
            failure = classify(error, progress, address)
            if failure is None:
                raise
            return failure

    def _limited(self, limit: int) -> BodyLimits:
        """The limits with a lower one for the body; the same few are asked for again and again."""
        known = self._lower.get(limit)
        if known is None:
            if len(self._lower) >= _MAX_LOWER:
                self._lower.clear()
            known = self._lower[limit] = msgspec.structs.replace(self._limits, body=limit)
        return known

    async def _exchange(
        self,
        session: aiohttp.ClientSession,
        address: Address,
        request: Request,
        token: str | None,
        limits: BodyLimits,
        progress: Progress,
    ) -> Fetched | Failure:
        headers = request.headers if token is None else {**request.headers, "Authorization": f"Bearer {token}"}
        options: dict[str, Any] = {}
        if address.scheme == "https":
            context = self._tls.get(address.tls)
            if isinstance(context, Failure):
                return context
            name = address.tls.server_name if address.tls is not None else None
            options = {"ssl": context, "server_hostname": name}
        async with session.get(
            request.url, headers=headers, allow_redirects=False, trace_request_ctx=progress, **options
        ) as response:
            progress.answered = True
            outcome: Fetched | Failure | None = None
            try:
                outcome = await self._read(response, address, limits, progress)
            finally:
                # A body that was not read to its end, whatever stopped it, leaves a connection nobody can use again.
                if not isinstance(outcome, Fetched):
                    response.close()
            return outcome

    async def _read(
        self, response: aiohttp.ClientResponse, address: Address, limits: BodyLimits, progress: Progress
    ) -> Fetched | Failure:
        if response.status in REDIRECTS:
            return redirected(response.status, response.headers.get("Location", ""), address)
        if response.status != 200:
            return http_status(response.status, address)
        codings = response.headers.getall("Transfer-Encoding", ())
        if codings and [each.lower() for each in codings] != ["chunked"]:
            return not_http(f"its transfer encoding is {', '.join(codings)[:40]!r}", address)
        if response.content_length is not None and response.content_length > limits.body:
            return too_large(limits.body, address)
        encoding = ", ".join(response.headers.getall("Content-Encoding", ()))
        body = Body(address, encoding, limits, self.shared)
        with contextlib.closing(body):
            async for chunk in response.content.iter_any():
                progress.received += len(chunk)
                failure = body.feed(chunk)
                if failure is not None:
                    return failure
            data = body.finish()
        if isinstance(data, Failure):
            return data
        return Fetched(data=data, content_type=response.headers.get("Content-Type", ""))

    def _request(self, address: Address, accept: str) -> Request:
        """What is sent to an address, made once: parsing a URL costs more than sending it."""
        known = self._prepared.get((address, accept))
        if known is None:
            given = {name.lower() for name, _ in address.headers}
            ours = {"Accept": accept, "Accept-Encoding": "identity", "User-Agent": USER_AGENT}
            headers = {name: ours[name] for name in ours if name.lower() not in given} | dict(address.headers)
            known = self._make(address, headers)
            if len(self._prepared) >= _MAX_PREPARED:
                self._prepared.clear()
            self._prepared[(address, accept)] = known
        return known

    def _make(self, address: Address, headers: dict[str, str]) -> Request:
        plain = plain_request(address, headers)
        return Request(plain) if plain else Request(None, URL(address.url, encoded=True), headers)


def progress_trace() -> aiohttp.TraceConfig:
    """Marks on the request's `Progress` how far it came."""
    trace = aiohttp.TraceConfig()
    trace.on_dns_resolvehost_start.append(_mark("resolving", True))
    trace.on_dns_resolvehost_end.append(_mark("resolving", False))
    trace.on_connection_create_end.append(_mark("connected", True))
    trace.on_connection_reuseconn.append(_mark("connected", True))
    return trace


def _mark(field: str, value: bool) -> Callable[[aiohttp.ClientSession, SimpleNamespace, Any], Awaitable[None]]:
    async def mark(_session: aiohttp.ClientSession, context: SimpleNamespace, _event: Any) -> None:
        setattr(context.trace_request_ctx, field, value)

    return mark

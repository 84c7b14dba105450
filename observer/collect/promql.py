"""The query API over HTTP: one query in, an answer or a trouble out. It never raises for anything a source does.

Queries are sent as a form by POST. A redirect is followed once, only to the same origin and only where it keeps the
method; credentials go nowhere else. Addresses are checked again when the connection is made, after names are resolved.
No text of a source reaches a message.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ipaddress
import math
import socket
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from observer.clock import Clock
from observer.collect.body import Body, SharedBytes
from observer.collect.credentials import TlsContexts, TokenFiles
from observer.collect.failures import Failure, Progress, classify
from observer.collect.fetch import USER_AGENT, progress_trace
from observer.collect.options import BodyLimits
from observer.collect.promql_answer import error_type, parse_answer, without
from observer.collect.promql_source import Bound
from observer.collect.promql_troubles import failed, status_trouble, timed_out
from observer.collect.resolve import Resolver
from router_contract.canary_inputs import QueryAnswer, QueryTrouble
from router_contract.canary_results import Reason

BODY_LIMIT: Final = 1 << 20
_ERROR_BODY: Final = 16 << 10
_SECRET_LENGTH: Final = 5
_KEEPS_METHOD: Final = frozenset({307, 308})
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """One query to send: its text, and how long its answer may take (seconds)."""

    text: str
    timeout: float = 5.0


class RefusedError(OSError):
    """A source's name leads to an address that must not be asked."""


class _Guarded(AbstractResolver):
    """Resolves names and refuses addresses, at the moment of connecting."""

    def __init__(self, inner: Resolver, refuse: Callable[[str], str | None] | None) -> None:
        self._inner, self._refuse = inner, refuse

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        for each in found:
            why = None if self._refuse is None else self._refuse(each["host"])
            if why is not None:
                raise RefusedError(why)
        return found

    async def close(self) -> None:
        await self._inner.close()


class PromqlClient:
    """Holds the connections. Use as a context; queries may run at once.

    ``refuse`` says why an address must not be asked (``None``: it may); it is not applied to trusted sources.
    ``at_once`` queries run at the same time, all sources together.
    """

    def __init__(
        self, clock: Clock, refuse: Callable[[str], str | None], *, body_limit: int = BODY_LIMIT, at_once: int = 8
    ) -> None:
        self._clock = clock
        self._refuse = refuse
        self._limits = BodyLimits(body=body_limit, own=body_limit, shared=0)
        self._slots = asyncio.Semaphore(at_once)
        self._shared = SharedBytes(0)
        self._tls = TlsContexts()
        self._tokens = TokenFiles()
        self._silent_until: dict[str, float] = {}
        self._sessions: dict[bool, aiohttp.ClientSession] = {}

    async def __aenter__(self) -> Self:
        for trusted in (False, True):
            resolver = _Guarded(Resolver(self._clock), None if trusted else self._refuse)
            self._sessions[trusted] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, use_dns_cache=False, resolver=resolver, force_close=True),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None),
                auto_decompress=False,
                trust_env=False,
                trace_configs=[progress_trace()],
            )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for session in self._sessions.values():
            await session.close()

    async def sample(
        self, source: Bound, queries: Sequence[Query], deadline: float, longest_wait: float
    ) -> list[QueryAnswer | QueryTrouble]:
        """All queries of one sample at once, each within its own timeout and all within ``deadline`` (seconds).

        ``longest_wait`` is the most that a source's Retry-After is honoured for: the interval between samples.
        """
        end = self._clock.now().mono + deadline
        return list(await asyncio.gather(*(self._one(source, query, end, longest_wait) for query in queries)))

    async def _one(self, source: Bound, query: Query, end: float, longest_wait: float) -> QueryAnswer | QueryTrouble:
        """One query. Waiting for a slot is part of the sample's time, not of the query's."""
        now = self._clock.now()
        origin = f"{source.address.scheme}://{source.address.authority}"
        silent = self._silent_until.get(origin, -math.inf) - now.mono
        if silent > 0:
            said = f"the source asked not to be asked for another {silent:.0f} s"
            return QueryTrouble(reason=Reason.SOURCE_UNAVAILABLE, detail=said, query=query.text)
        try:
            async with asyncio.timeout(max(0.0, end - now.mono)):
                await self._slots.acquire()
        except TimeoutError:
            return _trouble(query, Reason.TIMEOUT, "the sample's deadline came before this query's turn")
        try:
            left = max(0.0, end - self._clock.now().mono)
            outcome = await self._timed(source, query, min(query.timeout, left), whole=left <= query.timeout)
        finally:
            self._slots.release()
        if isinstance(outcome, QueryTrouble) and outcome.retry_after is not None:
            wait = min(outcome.retry_after, longest_wait)
            self._silent_until[origin] = self._clock.now().mono + wait
            outcome = msgspec.structs.replace(outcome, retry_after=wait)
        return outcome

    async def _timed(self, source: Bound, query: Query, seconds: float, *, whole: bool) -> QueryAnswer | QueryTrouble:
        progress = Progress()
        try:
            async with asyncio.timeout(seconds):
                return await self._send(source, query, progress)
        except (aiohttp.ClientError, OSError) as error:
            if type(error) is TimeoutError and error.errno is None:
                return timed_out(query.text, progress, seconds, whole=whole)
            refused = _refusal(error)
            if refused is not None:
                return _trouble(query, Reason.SOURCE_FORBIDDEN, refused, permanent=True)
            failure = classify(error, progress, source.address)
            if failure is None:
                raise
            return failed(query.text, failure)

    async def _send(self, source: Bound, query: Query, progress: Progress) -> QueryAnswer | QueryTrouble:
        """The request, and once more where it is redirected within its own origin."""
        session = self._sessions[source.trusted]
        headers = self._headers(source, query)
        if isinstance(headers, QueryTrouble):
            return headers
        options: dict[str, Any] = {}
        if source.address.scheme == "https":
            context = self._tls.get(source.address.tls)
            if isinstance(context, Failure):
                return failed(query.text, context)
            name = None if source.address.tls is None else source.address.tls.server_name
            options = {"ssl": context, "server_hostname": name}
        url = URL(source.address.url, encoded=True)
        literal = self._literal(source)
        if literal is not None:
            return _trouble(query, Reason.SOURCE_FORBIDDEN, literal, permanent=True)
        asked_at = self._clock.now().wall
        form = {"query": query.text, "time": f"{asked_at:.3f}"}
        for attempt in range(2):
            async with session.post(
                url, data=form, headers=headers, allow_redirects=False, trace_request_ctx=progress, **options
            ) as response:
                progress.answered = True
                there = _redirect(response, url)
                if isinstance(there, URL) and attempt == 0:
                    response.close()
                    url = there
                    continue
                outcome = await self._outcome(response, source, query, asked_at, redirected=there is not None)
                secrets = _secrets(headers, source)
                return without(outcome, secrets) if secrets and isinstance(outcome, QueryAnswer) else outcome
        return _trouble(query, Reason.REDIRECT_REFUSED, "the source redirects without an end")

    def _literal(self, source: Bound) -> str | None:
        """Why an address that is written as a number must not be asked: such a host is never resolved."""
        try:
            ipaddress.ip_address(source.address.host.partition("%")[0])
        except ValueError:
            return None
        return None if source.trusted else self._refuse(source.address.host)

    def _headers(self, source: Bound, query: Query) -> dict[str, str] | QueryTrouble:
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": USER_AGENT}
        headers |= dict(source.address.headers)
        if source.token is not None:
            headers["Authorization"] = f"Bearer {source.token}"
        file = source.address.bearer_token_file or (None if source.basic is None else source.basic.password_file)
        if source.token is None and file is not None:
            secret = self._tokens.get(file)
            if isinstance(secret, Failure):
                return _trouble(query, Reason.AUTH_SECRET_MISSING, secret.detail, permanent=True)
            plain = source.address.bearer_token_file is not None or source.basic is None
            user = "" if source.basic is None else source.basic.username
            pair = base64.b64encode(f"{user}:{secret}".encode()).decode()
            headers["Authorization"] = f"Bearer {secret}" if plain else f"Basic {pair}"
        return headers

    async def _outcome(
        self, response: aiohttp.ClientResponse, source: Bound, query: Query, asked_at: float, *, redirected: bool
    ) -> QueryAnswer | QueryTrouble:
        limit = self._limits if response.status == 200 else msgspec.structs.replace(self._limits, body=_ERROR_BODY)
        body = Body(source.address, response.headers.get("Content-Encoding", ""), limit, self._shared)
        data: bytes | Failure | None = None
        try:
            with contextlib.closing(body):
                data = await _read(response, body)
        finally:
            if not isinstance(data, bytes):
                response.close()
        if redirected:
            said = (
                f"the source redirects ({response.status}) elsewhere, which is never followed: give the final address"
            )
            return _trouble(query, Reason.REDIRECT_REFUSED, said, status=response.status)
        if response.status != 200:
            word = error_type(data) if isinstance(data, bytes) else ""
            return status_trouble(query.text, response.status, word, response.headers.get("Retry-After", ""))
        return failed(query.text, data) if isinstance(data, Failure) else parse_answer(data, query.text, asked_at)


def _secrets(headers: Mapping[str, str], source: Bound) -> tuple[str, ...]:
    """What of our headers must never be shown. Shorter values say nothing, and would be found in every other word."""
    words = [headers.get("Authorization", "").partition(" ")[2], *(value for _, value in source.address.headers)]
    return tuple(word for word in words if len(word) >= _SECRET_LENGTH)


def _redirect(response: aiohttp.ClientResponse, asked: URL) -> URL | bool | None:
    """Where a redirect may be followed to; ``False`` for one that may not be; ``None`` where there is none."""
    if response.status not in _REDIRECTS:
        return None
    if response.status not in _KEEPS_METHOD:
        return False
    try:
        there = asked.join(URL(response.headers.get("Location", ""), encoded=True))
        same = (there.scheme, there.host, there.port) == (asked.scheme, asked.host, asked.port)
    except ValueError:
        return False
    return there if same and there.user is None and there != asked else False


async def _read(response: aiohttp.ClientResponse, body: Body) -> bytes | Failure:
    async for chunk in response.content.iter_any():
        failure = body.feed(chunk)
        if failure is not None:
            return failure
    return body.finish()


def _refusal(error: BaseException | None) -> str | None:
    """The sentence of a refused address, wherever the client has wrapped it."""
    while error is not None:
        if isinstance(error, RefusedError):
            return str(error)
        inner = getattr(error, "os_error", None)
        error = inner if isinstance(inner, BaseException) and inner is not error else error.__cause__
    return None


def _trouble(
    query: Query, reason: Reason, detail: str, *, permanent: bool = False, status: int | None = None
) -> QueryTrouble:
    return QueryTrouble(reason=reason, detail=detail, permanent=permanent, status=status, query=query.text)

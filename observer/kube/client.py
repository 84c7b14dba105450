"""Our HTTP client of the API server: one bounded request in, one answer out, and watches as lines.

Nothing that a server or network does is raised: it is an `Answer`. A 401 reloads the credentials once. Requests wait
for a token of the client's own limiter, but urgent ones (Leases) do not: an election must not queue behind a list.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec
from yarl import URL

from observer.clock import Clock
from observer.kube.answers import Answer, Outcome, answered, no_answer
from observer.kube.identity import Credentials, CredentialsError
from observer.kube.pacing import Bucket

USER_AGENT = "modeldeployment-observer"
"""The API server indents JSON for agents that look like a browser or curl, which doubles a list."""

JSON = "application/json"
APPLY = "application/apply-patch+yaml"
"""Server-side apply; JSON is YAML."""

Query = Mapping[str, str]


class ClientTuning(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one client. ``rate`` and ``burst`` are requests (per second), ``body`` and ``line`` are bytes.

    ``seconds`` bounds a request as a whole, ``connect`` only its connection; a watch is bounded by its silence.
    """

    rate: float = 20.0
    burst: float = 40.0
    seconds: float = 15.0
    connect: float = 5.0
    body: int = 64 << 20
    line: int = 8 << 20


class ApiClient:
    """Holds the connections to one API server. Use as a context; calls may run at once."""

    def __init__(self, credentials: Credentials, clock: Clock, tuning: ClientTuning = ClientTuning()) -> None:  # noqa: B008 - frozen
        self._credentials = credentials
        self._clock = clock
        self._tuning = tuning
        self._bucket = Bucket.full(tuning.rate, tuning.burst, clock.now().mono)
        self._session: aiohttp.ClientSession | None = None
        self._refreshing = asyncio.Lock()
        self._refreshes = 0
        self.requests: dict[Outcome, int] = dict.fromkeys(Outcome, 0)
        """How many calls had each outcome, watches as their opening."""

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60.0),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            trust_env=False,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: object = None,
        content_type: str = JSON,
        seconds: float | None = None,
        urgent: bool = False,
    ) -> Answer:
        """One call within so many ``seconds`` in all. ``body`` is any value that JSON can hold, ``None`` for none."""
        limit = self._tuning.seconds if seconds is None else seconds
        answer = no_answer(f"no answer within {limit:g} s", Outcome.SILENT)
        try:
            async with asyncio.timeout(limit):
                if not urgent:
                    await self._turn()
                seen = self._refreshes
                answer = await self._once(method, path, query, body, content_type)
                if answer.outcome is Outcome.UNAUTHORIZED:
                    await self._renew(seen)
                    answer = await self._once(method, path, query, body, content_type)
        except TimeoutError:
            pass
        except CredentialsError as error:
            answer = no_answer(str(error), Outcome.UNAUTHORIZED)
        self.requests[answer.outcome] += 1
        return answer

    async def watch(
        self, path: str, query: Query, silence: float, opened: Callable[[], None] = lambda: None
    ) -> AsyncGenerator[bytes | Answer, None]:
        """The lines of a watch as they come. A failure is the last item, an `Answer`; a clean end is just the end.

        ``silence`` (s) is how long the server may say nothing. ``opened`` is called once the server accepted the watch.
        Close the iterator (`contextlib.aclosing`) when done.
        """
        await self._turn()
        seen = self._refreshes
        try:
            async with contextlib.aclosing(self._stream(path, query, silence, opened)) as items:
                async for item in items:
                    if isinstance(item, Answer) and item.outcome is Outcome.UNAUTHORIZED:
                        break
                    yield item
                else:
                    return
            await self._renew(seen)
            async with contextlib.aclosing(self._stream(path, query, silence, opened)) as items:
                async for item in items:
                    yield item
        except CredentialsError as error:
            yield no_answer(str(error), Outcome.UNAUTHORIZED)

    async def _turn(self) -> None:
        self._bucket, pause = self._bucket.take(self._clock.now().mono)
        if pause:
            await asyncio.sleep(pause)

    async def _renew(self, seen: int) -> None:
        """Reload the credentials, unless another call did since ``seen``."""
        async with self._refreshing:
            if self._refreshes == seen:
                await self._credentials.refresh()
                self._refreshes += 1

    async def _once(self, method: str, path: str, query: Query | None, body: object, content_type: str) -> Answer:
        data = None if body is None else msgspec.json.encode(body)
        headers = {"Content-Type": content_type} if data is not None else {}
        try:
            async with await self._open(method, path, query, data, headers) as response:
                content = await self._read(response)
                if isinstance(content, Answer):
                    return content
                return answered(response.status, content, response.headers.get("Retry-After", ""))
        except (aiohttp.ClientError, OSError) as error:
            if type(error) is TimeoutError:
                raise
            return _failed(error)

    async def _stream(
        self, path: str, query: Query, silence: float, told: Callable[[], None]
    ) -> AsyncGenerator[bytes | Answer, None]:
        opened = False
        try:
            async with asyncio.timeout(self._tuning.seconds):
                response = await self._open("GET", path, query, None, {}, silence)
            async with response, _abandoned(response):
                opened = response.status == 200
                if opened:
                    self.requests[Outcome.OK] += 1
                    told()
                    async with contextlib.aclosing(self._lines(response)) as lines:
                        async for line in lines:
                            yield line
                    return
                content = await self._read(response)
                if not isinstance(content, Answer):
                    content = answered(response.status, content, response.headers.get("Retry-After", ""))
                failure = content
        except aiohttp.SocketTimeoutError:
            failure = no_answer(f"nothing was heard for {silence:g} s", Outcome.SILENT)
        except (aiohttp.ClientError, OSError) as error:
            failure = _failed(error)
        if not opened:
            self.requests[failure.outcome] += 1
        yield failure

    async def _lines(self, response: aiohttp.ClientResponse) -> AsyncGenerator[bytes | Answer, None]:
        """Whole lines. A rest without a newline is a line that was cut, and no line."""
        buffer = bytearray()
        async for chunk in response.content.iter_any():
            start = len(buffer)
            buffer += chunk
            end = buffer.rfind(b"\n", start)
            if end < 0:
                if len(buffer) > self._tuning.line:
                    yield no_answer(f"a line is longer than {self._tuning.line} bytes", Outcome.TOO_LARGE)
                    return
                continue
            whole, buffer = bytes(buffer[:end]), buffer[end + 1 :]
            for line in whole.split(b"\n"):
                if line.strip():
                    yield line

    async def _open(
        self,
        method: str,
        path: str,
        query: Query | None,
        data: bytes | None,
        headers: Mapping[str, str],
        silence: float | None = None,
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            raise RuntimeError("the client is used outside its context")
        credentials = self._credentials
        context, name = credentials.tls()
        options: dict[str, Any] = {} if context is None else {"ssl": context, "server_hostname": name}
        return await self._session.request(
            method,
            URL(credentials.server + path).with_query(dict(query or {})),
            data=data,
            headers={"Accept": JSON, "User-Agent": USER_AGENT, **headers, **await credentials.headers()},
            proxy=credentials.proxy,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._tuning.connect, sock_read=silence),
            **options,
        )

    async def _read(self, response: aiohttp.ClientResponse) -> bytes | Answer:
        limit = self._tuning.body
        parts: list[bytes] = []
        held = 0
        async for chunk in response.content.iter_any():
            held += len(chunk)
            if held > limit:
                response.close()
                return no_answer(f"the answer is longer than {limit} bytes", Outcome.TOO_LARGE)
            parts.append(chunk)
        return b"".join(parts)


@contextlib.asynccontextmanager
async def _abandoned(response: aiohttp.ClientResponse) -> AsyncIterator[None]:
    """Drop the connection of a watch that is left before its end: a farewell over TLS waits for a peer that may be gone."""
    try:
        yield
    finally:
        connection = response.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()


def _failed(error: aiohttp.ClientError | OSError) -> Answer:
    """What a failure of the connection or of the body is called."""
    if isinstance(error, aiohttp.ClientPayloadError):
        return no_answer(f"the answer was cut: {error}")
    if isinstance(error, (aiohttp.ClientSSLError, ssl.SSLError)):
        return no_answer(f"TLS: {error}")
    return no_answer(str(error) or type(error).__name__)

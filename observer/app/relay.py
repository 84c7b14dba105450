"""Plain reads at a replica that does not own what is asked for: they are passed on to the one that does.

Whoever asks a Service gets any replica, and must not be told that a deployment does not exist because another one watches
it. What nobody answers for is 503, or for metrics a direct read that says that it is partial; it is never an empty answer.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self

import aiohttp
import msgspec
from aiohttp import web

from exporters.aggregated.forwarding import FORWARD_SECONDS, FORWARDED, Elsewhere
from exporters.api import FRESH_SECONDS, METRICS_PATH
from exporters.document import metrics_document
from exporters.encoding import encode
from exporters.listening import Listen
from exporters.server import PROBES, STREAMS
from exporters.statuses import failure, unavailable
from router_contract.documents import Unavailable
from router_contract.targets import DeploymentKey

_log = logging.getLogger(__name__)

HANDOVER_PATH = "/replicas/reads"
OWN = PROBES | {"/metrics", "/api/v1/limits", "/api/v1/bundle", "/api/v1/openapi.json"}
"""What each replica says of itself."""
_CHUNK = 64 << 10
_KEPT = frozenset({"content-type", "cache-control", "etag", "vary", "retry-after", "content-disposition", "link"})
_SENT = ("Accept", "Content-Type", "If-None-Match", "Last-Event-ID")


class Division(Protocol):
    """Who owns what, and where they answer."""

    def owns_shard(self) -> bool:
        """Whether this replica owns its shard."""
        ...

    def owner(self, key: DeploymentKey) -> str | None:
        """The replica that owns a deployment, ``None`` for this one or nobody."""
        ...

    def active(self) -> str | None:
        """The replica that owns this one's shard, ``None`` for this one or nobody."""
        ...

    def plain_urls(self) -> Mapping[str, str]:
        """The plain listeners of the replicas that own something."""
        ...


class HttpRelay:
    """`exporters.server.Relay` over the plain listeners. Use as a context.

    ``listen`` is how ours is guarded, and so are theirs; ``take_over`` answers a replica that hands its reads over.
    """

    def __init__(
        self,
        division: Division,
        elsewhere: Elsewhere,
        listen: Listen,
        take_over: Callable[[web.Request], Awaitable[web.StreamResponse]],
        pods: int,
        seconds: float = FORWARD_SECONDS,
    ) -> None:
        self._seconds = seconds
        self._take_over = take_over
        self._division = division
        self._elsewhere = elsewhere
        self._listen = listen
        self._pods = pods
        self._session: aiohttp.ClientSession | None = None
        self._tls = pinned(listen)
        self._trouble = ""

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=64)
        self._session = aiohttp.ClientSession(connector=connector, trust_env=False, auto_decompress=False)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def relayed(self, request: web.Request) -> web.StreamResponse | None:
        """The owner's answer, or ours where nobody else's is better; ``None`` for what is answered here."""
        if request.path == HANDOVER_PATH:
            return await self._take_over(request)
        if request.path in OWN or request.path.startswith("/static/"):
            return None
        key = _key(request)
        foreign = key is not None and self._elsewhere.known(key) is not None
        if FORWARDED in request.headers:
            return failure(503, "this replica does not own it") if foreign else None
        for name in self._asked(request, key):
            answer = await self._ask(name, request)
            # An analysis that one shard does not know may be another's.
            if answer is not None and not (answer.status == 404 and _of_canary(request)):
                return answer
        if key is not None and foreign:
            return await self._partly(request, key)
        if self._division.owns_shard():
            return None
        return failure(
            503, "no replica owns this shard at the moment; one takes over soon", headers={"Retry-After": "1"}
        )

    def _asked(self, request: web.Request, key: DeploymentKey | None) -> Sequence[str]:
        """Whom to ask, in order: the owner of a deployment, else whoever is active in our place.

        Which shard an analysis belongs to only its deployment says, so each owner is asked for one by its name.
        """
        if _of_canary(request) and "name" in request.match_info:
            return tuple(sorted(self._division.plain_urls()))
        name = self._division.owner(key) if key is not None else None
        name = name or (None if self._division.owns_shard() else self._division.active())
        return () if name is None else (name,)

    async def _ask(self, name: str, request: web.Request) -> web.StreamResponse | None:
        url = self._division.plain_urls().get(name)
        if url is None or self._session is None:
            return None
        headers = {each: request.headers[each] for each in _SENT if each in request.headers} | {
            FORWARDED: "1",
            "Accept-Encoding": "identity",
        }
        if self._listen.token is not None:
            headers["Authorization"] = f"Bearer {self._listen.token}"
        seconds = self._seconds + (FRESH_SECONDS if "fresh" in request.query else 0.0)
        try:
            body = await request.read() if request.can_read_body else None
            async with asyncio.timeout(seconds):
                answer = await self._session.request(
                    request.method,
                    url + request.raw_path,
                    headers=headers,
                    data=body,
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._seconds),
                    ssl=self._tls,
                )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._failed(f"replica {name} does not answer: {str(error) or type(error).__name__}")
            return None
        async with answer:
            if answer.status in {401, 502, 503, 504}:
                self._failed(f"replica {name} answers {answer.status}")
                return None
            self._failed("")
            return await self._copied(request, answer)

    async def _copied(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse | None:
        """The answer as it comes. One that breaks off before anything was passed on counts as none."""
        headers = {name: value for name, value in answer.headers.items() if name.lower() in _KEPT}
        if request.path not in STREAMS:
            try:
                async with asyncio.timeout(self._listen.answer_seconds):
                    body = await answer.content.read(self._listen.response_bytes + 1)
                    while len(body) <= self._listen.response_bytes and (more := await answer.content.read(_CHUNK)):
                        body += more
            except (aiohttp.ClientError, TimeoutError) as error:
                self._failed(f"an answer broke off: {str(error) or type(error).__name__}")
                return None
            return web.Response(status=answer.status, body=body, headers=headers)
        stream = web.StreamResponse(status=answer.status, headers=headers)
        await stream.prepare(request)
        try:
            async for chunk in answer.content.iter_any():
                await stream.write(chunk)
        except (aiohttp.ClientError, ConnectionError):
            pass  # Either end has gone; the page asks again by itself.
        return stream

    async def _partly(self, request: web.Request, key: DeploymentKey) -> web.StreamResponse:
        """What can be said of a deployment whose owner does not answer."""
        resource = request.match_info.route.resource
        if resource is None or not resource.canonical.endswith(METRICS_PATH.rpartition("}")[2]):
            return failure(503, "the replica that owns it does not answer", name=key.name, headers={"Retry-After": "1"})
        report = await self._elsewhere.read(key)
        document = None if report is None else metrics_document(report, self._pods)
        if document is None:
            return failure(503, "its owner is changing", name=key.name, headers={"Retry-After": "1"})
        if isinstance(document, Unavailable):
            return unavailable(document, key.name)
        return web.Response(
            body=encode(msgspec.structs.replace(document, partial=True)), content_type="application/json"
        )

    def _failed(self, trouble: str) -> None:
        if trouble and trouble != self._trouble:
            _log.warning("%s", trouble)
        self._trouble = trouble


def pinned(listen: Listen) -> ssl.SSLContext | bool:
    """Trust in exactly the certificate that our own plain listener shows, as its replicas do; the usual without HTTPS."""
    if listen.tls is None:
        return True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False  # The certificate itself is who we want; it is for a Service and not for a Pod.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(listen.tls.cert_file)
    context.load_cert_chain(listen.tls.cert_file, listen.tls.key_file)
    return context


def _key(request: web.Request) -> DeploymentKey | None:
    """The deployment that a path names; canaries name analyses, which their deployment's owner judges."""
    told = request.match_info
    if "namespace" not in told or "name" not in told or _of_canary(request):
        return None
    return DeploymentKey(told["namespace"], told["name"])


def _of_canary(request: web.Request) -> bool:
    resource = request.match_info.route.resource
    return resource is not None and "/canar" in resource.canonical

"""Asking other replicas over the aggregated API's own port: HTTPS, with our token, and their certificate is ours.

Replicas share one serving certificate, so a peer is who shows the certificate that we show. While it is being replaced
two replicas may not know each other for a moment; then each answers with what it knows.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Protocol, Self

import aiohttp

from exporters.aggregated.forwarding import FORWARD_SECONDS, FORWARDED, PeerAnswer
from exporters.aggregated.tls import KeyPair
from router_contract.targets import DeploymentKey

_log = logging.getLogger(__name__)

ANSWER_BYTES = 64 << 20
"""A longer answer of another replica is not read to its end and counts as none."""


class Replicas(Protocol):
    """Who the other replicas are and what they own."""

    def owner(self, key: DeploymentKey) -> str | None:
        """The name of the replica that owns a deployment, ``None`` when it is this one or nobody is known."""
        ...

    def urls(self) -> Mapping[str, str]:
        """Every other replica that owns something: its name and the URL of its aggregated API, ``https://10.0.0.7:10250``."""
        ...


class HttpsPeers:
    """`exporters.aggregated.forwarding.Peers` over HTTPS. Use as a context.

    ``shown`` is the pair that we show now, ``name`` the name it is for, ``headers`` our token as a header (the replicas'
    account needs ``get`` and ``list`` on our group). What fails is said once for each peer and kind of failure.
    """

    def __init__(
        self,
        replicas: Replicas,
        *,
        shown: Callable[[], KeyPair | None],
        name: str,
        headers: Callable[[], Awaitable[Mapping[str, str]]],
        seconds: float = FORWARD_SECONDS,
    ) -> None:
        self._replicas = replicas
        self._shown = shown
        self._name = name
        self._headers = headers
        self._seconds = seconds
        self._session: aiohttp.ClientSession | None = None
        self._trusted: tuple[KeyPair, ssl.SSLContext] | None = None
        self._troubles: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=self._seconds), trust_env=False)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    def owner(self, key: DeploymentKey) -> str | None:
        """As the replicas say."""
        return self._replicas.owner(key)

    def others(self) -> tuple[str, ...]:
        """Every other replica that owns something."""
        return tuple(sorted(self._replicas.urls()))

    async def ask(self, peer: str, path: str, query: Mapping[str, str]) -> PeerAnswer | None:
        """What a replica answers, ``None`` when it does not."""
        url, context = self._replicas.urls().get(peer), self._context()
        if url is None or context is None or self._session is None:
            return None
        try:
            headers = {**await self._headers(), FORWARDED: "1", "Accept": "application/json"}
            async with self._session.get(
                url + path, params=dict(query), headers=headers, ssl=context, server_hostname=self._name
            ) as answer:
                body = bytearray()
                async for chunk in answer.content.iter_any():
                    body += chunk
                    if len(body) > ANSWER_BYTES:
                        self._failed(peer, f"its answer is longer than {ANSWER_BYTES} bytes")
                        return None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._failed(peer, str(error) or type(error).__name__)
            return None
        self._failed(peer, "" if answer.status not in {401, 403} else f"it answers {answer.status} to our token")
        return PeerAnswer(answer.status, bytes(body))

    def _context(self) -> ssl.SSLContext | None:
        """Trust in exactly the certificate that we show ourselves."""
        pair = self._shown()
        if pair is None:
            return None
        if self._trusted is None or self._trusted[0] != pair:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            context.load_verify_locations(cadata=pair.certificate.decode("ascii", "replace"))
            self._trusted = (pair, context)
        return self._trusted[1]

    def _failed(self, peer: str, trouble: str) -> None:
        before = self._troubles.get(peer, "")
        self._troubles[peer] = trouble
        if trouble and trouble != before:
            _log.warning("replica %s cannot be asked: %s", peer, trouble)
        elif before and not trouble:
            _log.info("replica %s answers again", peer)

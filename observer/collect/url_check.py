"""One look at a URL that an object publishes: does anything answer there. Addresses are judged before they are dialled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec

from observer.clock import Clock
from observer.collect.failures import Failure
from observer.collect.fetch import Fetcher
from observer.collect.resolve import Resolver
from observer.yamldoc.quantities import show_duration
from router_contract.targets import Address, Tls

MAX_BODY = 1 << 20
"""Most bytes of an answer that are read."""


class UrlAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a look: ``Answered``, or why not in one word, and one sentence."""

    reason: str
    said: str


class UrlCheck:
    """Looks at URLs. ``refusal`` judges each address, resolved ones too; nothing is followed and nothing sent but a GET."""

    def __init__(self, fetcher: Fetcher, clock: Clock, refusal: Callable[[str], str | None]) -> None:
        self._fetcher = fetcher
        self._resolver = Resolver(clock)
        self._refusal = refusal

    async def check(self, url: str, path: str, seconds: float) -> UrlAnswer:
        """GET a URL with ``path`` appended. Never raises for what a URL, a name or a server is.

        ``seconds`` bounds the look-up of its name, and then the answer.
        """
        parsed = _parsed(url, path)
        if isinstance(parsed, UrlAnswer):
            return parsed
        try:
            async with asyncio.timeout(seconds):
                address = await self._reachable(parsed)
        except TimeoutError:
            return UrlAnswer(reason="Dns", said=f"{parsed.host} was not resolved within {show_duration(seconds)}")
        if isinstance(address, UrlAnswer):
            return address
        found = await self._fetcher.fetch(address, seconds, accept="application/json", limit=MAX_BODY)
        if not isinstance(found, Failure):
            return UrlAnswer(
                reason="Answered", said=f"{parsed.path} answered; whether every replica serves is not said"
            )
        if found.status is not None:
            return UrlAnswer(reason="AnsweredWithError", said=f"something answers there, with status {found.status}")
        return UrlAnswer(reason=found.kind.value, said=found.detail)

    async def _reachable(self, address: Address) -> Address | UrlAnswer:
        """The address with a number for its name: what was judged is what is dialled."""
        try:
            hosts = [each["host"] for each in await self._resolver.resolve(address.host, address.port)]
        except OSError as error:
            return UrlAnswer(reason="Dns", said=f"{address.host} has no address: {error}")
        refused = ""
        for host in hosts:
            refused = self._refusal(host) or ""
            if not refused:
                return msgspec.structs.replace(address, host=host)
        return UrlAnswer(reason="Refused", said=refused or f"{address.host} has no address")

    async def close(self) -> None:
        """Let go of look-ups under way."""
        await self._resolver.close()


def plain(url: str) -> str:
    """A URL for people: without a user, a password or a query, which may be secrets; empty for what is none."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ""
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return f"{parts.scheme}://{host}{'' if port is None else f':{port}'}{parts.path}"[:300] if host else ""


def _parsed(url: str, path: str) -> Address | UrlAnswer:
    wrong = UrlAnswer(reason="BadUrl", said="wanted an http or https URL with a host and without a user")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return wrong
    host = parts.hostname
    if parts.scheme not in {"http", "https"} or not host or parts.username is not None:
        return wrong
    secure = parts.scheme == "https"
    return Address(
        scheme=parts.scheme,
        host=host,
        port=port or (443 if secure else 80),
        path=parts.path.rstrip("/") + path or "/",
        tls=Tls(server_name=host) if secure else None,
        headers=(("Host", parts.netloc),),
    )

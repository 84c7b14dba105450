"""The HTTPS listener on loopback with authorities of the test's own, and small real reviews."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from exporters.aggregated.access import Access, Attributes, Decision, TokenAnswer
from exporters.aggregated.api import AggregatedContent
from exporters.aggregated.forwarding import Peers
from exporters.aggregated.identity import FrontProxy, Identity
from exporters.aggregated.server import AggregatedServer
from exporters.aggregated.tls import KeyPair, ServingTls
from exporters.listening import Listen
from router_contract.targets import DeploymentKey
from router_contract.verdicts import DeploymentReport
from tests.exporters.judged import judged
from tests.exporters.reports import WALL
from tests.exporters.sources import Reports
from tests.fakes.authority import Authority

HOST = "observer-api.observer.svc"
BASE = "/apis/metrics.modeldeployment.io/v1"
USER = {"X-Remote-User": "alice"}
LABELS = {"chat": {"team": "red", "tier": "gold"}, "code": {"team": "blue"}}


class Rights:
    """Reviews by tables: tokens, and who may do everything. What was asked is kept; it may be away."""

    def __init__(self) -> None:
        self.tokens = {
            "good": Identity(user="system:serviceaccount:mon:prometheus", groups=("system:serviceaccounts",))
        }
        self.allowed = {"alice", "system:serviceaccount:mon:prometheus", "system:aggregator"}
        self.asked: list[tuple[Identity, Attributes]] = []
        self.reviewed = 0
        self.away = False

    async def token(self, token: str) -> TokenAnswer:
        self.reviewed += 1
        if self.away:
            return TokenAnswer(None, "connection refused", known=False)
        return TokenAnswer(self.tokens.get(token), "" if token in self.tokens else "invalid bearer token")

    async def access(self, identity: Identity, attributes: Attributes) -> Decision:
        self.asked.append((identity, attributes))
        if self.away:
            return Decision(allowed=False, reason="connection refused", known=False)
        return Decision(identity.user in self.allowed)


class World:
    """One listener. ``proxy`` is the CA of the front proxy, ``other`` one that nobody trusts."""

    def __init__(self, folder: Path, source: Reports, **content: Any) -> None:
        self.folder = folder
        self.serving, self.proxy, self.other = (Authority(folder, name) for name in ("serving", "proxy", "other"))
        self.rights = Rights()
        self.seconds = 1000.0
        self.wall = WALL
        self.access = Access(self.rights, lambda: self.seconds)
        self.tls = ServingTls()
        self.tls.show(self.pair("leaf"))
        self.trust(self.proxy, names=("front-proxy-client",))
        described = {"described": lambda key: LABELS.get(key.name, {})}
        self.content = AggregatedContent(source, lambda: self.wall, "0.1.0", **(described | content))
        listen = Listen(port=0, stop_seconds=0.2)
        self.source = source
        # Certificates are judged by the machine's time; documents by the test's.
        import time

        self.server = AggregatedServer(self.content, self.access, self.tls, source, listen, time.time)

    def pair(self, name: str, authority: Authority | None = None) -> KeyPair:
        cert, key = (authority or self.serving).issue(name, names=(HOST,))
        return KeyPair(Path(cert).read_bytes(), Path(key).read_bytes())

    def trust(self, *authorities: Authority, names: tuple[str, ...] = (), **more: Any) -> None:
        bundle = "".join(Path(each.ca_file).read_text() for each in authorities)
        self.access.proxy = FrontProxy(ca=bundle, allowed_names=names, **more)
        self.tls.trust(bundle)

    def client(self, authority: Authority | None = None, name: str = "front-proxy-client") -> ssl.SSLContext:
        """A client's context, with a certificate when an authority is given."""
        context = ssl.create_default_context(cafile=self.serving.ca_file)
        if authority is not None:
            context.load_cert_chain(*authority.issue(name))
        return context

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.server.port}"


class Asking:
    """A client of the listener; one connection is kept."""

    def __init__(self, session: aiohttp.ClientSession, world: World, context: ssl.SSLContext) -> None:
        self._session, self._world, self._context = session, world, context

    async def ask(
        self,
        path: str,
        headers: Mapping[str, str] | list[tuple[str, str]] | None = None,
        method: str = "GET",
        **more: Any,
    ) -> tuple[int, Mapping[str, str], Any]:
        """Status, headers and body (JSON where it is)."""
        given = list(headers.items()) if isinstance(headers, Mapping) else (headers or [])
        async with self._session.request(
            method, self._world.url + path, headers=given, ssl=self._context, server_hostname=HOST, **more
        ) as answer:
            body = await answer.read()
            is_json = answer.content_type == "application/json"
            return answer.status, answer.headers, (await answer.json()) if is_json and body else body.decode()

    async def get(self, path: str, accept: str | None = None, **headers: str) -> tuple[int, Mapping[str, str], Any]:
        """As alice through the front proxy."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.ask(path, {**USER, **({"Accept": accept} if accept is not None else {}), **named})


@asynccontextmanager
async def serving(
    folder: Path, *reports: DeploymentReport, peers: Peers | None = None, **content: Any
) -> AsyncIterator[World]:
    world = World(folder, Reports(*(reports or (judged(),))), peers=peers, **content)
    await world.server.start()
    try:
        yield world
    finally:
        await world.server.stop()


@asynccontextmanager
async def asking(world: World, context: ssl.SSLContext | None = None) -> AsyncIterator[Asking]:
    """A client; without a context it is kube-apiserver."""
    connector = aiohttp.TCPConnector(limit=1)
    async with aiohttp.ClientSession(connector=connector, skip_auto_headers=("Accept", "User-Agent")) as session:
        yield Asking(session, world, context or world.client(world.proxy))


def named(name: str, namespace: str = "prod", **more: Any) -> DeploymentReport:
    from msgspec.structs import replace

    found = judged(**more)
    return replace(found, deployment=replace(found.deployment, key=DeploymentKey(namespace, name)))

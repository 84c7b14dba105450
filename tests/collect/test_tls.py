"""HTTPS: what is trusted, what is refused, and that each refusal names the key that would change it."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import uvloop

from observer.clock import SystemClock
from observer.collect.credentials import TlsContexts
from observer.collect.failures import Failure
from observer.collect.fetch import Fetched, Fetcher
from router_contract.readings import FailureKind
from router_contract.targets import Address, Tls
from tests.collect.conftest import LIMITS
from tests.fakes.authority import Authority
from tests.fakes.hostile import raw, reply, serving

BODY = b"a 1\n"
LOCAL = ("127.0.0.1", "localhost")


class World:
    """One authority, certificates of every sort, and servers that use them."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self.other = Authority(folder, "other")
        issue = self.authority.issue
        good = issue("good", names=LOCAL)
        server = self.authority.server
        self.client = issue("client", names=("client",))
        self.stranger = self.other.issue("stranger", names=("stranger",))
        self.servers: dict[str, ssl.SSLContext | None] = {
            "good": server(good),
            "other name": server(issue("elsewhere", names=("engine.example",))),
            "other address": server(issue("far", names=("10.9.8.7",))),
            "expired": server(issue("expired", names=LOCAL, days=-1)),
            "self-signed": server(issue("alone", names=LOCAL, self_signed=True)),
            "wants a client": server(good, client_ca=self.authority.ca_file),
            "plain": None,
        }
        old = server(good)
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        old.load_verify_locations(self.authority.ca_file)
        old.verify_mode = ssl.CERT_REQUIRED
        self.servers["wants a client, TLS 1.2"] = old


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("tls"))


def cases(world: World) -> dict[str, tuple[str, Tls | None, str | None]]:
    """Server, trust, and the words of the failure (``None``: it is read)."""
    ca = world.authority.ca_file
    mine, stranger = world.client, world.stranger
    return {
        "CA file": ("good", Tls(ca_file=ca), None),
        "not trusted": ("good", None, "give it as `tls.caFile`"),
        "other authority": ("good", Tls(ca_file=world.other.ca_file), "give it as `tls.caFile`"),
        "skipVerify": ("good", Tls(skip_verify=True), None),
        "name mismatch": ("other name", Tls(ca_file=ca), "set `tls.serverName`"),
        "name given": ("other name", Tls(ca_file=ca, server_name="engine.example"), None),
        "address mismatch": ("other address", Tls(ca_file=ca), "set `tls.serverName`"),
        "name mismatch skipped": ("other name", Tls(skip_verify=True), None),
        "expired": ("expired", Tls(ca_file=ca), "expired: renew it"),
        "self-signed": ("self-signed", Tls(ca_file=ca), "self-signed"),
        "client certificate": ("wants a client", Tls(ca_file=ca, cert_file=mine[0], key_file=mine[1]), None),
        "no client certificate": ("wants a client", Tls(ca_file=ca), "client certificate"),
        "no client certificate, 1.2": ("wants a client, TLS 1.2", Tls(ca_file=ca), "client certificate"),
        "a stranger's certificate": (
            "wants a client",
            Tls(ca_file=ca, cert_file=stranger[0], key_file=stranger[1]),
            "client certificate",
        ),
        "plain HTTP on the port": ("plain", Tls(ca_file=ca), "does not speak TLS"),
        "CA file missing": ("good", Tls(ca_file="/nowhere/ca.pem"), "`tls.caFile` /nowhere/ca.pem cannot be used"),
        "CA file that is none": ("good", Tls(ca_file=__file__), "cannot be used"),
        "key of another": ("good", Tls(ca_file=ca, cert_file=mine[0], key_file=stranger[1]), "`tls.certFile`"),
    }


async def outcomes(world: World) -> AsyncIterator[tuple[str, Fetched | Failure, str | None]]:
    async with Fetcher(SystemClock(), LIMITS) as fetcher:
        for name, (which, tls, words) in cases(world).items():
            greeting = b"HTTP/1.1 400 Bad Request\r\n\r\n" if which == "plain" else b""
            async with serving(reply(BODY), tls=world.servers[which], greeting=greeting) as server:
                address = Address(scheme="https", host="127.0.0.1", port=server.port, tls=tls)
                yield name, await fetcher.fetch(address, 3.0), words


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_every_case_of_trust(world: World, loop: object) -> None:
    async def every() -> None:
        async for name, outcome, words in outcomes(world):
            if words is None:
                assert isinstance(outcome, Fetched), (name, outcome)
            else:
                assert isinstance(outcome, Failure), name
                assert outcome.kind is FailureKind.TLS, (name, outcome)
                assert words in outcome.detail, (name, outcome)

    with asyncio.Runner(loop_factory=loop) as runner:  # type: ignore[arg-type]  # either loop's factory
        runner.get_loop().set_exception_handler(lambda *_: None)  # the servers' side of each refused handshake
        runner.run(every())


async def test_https_asked_as_http_says_so(world: World, fetcher: Fetcher) -> None:
    async with serving(reply(BODY), tls=world.servers["good"]) as server:
        outcome = await fetcher.fetch(Address(host="127.0.0.1", port=server.port), 3.0)
    assert isinstance(outcome, Failure)
    assert outcome.kind in {FailureKind.TRUNCATED, FailureKind.MALFORMED}
    assert "scheme" in outcome.detail


async def test_a_body_cut_inside_tls_is_truncated(world: World, fetcher: Fetcher) -> None:
    cut = raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nabc")
    async with serving(cut, tls=world.servers["good"]) as server:
        address = Address(scheme="https", host="127.0.0.1", port=server.port, tls=Tls(ca_file=world.authority.ca_file))
        outcome = await fetcher.fetch(address, 3.0)
    assert isinstance(outcome, Failure)
    assert outcome.kind is FailureKind.TRUNCATED


async def test_one_connection_serves_many_reads(world: World, fetcher: Fetcher) -> None:
    async with serving(reply(BODY), tls=world.servers["other name"]) as server:
        tls = Tls(ca_file=world.authority.ca_file, server_name="engine.example")
        address = Address(scheme="https", host="127.0.0.1", port=server.port, tls=tls)
        for _ in range(3):
            assert isinstance(await fetcher.fetch(address, 3.0), Fetched)
    assert server.connections == 1


def test_contexts_are_shared_and_made_again_when_a_file_changes(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    contexts = TlsContexts()
    tls = Tls(ca_file=authority.ca_file)
    first = contexts.get(tls)
    assert isinstance(first, ssl.SSLContext)
    assert contexts.get(Tls(ca_file=authority.ca_file)) is first
    os.utime(authority.ca_file, (1, 1))
    second = contexts.get(tls)
    assert second is not first
    Path(authority.ca_file).unlink()
    assert isinstance(contexts.get(tls), Failure)


def test_verification_is_on_unless_asked(tmp_path: Path) -> None:
    contexts = TlsContexts()
    for tls in (None, Tls(), Tls(server_name="x")):
        context = contexts.get(tls)
        assert isinstance(context, ssl.SSLContext)
        assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    skipping = contexts.get(Tls(skip_verify=True))
    assert isinstance(skipping, ssl.SSLContext)
    assert (skipping.verify_mode, skipping.check_hostname) == (ssl.CERT_NONE, False)

"""Each cause of silence, made by a real little server, socket or file on loopback, and found by the doctor."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
import uvloop
import zmq
import zmq.asyncio

from observer.clock import SystemClock
from observer.collect.doctor import Doctor, Subject, subjects
from observer.collect.fetch import Fetcher
from observer.judge.diagnosis import TABLE, examine
from router_contract.diagnosis import Examined
from router_contract.targets import (
    Address,
    Component,
    Deployment,
    DeploymentKey,
    KvEventSource,
    Member,
    Replica,
    Role,
    Target,
    TargetKey,
    Tls,
)
from tests.collect.conftest import LIMITS
from tests.fakes.authority import Authority
from tests.fakes.hostile import Answer, closed_port, full_backlog, gzip_bomb, never, raw, reply, serving

RECORDINGS = Path(__file__).parents[1] / "recordings"
VLLM = (RECORDINGS / "vllm-0.32.0" / "metrics-02-warm.prom").read_bytes()
OLD_VLLM = b"vllm:num_requests_running 1\n# TYPE vllm:gpu_cache_usage_perc gauge\nvllm:gpu_cache_usage_perc 0.5\n"
SGLANG = (RECORDINGS / "sglang-0.5.23" / "metrics-02-warm.prom").read_bytes()
RUN_TIME = b"# TYPE python_info gauge\npython_info 1\nprocess_open_fds 9\n"
LOCAL = ("127.0.0.1", "localhost")
ALERT = b"\x15\x03\x03\x00\x02\x02\x46"
"""What a server of TLS sends that speaks no version that we speak."""
SLOW = frozenset({"Hangs", "HostDropped", "PortDropped", "NameHangs", "KvPortDropped"})
"""Causes that show only when a step's time is over."""
PROBED = frozenset({"SpeaksPlain", "NotHttp", "Truncated"})
"""Causes for which TLS is tried on servers that wait for the end of a plain request."""
SECONDS, PROBE_SECONDS, LONG = 0.6, 1.5, 5.0

Made = AbstractAsyncContextManager[Subject]
SCENARIOS: dict[str, tuple[Callable[[World], Made], str | None]] = {}


class World:
    """Certificates of every sort, made once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        self.other = Authority(folder, "other")
        issue, server = self.authority.issue, self.authority.server
        ca = self.authority.ca_file
        good = issue("good", names=LOCAL)
        mesh = issue("mesh", names=("spiffe://cluster.local/ns/prod/sa/engine",))
        self.contexts: dict[str, ssl.SSLContext] = {
            "good": server(good),
            "elsewhere": server(issue("elsewhere", names=("engine.example",))),
            "expired": server(issue("expired", names=LOCAL, days=-1)),
            "alone": server(issue("alone", names=LOCAL, self_signed=True)),
            "client": server(good, client_ca=ca),
            "mesh": server(mesh, client_ca=ca),
        }
        self.client = issue("client", names=("client",))
        self.stranger = self.other.issue("stranger", names=("stranger",))

    def trust(self, cert: tuple[str, str] | None = None, ca: str | None = None) -> Tls:
        cert_file, key_file = cert or (None, None)
        return Tls(ca_file=ca or self.authority.ca_file, cert_file=cert_file, key_file=key_file)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("doctor"))


def subject(port: int, *, software: str = "vllm", version: str | None = None, **more: object) -> Subject:
    """A target on loopback; ``ports``, ``arguments``, ``started`` and ``kv`` are its member's."""
    about = {key: more.pop(key) for key in ("ports", "arguments", "started", "kv") if key in more}
    address = Address(**({"host": "127.0.0.1", "port": port} | more))
    key = TargetKey(DeploymentKey("prod", "chat"), "uid", Component.ENGINE, port)
    target = Target(
        key=key, component=Component.ENGINE, software=software, version=version, member="chat-0", address=address
    )
    return Subject(target=target, **about)


def scenario(name: str, cause: str | None):
    """Registers a scenario: a context that yields the subject in trouble."""

    def register(make: Callable[[World], AsyncIterator[Subject]]):
        SCENARIOS[name] = (asynccontextmanager(make), cause)
        return make

    return register


def answering(name: str, cause: str | None, answer: Answer, tls: str = "", **more: object) -> None:
    """A scenario of one server with one answer; with ``tls`` it uses that context."""

    @scenario(name, cause)
    async def _(world: World) -> AsyncIterator[Subject]:
        async with serving(answer, world.contexts[tls] if tls else None) as server:
            yield subject(server.port, **more)


GOOD = reply(VLLM)
answering("well", None, GOOD)
answering("401 without a token", "CredentialsWanted", reply(status="401 Unauthorized"))
answering("401 with headers", "CredentialsRefused", reply(status="401 Unauthorized"), headers=(("X-Key", "no"),))
answering("403", "Forbidden", reply(status="403 Forbidden"))
answering("404", "PathUnknown", reply(status="404 Not Found"))
answering("429", "Throttled", reply(status="429 Too Many Requests"))
answering("500", "ProgramFails", reply(status="500 Internal Server Error"))
answering("503 of a sidecar", "ProxyCannotReach", reply(b"upstream connect error", status="503 Service Unavailable"))
answering("418", "OtherStatus", reply(status="418 I'm a teapot"))
answering("a redirect", "Redirects", reply(status="302 Found", headers="Location: https://login.example/\r\n"))
answering("a login page", "Html", reply(b"<!doctype html><title>Log in</title>", headers="Content-Type: text/html\r\n"))
answering("JSON", "Json", reply(b'{"object": "list"}', headers="Content-Type: application/json\r\n"))
answering("some text", "NotExposition", reply(b"OK, so what\n"))
answering("an empty body", "EmptyRegistry", reply(b""))
answering("comments only", "EmptyRegistry", reply(b"# TYPE a counter\n"))
answering("the run-time's own names", "NoneOfItsOwn", reply(RUN_TIME))
answering("another engine", "WrongProgram", reply(SGLANG))
answering("no such program", "UnknownProgram", GOOD, software="tensorthing")
answering("names of an older release", "OtherVersion", reply(OLD_VLLM), version="0.32.0")
answering("names of a later release", "NewNames", reply(b"# TYPE vllm:made_up gauge\nvllm:made_up 1\n"))
answering("no answer", "Hangs", never)
answering("an end too early", "Truncated", raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\na 1\n"))
answering("gzip that is none", "BadEncoding", reply(b"plain", headers="Content-Encoding: gzip\r\n"))
answering("gzip without saying so", "BadEncoding", reply(gzip_bomb(100)))
answering("an encoding unknown here", "BadEncoding", reply(b"plain", headers="Content-Encoding: br\r\n"))
answering("a body without end", "TooLarge", reply(b"a 1\n" * (1 << 19)))
answering("no HTTP", "NotHttp", raw(b"+OK ready\r\n"))
answering("plaintext to TLS", "SpeaksTls", GOOD, "good")
answering("plaintext to a mesh", "MeshStrictMtls", GOOD, "mesh")
answering("plaintext to mutual TLS", "MutualTlsOnly", GOOD, "client")
answering("TLS to plaintext", "SpeaksPlain", GOOD, scheme="https")


def secured(name: str, cause: str | None, context: str, trust: Callable[[World], Tls]) -> None:
    """A scenario over https."""

    @scenario(name, cause)
    async def _(world: World) -> AsyncIterator[Subject]:
        async with serving(GOOD, world.contexts[context]) as server:
            yield subject(server.port, scheme="https", tls=trust(world))


secured("well over TLS", None, "good", World.trust)
secured("well with a client certificate", None, "client", lambda world: world.trust(world.client))
secured("no client certificate", "ClientCertificateWanted", "client", World.trust)
secured("a stranger's certificate", "ClientCertificateRefused", "client", lambda world: world.trust(world.stranger))
secured("expired", "CertificateExpired", "expired", World.trust)
secured("self-signed", "SelfSigned", "alone", World.trust)
secured("an authority unknown here", "AuthorityUnknown", "good", lambda world: world.trust(ca=world.other.ca_file))
secured("for another name", "CertificateName", "elsewhere", World.trust)
secured("a mesh over https", "MeshStrictMtls", "mesh", World.trust)


@scenario("no TLS version in common", "TlsFails")
async def _(world: World) -> AsyncIterator[Subject]:
    async with serving(never, greeting=ALERT) as server:
        yield subject(server.port, scheme="https", tls=world.trust())


@scenario("no authority file", "CredentialFile")
async def _(world: World) -> AsyncIterator[Subject]:
    yield subject(1, scheme="https", tls=Tls(ca_file=str(world.folder / "absent.pem")))


@scenario("no token file", "CredentialFile")
async def _(world: World) -> AsyncIterator[Subject]:
    yield subject(1, bearer_token_file=str(world.folder / "absent"))


@scenario("not started", "NotStarted")
async def _(world: World) -> AsyncIterator[Subject]:
    yield subject(1, started=False)


@scenario("no such name", "NameUnknown")
async def _(world: World) -> AsyncIterator[Subject]:
    yield subject(1, host="engine..invalid")


@scenario("a name server that drops", "NameHangs")
async def _(world: World) -> AsyncIterator[Subject]:
    yield subject(1, host="hangs.invalid")


@scenario("nothing listens", "NothingListens")
async def _(world: World) -> AsyncIterator[Subject]:
    yield subject(closed_port(), ports=(closed_port(),))


@scenario("another port listens", "PortClosed")
async def _(world: World) -> AsyncIterator[Subject]:
    async with serving(reply(b"OK")) as server:
        yield subject(closed_port(), ports=(server.port,))


@scenario("the metrics are on another port", "WrongPort")
async def _(world: World) -> AsyncIterator[Subject]:
    async with serving(GOOD) as server:
        yield subject(closed_port(), ports=(server.port,))


@scenario("the metrics are on another path", "WrongPath")
async def _(world: World) -> AsyncIterator[Subject]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        good = head.startswith(b"GET /metrics ")
        await (GOOD if good else reply(status="404 Not Found"))(reader, writer, head)

    async with serving(answer) as server:
        yield subject(server.port, path="/prometheus")


@scenario("packets to all ports are dropped", "HostDropped")
async def _(world: World) -> AsyncIterator[Subject]:
    with full_backlog() as port, full_backlog() as other:
        yield subject(port, ports=(other,))


@scenario("packets to one port are dropped", "PortDropped")
async def _(world: World) -> AsyncIterator[Subject]:
    with full_backlog() as port:
        async with serving(reply(b"OK")) as server:
            yield subject(port, ports=(server.port,))


@scenario("a listener on loopback only", "LoopbackOnly")
async def _(world: World) -> AsyncIterator[Subject]:
    async with serving(GOOD) as server:
        yield subject(server.port, host="127.0.0.2")


@scenario("no route", "NoRoute")
async def _(world: World) -> AsyncIterator[Subject]:
    yield subject(8000, host="255.255.255.255")


@scenario("an address that cannot be dialled", "CannotConnect")
async def _(world: World) -> AsyncIterator[Subject]:
    yield subject(8000, host="fe80::1")


@asynccontextmanager
async def publisher(host: str = "127.0.0.1") -> AsyncIterator[int]:
    """A real ZeroMQ publisher; its port."""
    context = zmq.asyncio.Context()
    bound = context.socket(zmq.PUB)
    try:
        yield bound.bind_to_random_port(f"tcp://{host}")
    finally:
        bound.close(0)
        context.term()


@scenario("the KV port is asked for metrics", "KvPortAsked")
async def _(world: World) -> AsyncIterator[Subject]:
    async with publisher() as port:
        yield subject(port)


def kv(name: str, cause: str | None, place: Callable[[], AbstractAsyncContextManager[tuple[str, int]]], **more: object):
    """A scenario of a good target with one KV-event socket."""

    @scenario(name, cause)
    async def _(world: World) -> AsyncIterator[Subject]:
        async with serving(GOOD) as server, place() as (host, port):
            yield subject(server.port, kv=(KvEventSource(endpoint=f"tcp://{host}:{port}"),), **more)


@asynccontextmanager
async def published(host: str = "127.0.0.1") -> AsyncIterator[tuple[str, int]]:
    async with publisher() as port:
        yield host, port


@asynccontextmanager
async def at(host: str, port: Callable[[], int]) -> AsyncIterator[tuple[str, int]]:
    yield host, port()


@asynccontextmanager
async def dropped() -> AsyncIterator[tuple[str, int]]:
    with full_backlog() as port:
        yield "127.0.0.1", port


@asynccontextmanager
async def web() -> AsyncIterator[tuple[str, int]]:
    async with serving(reply(b"OK")) as server:
        yield "127.0.0.1", server.port


COMMAND = ("--kv-events-config", '{"endpoint": "tcp://127.0.0.1:5557"}')
kv("well with KV events", None, published)
kv("the KV port is dropped", "KvPortDropped", dropped)
kv("the KV port is closed", "KvPortClosed", lambda: at("127.0.0.1", closed_port))
kv("the KV port is on loopback only", "KvLoopbackOnly", lambda: at("127.0.0.1", closed_port), arguments=COMMAND)
kv("the KV port cannot be reached", "KvUnreachable", lambda: at("255.255.255.255", lambda: 5557))
kv("the KV port speaks HTTP", "KvNotZmq", web)


@scenario("the replay port is closed", "KvPortClosed")
async def _(world: World) -> AsyncIterator[Subject]:
    async with serving(GOOD) as server, publisher() as port:
        source = KvEventSource(endpoint=f"tcp://127.0.0.1:{port}", replay_endpoint=f"tcp://127.0.0.1:{closed_port()}")
        yield subject(server.port, kv=(source,))


async def examined(made: Subject, fetcher: Fetcher, seconds: float = 5.0) -> Examined:
    release = threading.Event()

    def getaddrinfo(host: str, *rest: object, **more: object):
        if host == "hangs.invalid":
            release.wait(20)
        return socket.getaddrinfo(host, *rest, **more)

    try:
        doctor = Doctor(fetcher, SystemClock(), seconds=seconds, usual=(), getaddrinfo=getaddrinfo)
        return examine(await doctor.facts(made))
    finally:
        release.set()


@pytest.mark.parametrize(("make", "cause"), SCENARIOS.values(), ids=SCENARIOS)
async def test_each_cause_on_a_real_socket(make, cause: str | None, world: World, fetcher: Fetcher) -> None:
    async with make(world) as made:
        found = await examined(made, fetcher, SECONDS if cause in SLOW else PROBE_SECONDS if cause in PROBED else LONG)
    assert [each.cause for each in found.findings] == ([] if cause is None else [cause]), found
    assert found.well is (cause is None)


def test_the_same_causes_on_the_loop_that_serves(world: World) -> None:
    """Another loop words TLS and broken connections otherwise; the findings are the same."""
    quick = {name: each for name, each in SCENARIOS.items() if each[1] not in SLOW | PROBED}

    async def all_of_them() -> dict[str, list[str]]:
        async with Fetcher(SystemClock(), LIMITS) as fetcher:
            few = asyncio.Semaphore(4)

            async def one(make: Callable[[World], Made]) -> list[str]:
                async with few, make(world) as made:
                    return [each.cause for each in (await examined(made, fetcher)).findings]

            found = await asyncio.gather(*(one(make) for make, _ in quick.values()))
        return dict(zip(quick, found, strict=True))

    assert uvloop.run(all_of_them()) == {name: [] if cause is None else [cause] for name, (_, cause) in quick.items()}


POLICY_ONLY = {"Rejected"}
"""Causes that need a packet filter of the kernel: told by facts alone in `tests/judge/test_diagnosis.py`."""


def test_every_cause_has_a_real_scenario() -> None:
    causes = {row.cause for _, rows in TABLE for row in rows}
    made = {cause for _, cause in SCENARIOS.values() if cause is not None}
    assert causes - made == POLICY_ONLY
    print(
        f"figure: {len(made)} of {len(causes)} causes made by real sockets in {len(SCENARIOS)} scenarios; by facts alone: {', '.join(sorted(POLICY_ONLY))}"
    )


async def test_the_program_is_guessed_when_nobody_names_it(fetcher: Fetcher) -> None:
    async with serving(reply(SGLANG)) as server:
        found = await examined(subject(server.port, software=""), fetcher)
    assert (found.well, found.software) == (True, "sglang")


async def test_credentials_go_to_no_other_port(fetcher: Fetcher) -> None:
    async with serving(GOOD) as server:
        made = subject(closed_port(), ports=(server.port,), headers=(("X-Key", "secret"),))
        found = await examined(made, fetcher)
    assert found.findings[0].cause == "WrongPort"
    assert server.heads
    assert not any(b"secret" in head for head in server.heads)
    assert "secret" not in repr(found)


def test_every_target_of_a_deployment_is_a_subject() -> None:
    member = Member(
        uid="a",
        name="chat-0",
        metrics=Address(host="10.0.0.7", port=9000),
        api=Address(host="10.0.0.7", port=8000, path="/"),
        ports=(8000, 9000, 5557),
        kv_events=(KvEventSource(endpoint="tcp://10.0.0.7:5557"),),
    )
    role = Role(name="server", engine="vllm", arguments=("--host", "::"), replicas=(Replica(members=(member,)),))
    deployment = Deployment(key=DeploymentKey("prod", "chat"), uid="u", roles=(role,))
    (made,) = subjects(deployment)
    assert made.ports == (8000, 5557)
    assert (made.arguments, made.started, made.kv) == (role.arguments, True, member.kv_events)

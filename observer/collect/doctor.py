"""Finding out why a target is silent: names, connections, TLS, one read as any other, other ports, KV-event sockets.

Every step is bounded in time, every body in size; nothing here concludes anything (`observer.judge.diagnosis` does).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from observer.clock import Clock
from observer.collect.credentials import TlsContexts, TokenFiles
from observer.collect.dialling import dial, is_here
from observer.collect.failures import Failure
from observer.collect.fetch import Fetcher
from observer.collect.resolve import Resolver
from observer.collect.tls_probe import look
from observer.measure.contents import contents, likely
from router_contract import catalog
from router_contract.diagnosis import Answer, Dial, Elsewhere, Facts, KvSeen, Reach
from router_contract.readings import FailureKind
from router_contract.targets import Address, Deployment, KvEventSource, Target
from router_contract.vocabulary import Vocabulary

USUAL_PORTS = (8000, 30000, 29000)
"""Where programs serve metrics when nobody says otherwise; tried when a target's own port has none."""
USUAL_PATH = "/metrics"
MOST_ELSEWHERE = 6
_HEAD = 400
_BODY = 8 << 20
_SUSPECT = frozenset({FailureKind.TRUNCATED, FailureKind.MALFORMED, FailureKind.TLS})


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """One target with what is known of its member: other ports, command line, KV-event publishers."""

    target: Target
    ports: tuple[int, ...] = ()
    arguments: tuple[str, ...] = ()
    started: bool = True
    kv: tuple[KvEventSource, ...] = ()


def subjects(deployment: Deployment) -> Iterator[Subject]:
    """Every target of a deployment with its member's facts."""
    places = [(member, role.arguments) for role in deployment.roles for member in role.members()]
    places += [(member, ()) for member in (deployment.router.members if deployment.router is not None else ())]
    members = {member.uid: (member, arguments) for member, arguments in places}
    for target in deployment.targets():
        found = members.get(target.key.member_uid)
        if found is None:
            yield Subject(target=target)
            continue
        member, arguments = found
        ports = [*member.ports, *([member.api.port] if member.api is not None else [])]
        yield Subject(
            target=target,
            ports=tuple(dict.fromkeys(port for port in ports if port != target.address.port)),
            arguments=arguments,
            started=member.started,
            kv=member.kv_events,
        )


class Doctor:
    """Examines subjects. ``seconds`` bounds each step; ``usual`` are ports that are tried beside a member's own."""

    def __init__(
        self,
        fetcher: Fetcher,
        clock: Clock,
        *,
        seconds: float = 3.0,
        usual: tuple[int, ...] = USUAL_PORTS,
        getaddrinfo: Callable[..., list[Any]] = socket.getaddrinfo,
    ) -> None:
        self._fetcher = fetcher
        self._clock = clock
        self._seconds = seconds
        self._usual = usual
        self._getaddrinfo = getaddrinfo
        self._tls = TlsContexts()
        self._tokens = TokenFiles()

    async def facts(self, subject: Subject) -> Facts:
        """Everything about one subject."""
        target, address = subject.target, subject.target.address
        known = Facts(
            namespace=target.key.deployment.namespace,
            deployment=target.key.deployment.name,
            role=target.role,
            member=target.member,
            component=target.component.value,
            software=target.software,
            version=target.version,
            scheme=address.scheme,
            host=address.host,
            port=address.port,
            path=address.path,
            arguments=subject.arguments,
            started=subject.started,
            client_certificate=address.tls is not None and address.tls.cert_file is not None,
            credentials=bool(address.bearer_token_file or address.headers),
            local_fault=self._local_fault(address),
        )
        if not subject.started or known.local_fault:
            return known
        known, kv = await self._named(known), await self._kv(subject.kv)
        if not known.addresses:
            return msgspec.structs.replace(known, kv=kv)
        return msgspec.structs.replace(await self._reached(known, subject), kv=kv)

    def _local_fault(self, address: Address) -> str:
        context = self._tls.get(address.tls) if address.scheme == "https" else None
        token = self._tokens.get(address.bearer_token_file) if address.bearer_token_file is not None else None
        return next((each.detail for each in (context, token) if isinstance(each, Failure)), "")

    async def _named(self, known: Facts) -> Facts:
        addresses, error, hangs = await self._resolve(known.host)
        here = bool(addresses) and is_here(addresses[0])
        return msgspec.structs.replace(known, addresses=addresses, dns_error=error, dns_hangs=hangs, here=here)

    async def _resolve(self, host: str) -> tuple[tuple[str, ...], str, bool]:
        resolver = Resolver(self._clock, getaddrinfo=self._getaddrinfo)
        try:
            async with asyncio.timeout(self._seconds):
                found = await resolver.resolve(host)
        except TimeoutError:
            return (), "", True
        except OSError as error:
            return (), error.strerror or str(error), False
        finally:
            await resolver.close()
        return tuple(dict.fromkeys(each["host"] for each in found)), "", False

    async def _reached(self, known: Facts, subject: Subject) -> Facts:
        address, host = subject.target.address, known.addresses[0]
        known = msgspec.structs.replace(known, dial=await dial(host, known.port, self._seconds, self._clock))
        if known.dial is not None and known.dial.reach is Reach.CONNECTED:
            table = _table(subject.target)
            answer = await self._read(address, table, subject.target.version, guess=not known.software)
            known = msgspec.structs.replace(known, answer=answer, software=known.software or answer.software)
            known = await self._secured(known, address)
        elif known.here and host not in {"127.0.0.1", "::1"}:
            inside = await dial("127.0.0.1", known.port, self._seconds, self._clock)
            known = msgspec.structs.replace(known, loopback=inside)
        if _silent(known):
            known = msgspec.structs.replace(known, elsewhere=await self._elsewhere(known, subject))
        return known

    async def _read(
        self, address: Address, table: Vocabulary | None, version: str | None, *, guess: bool = False
    ) -> Answer:
        """One read as any other; what came is kept in short. ``guess`` takes the program that the body looks like."""
        got = await self._fetcher.fetch(address, self._seconds)
        if isinstance(got, Failure):
            return Answer(failure=got.kind, detail=got.detail, status=got.status)
        head = got.data[:_HEAD].decode(errors="replace")
        if guess:
            table = likely(got.data[:_BODY], _tables())
        kept = Answer(content_type=got.content_type[:100], size=len(got.data.strip()), head=head)
        kept = msgspec.structs.replace(kept, software=table.name if table is not None else "")
        # Nothing is kept of its plans, so it costs more than a scrape: the loop is not made to wait for it.
        found = await asyncio.to_thread(contents, got.data[:_BODY], table, version, tuple(_tables()))
        looks = head.lstrip()[:1] in {"<", "{", "["} or not kept.size
        if looks or (found.names == 0 and not head.lstrip().startswith("#")):
            detail = "no sample line in it" if kept.size else "an empty body"
            return msgspec.structs.replace(kept, failure=FailureKind.NOT_EXPOSITION, detail=detail)
        return msgspec.structs.replace(kept, contents=found)

    async def _secured(self, known: Facts, address: Address) -> Facts:
        """Look at TLS where the read makes one wonder about it."""
        answer = known.answer
        slow = known.scheme == "https" and answer is not None and answer.failure is FailureKind.TIMEOUT
        if answer is None or not (slow or answer.failure in _SUSPECT or answer.status == 400):
            return known
        context = self._tls.get(address.tls) if known.scheme == "https" else None
        verifying = None if isinstance(context, Failure) else context
        seen = await look(known.addresses[0], address, verifying, self._seconds)
        plain = None
        if known.scheme == "https" and not seen.spoken:
            plain = await self._read(msgspec.structs.replace(address, scheme="http", tls=None), None, None)
        return msgspec.structs.replace(known, tls=seen, plain=plain)

    async def _elsewhere(self, known: Facts, subject: Subject) -> tuple[Elsewhere, ...]:
        """Other ports and paths of the same member, each with how many names of the program are there."""
        address = subject.target.address
        ports = [port for port in dict.fromkeys((*subject.ports, *self._usual)) if port != known.port]
        places = [(port, USUAL_PATH) for port in ports[:MOST_ELSEWHERE]]
        if known.path != USUAL_PATH and known.dial is not None and known.dial.reach is Reach.CONNECTED:
            places.insert(0, (known.port, USUAL_PATH))
        table = _table(subject.target)
        return tuple(await asyncio.gather(*(self._place(address, port, path, table, known) for port, path in places)))

    async def _place(self, address: Address, port: int, path: str, table: Vocabulary | None, known: Facts) -> Elsewhere:
        got = await dial(known.addresses[0], port, self._seconds, self._clock)
        if got.reach is not Reach.CONNECTED:
            return Elsewhere(port=port, path=path, reach=got.reach)
        # Credentials are for the program at its own port, and are sent to no other.
        other = Address(scheme=address.scheme, host=address.host, port=port, path=path, tls=address.tls)
        if port == address.port:
            other = msgspec.structs.replace(address, path=path)
        answer = await self._read(other, table, None)
        own = answer.contents.own if answer.contents is not None else 0
        return Elsewhere(port=port, path=path, reach=got.reach, own=own)

    async def _kv(self, sources: tuple[KvEventSource, ...]) -> tuple[KvSeen, ...]:
        return tuple(await asyncio.gather(*map(self._publisher, sources)))

    async def _publisher(self, source: KvEventSource) -> KvSeen:
        seen = KvSeen(rank=source.rank, endpoint=source.endpoint, replay_endpoint=source.replay_endpoint or "")
        events = await self._socket(source.endpoint)
        replay = await self._socket(source.replay_endpoint) if source.replay_endpoint is not None else None
        return msgspec.structs.replace(seen, events=events, replay=replay)

    async def _socket(self, endpoint: str) -> Dial | None:
        host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
        if not endpoint.startswith("tcp://") or not port.isdigit():
            return None
        addresses, error, hangs = await self._resolve(host.strip("[]"))
        if not addresses:
            reach = Reach.TIMEOUT if hangs else Reach.FAILED
            return Dial(port=int(port), reach=reach, detail=error or "its name is not answered")
        return await dial(addresses[0], int(port), self._seconds, self._clock)


def _silent(known: Facts) -> bool:
    """Whether the read told nothing of the program, so that other places are worth a look."""
    answer = known.answer
    if answer is None or answer.contents is None:
        return answer is None or answer.failure not in {
            FailureKind.TLS,
            FailureKind.TOO_LARGE,
            FailureKind.BAD_ENCODING,
        }
    return answer.contents.own == 0 and answer.contents.known_software


def _table(target: Target) -> Vocabulary | None:
    try:
        return catalog.lookup(target.component, target.software)
    except catalog.UnknownSoftware:
        return None


def _tables() -> Iterator[Vocabulary]:
    for each in catalog.TABLES.values():
        yield from each.values()

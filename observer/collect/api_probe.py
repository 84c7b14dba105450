"""Asking engine members what only their API tells: models, health, version, KV-event publishers. Gently.

Only paths of the engine's table are asked, one after the other, each member on its own schedule. Models and health are
asked in every round; version and publishers once in a process life, and now and then again.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TypeVar

import msgspec

from observer.clock import Clock
from observer.collect.answers import ABSENT
from observer.collect.asking import Asking, absent
from observer.collect.failures import Failure
from observer.collect.fetch import Fetched, Fetcher
from observer.collect.rounds import Rounds
from observer.supervise import Supervisor
from router_contract.catalog import UnknownSoftware, lookup
from router_contract.endpoints import EventsForm
from router_contract.probe_parsers import parse_event_sources, parse_models, parse_version_told
from router_contract.probes import (
    EventSourcesTold,
    HealthAnswered,
    MemberProbe,
    ModelsListed,
    ProbeFailed,
    VersionTold,
)
from router_contract.readings import FailureKind, Instant
from router_contract.targets import Address, Component, Deployment, DeploymentKey, Member, TargetKey
from router_contract.vocabulary import Vocabulary

_log = logging.getLogger(__name__)
T = TypeVar("T")

ProbeSink = Callable[[MemberProbe], None]
"""Where results go after each round, and during a long one. Called on the event loop, for one member never twice at once."""


class EngineMember(msgspec.Struct, frozen=True, kw_only=True):
    """One serving engine member and the name of its engine's table."""

    deployment: DeploymentKey
    software: str
    member: Member


class ProbeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How members are asked. Durations in seconds, ``body`` in bytes.

    ``period`` plus ``timeout`` must not exceed the time for which a listed model counts (two scrape periods), else a
    member would lose its proof between two good answers. ``identity_period`` is how often version and publishers are
    asked again, and a route that a member does not have.
    """

    period: float = 8.0
    timeout: float = 2.0
    identity_period: float = 300.0
    body: int = 1 << 20

    @classmethod
    def of(cls, scrape_period: float, timeout: float) -> ProbeOptions:
        """Two scrape periods less a timeout, so that a listing is never older than two periods while all is well."""
        return cls(period=max(scrape_period, 2 * scrape_period - timeout), timeout=timeout)


def engine_members(deployments: Iterable[Deployment]) -> Iterator[EngineMember]:
    """The engine members that serve, have an API address and an engine that a table describes."""
    for deployment in deployments:
        for role in deployment.roles:
            if _table(role.engine) is None:
                continue
            for member in role.members():
                if member.serves and member.api is not None:
                    yield EngineMember(deployment=deployment.key, software=role.engine, member=member)


class ApiProbe:
    """The set of members that are asked. `sync` makes it equal to a wanted set."""

    def __init__(
        self,
        *,
        fetcher: Fetcher,
        sink: ProbeSink,
        clock: Clock,
        supervisor: Supervisor,
        options: ProbeOptions = ProbeOptions(),  # noqa: B008 - frozen
        most: int = 10_000,
    ) -> None:
        def make(subject: EngineMember) -> _Visitor:
            return _Visitor(subject, fetcher, sink, clock, options)

        self._rounds: Rounds[EngineMember] = Rounds(
            "ask engine", make, clock=clock, supervisor=supervisor, period=options.period, most=most
        )

    async def sync(self, members: Iterable[EngineMember]) -> None:
        """Ask these members and no others. On return no question to one that left, or moved, is under way."""
        await self._rounds.sync({probe_key(each.deployment, each.member.uid): each for each in members})

    def restarted(self, deployment: DeploymentKey, uid: str) -> None:
        """A member's process was seen to be another one: ask everything again, at once. Unknown members are ignored."""
        key = probe_key(deployment, uid)
        visitor = self._rounds.visitor(key)
        if isinstance(visitor, _Visitor):
            visitor.restarted()
            self._rounds.poke(key)

    @property
    def shed(self) -> tuple[TargetKey, ...]:
        """The members that are left out because there are too many."""
        return self._rounds.shed


def probe_key(deployment: DeploymentKey, uid: str) -> TargetKey:
    """Identity of a member among those that are asked."""
    return TargetKey(deployment, uid, "api", 0)


def _table(software: str) -> Vocabulary | None:
    try:
        return lookup(Component.ENGINE, software)
    except UnknownSoftware:
        return None


class _Visitor:
    """Asks one member and holds what it said."""

    def __init__(
        self, subject: EngineMember, fetcher: Fetcher, sink: ProbeSink, clock: Clock, options: ProbeOptions
    ) -> None:
        self._subject = subject
        # Both for the visitor's life: a member with another engine or listener gets another visitor.
        self._table = _table(subject.software)
        self._addresses: dict[str, Address] = {}
        self._fetcher = fetcher
        self._sink = sink
        self._clock = clock
        self._options = options
        self._identity_due = -math.inf
        self._spared = False
        self._late = self._news = False
        self._life = 0
        self._notes: tuple[str, ...] = ()
        self._probe = MemberProbe(
            deployment=subject.deployment,
            uid=subject.member.uid,
            member=subject.member.name,
            software=subject.software,
        )

    def adopt(self, subject: EngineMember) -> bool:
        """Take a newer description; a member at another address or with another engine gets another visitor."""
        old, new = self._subject, subject
        if (old.software, old.member.api, old.member.host) != (new.software, new.member.api, new.member.host):
            return False
        if (old.member.restarts, old.member.started_at) != (new.member.restarts, new.member.started_at):
            self.restarted()
        self._subject = subject
        return True

    def restarted(self) -> None:
        """The process is another one: nothing it did not say itself counts, its publishers aside."""
        self._life += 1
        self._identity_due = -math.inf
        self._probe = MemberProbe(
            deployment=self._probe.deployment,
            uid=self._probe.uid,
            member=self._probe.member,
            software=self._probe.software,
            events=self._probe.events,
        )

    async def visit(self) -> None:
        """One round, and everything known so far to the sink; in a round that takes long, each answer when it is there.

        A listing ages while the next questions hang: told at the end only, it could be older than a listing may be.
        """
        table = self._table
        if table is None:
            return
        self._news = self._late = False
        told = self._options
        timer = asyncio.get_running_loop().call_later(told.timeout / 2, self._is_late)
        try:
            asking = Asking(
                self._subject.member, self._addresses, self._fetcher, self._clock, seconds=told.timeout, most=told.body
            )
            if await self._round(asking, table, self._life) and self._news:
                self._tell()
        finally:
            timer.cancel()

    async def _round(self, asking: Asking, table: Vocabulary, life: int) -> bool:
        """Ask everything that is due. False when a restart was told of meanwhile: answers may be the old process's."""
        began = self._clock.now().mono
        levels: list[object] = []
        for name, ask in _levels(table):
            levels.append(await ask(asking))
            if not self._take({name: levels[-1]}, life):
                return False
        if began >= self._identity_due and not self._spare(levels):
            identity = await self._identity(asking, table)
            settled = all(not isinstance(each, ProbeFailed) or _lasting(each) for each in identity.values())
            self._identity_due = began + self._options.identity_period if settled else -math.inf
            if not self._take(identity, life):
                return False
        if asking.refused:
            self._identity_due = -math.inf
        return True

    def _spare(self, levels: list[object]) -> bool:
        """Whether this round ends here: a member that hangs at several questions would hang at the others.

        With them a round would outlast its period, so that the end of the hanging is seen late. Every second round
        asks all the same: these questions may be the ones that are answered.
        """
        hangs = len(levels) > 1 and all(isinstance(each, ProbeFailed) and _hung(each) for each in levels)
        self._spared = hangs and not self._spared
        return self._spared

    def _take(self, found: dict[str, object], life: int) -> bool:
        """Hold what was found; in a late round it is told at once."""
        if life != self._life:
            # The next round is at hand.
            self._identity_due = -math.inf
            return False
        self._hold(found)
        self._news = True
        if self._late:
            self._tell()
        return True

    def _is_late(self) -> None:
        """A round takes long: what is there already is not kept back for it."""
        self._late = True
        if self._news:
            self._tell()

    def _tell(self) -> None:
        self._news = False
        self._note()
        self._sink(self._probe)

    async def _identity(self, asking: Asking, table: Vocabulary) -> dict[str, object]:
        """What a process says of itself, by the field of `MemberProbe`."""
        return {
            "version": await asking.first(
                (each.path, _version(each.path, each.field)) for each in table.version_sources
            ),
            "events": await asking.first(
                (each.path, self._events(each.path, each.form)) for each in table.events_paths
            ),
        }

    def _events(self, path: str, form: EventsForm) -> Callable[[bytes, Instant], EventSourcesTold]:
        member = self._subject.member
        host = member.host or (member.api.host if member.api is not None else "")

        def parse(body: bytes, when: Instant) -> EventSourcesTold:
            found = parse_event_sources(body, form, host)
            return EventSourcesTold(
                at=when, path=path, sources=found.sources, notes=found.problems, undialable=found.undialable
            )

        return parse

    def _hold(self, found: dict[str, object]) -> None:
        """Keep each finding, or a failure beside what was found before."""
        changes: dict[str, object] = {}
        for name, each in found.items():
            if isinstance(each, ProbeFailed):
                changes[f"{name}_failed"] = each
            elif each is not None:
                changes[name], changes[f"{name}_failed"] = each, None
        self._probe = msgspec.structs.replace(self._probe, **changes)

    def _note(self) -> None:
        """Log on change only: publishers that exist and cannot be dialled."""
        notes = self._probe.events.notes if self._probe.events is not None else ()
        if notes and notes != self._notes:
            _log.warning("KV events of %s: %s", self._subject.member.name, "; ".join(notes))
        self._notes = notes


def _levels(table: Vocabulary) -> Iterator[tuple[str, Callable[[Asking], Awaitable[object]]]]:
    """What can change at any time, by the field of `MemberProbe`."""
    if table.models_path:
        yield "models", lambda asking: asking.read(table.models_path, _models)
    if table.health_path:
        yield "health", lambda asking: _ask_health(asking, table.health_path)


async def _ask_health(asking: Asking, path: str) -> HealthAnswered | ProbeFailed:
    when, outcome = await asking.get(path)
    return _health(path, when, outcome)


def _hung(failed: ProbeFailed) -> bool:
    return failed.kind is FailureKind.TIMEOUT


def _models(body: bytes, when: Instant) -> ModelsListed:
    return ModelsListed(at=when, models=parse_models(body))


def _lasting(failed: ProbeFailed) -> bool:
    """Whether asking again soon would give the same: this process answers, only not what we want."""
    if failed.status is not None:
        return absent(failed) or (failed.status < 500 and failed.status != 429)
    return failed.kind in {FailureKind.MALFORMED, FailureKind.TOO_LARGE}


def _version(path: str, field: str) -> Callable[[bytes, Instant], VersionTold]:
    return lambda body, when: VersionTold(at=when, path=path, version=parse_version_told(body, field))


def _health(path: str, when: Instant, outcome: Fetched | Failure) -> HealthAnswered | ProbeFailed:
    """Any status is an answer; no status is none."""
    if isinstance(outcome, Fetched):
        return HealthAnswered(at=when, healthy=True, status=200)
    if outcome.kind is FailureKind.HTTP and outcome.status is not None and outcome.status not in ABSENT:
        return HealthAnswered(at=when, healthy=False, status=outcome.status)
    return ProbeFailed(at=when, path=path, kind=outcome.kind, detail=outcome.detail, status=outcome.status)

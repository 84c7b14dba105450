"""Reading every router Pod's own view of its workers, each on its own schedule, each by its own address."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator

from observer.clock import Clock
from observer.collect.fetch import Fetcher
from observer.collect.rounds import Rounds
from observer.collect.view_sources import Circuits, Endpoints, RouterMember, ViewOptions, ViewRound
from observer.supervise import Supervisor
from router_contract.router_views import RouterView, ViewFailed
from router_contract.targets import Deployment, DeploymentKey, Member, TargetKey

_log = logging.getLogger(__name__)

ViewSink = Callable[[DeploymentKey, RouterView | ViewFailed], None]
"""Where views go. Called on the event loop, for one router never twice at once; it should be quick."""
PATCHED_PLATFORMS = frozenset({"gpustack"})
"""Platforms whose routers carry the observer's own route."""


def router_members(deployments: Iterable[Deployment]) -> Iterator[RouterMember]:
    """The router Pods to ask; a terminating one still selects, and one without an address is a missing view."""
    for deployment in deployments:
        router = deployment.router
        for member in router.members if router is not None else ():
            yield RouterMember(
                deployment=deployment.key,
                software=router.software if router is not None else "",
                member=member,
                patched=deployment.platform in PATCHED_PLATFORMS,
            )


class RouterViewReader:
    """The set of router Pods that are asked. `sync` makes it equal to a wanted set."""

    def __init__(
        self,
        *,
        fetcher: Fetcher,
        sink: ViewSink,
        clock: Clock,
        supervisor: Supervisor,
        circuits: Circuits,
        endpoints: Endpoints,
        options: ViewOptions = ViewOptions(),  # noqa: B008 - frozen
        most: int = 10_000,
    ) -> None:
        def make(subject: RouterMember) -> _Visitor:
            return _Visitor(subject, ViewRound(fetcher, clock, options, circuits, endpoints), sink)

        self._rounds: Rounds[RouterMember] = Rounds(
            "ask router", make, clock=clock, supervisor=supervisor, period=options.period, most=most
        )

    async def sync(self, members: Iterable[RouterMember]) -> None:
        """Ask these router Pods and no others. On return no read of one that left, or moved, is under way."""
        await self._rounds.sync({view_key(each.deployment, each.member): each for each in members})

    def refresh(self, deployment: DeploymentKey, member: Member) -> None:
        """Ask one router Pod at once instead of at its next turn; nothing for one that is not asked."""
        self._rounds.poke(view_key(deployment, member))

    @property
    def shed(self) -> tuple[TargetKey, ...]:
        """The router Pods that are left out because there are too many."""
        return self._rounds.shed


def view_key(deployment: DeploymentKey, member: Member) -> TargetKey:
    """Identity of a router Pod among those that are asked."""
    return TargetKey(deployment, member.uid, "view", 0)


class _Visitor:
    """Asks one router Pod and remembers, for its process life, how."""

    def __init__(self, subject: RouterMember, asking: ViewRound, sink: ViewSink) -> None:
        self._subject = subject
        self._asking = asking
        self._sink = sink
        self._last = ""

    def adopt(self, subject: RouterMember) -> bool:
        """Take a newer description; a router at another address is asked by another visitor."""
        if _place(subject) != _place(self._subject):
            return False
        if _life(subject.member) != _life(self._subject.member):
            self._asking.forget()
        self._subject = subject
        return True

    async def visit(self) -> None:
        """One round, and its outcome to the sink."""
        subject = self._subject
        outcome = await self._asking.read(subject)
        self._note(outcome)
        self._sink(subject.deployment, outcome)

    def _note(self, outcome: RouterView | ViewFailed) -> None:
        """Log on change only: another source, or another kind of failure."""
        state = outcome.kind if isinstance(outcome, ViewFailed) else outcome.source.value
        if state == self._last:
            return
        self._last = state
        if isinstance(outcome, ViewFailed):
            _log.warning("router %s does not tell its workers: %s: %s", outcome.router, outcome.kind, outcome.detail)
        else:
            _log.info("router %s tells its workers by %s", outcome.router, outcome.source.value)


def _place(subject: RouterMember) -> tuple[object, ...]:
    """What decides where and how to ask."""
    member = subject.member
    return subject.software, subject.patched, member.api, member.metrics


def _life(member: Member) -> tuple[int | None, float | None]:
    return member.restarts, member.started_at


__all__ = [
    "Circuits",
    "Endpoints",
    "RouterMember",
    "RouterViewReader",
    "ViewOptions",
    "ViewSink",
    "router_members",
    "view_key",
]

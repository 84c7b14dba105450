"""The questions of one round to one engine member's API: each path once, a dead listener not again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from observer.clock import Clock
from observer.collect.answers import ABSENT, JSON, Reach, at, in_words, malformed, reach
from observer.collect.failures import Failure
from observer.collect.fetch import Fetched, Fetcher
from router_contract.endpoints import Listener
from router_contract.probes import ProbeFailed
from router_contract.readings import FailureKind, Instant
from router_contract.targets import Address, Member

T = TypeVar("T")


class Asking:
    """The questions of one round to one member: a path is asked once, and a dead listener is not asked again."""

    __slots__ = ("_addresses", "_answers", "_clock", "_dead", "_fetcher", "_member", "_most", "_seconds")

    def __init__(
        self,
        member: Member,
        addresses: dict[str, Address],
        fetcher: Fetcher,
        clock: Clock,
        *,
        seconds: float,
        most: int,
    ) -> None:
        """``addresses`` keeps where its paths are, for the life of its listener.

        ``seconds`` bounds each question, ``most`` each answer (bytes).
        """
        self._member = member
        self._addresses = addresses
        self._fetcher = fetcher
        self._clock = clock
        self._seconds = seconds
        self._most = most
        self._answers: dict[str, tuple[Instant, Fetched | Failure]] = {}
        self._dead: Failure | None = None

    @property
    def refused(self) -> bool:
        """Whether nothing listens there: the process is gone."""
        return self._dead is not None and self._dead.kind is FailureKind.REFUSED

    async def get(self, path: str) -> tuple[Instant, Fetched | Failure]:
        """The answer at a path and when its question began."""
        known = self._answers.get(path)
        if known is not None:
            return known
        began = self._clock.now()
        outcome: Fetched | Failure
        address = self._address(path)
        if address is None:
            outcome = Failure(kind=FailureKind.UNREACHABLE, detail=f"no API address of {self._member.name} is known")
        elif self._dead is not None:
            outcome = self._dead
        else:
            outcome = await self._fetcher.fetch(address, self._seconds, accept=JSON, limit=self._most)
            if isinstance(outcome, Failure):
                outcome = in_words(outcome, address, self._most)
                if reach(outcome) is Reach.UNREACHED:
                    self._dead = outcome
        self._answers[path] = (began, outcome)
        return began, outcome

    async def read(self, path: str, parse: Callable[[bytes, Instant], T]) -> T | ProbeFailed:
        """What a path's answer says, or why it says nothing."""
        began, outcome = await self.get(path)
        if isinstance(outcome, Fetched):
            try:
                return parse(outcome.data, began)
            except ValueError as error:
                address = self._address(path)
                outcome = malformed(address.url if address is not None else path, str(error))
        return ProbeFailed(at=began, path=path, kind=outcome.kind, detail=outcome.detail, status=outcome.status)

    def _address(self, path: str) -> Address | None:
        """Where a path is asked; made once for a member's listener."""
        known = self._addresses.get(path)
        if known is None:
            known = at(self._member, Listener.API, path)
            if known is not None:
                self._addresses[path] = known
        return known

    async def first(self, paths: Iterable[tuple[str, Callable[[bytes, Instant], T]]]) -> T | ProbeFailed | None:
        """The first path that exists: its reading or its failure. ``None`` when there is no path at all."""
        found: T | ProbeFailed | None = None
        for path, parse in paths:
            found = await self.read(path, parse)
            if not isinstance(found, ProbeFailed) or not absent(found):
                return found
        return found


def absent(failed: ProbeFailed) -> bool:
    """Whether the path does not exist there."""
    return failed.status in ABSENT

"""Supervised children: one task group, restart with back-off, and the only broad `except` of the program.

Expected trouble is a value and never arrives here. What does arrive is a bug: the child is marked broken, visibly, its
trace is logged once for each new text, and it is started again after a growing pause.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from observer.clock import Clock
from router_contract.readings import Instant

_log = logging.getLogger(__name__)
C = TypeVar("C", bound="Child")


class BackOff(msgspec.Struct, frozen=True, kw_only=True):
    """Pauses between restarts in seconds: the first, then doubled, up to the longest.

    A child that ran for ``healthy`` seconds since its last start begins again with the first pause.
    """

    first: float = 1.0
    longest: float = 60.0
    healthy: float = 60.0

    def pause(self, failures: int) -> float:
        """The pause after the n-th failure in a row (n from 1)."""
        return min(self.longest, self.first * 2.0 ** min(failures - 1, 30))


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """A child that failed by a bug and has not recovered: what it raised, when last, and how often in all."""

    name: str
    error: str
    at: Instant
    failures: int


class Child:
    """One supervised task, or one that has a task now and then.

    ``failures`` counts every failure since it was started, ``broken`` is the present one.
    """

    __slots__ = ("broken", "failures", "in_a_row", "name", "task")

    def __init__(self, name: str) -> None:
        self.name = name
        self.failures = 0
        self.in_a_row = 0
        self.broken: Broken | None = None
        self.task: asyncio.Task[None] | None = None


class Supervisor:
    """Keeps children running inside one task group. Leaving its context stops and awaits all of them."""

    def __init__(self, clock: Clock, back_off: BackOff = BackOff()) -> None:  # noqa: B008 - frozen
        self._clock = clock
        self._back_off = back_off
        self._group = asyncio.TaskGroup()
        self._children: set[Child] = set()
        self._leaving = False

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leaving = True
        for child in self._children:
            if child.task is not None:
                child.task.cancel()
        await self._group.__aexit__(kind, error, trace)

    def start(self, name: str, run: Callable[[], Awaitable[None]]) -> Child:
        """Start a child. ``run`` is called again after each failure; when it returns, the child is done."""
        child = Child(name)
        self._children.add(child)
        child.task = self._group.create_task(self._supervise(child, run), name=name)
        child.task.add_done_callback(lambda _: self._children.discard(child))
        return child

    def turn(self, child: C, work: Callable[[], Awaitable[None]], over: Callable[[C, float], None]) -> None:
        """Do one piece of a child's work, in a task that ends with it.

        ``over`` is called when it has ended, unless it was stopped, with the seconds that should pass before the next:
        0.0 after a good one, a growing pause after a failure.
        """
        if self._leaving:
            return
        self._children.add(child)
        child.task = self._group.create_task(self._turn(child, work, over), name=child.name)

    async def stop(self, *children: Child) -> None:
        """Cancel children and wait until none of them runs any more."""
        tasks = [child.task for child in children if child.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._children.difference_update(children)

    def broken(self) -> tuple[Broken, ...]:
        """The children that are broken now, by name."""
        found = (child.broken for child in self._children)
        return tuple(sorted((each for each in found if each is not None), key=lambda each: each.name))

    @property
    def running(self) -> int:
        """How many children exist: running, or waiting to be started again."""
        return len(self._children)

    async def _turn(self, child: C, work: Callable[[], Awaitable[None]], over: Callable[[C, float], None]) -> None:
        pause = 0.0
        try:
            await work()
        except asyncio.CancelledError:
            # As below: only who was asked to stop may end in silence.
            if child.task is None or child.task.cancelling():
                raise
            pause = self._again(child, RuntimeError("cancelled from inside"))
        except Exception as raised:  # noqa: BLE001 - as below: a bug is kept from ending everything
            pause = self._again(child, raised)
        if child.broken is None:
            self._children.discard(child)
        elif not pause and self._clock.now().mono - child.broken.at.mono >= self._back_off.healthy:
            self._children.discard(child)
            _recovered(child)
        child.task = None
        over(child, pause)

    def _again(self, child: Child, error: Exception) -> float:
        """Note a turn's failure; the pause before the next."""
        child.in_a_row = child.in_a_row + 1 if child.broken is not None else 1
        self._failed(child, error)
        return self._back_off.pause(child.in_a_row)

    async def _supervise(self, child: Child, run: Callable[[], Awaitable[None]]) -> None:
        in_a_row = 0
        while True:
            started = self._clock.now().mono
            recovery = asyncio.get_running_loop().call_later(self._back_off.healthy, _recovered, child)
            try:
                await run()
            except asyncio.CancelledError:
                # Nobody asked this task to stop: something inside was cancelled, and the child would vanish silently.
                if child.task is None or child.task.cancelling():
                    raise
                error: Exception = RuntimeError("cancelled from inside")
            except Exception as raised:  # noqa: BLE001 - the one place where a bug is kept from ending everything
                error = raised
            else:
                return
            finally:
                recovery.cancel()
            healthy = self._clock.now().mono - started >= self._back_off.healthy
            in_a_row = 1 if healthy else in_a_row + 1
            self._failed(child, error)
            await asyncio.sleep(self._back_off.pause(in_a_row))

    def _failed(self, child: Child, error: Exception) -> None:
        child.failures += 1
        text = f"{type(error).__name__}: {error}"
        if child.broken is None or child.broken.error != text:
            _log.error("%s is broken: %s; it is started again with growing pauses", child.name, text, exc_info=error)
        child.broken = Broken(name=child.name, error=text, at=self._clock.now(), failures=child.failures)


def _recovered(child: Child) -> None:
    """Called once a child has run long enough: what broke it is over."""
    if child.broken is not None:
        _log.info("%s runs again after %d failures", child.name, child.failures)
        child.broken = None

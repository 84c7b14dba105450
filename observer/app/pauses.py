"""Short garbage collections: what of the process's memory is looked through, when, and how long each look took.

Python's collector stops everything while it looks for cycles. Its full looks grow with all that is kept (0.4 s with ten
thousand targets), though nearly nothing of ours is cyclic: what is replaced goes at once, by its reference count. So
here only young objects are looked through, often and few at a time, and everything once in a long while.
"""

from __future__ import annotations

import asyncio
import gc
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from observer.clock import Clock

YOUNG, MIDDLE = 2_000, 50
"""New objects until the young are looked through, and how many such looks until the middle-aged are: for bursts only."""
LOOK_SECONDS, LONGEST_REST = 0.1, 0.8
LONG, SHORT = 0.002, 0.0005
"""The rests between looks at the young, in seconds: the shorter, down to the first, while one at the middle-aged takes `LONG`, and
up to the second while it is `SHORT`, so that a process with little to do is not woken for nothing."""
LOOKS = 5
"""Each how many looks the middle-aged are looked through too. Python counts what comes less what goes: where old readings
make room for new ones its count stands still while the young become many, so the clock decides (and `relieve` in bursts)."""
NEVER = 1 << 30
WARM_SECONDS = 60.0
"""After so many seconds what is there (code, tables, settings) is taken for lasting and never looked through again, not
even once before: with ten thousand targets that would stop everything for half a second."""
MOST_WAITING = 10_000
FULL_SECONDS = 3600.0
"""How often everything else is looked through: a cycle that was overlooked is kept for so long at most."""


class Tally(Protocol):
    """Counts what collections cost."""

    def paused(self, generation: int, seconds: float, found: int) -> None:
        """One collection of a generation (0 the young) took so long and found so many unreachable objects."""
        ...


def relieve() -> None:
    """Look through the young in the middle of work that makes many objects, so that no later look has all of them at once."""
    gc.collect(0)


class Pauses:
    """One process's collections: measured and kept short for as long as `run` does."""

    def __init__(self, clock: Clock, tally: Tally) -> None:
        self._clock = clock
        self._tally = tally
        self._begun: float | None = None
        self._looks = 0
        self.rest = LOOK_SECONDS
        self._waiting: deque[tuple[int, float, int]] = deque(maxlen=MOST_WAITING)

    def _collected(self, phase: str, info: dict[str, Any]) -> None:
        """A collection begins or ends, anywhere: also inside of a counter, whose lock it would wait for for ever."""
        now = self._clock.now().mono
        if phase == "start":
            self._begun = now
        elif self._begun is not None:
            self._waiting.append((info["generation"], now - self._begun, info["collected"]))
            self._begun = None

    def tell(self) -> None:
        """Tell the tally what was measured since."""
        while self._waiting:
            self._tally.paused(*self._waiting.popleft())

    @contextmanager
    def short(self) -> Iterator[None]:
        """Measure every collection, and let no full one come by itself; at the end all is as it was before."""
        before = gc.get_threshold()
        gc.callbacks.append(self._collected)
        gc.set_threshold(YOUNG, MIDDLE, NEVER)
        try:
            yield
        finally:
            gc.unfreeze()
            gc.set_threshold(*before)
            gc.callbacks.remove(self._collected)

    def look(self) -> None:
        """Look through the young, in turn with the middle-aged, and tell what collections took since the last look."""
        self._looks += 1
        if self._looks % LOOKS:
            gc.collect(0)
        else:
            begun = self._clock.now().mono
            gc.collect(1)
            took = self._clock.now().mono - begun
            if took > LONG:
                self.rest = max(self.rest / 2, LOOK_SECONDS)
            elif took < SHORT:
                self.rest = min(self.rest * 2, LONGEST_REST)
        self.tell()

    async def run(self) -> None:
        """Keep collections short, and look through everything once in `FULL_SECONDS`."""
        with self.short():
            warm, due = False, self._clock.now().mono + WARM_SECONDS
            while True:
                await asyncio.sleep(self.rest)
                self.look()
                if self._clock.now().mono >= due:
                    if warm:
                        gc.collect()
                    else:
                        gc.freeze()
                    warm, due = True, self._clock.now().mono + FULL_SECONDS

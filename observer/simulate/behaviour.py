"""How a simulated engine misbehaves at the moment; scenarios change it while the engine runs."""

from __future__ import annotations

import asyncio
import random


class Behaviour:
    """Switches of one engine.

    ``slowdown`` multiplies every time. ``error_rate`` is the share of inference calls answered ``error_status``.
    `stall` stops all progress while metrics go on showing levels; `hang` also freezes the metrics as they were with work running.
    """

    def __init__(self, seed: int = 0) -> None:
        self.slowdown = 1.0
        self.error_rate = 0.0
        self.error_status = 500
        self.hanging = False
        self._random = random.Random(seed)
        self._moving = asyncio.Event()
        self._moving.set()

    @property
    def stalled(self) -> bool:
        """Whether no request makes progress."""
        return not self._moving.is_set()

    def stall(self) -> None:
        """Stop all progress: running requests stay running, new ones pile up."""
        self._moving.clear()

    def hang(self) -> None:
        """Stop all progress and freeze the metrics at the next rendering that shows work running."""
        self.hanging = True
        self._moving.clear()

    def steady(self) -> None:
        """Back to normal; what was stuck goes on."""
        self.slowdown, self.error_rate, self.error_status, self.hanging = 1.0, 0.0, 500, False
        self._moving.set()

    def draws_error(self) -> bool:
        """Whether the next call is to be answered with an error."""
        return self.error_rate > 0 and self._random.random() < self.error_rate

    async def pause(self, seconds: float) -> None:
        """Let simulated work take its time; endless while stalled."""
        await self._moving.wait()
        await asyncio.sleep(seconds * self.slowdown)
        await self._moving.wait()

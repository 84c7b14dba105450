"""The only reader of clocks. Everything else is handed an `Instant`."""

from __future__ import annotations

import time
from typing import Protocol

from router_contract.readings import Instant


class Clock(Protocol):
    """Tells the moment. Tests and replays pass their own."""

    def now(self) -> Instant:
        """This moment on both clocks."""
        ...


class SystemClock:
    """The machine's clocks: monotonic for ages, wall for what is published."""

    def now(self) -> Instant:
        """This moment on both clocks."""
        return Instant(time.monotonic(), time.time())

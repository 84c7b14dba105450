"""What the tests of the client core share: credentials for plain HTTP, a clock to turn, tunings without long waits."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping

from observer.kube.pacing import BackOff
from observer.kube.watching import WatchTuning
from router_contract.readings import Instant

QUICK = WatchTuning(page=3, watch=30.0, silence=20.0, back_off=BackOff(first=0.01, longest=0.05))


class PlainCredentials:
    """A token over plain HTTP. ``tokens`` are used up one by one with each refresh."""

    def __init__(self, server: str, *tokens: str) -> None:
        self._server = server
        self.tokens = list(tokens)
        self.refreshes = 0

    @property
    def server(self) -> str:
        return self._server

    @property
    def proxy(self) -> str | None:
        return None

    def tls(self) -> tuple[ssl.SSLContext | None, str | None]:
        return None, None

    async def headers(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self.tokens[0]}"} if self.tokens else {}

    async def refresh(self) -> None:
        self.refreshes += 1
        if len(self.tokens) > 1:
            self.tokens.pop(0)


class TurnedClock:
    """A clock that tells the real time plus what the test turned it by."""

    def __init__(self) -> None:
        self.turned = 0.0

    def now(self) -> Instant:
        mono = time.monotonic() + self.turned
        return Instant(mono, 1_700_000_000.0 + mono % 100_000.0)


async def until(true: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait until something holds; it fails with the last value after so long."""
    try:
        async with asyncio.timeout(seconds):
            while not true():
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"still {true()!r} after {seconds} s") from None

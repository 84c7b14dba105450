"""A circuit breaker as the routers have it: closed, open, half-open, told the time by its caller."""

from __future__ import annotations

from enum import IntEnum


class Circuit(IntEnum):
    """The states with the numbers that metrics show."""

    CLOSED = 0
    OPEN = 1
    HALF_OPEN = 2


NAMES = {Circuit.CLOSED: "closed", Circuit.OPEN: "open", Circuit.HALF_OPEN: "half_open"}


class Breaker:
    """Opens after consecutive failures, half-opens after a while, closes after consecutive successes."""

    def __init__(self, failures: int, successes: int, open_seconds: float) -> None:
        self.state = Circuit.CLOSED
        self.consecutive_failures = 0
        self.consecutive_successes = 0
        self._failures = failures
        self._successes = successes
        self._open_seconds = open_seconds
        self._opened_at = 0.0

    def allows(self, now: float) -> tuple[bool, Circuit | None]:
        """Whether a request may pass at ``now`` (monotonic seconds), and the state left if asking changed it."""
        if self.state is Circuit.OPEN and now - self._opened_at >= self._open_seconds:
            self.state = Circuit.HALF_OPEN
            self.consecutive_failures = self.consecutive_successes = 0
            return True, Circuit.OPEN
        return self.state is not Circuit.OPEN, None

    def record(self, *, success: bool, now: float) -> Circuit | None:
        """Book an outcome; returns the state left if it changed."""
        before = self.state
        if success:
            self.consecutive_successes += 1
            self.consecutive_failures = 0
            if before is Circuit.HALF_OPEN and self.consecutive_successes >= self._successes:
                self.state = Circuit.CLOSED
        else:
            self.consecutive_failures += 1
            self.consecutive_successes = 0
            if before is Circuit.HALF_OPEN or (
                before is Circuit.CLOSED and self.consecutive_failures >= self._failures
            ):
                self.state = Circuit.OPEN
                self._opened_at = now
        return before if before is not self.state else None

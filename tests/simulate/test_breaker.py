"""The circuit breaker as a table of events and the state after each."""

from __future__ import annotations

import pytest

from observer.simulate.breaker import Breaker, Circuit

CLOSED, OPEN, HALF = Circuit.CLOSED, Circuit.OPEN, Circuit.HALF_OPEN
STORIES = {
    "opens-after-consecutive-failures": [("bad", CLOSED), ("bad", OPEN)],
    "a-success-between-resets": [("bad", CLOSED), ("good", CLOSED), ("bad", CLOSED), ("bad", OPEN)],
    "stays-open-before-its-time": [("bad", CLOSED), ("bad", OPEN), ("ask", OPEN)],
    "half-opens-after-it": [("bad", CLOSED), ("bad", OPEN), ("wait", OPEN), ("ask", HALF)],
    "closes-after-successes": [("bad", CLOSED), ("bad", OPEN), ("wait", OPEN), ("ask", HALF), ("good", HALF), ("good", CLOSED)],
    "reopens-at-one-failure": [("bad", CLOSED), ("bad", OPEN), ("wait", OPEN), ("ask", HALF), ("bad", OPEN), ("ask", OPEN)],
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES)
def test_breaker(story: str) -> None:
    breaker, now = Breaker(failures=2, successes=2, open_seconds=5.0), 100.0
    for event, after in STORIES[story]:
        before = breaker.state
        left = None
        if event == "wait":
            now += 5.0
        elif event == "ask":
            allowed, left = breaker.allows(now)
            assert allowed is (after is not OPEN)
        else:
            left = breaker.record(success=event == "good", now=now)
        assert breaker.state is after
        assert left == (before if before is not after else None)

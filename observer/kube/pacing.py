"""How fast and after which pauses we ask: a token bucket and a back-off with full jitter, as values."""

from __future__ import annotations

import msgspec


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens per second with a burst. ``at`` is the monotonic moment (s) that ``tokens`` belongs to."""

    rate: float
    burst: float
    tokens: float
    at: float

    @classmethod
    def full(cls, rate: float, burst: float, now: float) -> Bucket:
        """A bucket that may spend its whole burst at once."""
        return cls(rate=rate, burst=burst, tokens=burst, at=now)

    def take(self, now: float) -> tuple[Bucket, float]:
        """Reserve one token: the bucket afterwards and the pause (s) until the token is really there, 0 for none."""
        held = min(self.burst, self.tokens + max(0.0, now - self.at) * self.rate) - 1.0
        after = Bucket(rate=self.rate, burst=self.burst, tokens=held, at=max(now, self.at))
        return after, max(0.0, -held / self.rate)


class BackOff(msgspec.Struct, frozen=True, kw_only=True):
    """Pauses in seconds after failures in a row: any time up to a bound that doubles from ``first`` to ``longest``."""

    first: float = 0.8
    longest: float = 30.0

    def pause(self, failures: int, chance: float) -> float:
        """The pause after the n-th failure in a row (from 1); ``chance`` in [0, 1) draws it.

        Full jitter may draw next to nothing; an eighth of the first pause is the least, so that no loop runs hot.
        """
        bound = min(self.longest, self.first * 2.0 ** min(max(failures, 1) - 1, 30))
        return max(self.first / 8.0, chance * bound)

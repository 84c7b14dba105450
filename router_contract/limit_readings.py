"""How near a bound of ours is, as it is shown to people. A use that nobody can measure is ``None``, not 0."""

from __future__ import annotations

from enum import StrEnum

import msgspec

NEAR = 0.8
"""The part of a limit from which on it is called near."""


class LimitState(StrEnum):
    """How near: far enough, at four fifths or more, at the bound now, or not measured."""

    OK = "Ok"
    NEAR = "Near"
    REACHED = "Reached"
    UNKNOWN = "Unknown"
    NONE = "Unlimited"


class LimitReading(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One limit. ``use`` and ``high_water`` are in ``unit``, the latter since the process began.

    ``reached`` counts how often it was met since then (of targets: how many meet it now); ``effect`` is what happens
    then, in a sentence. ``setting`` is the key to change, empty for what the machine bounds.
    """

    name: str
    setting: str = ""
    unit: str = "count"
    limit: float | None
    use: float | None = None
    high_water: float | None = None
    reached: int | None = None
    effect: str = ""

    @property
    def ratio(self) -> float | None:
        """The part of the limit that is used; ``None`` where either is not known."""
        return None if self.use is None or not self.limit else self.use / self.limit

    @property
    def state(self) -> LimitState:
        """How near it is now."""
        if self.limit is None:
            return LimitState.NONE
        ratio = self.ratio
        if ratio is None:
            return LimitState.REACHED if self.reached else LimitState.UNKNOWN
        if ratio >= 1.0:
            return LimitState.REACHED
        return LimitState.NEAR if ratio >= NEAR else LimitState.OK

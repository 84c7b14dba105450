"""What another replica read last of a target, so that its next owner goes on from there."""

from __future__ import annotations

import msgspec

from router_contract.readings import Instant


class LastRead(msgspec.Struct, frozen=True, kw_only=True):
    """The last read of a target by another replica. ``at`` is on our clocks, ``version`` what the program said of itself.

    ``moved`` is by column what its numbers grew by in the ``seconds`` before it; empty where that is not known.
    """

    url: str
    data: bytes
    content_type: str
    version: str | None
    at: Instant
    duration: float
    moved: tuple[float, ...] = ()
    seconds: float = 0.0

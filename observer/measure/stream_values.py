"""The values a stream is configured with and exchanges with the world around it."""

from __future__ import annotations

from typing import Protocol

import msgspec

from router_contract.kv_streams import Approximation
from router_contract.readings import Instant


class StreamLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds and bounds of one stream. ``window`` checksums are kept, up to ``window_max`` over a replay.

    A stream not connected for ``stuck`` gets new sockets, then again after twice as long, up to ``stuck_max``. Blocks of
    one that lost its connection ``apart`` ago and has not been confirmed since are marked.
    """

    silence: float = 60.0
    settle: float = 1.0
    tail_wait: float = 1.0
    replay_timeout: float = 2.0
    replay_attempts: int = 3
    back_off: float = 1.0
    back_off_max: float = 60.0
    stuck: float = 15.0
    stuck_max: float = 60.0
    apart: float = 2.0
    window: int = 1024
    window_max: int = 8192
    held_batches: int = 20_000
    held_bytes: int = 64 << 20


class Ask(msgspec.Struct, frozen=True):
    """Ask a replay from ``start`` on a new socket; answers carry ``token`` back, those of older requests are late."""

    token: int
    start: int


class Order(msgspec.Struct, frozen=True):
    """Something to do with sockets: ``open`` the live one, ``close`` all, or ``drop-ask``: close the replay one."""

    what: str


OPEN, CLOSE, DROP_ASK = Order("open"), Order("close"), Order("drop-ask")
Output = Ask | Order


class Applied(msgspec.Struct, frozen=True):
    """What a batch did beyond changing blocks: whether it cleared all, and what it left uncertain."""

    cleared: bool = False
    spoiled: tuple[Approximation, ...] = ()


class Sink(Protocol):
    """Where a stream's batches go."""

    def apply(self, payload: bytes, now: Instant, *, late: bool = False) -> Applied | None:
        """Apply one batch; ``None`` when there is nothing to say about it. A ``late`` one was replayed, or waited for such:
        what it tells is as old as the publisher says, not of now.
        """
        ...

    def forget(self) -> None:
        """Another life began: nothing of the former one is held."""
        ...

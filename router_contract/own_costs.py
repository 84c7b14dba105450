"""What the observer itself keeps in memory and what waits in it, by part."""

from __future__ import annotations

import msgspec


class MemoryPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One part of our memory. ``bytes`` is ``None`` where nobody can tell; ``estimated`` says that it was not measured."""

    name: str
    bytes: int | None
    estimated: bool = False
    what: str = ""


class QueueDepth(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One queue at this moment: what waits in it, in ``unit``, and how much may (``None``: no bound of its own)."""

    name: str
    depth: int
    unit: str
    capacity: int | None = None

"""How much memory the layouts that live may take together, whoever holds them: readers, or the last reads of targets."""

from __future__ import annotations

from typing import Final, Protocol
from weakref import ReferenceType, WeakSet, ref

from observer.measure.layout import Layout

LAYOUT_BYTES: Final = 256 << 20
_FORGET_EVERY: Final = 256
"""One refusal in so many makes keepers forget: what only they hold makes room, and the others soon have theirs again."""


class Keeper(Protocol):
    """Keeps layouts for bodies that may come."""

    def forget(self) -> None:
        """Keep none any more. What a target holds is kept again when it is read next."""
        ...


class LayoutBudget:
    """Counts the bytes of layouts until nobody holds them any more. ``most`` are bytes, ``refused`` layouts not made.

    One task owns it, with all its readers: it is not safe for threads.
    """

    def __init__(self, most: int = LAYOUT_BYTES) -> None:
        self.most = most
        self.used = 0
        self.refused = 0
        self.keepers: WeakSet[Keeper] = WeakSet()
        self._living: dict[ReferenceType[Layout], int] = {}

    def take(self, layout: Layout) -> bool:
        """Count a new layout; False, and not counted, where it finds no room."""
        if not self._fits(layout):
            self.refused += 1
            return False
        self._living[ref(layout, self._gone)] = layout.nbytes
        self.used += layout.nbytes
        return True

    def _fits(self, layout: Layout) -> bool:
        if self.used + layout.nbytes > self.most and self.refused % _FORGET_EVERY == 0:
            for keeper in self.keepers:
                keeper.forget()
        return self.used + layout.nbytes <= self.most

    def _gone(self, layout: ReferenceType[Layout]) -> None:
        self.used -= self._living.pop(layout)

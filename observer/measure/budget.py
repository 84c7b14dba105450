"""How much memory the layouts that live may take together, whoever holds them: readers, or the last reads of targets."""

from __future__ import annotations

from typing import Final
from weakref import ReferenceType, ref

from observer.measure.layout import Layout

LAYOUT_BYTES: Final = 256 << 20


class LayoutBudget:
    """Counts the bytes of layouts until nobody holds them any more. ``most`` are bytes, ``refused`` layouts not made.

    One task owns it, with all its readers: it is not safe for threads.
    """

    def __init__(self, most: int = LAYOUT_BYTES) -> None:
        self.most = most
        self.used = 0
        self.refused = 0
        self._living: dict[ReferenceType[Layout], int] = {}

    def take(self, layout: Layout) -> bool:
        """Count a new layout; False, and not counted, where it finds no room."""
        if self.used + layout.nbytes > self.most:
            self.refused += 1
            return False
        self._living[ref(layout, self._gone)] = layout.nbytes
        self.used += layout.nbytes
        return True

    def _gone(self, layout: ReferenceType[Layout]) -> None:
        self.used -= self._living.pop(layout)

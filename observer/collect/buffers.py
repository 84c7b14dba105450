"""Memory to receive into, used again: a page fault for each page of each body would be the largest cost of reading."""

from __future__ import annotations

USUAL = 256 << 10
"""Bytes of a pooled buffer, and of the one that every first read of an answer goes into."""
_LARGEST = 1 << 20
_KEPT = 8


class Buffers:
    """One scratch buffer for all connections, and a few for answers that do not come in one piece.

    The event loop asks for a buffer, reads and tells of it without a break, so one scratch buffer serves them all; what
    must stay for a later read is moved out of it.
    """

    def __init__(self) -> None:
        self.scratch = bytearray(USUAL)
        self.scratch_view = memoryview(self.scratch)
        self._free: list[bytearray] = []

    def take(self, size: int) -> bytearray:
        """A buffer of at least so many bytes; what it holds is of no meaning."""
        if size > USUAL // 2 and self._free and len(self._free[-1]) >= size:
            return self._free.pop()
        return bytearray(max(size, USUAL) if size > USUAL // 2 else size)

    def give(self, buffer: bytearray) -> None:
        """Return a buffer; small, very large and surplus ones are let go."""
        if USUAL <= len(buffer) <= _LARGEST and len(self._free) < _KEPT:
            self._free.append(buffer)

"""Many numbers in as few bytes as hold them exactly: what is kept of every target between its reads.

Most numbers of a program are counts. Those are kept as small whole numbers, the few others (sums of seconds, counts too
large) beside them.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from observer.measure.layout import Floats

_KINDS: Final = ((np.uint8, 2.0**8), (np.uint16, 2.0**16), (np.uint32, 2.0**32))
_APART: Final = 8
"""At most one in so many may stand apart: each of those takes 12 bytes, more than it saves."""


class Packed(msgspec.Struct, frozen=True, eq=False, gc=False):
    """``width`` numbers, exactly (only that ``-0.0`` is 0.0).

    ``whole`` holds whole numbers in the smallest type (``None``: 0 everywhere), ``places`` and ``parts`` the others.
    ``places`` is ``None`` where ``parts`` holds all of them, or nothing stands apart.
    """

    width: int
    whole: npt.NDArray[np.unsignedinteger] | None = None
    places: npt.NDArray[np.uint32] | None = None
    parts: Floats | None = None

    def floats(self) -> Floats:
        """The numbers as an array, float64, shape (width,). Nobody may write into it."""
        if self.places is None and self.parts is not None:
            return self.parts
        out = np.zeros(self.width) if self.whole is None else self.whole.astype(np.float64)
        if self.places is not None:
            out[self.places] = self.parts
        return out

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers."""
        return sum(part.nbytes for part in (self.whole, self.places, self.parts) if part is not None)


def pack(numbers: Floats, *, sound: bool = False) -> Packed:
    """These numbers; an array that cannot be packed (with a NaN, or below 0) is kept as it is, so it must not change.

    ``sound`` says that none of them is a NaN or below 0.
    """
    width = len(numbers)
    if not width:
        return Packed(0)
    most = np.maximum.reduce(numbers)
    if not sound and not np.minimum.reduce(numbers) >= 0.0:
        return Packed(width, parts=numbers)
    if most == 0.0:
        return Packed(width)
    for kind, limit in _KINDS:
        if most < limit:
            return _of_kind(numbers, numbers, kind)
        large = numbers >= limit
        if np.count_nonzero(large) * _APART <= width:
            return _of_kind(numbers, np.where(large, 0.0, numbers), kind)
    return Packed(width, parts=numbers)


def _of_kind(numbers: Floats, small: Floats, kind: type[np.unsignedinteger]) -> Packed:
    """Packed as one type: ``small`` are the numbers that it can hold, 0 where it cannot."""
    whole = small.astype(kind)
    (places,) = (whole != numbers).nonzero()
    if not len(places):
        return Packed(len(numbers), whole)
    if len(places) * 2 > len(numbers):
        return Packed(len(numbers), parts=numbers)
    return Packed(len(numbers), whole, places.astype(np.uint32), numbers[places])

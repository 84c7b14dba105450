"""Which numbers can be what they are said to be: the one rule for everything that is read from a program.

No signal of the table can be below zero (requests, tokens, bytes, seconds, fractions, moments), and programs count in
64 bits. So a number is from 0 to 2^63; anything else (NaN, infinities, -3 requests, 1e308 tokens) is no number of that
signal. With this bound no sum over ranks, windows or a running total can overflow: a float holds 10^289 such numbers.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import numpy.typing as npt

LARGEST: Final = 2.0**63
WANTED: Final = "a number from 0 to 2^63 is wanted"

_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INFINITE: Final = re.compile(r"\+?[iI]nf(?:inity)?")


def usable(value: float) -> bool:
    """Whether a number can be a signal's; a NaN cannot."""
    return 0.0 <= value <= LARGEST


def usable_each(values: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """`usable` for each number."""
    return (values >= 0.0) & (values <= LARGEST)


def number_in(text: str, *, infinite: bool = False) -> float | None:
    """The finite number that a label holds as an ASCII decimal (``+Inf`` too where asked for), or ``None``.

    What Python reads beyond that (``1_0``, digits of other scripts, ``nan``, blanks) is no number here.
    """
    if infinite and _INFINITE.fullmatch(text):
        return np.inf
    if not _DECIMAL.fullmatch(text):
        return None
    value = float(text)
    return value if abs(value) < np.inf else None

"""Numbers as text, such that whoever reads the text back and compares it comes to the verdict that was given."""

from __future__ import annotations

import math
from typing import Final

from router_contract.canary import Operator

MAX_MESSAGE: Final = 256
_NEAR: Final = 1e-9


def number(value: float) -> str:
    """A finite number with six significant digits; negative zero is ``0``."""
    return f"{value + 0.0:.6g}" if value else "0"


def agreeing(value: float, operator: Operator, limit: float, *, passed: bool) -> str | None:
    """A text of ``value`` that compares with ``limit`` as the verdict says.

    Six digits where they agree, else the shortest exact text. A value that lies on the limit although it is known to be
    beyond it (the end of a bracket) is shown as the next number. ``None``: no honest text agrees.
    """
    if not math.isfinite(value):
        return None
    for text in (number(value), repr(value + 0.0)):
        if operator.holds(float(text), limit) is passed:
            return text
    if abs(value - limit) > _NEAR * max(1.0, abs(limit)):
        return None
    lower = operator.is_upper is passed
    return repr(math.nextafter(limit, -math.inf if lower else math.inf))


def message(text: str) -> str:
    """One line of at most 256 printable characters."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= MAX_MESSAGE else line[: MAX_MESSAGE - 1] + "…"


def duration(seconds: float) -> str:
    """Seconds as people say them: ``45s``, ``4m10s``, ``2h05m``."""
    whole = max(0, math.ceil(seconds))
    hours, minutes, rest = whole // 3600, whole % 3600 // 60, whole % 60
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"

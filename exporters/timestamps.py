"""Wall seconds as the published texts write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=1024)  # one read's time stands at each of its values
def rfc3339(wall: float) -> str:
    """UTC with milliseconds, as ``2026-01-02T03:04:05.678Z``.

    Raises ``OverflowError`` or ``ValueError`` for a moment without a year of four digits, on every system alike.
    """
    return (_EPOCH + timedelta(seconds=wall)).isoformat(timespec="milliseconds").replace("+00:00", "Z")

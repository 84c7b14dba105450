"""Wall seconds as the published texts write them."""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339(wall: float) -> str:
    """UTC with milliseconds, as ``2026-01-02T03:04:05.678Z``."""
    return datetime.fromtimestamp(wall, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

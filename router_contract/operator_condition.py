"""A condition of an operator, in its own words."""

from __future__ import annotations

import msgspec


class OperatorCondition(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A condition exactly as an operator wrote it, unknown types and reasons included."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    observed_generation: int | None = None
    last_transition: float | None = None

"""What an alert and a recording rule are, before they are written as a file."""

from __future__ import annotations

from typing import Final

import msgspec

DEPLOYMENT: Final = (("namespace", "<ns>"), ("deployment", "deployment"))
"""Which variables of a dashboard a deployment's alert fills, from which of its labels."""


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """One recording rule; ``name`` is level, metric and operation."""

    name: str
    expr: str


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """One alert. ``lasting`` is how long ``expr`` must hold; ``dashboard`` is a uid, ``choice`` its variables' labels.

    ``expr``, ``summary`` and ``description`` say ``<ns>`` and ``<pod>`` for the names of our labels.
    """

    name: str
    group: str
    expr: str
    lasting: str
    severity: str
    summary: str
    description: str
    dashboard: str
    choice: tuple[tuple[str, str], ...] = DEPLOYMENT

"""Canonical signals: what a deployment's programs can tell, whatever each of them calls it.

A signal has an id, a kind, a unit and a rule by which its series combine. The tables in ``engines``, ``routers`` and
``stores`` map wire names to these ids; nothing else in the project knows a wire name.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Kind(StrEnum):
    """How a signal's numbers behave over time."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"


class Combine(StrEnum):
    """How the values of several ranks, and then of several members, become one.

    ``ADD``: counts. ``WEIGH``: ratios, averaged with the weight signal where it is known and evenly where it is not.
    ``MAX``: the largest. ``EACH``: never combined (info and identity).
    """

    ADD = "add"
    WEIGH = "weigh"
    MAX = "max"
    EACH = "each"


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """One canonical signal.

    ``unit`` is in base units as published (``requests``, ``tokens``, ``seconds``, ``fraction``, ``bytes``, ``1``).
    ``progress`` marks counters that only work moves: they prove that an engine progresses.
    ``weight`` names the signal that weighs this one under `Combine.WEIGH`.
    """

    id: str
    kind: Kind
    unit: str
    combine: Combine = Combine.ADD
    weight: str | None = None
    progress: bool = False
    meaning: str = ""

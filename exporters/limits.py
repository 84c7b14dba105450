"""Our own limits over HTTP and as metrics: what is used of each, the most that ever was, and how often one was met."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import msgspec
from aiohttp import web

from exporters.encoding import encode
from exporters.family import Family, FamilyType
from exporters.snapshot import Snapshot
from router_contract.limit_readings import LimitReading, LimitState

LIMITS_PATH = "/api/v1/limits"
_WORST = (LimitState.REACHED, LimitState.NEAR)


class LimitSource(Protocol):
    """Reads every limit at the moment of the call."""

    def limits(self) -> Sequence[LimitReading]:
        """All of them, in a stable order."""
        ...


class LimitsApi:
    """The handler."""

    def __init__(self, source: LimitSource) -> None:
        self._source = source

    def routes(self) -> list[web.AbstractRouteDef]:
        """Its one path."""
        return [web.get(LIMITS_PATH, self.limits)]

    async def limits(self, _: web.Request) -> web.Response:
        """Every limit, the nearest first."""
        return web.Response(body=encode(limits_document(self._source.limits())), content_type="application/json")


def limits_document(readings: Sequence[LimitReading]) -> dict[str, Any]:
    """The document: ``state`` is that of the nearest limit; ``items`` begin with it."""
    ordered = sorted(readings, key=_nearness)
    states = {reading.state for reading in readings}
    worst = next((state for state in _WORST if state in states), LimitState.OK)
    return {"state": worst.value, "items": [_item(reading) for reading in ordered]}


def _nearness(reading: LimitReading) -> tuple[float, str]:
    ratio = reading.ratio
    if ratio is None:
        ratio = 1.0 if reading.state is LimitState.REACHED else -1.0
    return -ratio, reading.name


def _item(reading: LimitReading) -> dict[str, Any]:
    ratio = reading.ratio
    shown = None if ratio is None else round(ratio, 4)
    return {**msgspec.to_builtins(reading), "ratio": shown, "state": reading.state.value}


def limit_families(source: LimitSource) -> tuple[Family, ...]:
    """Our metric families about limits; what is not measured has no series."""

    def family(
        name: str, text: str, value: Callable[[LimitReading], float | None], kind: FamilyType = FamilyType.GAUGE
    ) -> Family:
        def rows(_: Snapshot) -> Iterator[tuple[tuple[str, ...], float]]:
            for reading in source.limits():
                number = value(reading)
                if number is not None:
                    yield (reading.name,), float(number)

        return Family(name=name, help=text, type=kind, labels=("limit",), rows=rows)

    return (
        family(
            "observer_limit_used_ratio",
            "Part of a limit of ours that is used, 1 at the bound.",
            lambda each: each.ratio,
        ),
        family(
            "observer_limit_high_water_ratio",
            "The largest part of a limit that was used since the process began.",
            lambda each: None if each.high_water is None or not each.limit else each.high_water / each.limit,
        ),
        family(
            "observer_limit_reached",
            "How often a limit was met, or how many targets meet it now.",
            lambda each: each.reached,
        ),
    )

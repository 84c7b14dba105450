"""What a reading of an exposition is made of: its shape, which many bodies share, and its numbers."""

from __future__ import annotations

import msgspec

from observer.measure.layout import Layout, Own
from observer.measure.lines import parse_key
from observer.measure.words import Floats
from router_contract.readings import FailureKind, Problem


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one body. ``body_bytes`` and ``lines`` cost the whole read, every other the family that passes it."""

    body_bytes: int = 16 << 20
    lines: int = 200_000
    family_bytes: int = 1 << 20
    line_bytes: int = 64 << 10
    family_series: int = 20_000
    label_value: int = 4096
    labels: int = 64


class SampleKey(msgspec.Struct, frozen=True):
    """One series on the wire: its sample name and its labels in the order they are written."""

    name: str
    labels: tuple[tuple[str, str], ...]


class Family(msgspec.Struct, frozen=True):
    """The rows ``start`` to ``stop`` of one wanted family. ``type`` is as declared (lower case), ``""`` if undeclared.

    ``prefixes`` hold ``name{labels}`` of each row as bytes; `keys` parses them. ``line`` is the first row's, from 1.
    """

    name: str
    type: str
    start: int
    stop: int
    prefixes: tuple[bytes, ...]
    line: int = 0

    def keys(self) -> tuple[SampleKey, ...]:
        """The series of the rows, in row order."""
        return tuple(SampleKey(name, labels) for name, labels, _ in map(parse_key, self.prefixes))


class Shape(msgspec.Struct, frozen=True, kw_only=True, eq=False, weakref=True):
    """All of a reading but its numbers. Bodies of one layout share one shape, so plans can be kept by its identity.

    ``wanted`` is what was asked for: a shape means nothing to a reader that wants something else.
    ``types`` holds every family the body declares, wanted or not, and its type (``""`` where only HELP or UNIT stands).
    ``unreadable`` families had a fault and have no rows; ``truncated`` says that the body ends inside a line or before
    the end an OpenMetrics body has, so that nothing may be called absent. ``ended`` says that it ends in ``# EOF``.
    ``kept`` and ``dropped`` count sample lines. ``layout`` reads the next such body, where one could be made. A shape that
    differs from another in few wanted lines has its layout and all its other parts: that one is its ``base``, and ``own``
    is what those rows begin with.
    """

    wanted: frozenset[str]
    families: dict[str, Family]
    types: dict[str, str]
    problems: tuple[Problem, ...]
    unreadable: frozenset[str]
    truncated: bool
    ended: bool
    kept: int
    dropped: int
    layout: Layout | None = None
    base: Shape | None = None
    own: Own = ()


class Reading(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A body that was read. ``values[i]`` belongs to row i of the shape's families, float64.

    ``timestamps`` are as written (milliseconds in text, seconds in OpenMetrics), ``nan`` where a row has none;
    ``None`` where no row has one.
    """

    shape: Shape
    values: Floats
    timestamps: Floats | None = None


class NotRead(msgspec.Struct, frozen=True, kw_only=True):
    """A body from which nothing could be read, and why."""

    kind: FailureKind
    detail: str

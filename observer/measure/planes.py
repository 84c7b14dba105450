"""The parts of the block index: a plane of blocks, one holder's part of it, and the search for a common prefix."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Literal

from router_contract.kv_events import Hash
from router_contract.kv_streams import HashSpace
from router_contract.readings import Instant

_CHUNK = 64
_LONGS = array("L").itemsize == 8
"""Where C's long has 64 bits, an array of it takes in integers three times as fast as one of long long."""


class Plane:
    """The blocks of one hash space on one medium in one group: key → mask of holders' bits.

    ``signed`` says whether keys are signed 64-bit (SGLang's hashes, and `hash` of byte hashes) or unsigned.
    """

    __slots__ = ("group", "holds", "masks", "medium", "shared", "signed", "space", "typecode")

    def __init__(self, space: HashSpace, medium: str, group: int, *, signed: bool) -> None:
        self.space = space
        self.medium = medium
        self.group = group
        self.signed = signed
        self.typecode: Literal["q", "Q", "l", "L"] = ("l" if signed else "L") if _LONGS else "q" if signed else "Q"
        self.masks: dict[int, int] = {}
        self.holds: dict[int, Hold] = {}
        self.shared = 0

    def key(self, value: Hash) -> int:
        """The dictionary key of a hash: integers wrapped into the plane's 64-bit range, bytes hashed."""
        number = hash(value) if isinstance(value, bytes) else value
        if self.signed:
            return ((number + (1 << 63)) & 0xFFFFFFFFFFFFFFFF) - (1 << 63)
        return number & 0xFFFFFFFFFFFFFFFF

    def keys(self, values: Sequence[Hash]) -> Sequence[int]:
        """The dictionary keys of many hashes; the very same objects where they are integers of the right range."""
        try:
            array(self.typecode, values)  # type: ignore[arg-type]  # bytes raise TypeError: see below
        except (TypeError, OverflowError):
            if self.signed and set(map(type, values)) == {bytes}:
                return list(map(hash, values))  # which is of the range already
            return [self.key(value) for value in values]
        return values  # type: ignore[return-value]  # just proven integers


class Hold:
    """What one holder holds in one plane; ``events`` stored something in it, the last at ``last``.

    ``bits`` is its bit for ever; ``put`` is the plane's ``setdefault``.
    """

    __slots__ = (
        "bit",
        "bits",
        "copies",
        "cursor",
        "events",
        "held",
        "holder",
        "last",
        "log",
        "log_limit",
        "loose",
        "masks",
        "old_log",
        "plane",
        "put",
        "seen",
    )

    def __init__(self, holder: Holder, plane: Plane) -> None:
        self.holder = holder
        self.loose = holder.loose
        self.plane = plane
        self.masks = plane.masks
        self.put = plane.masks.setdefault
        self.bit = holder.bit
        self.bits = repeat(holder.bit)
        self.held = 0
        self.events = 0
        self.last: Instant | None = None
        self.copies: dict[int, int] = {}
        self.log: array[int] = array(plane.typecode)
        self.log_limit = 0
        self.old_log = self.log[:0]
        self.cursor = 0
        self.seen: dict[int, None] = {}


class Holder:
    """One life of one stream: its bit, its holds, and its blocks without a known parent (child → parent)."""

    __slots__ = ("bit", "children", "holds", "loose", "name")

    def __init__(self, name: object, bit: int) -> None:
        self.name = name
        self.bit = bit
        self.holds: dict[tuple[HashSpace, str, int], Hold] = {}
        self.loose: dict[tuple[HashSpace, int], int] = {}
        self.children: dict[tuple[HashSpace, int], list[int]] = {}


def scan_prefixes(tables: Sequence[dict[int, int]], keys: Sequence[int], alive: int) -> list[tuple[int, int]]:
    """(length, bits of the holders whose prefix ends there), shortest first; whole chunks are tested at once."""
    ends = []
    position = 0
    get: Callable[[int], int | None] = tables[0].get if len(tables) == 1 else _union(tables)
    while alive and position < len(keys):
        masks = list(map(get, keys[position : position + _CHUNK]))
        first = masks[0]
        if first is not None and first & alive == alive and masks.count(first) == len(masks):
            position += len(masks)
            continue
        for mask in masks:
            left = alive & mask if mask is not None else 0
            if left != alive:
                ends.append((position, alive ^ left))
                alive = left
                if not alive:
                    break
            position += 1
    if alive:
        ends.append((len(keys), alive))
    return ends


def _union(tables: Sequence[dict[int, int]]) -> Callable[[int], int]:
    def get(key: int) -> int:
        mask = 0
        for table in tables:
            mask |= table.get(key, 0)
        return mask

    return get

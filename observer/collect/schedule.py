"""When a target is due: slots of its period, shifted by a hash of its identity. Pure; seconds throughout."""

from __future__ import annotations

import hashlib
import math

from router_contract.targets import TargetKey

TOGETHER = 8
LONGEST_GRAIN = 1 / 4
SHORTEST_GRAIN = 1 / 1024
GRAINS = 40
"""How many turns of one schedule begin together, and how late at most for that: in seconds, and as a part of the period.

With few targets the waking is what a read costs most: of 200 targets every 5 s an eighth of a second saved a tenth of all."""


def offset(key: TargetKey, period: float) -> float:
    """The target's shift inside the period, from 0 up to but not including it; the same in every process."""
    text = f"{key.deployment}\0{key.member_uid}\0{key.component}\0{key.port}".encode()
    fraction = int.from_bytes(hashlib.blake2b(text, digest_size=6).digest(), "big") / (1 << 48)
    return fraction * period


def slot_after(now: float, shift: float, period: float) -> int:
    """The number of the first slot that begins later than ``now``.

    Slots are counted, not added up: a timer that fires a little early cannot make the same slot due twice.
    """
    return math.floor((now - shift) / period) + 1


def moment(slot: int, shift: float, period: float) -> float:
    """When a slot begins."""
    return shift + slot * period


def grain(period: float, members: int) -> float:
    """Turns begin at multiples of this many seconds, so at most so much late: about half of `TOGETHER` of them at once.

    What a process does after each sleep costs twice what it costs again right after: nothing is in the caches any more.
    Few at once, because they are also worked through at once. A power of two, so that the grains of different schedules
    fall on the same moments.
    """
    longest = min(TOGETHER * period / max(members, TOGETHER), LONGEST_GRAIN, period / GRAINS)
    return max(SHORTEST_GRAIN, 2.0 ** math.floor(math.log2(longest)))

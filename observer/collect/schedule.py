"""When a target is due: slots of its period, shifted by a hash of its identity. Pure; seconds throughout."""

from __future__ import annotations

import hashlib
import math

from router_contract.targets import TargetKey


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

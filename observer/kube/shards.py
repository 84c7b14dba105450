"""Which shard a deployment belongs to: a pure function of its UID and the fixed count, the same in every replica.

FNV-1a of the UID, then the jump consistent hash, as kube-state-metrics divides its objects: shards are of about the same
size, and one more shard takes its share from the others and moves nothing else.
"""

from __future__ import annotations

_OFFSET, _PRIME = 0xCBF29CE484222325, 0x100000001B3
_MULTIPLIER = 2862933555777941757
_WORD = (1 << 64) - 1


def fnv1a(data: bytes) -> int:
    """The 64-bit FNV-1a hash."""
    value = _OFFSET
    for byte in data:
        value = ((value ^ byte) * _PRIME) & _WORD
    return value


def jump(key: int, count: int) -> int:
    """The bucket of a 64-bit key among ``count`` (at least 1): 0 to ``count - 1``. Raises `ValueError` for no bucket."""
    if count < 1:
        raise ValueError(f"found {count} shards, wanted at least 1")
    bucket, following = -1, 0
    while following < count:
        bucket = following
        key = (key * _MULTIPLIER + 1) & _WORD
        following = int((bucket + 1) * ((1 << 31) / ((key >> 33) + 1)))
    return bucket


def shard_of(uid: str, count: int) -> int:
    """The shard of a deployment's UID."""
    return jump(fnv1a(uid.encode()), count)

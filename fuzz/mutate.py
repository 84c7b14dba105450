"""Neighbours of an input, without any guidance: for the plain driver and for the tests."""

from __future__ import annotations

import random

LONGEST = 32_768
"""Bytes of one input."""


def mutated(data: bytes, draw: random.Random) -> bytes:
    """A neighbour of an input: bits flipped, pieces cut, doubled, swapped or replaced."""
    changed = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(changed) + 1)
        length = draw.choice((1, 1, 2, 4, 8, 64))
        piece = bytes(changed[at : at + length])
        match draw.randrange(5):
            case 0:
                changed[at : at + length] = b""
            case 1:
                changed[at:at] = piece * draw.choice((1, 2, 64))
            case 2:
                changed[at : at + length] = draw.randbytes(length)
            case 3:
                changed[at:at] = draw.choice(
                    (b"{", b'"', b"\xff\xfe", b"NaN", b"9" * 40, b"\n", b"\\", b"\0", b"-1", b"e999")
                )
            case _:
                if at < len(changed):
                    changed[at] ^= 1 << draw.randrange(8)
    return bytes(changed[:LONGEST])

"""A transport that remembers what was written to it."""

from __future__ import annotations

import asyncio


class Heard(asyncio.Transport):
    """Keeps everything in ``written``."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

"""A body as it arrives: bounded, decoded where a server compressed it unasked, drawing on a shared pool when large."""

from __future__ import annotations

import zlib

from observer.collect.failures import Failure, bad_encoding, shared_spent, too_large
from observer.collect.options import BodyLimits
from router_contract.targets import Address

_ZLIB = {"gzip", "x-gzip", "deflate"}
GZIP_MAGIC = b"\x1f\x8b"


class SharedBytes:
    """A pool of bytes for the part of bodies beyond each one's own allowance."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._left = total
        self.high_water = 0
        self.refused = 0

    @property
    def left(self) -> int:
        """Bytes that nobody holds."""
        return self._left

    def take(self, count: int) -> bool:
        """Whether the pool could give ``count`` more bytes; if so they are taken."""
        if count > self._left:
            self.refused += 1
            return False
        self._left -= count
        self.high_water = max(self.high_water, self.total - self._left)
        return True

    def give(self, count: int) -> None:
        """Return bytes that were taken."""
        self._left += count


class Allowance:
    """What one body takes: up to its limit, and of the pool what is beyond its own allowance."""

    def __init__(self, address: Address, limits: BodyLimits, shared: SharedBytes) -> None:
        self._address = address
        self._limits = limits
        self._shared = shared
        self._borrowed = 0

    def grow(self, size: int) -> Failure | None:
        """The body has this many bytes now (it never shrinks); a failure when it may not."""
        if size > self._limits.body:
            return too_large(self._limits.body, self._address)
        beyond = size - self._limits.own - self._borrowed
        if beyond > 0:
            if not self._shared.take(beyond):
                return shared_spent(self._address)
            self._borrowed += beyond
        return None

    def close(self) -> None:
        """Give back to the pool; call it once the bytes are out of our hands."""
        self._shared.give(self._borrowed)
        self._borrowed = 0


class Body:
    """Collects one answer's chunks. After a failure nothing more is kept; `close` returns what the pool gave."""

    def __init__(self, address: Address, encoding: str, limits: BodyLimits, shared: SharedBytes) -> None:
        self._address = address
        self._limits = limits
        self._allowance = Allowance(address, limits, shared)
        self._raw = 0
        self._data = bytearray()
        self._encoding = encoding.strip().lower() or "identity"
        self._zlib = zlib.decompressobj(wbits=47) if self._encoding in _ZLIB else None

    def feed(self, chunk: bytes) -> Failure | None:
        """Take a chunk as sent; a failure ends the body."""
        self._raw += len(chunk)
        if self._raw > self._limits.body:
            return too_large(self._limits.body, self._address)
        if self._zlib is None:
            if self._encoding != "identity":
                return bad_encoding(f"the encoding {self._encoding[:40]!r}", self._address)
            return self._keep(chunk)
        room = self._limits.body - len(self._data) + 1
        if self._zlib.eof:
            return bad_encoding("more bytes after the end of its compressed body", self._address)
        try:
            plain = self._zlib.decompress(chunk, room)
        except zlib.error as error:
            return bad_encoding(f"a body that is not the {self._encoding} it says ({error})", self._address)
        if self._zlib.unused_data:
            return bad_encoding("more bytes after the end of its compressed body", self._address)
        return self._keep(plain)

    def finish(self) -> bytes | Failure:
        """The whole decoded body."""
        if self._zlib is not None and not self._zlib.eof:
            return bad_encoding("a compressed body without its end", self._address)
        if self._zlib is None and self._data[:2] == GZIP_MAGIC:
            return bad_encoding("gzip without saying so", self._address)
        return bytes(self._data)

    def close(self) -> None:
        """Give back to the pool; call it once the bytes are out of our hands."""
        self._allowance.close()

    def _keep(self, plain: bytes) -> Failure | None:
        failure = self._allowance.grow(len(self._data) + len(plain))
        if failure is None:
            self._data += plain
        return failure

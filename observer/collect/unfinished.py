"""The zip of a recording: a whole one, or what a killed recorder left, whose members are found by their local headers."""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

_HEADER = struct.Struct("<4s5H3L2H")
_SIGNATURE = b"PK\x03\x04"
_WITHOUT_SIZES = 0x08
_STORED, _DEFLATED = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
MAX_MEMBERS = 10_000_000
"""Members that are looked for; a recording with more is read up to there."""


ZIP_TROUBLE = (
    OSError,
    KeyError,
    EOFError,
    ValueError,  # an offset that no file has; `msgspec` and Unicode errors are some too
    RuntimeError,  # a member with a password, or packed in a way that is not known
    OverflowError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
)
"""Everything that reading a damaged or forged zip raises."""


class _Member(NamedTuple):
    offset: int
    packed: int
    size: int
    method: int
    crc: int


class UnfinishedZip:
    """Reads the whole members of a zip that was never closed; the last one, half written, is left out.

    Raises `OSError` when the file cannot be read, `zipfile.BadZipFile` when it does not begin as a zip does.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        try:
            self._members = self._scan()
        except (OSError, zipfile.BadZipFile):
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def size(self, name: str) -> int:
        """Bytes of a member when unpacked. Raises `KeyError`."""
        return self._members[name].size

    def read(self, name: str) -> bytes:
        """A member's content. Raises `KeyError`, or `zipfile.BadZipFile` where its content is damaged."""
        member = self._members[name]
        self._file.seek(member.offset)
        packed = self._file.read(member.packed)
        try:
            content = packed if member.method == _STORED else zlib.decompressobj(-15).decompress(packed, member.size)
        except zlib.error as error:
            raise zipfile.BadZipFile(str(error)) from error
        if len(content) != member.size or zlib.crc32(content) != member.crc:
            raise zipfile.BadZipFile(f"the content of {name} is damaged")
        return content

    def _scan(self) -> dict[str, _Member]:
        end = self._file.seek(0, 2)
        found: dict[str, _Member] = {}
        offset = 0
        while len(found) < MAX_MEMBERS:
            self._file.seek(offset)
            head = self._file.read(_HEADER.size)
            if len(head) < _HEADER.size or not head.startswith(_SIGNATURE):
                break
            _, _, flags, method, _, _, crc, packed, size, name_length, more = _HEADER.unpack(head)
            name = self._file.read(name_length).decode("utf-8", "replace")
            content = offset + _HEADER.size + name_length + more
            offset = content + packed
            # The header of a member that is being written has no sizes yet.
            if offset > end or flags & _WITHOUT_SIZES or method not in {_STORED, _DEFLATED} or not packed:
                break
            found[name] = _Member(content, packed, size, method, crc)
        if not found:
            raise zipfile.BadZipFile("File is not a zip file")
        return found


class FinishedZip(zipfile.ZipFile):
    """A recording that was closed."""

    def size(self, name: str) -> int:
        """Bytes of a member when unpacked. Raises `KeyError`."""
        return self.getinfo(name).file_size


def open_zip(path: Path) -> FinishedZip | UnfinishedZip:
    """A recording's zip, or what there is of one that was never closed. Raises one of `ZIP_TROUBLE`."""
    try:
        return FinishedZip(path)
    except zipfile.BadZipFile:
        return UnfinishedZip(path)

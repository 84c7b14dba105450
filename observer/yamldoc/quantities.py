"""Scalars with a written form of their own: durations, sizes, addresses of listeners, networks, ports, names.

Each is an annotated plain type: a duration is a ``float`` in seconds, a size an ``int`` in bytes. `Written` says how
its text is read, how a value is shown, and what a person should have written.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Callable
from typing import Annotated, Any

import msgspec

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SIZE = re.compile(r"([0-9]+)(B|KiB|MiB|GiB)?")
_BYTES = {None: 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


class Written(msgspec.Struct, frozen=True):
    """How a scalar is written: ``read`` turns text into the value or raises `ValueError`, ``show`` is its inverse."""

    type_name: str
    wanted: str
    read: Callable[[str], Any]
    show: Callable[[Any], str] = str


class OneOrMany(msgspec.Struct, frozen=True):
    """Marks a list that may be written as its single item."""


class TextMap(msgspec.Struct, frozen=True):
    """Marks a tuple of pairs that is written as a mapping of texts. ``secret`` values are never shown."""

    secret: bool = False


def parse_duration(text: str) -> float:
    """Seconds of ``5s``, ``250ms``, ``2m``, ``1h`` or a chain as ``1m30s``; `ValueError` for anything else."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(text)
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if not math.isfinite(seconds):
        raise ValueError(text)
    return round(seconds, 6)


def show_duration(seconds: float) -> str:
    """The shortest form that `parse_duration` reads back: ``300.0`` is ``5m``, ``0.25`` is ``250ms``."""
    for unit in ("h", "m", "s"):
        count = seconds / _SECONDS[unit]
        if count >= 1 and count == int(count):
            return f"{int(count)}{unit}"
    if seconds < 1:
        return f"{seconds * 1000:.3f}".rstrip("0").rstrip(".") + "ms" if seconds else "0s"
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"


def parse_size(text: str) -> int:
    """Bytes of ``16MiB``, ``64KiB``, ``1GiB`` or a plain number; `ValueError` for anything else."""
    match = _SIZE.fullmatch(text)
    if match is None or len(text) > 20:
        raise ValueError(text)
    return int(match[1]) * _BYTES[match[2]]


def show_size(size: int) -> str:
    """The largest whole unit: ``16777216`` is ``16MiB``."""
    for unit in ("GiB", "MiB", "KiB"):
        if size and size % _BYTES[unit] == 0:
            return f"{size // _BYTES[unit]}{unit}"
    return f"{size}B"


def parse_host_port(text: str) -> tuple[str, int | None]:
    """Host and port of ``name``, ``name:80``, ``10.0.0.1:80``, ``[fd00::7]:80`` or ``fd00::7``; `ValueError` else.

    The host of an IPv6 form comes back without brackets. The port is ``None`` when none is written.
    """
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(text)
        ipaddress.IPv6Address(host.partition("%")[0])
        return host, _port(rest[1:]) if rest else None
    if text.count(":") > 1:
        ipaddress.IPv6Address(text.partition("%")[0])
        return text, None
    host, colon, port = text.partition(":")
    if not is_host(host):
        raise ValueError(text)
    return host, _port(port) if colon else None


def is_host(text: str) -> bool:
    """Whether a text can be a host name or an IPv4 address (a dotted number that is no IPv4 address cannot)."""
    if re.fullmatch(r"[0-9.]+", text):
        try:
            ipaddress.IPv4Address(text)
        except ValueError:
            return False
        return True
    labels = text.removesuffix(".").split(".")
    return len(text) <= 253 and all(re.fullmatch(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)", label) for label in labels)


def parse_listen(text: str) -> str:
    """A listener's ``host:port`` as written, port 0 allowed (any free port); `ValueError` when either part is bad."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(text)
    parse_host_port(host)
    return text


def parse_network(text: str) -> str:
    """A CIDR or a single address in canonical form; `ValueError` when host bits are set or it is none."""
    return str(ipaddress.ip_network(text))


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65535:
        raise ValueError(text)
    return int(text)


Duration = Annotated[
    float,
    Written("duration", "a duration such as `250ms`, `5s` or `2m`", parse_duration, show_duration),
]
"""Seconds."""
Size = Annotated[int, Written("size", "a size such as `512KiB` or `16MiB`", parse_size, show_size)]
"""Bytes."""
Listen = Annotated[str, Written("address", "host:port, as `127.0.0.1:9480` or `[::1]:9480`", parse_listen)]
Network = Annotated[str, Written("CIDR", "a network such as `127.0.0.0/8` or `fd00::/8`", parse_network)]
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Name = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=253,
        pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$",
        extra={
            "wanted": "a name of lower-case letters, digits, `-` and `.`, beginning and ending with one of the first two"
        },
    ),
]

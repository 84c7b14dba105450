"""The bytes of a plain GET, made once for an address; or nothing, where only the full HTTP library should ask."""

from __future__ import annotations

import ipaddress
import re

from router_contract.targets import Address

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_PATH = re.compile(r"/[!\"$-~]*")
_FIELD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")
_FRAMING = frozenset(
    {"connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)


def plain_request(address: Address, headers: dict[str, str]) -> bytes | None:
    """A request's head without its last empty line. ``None``: not plain http, or something in it is out of the usual.

    Nothing that could end a line or change the framing is ever put into it, whoever wrote the address: then it is the
    library's to refuse.
    """
    if address.scheme != "http" or not 0 < address.port < 65_536 or _host(address.host) is None:
        return None
    if _PATH.fullmatch(address.path) is None or "/." in address.path:
        return None
    if any(_FIELD.fullmatch(name) is None or name.lower() in _FRAMING for name in headers):
        return None
    if any(_VALUE.fullmatch(value) is None for value in headers.values()):
        return None
    host = f"[{address.host}]" if ":" in address.host else address.host
    authority = host if address.port == 80 else f"{host}:{address.port}"
    lines = [f"GET {address.path} HTTP/1.1", f"Host: {authority}", *(f"{name}: {headers[name]}" for name in headers)]
    return "".join(f"{line}\r\n" for line in lines).encode("ascii")


def literal(host: str) -> bool:
    """Whether a host is an IP address and needs no look-up."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _host(host: str) -> str | None:
    """A name or address that goes into a request as it is; no IPv6 zone, which means something only here."""
    usual = "%" not in host and literal(host) if ":" in host else len(host) <= 253 and _NAME.fullmatch(host)
    return host if usual else None

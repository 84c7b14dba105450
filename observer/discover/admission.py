"""Which addresses a *discovered* target or source may have. Static targets are what the user wrote and never asked here."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

_METADATA = (
    ipaddress.ip_network("169.254.169.254/32"),
    ipaddress.ip_network("169.254.170.2/32"),
    ipaddress.ip_network("100.100.100.200/32"),
    ipaddress.ip_network("168.63.129.16/32"),
    ipaddress.ip_network("192.0.0.192/32"),
    ipaddress.ip_network("fd00:ec2::254/128"),
    ipaddress.ip_network("fd20:ce::254/128"),
)
"""Addresses at which clouds hand out credentials and machine facts."""


def refusal(address: str, allow: Iterable[str] = ()) -> str | None:
    """Why a discovered address must not be read, as a sentence, or ``None`` when it may be.

    ``address`` is an IPv4 or IPv6 address (a zone and brackets are tolerated); a name is refused, because what it
    resolves to can change after it was judged. ``allow`` are the networks of ``security.allowCIDRs``; they open
    everything in them. IPv4 addresses inside IPv6 (mapped, 6to4, NAT64) are judged as the IPv4 address.
    """
    try:
        ip = _plain(address)
    except ValueError:
        return f"{address!r} is not an IP address; discovered targets are read by address only"
    if any(ip in ipaddress.ip_network(network) for network in allow):
        return None
    return next((f"{address} is {what}; security.allowCIDRs can open it" for what in _reasons(ip)), None)


def _plain(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    ip = ipaddress.ip_address(address.strip("[]").partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        embedded = ip.ipv4_mapped or ip.sixtofour
        if embedded is None and ip in ipaddress.ip_network("64:ff9b::/96"):
            embedded = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        return embedded or ip
    return ip


def _reasons(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> Iterable[str]:
    if any(ip in network for network in _METADATA):
        yield "a metadata address"
    if ip.is_loopback:
        yield "a loopback address"
    if ip.is_link_local:
        yield "a link-local address"
    if ip.is_unspecified:
        yield "the unspecified address"
    if ip.is_multicast:
        yield "a multicast address"
    if isinstance(ip, ipaddress.IPv4Address) and ip in ipaddress.ip_network("0.0.0.0/8"):
        yield 'a "this network" address'
    if isinstance(ip, ipaddress.IPv4Address) and ip == ipaddress.IPv4Address("255.255.255.255"):
        yield "the broadcast address"

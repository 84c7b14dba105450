from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from observer.discover.admission import refusal

REFUSED = {
    "127.0.0.1": "loopback",
    "127.8.9.10": "loopback",
    "::1": "loopback",
    "[::1]": "loopback",
    "::ffff:127.0.0.1": "loopback",
    "64:ff9b::7f00:1": "loopback",
    "2002:7f00:1::": "loopback",
    "169.254.1.1": "link-local",
    "fe80::1%eth0": "link-local",
    "169.254.169.254": "metadata",
    "::ffff:169.254.169.254": "metadata",
    "fd00:ec2::254": "metadata",
    "100.100.100.200": "metadata",
    "0.0.0.0": "unspecified",
    "0.1.2.3": "this network",
    "::": "unspecified",
    "224.0.0.1": "multicast",
    "ff02::1": "multicast",
    "255.255.255.255": "broadcast",
    "localhost": "not an IP address",
    "2130706433": "not an IP address",
    "127.1": "not an IP address",
    "": "not an IP address",
}


@pytest.mark.parametrize(("address", "word"), REFUSED.items())
def test_refused(address: str, word: str) -> None:
    assert word in (refusal(address) or "")


@pytest.mark.parametrize("address", ["10.0.0.1", "192.168.1.1", "100.64.0.1", "8.8.8.8", "fd00::7", "2001:db8::1"])
def test_pod_addresses_pass(address: str) -> None:
    assert refusal(address) is None


def test_a_network_opens_what_is_in_it_and_nothing_else() -> None:
    assert refusal("127.0.0.1", ["127.0.0.0/8"]) is None
    assert refusal("::ffff:127.0.0.1", ["127.0.0.0/8"]) is None
    assert refusal("169.254.169.254", ["127.0.0.0/8", "fd00::/8"]) is not None


@given(st.integers(0, (1 << 32) - 1))
def test_an_address_mapped_into_ipv6_is_judged_as_itself(number: int) -> None:
    address = str(ipaddress.IPv4Address(number))
    assert (refusal(address) is None) == (refusal(f"::ffff:{address}") is None)

"""What our own client sends, and what it leaves to the library."""

from __future__ import annotations

import pytest

from observer.collect.plain_request import plain_request
from router_contract.targets import Address

SENT = {"Accept": "x"}
REFUSED: dict[str, tuple[Address, dict[str, str]]] = {
    "https": (Address(scheme="https", host="h", port=1), SENT),
    "a line in the path": (Address(host="h", port=1, path="/a\r\nX: y"), SENT),
    "a space in the path": (Address(host="h", port=1, path="/a b"), SENT),
    "a fragment": (Address(host="h", port=1, path="/a#b"), SENT),
    "dots in the path": (Address(host="h", port=1, path="/../a"), SENT),
    "no path": (Address(host="h", port=1, path=""), SENT),
    "a line in the host": (Address(host="h\r\nX: y", port=1), SENT),
    "a user in the host": (Address(host="u@h", port=1), SENT),
    "a host of other letters": (Address(host="hé", port=1), SENT),
    "a zone": (Address(host="fe80::1%eth0", port=1), SENT),
    "no port": (Address(host="h", port=0), SENT),
    "a line in a value": (Address(host="h", port=1), {"X": "a\r\nY: b"}),
    "a line feed in a value": (Address(host="h", port=1), {"X": "a\nY: b"}),
    "a zero byte in a value": (Address(host="h", port=1), {"X": "a\0"}),
    "other letters in a value": (Address(host="h", port=1), {"X": "é"}),
    "a colon in a name": (Address(host="h", port=1), {"X:": "a"}),
    "no name": (Address(host="h", port=1), {"": "a"}),
    "another host": (Address(host="h", port=1), {"host": "x"}),
    "framing": (Address(host="h", port=1), {"Transfer-Encoding": "chunked"}),
}


@pytest.mark.parametrize(("address", "headers"), REFUSED.values(), ids=REFUSED)
def test_what_is_out_of_the_usual_is_left_to_the_library(address: Address, headers: dict[str, str]) -> None:
    assert plain_request(address, headers) is None


def test_a_plain_request() -> None:
    address = Address(host="::1", port=80, path="/a?b=%20c")
    assert plain_request(address, {"Accept": "*/*", "X-A": "b c"}) == (
        b"GET /a?b=%20c HTTP/1.1\r\nHost: [::1]\r\nAccept: */*\r\nX-A: b c\r\n"
    )

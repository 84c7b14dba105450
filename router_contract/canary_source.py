"""Reads where the queries of a canary analysis go. What may be a secret is never shown in a fault."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from router_contract.canary import SecretKey, Source
from router_contract.fields import FieldFault, Fields, shown

MAX_HEADERS: Final = 32
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_OURS: Final = frozenset({"host", "content-length", "content-type", "transfer-encoding", "connection", "expect"})
_ADDRESS: Final = re.compile(r"https?://(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?(/[!-\"$->@-~]*)?")


def read_source(fields: Fields) -> Source:
    """The source of queries (OME's ``prometheus`` block has the same keys)."""
    provider, auth = fields.child("providerRef"), _secretive(fields, "authRef", "a mapping with name and key")
    named = None if provider is None else provider.text("name", required=True)
    address = _server_address(fields)
    if named is not None and address is not None:
        fields.fault("serverAddress", "either providerRef or serverAddress, not both")
    key = None
    if auth is not None:
        key = SecretKey(name=auth.text("name", required=True), key=auth.text("key", required=True))
        auth.done()
    if provider is not None:
        provider.done()
    made = Source(provider=named, server_address=address, auth=key, headers=_headers(fields, secured=key is not None))
    fields.done()
    return made


def _server_address(fields: Fields) -> str | None:
    """The address; one that is refused for a user, a query or a fragment is not shown: a password may stand in it."""
    wanted = "an http:// or https:// URL of at most 2048 characters without user, query and fragment"
    if not fields.has("serverAddress"):
        return None
    value = fields.values["serverAddress"]
    if isinstance(value, str) and len(value) <= 2048 and _ADDRESS.fullmatch(value) is not None:
        return value
    secret = isinstance(value, str) and any(sign in value for sign in "@?#")
    found = "an address with more than that (not shown)" if secret else shown(value)
    fields.faults.append(FieldFault(fields.at("serverAddress"), found, wanted))
    return None


def _secretive(fields: Fields, name: str, wanted: str) -> Fields | None:
    """The mapping under a key; what stands there instead of one is not shown, because it may be a secret."""
    if fields.has(name) and not isinstance(fields.values[name], Mapping):
        fields.faults.append(FieldFault(fields.at(name), "no mapping (not shown)", wanted))
        return None
    return fields.child(name)


def _headers(fields: Fields, *, secured: bool) -> tuple[tuple[str, str], ...]:
    """Headers that are safe to send. Values never appear in a fault."""
    given = _secretive(fields, "headers", "a mapping of header names to values")
    if given is None:
        return ()
    at = given.path
    if len(given.values) > MAX_HEADERS:
        fields.faults.append(FieldFault(at, f"{len(given.values)} headers", f"at most {MAX_HEADERS}"))
    for name, value in given.values.items():
        # What is no name may be a whole header line: its value is not shown.
        start = _HEADER.match(name)
        where = f"{at}.{'' if start is None else start.group()}"
        if _HEADER.fullmatch(name) is None or name.lower() in _OURS:
            fields.faults.append(FieldFault(where, "this header name", "a header other than those the client sets"))
        elif secured and name.lower() == "authorization":
            fields.faults.append(FieldFault(where, "Authorization beside authRef", "one of the two"))
        elif not isinstance(value, str) or len(value) > 4096 or not value.isascii() or not value.isprintable():
            fields.faults.append(FieldFault(where, "a value with control characters or too long", "one line of ASCII"))
    return tuple((name, str(value)) for name, value in given.values.items())

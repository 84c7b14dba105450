"""Where queries go and with which credentials: bindings, the allow-list, tokens. Nothing here sends anything.

A provider that is not bound is an error, never a reason to ask another source.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from yarl import URL

from router_contract.canary import Source
from router_contract.canary_inputs import QueryTrouble
from router_contract.canary_results import Reason
from router_contract.targets import Address, Tls

QUERY_PATH: Final = "/api/v1/query"
MAX_TOKEN: Final = 64 << 10


class BasicAuth(msgspec.Struct, frozen=True, kw_only=True):
    """A user and the file with the password, read again before each use."""

    username: str
    password_file: str


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """A source that the operator of the observer binds to a name.

    ``namespaces`` may use it (empty: all). ``token_file`` and header values are the operator's and never printed.
    """

    server_address: str
    namespaces: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    token_file: str | None = None
    basic: BasicAuth | None = None
    tls: Tls | None = None


class SourceRules(msgspec.Struct, frozen=True, kw_only=True):
    """What analyses may use: bound providers, the default one, and whether a raw address is allowed."""

    providers: Mapping[str, Provider] = {}
    default_provider: str | None = None
    allow_server_address: bool = False


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """A source ready to be asked. ``trusted`` sources are the operator's own: their addresses are not restricted.

    ``token`` is a bearer token from a Secret; it replaces the provider's file. Secrets stay out of any text.
    """

    address: Address
    token: str | None = None
    basic: BasicAuth | None = None
    trusted: bool = False


def bind(
    source: Source | None, rules: SourceRules, namespace: str, secret: Mapping[str, bytes] | None
) -> Bound | QueryTrouble:
    """The source of an analysis in ``namespace``. ``secret`` is the data of the Secret that ``auth`` names, if it exists.

    An analysis's own headers replace the provider's by name, in any letter case.
    """
    source = source or Source()
    name = source.provider if source.server_address is None else None
    name = name or (rules.default_provider if source.server_address is None else None)
    provider = None if name is None else rules.providers.get(name)
    if name is not None and (provider is None or (provider.namespaces and namespace not in provider.namespaces)):
        why = "is not bound" if provider is None else f"may not be used from namespace {namespace}"
        return _wrong(Reason.PROVIDER_UNBOUND, f"the provider {name!r} {why}")
    if provider is None and source.server_address is None:
        return _wrong(Reason.NO_SOURCE, "no providerRef, no serverAddress and no default provider")
    if provider is None and not rules.allow_server_address:
        return _wrong(Reason.SOURCE_FORBIDDEN, "a raw serverAddress is not allowed here: use a bound provider")
    token = None if source.auth is None else secret_token(source.auth.name, source.auth.key, secret)
    if isinstance(token, QueryTrouble):
        return token
    at = source.server_address if provider is None else provider.server_address
    where = _address(at or "", provider, source.headers, own_token=token is not None)
    if isinstance(where, QueryTrouble):
        return where
    basic = None if provider is None or token is not None else provider.basic
    return Bound(address=where, token=token, basic=basic, trusted=provider is not None)


def secret_token(name: str, key: str, secret: Mapping[str, bytes] | None) -> str | QueryTrouble:
    """The token of a Secret's key; a newline at its end is no part of it."""
    where = f"key {key!r} of Secret {name!r}"
    if secret is None:
        return _wrong(Reason.AUTH_SECRET_MISSING, f"the Secret {name!r} is not there or cannot be read")
    if key not in secret:
        return _wrong(Reason.AUTH_SECRET_KEY_MISSING, f"{where} is not there")
    try:
        text = secret[key].decode("ascii").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        return _wrong(Reason.AUTH_SECRET_INVALID, f"{where} is not ASCII text")
    if not text.strip():
        return _wrong(Reason.AUTH_SECRET_EMPTY, f"{where} is empty")
    if not text.isprintable() or len(text) > MAX_TOKEN:
        return _wrong(Reason.AUTH_SECRET_INVALID, f"{where} has a newline or control character, or is too long")
    return text


def _address(
    text: str, provider: Provider | None, headers: tuple[tuple[str, str], ...], *, own_token: bool
) -> Address | QueryTrouble:
    """The query path at a server's address."""
    try:
        url = URL(text, encoded=True)
        host, port = url.host, url.port
    except ValueError:
        host, port, url = None, None, URL()
    if url.scheme not in {"http", "https"} or not host or not port or url.user or url.raw_query_string or url.fragment:
        return _wrong(Reason.SOURCE_FORBIDDEN, "its address is not an http:// or https:// URL without user and query")
    given = () if provider is None else provider.headers
    own = {name.lower() for name, _ in headers}
    merged = (*((name, value) for name, value in given if name.lower() not in own), *headers)
    return Address(
        scheme=url.scheme,
        host=host,
        port=port,
        path=url.raw_path.rstrip("/") + QUERY_PATH,
        tls=None if provider is None else provider.tls,
        headers=merged,
        bearer_token_file=None if provider is None or own_token else provider.token_file,
    )


def _wrong(reason: Reason, detail: str) -> QueryTrouble:
    return QueryTrouble(reason=reason, detail=detail, permanent=True)

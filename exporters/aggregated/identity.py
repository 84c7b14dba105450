"""Who asks: an identity, how kube-apiserver tells it in headers, and when those headers may be believed.

Headers count only on a connection whose client certificate the request-header CA signed, for a name that is allowed.
What the cluster says about that is read from its ConfigMap and may change at any time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol
from urllib.parse import unquote

import msgspec

AUTHENTICATED = "system:authenticated"
ANONYMOUS = "system:anonymous"
MASTERS = "system:masters"


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """A user with its groups (`system:authenticated` among them) and extra fields, as an access review wants them."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def master(self) -> bool:
        """Whether every access is granted without asking."""
        return MASTERS in self.groups


def authenticated(identity: Identity) -> Identity:
    """The identity with the group that everybody known is in. kube-apiserver's own callers are sent without it."""
    if AUTHENTICATED in identity.groups or identity.user == ANONYMOUS:
        return identity
    return msgspec.structs.replace(identity, groups=(*identity.groups, AUTHENTICATED))


class FrontProxy(msgspec.Struct, frozen=True, kw_only=True):
    """What the cluster's ConfigMap says about its front proxy. ``ca`` and ``client_ca`` are PEM bundles.

    Without allowed names every name is allowed. Header names are in lower case. Without ``uid_headers`` no UID counts.
    """

    ca: str
    allowed_names: tuple[str, ...] = ()
    user_headers: tuple[str, ...] = ("x-remote-user",)
    group_headers: tuple[str, ...] = ("x-remote-group",)
    extra_prefixes: tuple[str, ...] = ("x-remote-extra-",)
    uid_headers: tuple[str, ...] = ()
    client_ca: str = ""

    @property
    def headers(self) -> frozenset[str]:
        """Every header that names somebody, prefixes apart."""
        return frozenset((*self.user_headers, *self.group_headers, *self.uid_headers))

    def claims(self, names: Iterable[str]) -> bool:
        """Whether some of a request's header names tell who asks."""
        return any(name.lower() in self.headers or name.lower().startswith(self.extra_prefixes) for name in names)


class BadFrontProxyError(ValueError):
    """The ConfigMap cannot be used; the text names the key, what was found and what was wanted."""


_PREFIX = "requestheader-"


def front_proxy(data: Mapping[str, str]) -> FrontProxy:
    """The front proxy of the ConfigMap ``extension-apiserver-authentication``.

    Raises `BadFrontProxyError`, also for the one combination in which any client certificate of the cluster could
    claim to be anybody: one CA for clients and for the front proxy, and no allowed names.
    """
    bundle = data.get(f"{_PREFIX}client-ca-file", "").strip()
    if not bundle:
        raise BadFrontProxyError(f"{_PREFIX}client-ca-file: found nothing, wanted the front proxy's CA in PEM")
    defaults = FrontProxy(ca=bundle)
    clients = data.get("client-ca-file", "").strip()
    found = FrontProxy(
        ca=bundle,
        allowed_names=_names(data, "allowed-names", ()),
        user_headers=_lower(_names(data, "username-headers", defaults.user_headers)),
        group_headers=_lower(_names(data, "group-headers", defaults.group_headers)),
        extra_prefixes=_lower(_names(data, "extra-headers-prefix", defaults.extra_prefixes)),
        uid_headers=_lower(_names(data, "uid-headers", ())),
        client_ca=clients,
    )
    if not found.allowed_names and set(_certificates(bundle)) & set(_certificates(clients)):
        raise BadFrontProxyError(
            f"{_PREFIX}allowed-names is empty and {_PREFIX}client-ca-file shares a CA with client-ca-file, so any client "
            "certificate could claim to be anybody: give kube-apiserver --requestheader-allowed-names or a CA of its own"
        )
    return found


def _certificates(bundle: str) -> list[str]:
    """The certificates of a PEM bundle, each without white space, so that equal ones are equal texts."""
    parts = bundle.split("-----BEGIN CERTIFICATE-----")[1:]
    return ["".join(part.partition("-----END")[0].split()) for part in parts]


def _names(data: Mapping[str, str], key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    text = data.get(_PREFIX + key, "").strip()
    if not text:
        return default
    try:
        return msgspec.json.decode(text, type=tuple[str, ...])
    except msgspec.DecodeError as error:
        raise BadFrontProxyError(f"{_PREFIX}{key}: found {text[:80]!r}, wanted a JSON list of texts") from error


def _lower(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.lower() for name in names)


class Headers(Protocol):
    """A request's headers, repeated ones kept apart."""

    def getall(self, key: str, default: Sequence[str], /) -> Sequence[str]:
        """Every value of a header."""
        ...

    def keys(self) -> Iterable[str]:
        """The names as they came."""
        ...


def from_headers(proxy: FrontProxy, headers: Headers) -> Identity | None:
    """The identity that headers tell; ``None`` when they name nobody. The connection must be the front proxy's."""
    user = _first(headers, proxy.user_headers)
    if not user:
        return None
    extra: dict[str, list[str]] = {}
    for name in dict.fromkeys(key.lower() for key in headers.keys()):  # noqa: SIM118 - no mapping
        prefix = next((each for each in proxy.extra_prefixes if name.startswith(each)), None)
        if prefix is not None:
            extra.setdefault(unquote(name[len(prefix) :]), []).extend(headers.getall(name, ()))
    return authenticated(
        Identity(
            user=user,
            uid=_first(headers, proxy.uid_headers),
            groups=tuple(value for name in proxy.group_headers for value in headers.getall(name, ())),
            extra=tuple((key, tuple(values)) for key, values in sorted(extra.items())),
        )
    )


def _first(headers: Headers, names: Iterable[str]) -> str:
    return next((value for name in names for value in headers.getall(name, ()) if value), "")

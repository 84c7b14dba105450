"""Who may ask what: authentication of a connection's requests and authorization of each, with bounded caches.

Everything fails closed: a question that nobody could answer is no permission, and is not remembered as a refusal.
"""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

import msgspec

from exporters.aggregated.identity import (
    FrontProxy,
    Headers,
    Identity,
    authenticated,
    from_headers,
)
from exporters.aggregated.peer import Peer
from exporters.aggregated.refusals import RefusalError

V = TypeVar("V")
_log = logging.getLogger(__name__)

CACHED_SECONDS = 10.0
"""For how long an answer of a review counts, a yes as well as a no."""
CACHED_MOST = 4096
_SAID_AGAIN = 60.0


class Attributes(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for: a resource of a group, or (with ``path``) something that is none."""

    verb: str
    path: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class Decision(msgspec.Struct, frozen=True):
    """What an access review said. ``known`` is False when nobody could say: then ``reason`` tells why."""

    allowed: bool
    reason: str = ""
    known: bool = True


class TokenAnswer(msgspec.Struct, frozen=True):
    """Whose token it is, ``None`` for nobody's. ``known`` is False when nobody could say."""

    identity: Identity | None
    reason: str = ""
    known: bool = True


class Reviews(Protocol):
    """The API server's two questions."""

    async def token(self, token: str) -> TokenAnswer:
        """Whose token this is."""
        ...

    async def access(self, identity: Identity, attributes: Attributes) -> Decision:
        """Whether somebody may do something."""
        ...


class Remembered(Generic[V]):
    """Answers by key, for a time; the oldest go when there are too many."""

    def __init__(self, now: Callable[[], float], seconds: float = CACHED_SECONDS, most: int = CACHED_MOST) -> None:
        self._now = now
        self._seconds = seconds
        self._most = most
        self._held: OrderedDict[Hashable, tuple[float, V]] = OrderedDict()

    def get(self, key: Hashable) -> V | None:
        """What is remembered and not too old."""
        found = self._held.get(key)
        return found[1] if found is not None and self._now() - found[0] < self._seconds else None

    def put(self, key: Hashable, value: V) -> None:
        """Remember."""
        self._held.pop(key, None)
        self._held[key] = (self._now(), value)
        while len(self._held) > self._most:
            self._held.popitem(last=False)


class Access:
    """Decides over requests. ``now`` tells monotonic seconds; ``proxy`` is ``None`` until the cluster was asked."""

    def __init__(self, reviews: Reviews, now: Callable[[], float]) -> None:
        self._reviews = reviews
        self._now = now
        self._tokens: Remembered[TokenAnswer] = Remembered(now)
        self._decisions: Remembered[Decision] = Remembered(now)
        self._said: dict[str, float] = {}
        self.proxy: FrontProxy | None = None
        self.trouble = "the front proxy's ConfigMap was not read yet"
        """Why there is no ``proxy``."""
        self.refused: dict[str, int] = {}
        """How many requests were refused, by why."""

    async def identify(self, peer: Peer, headers: Headers) -> Identity:
        """Who asks. Raises `RefusalError`: 401, or 503 when nobody could say whose token it is."""
        if self.proxy is None:
            raise RefusalError(503, f"nobody can be identified: {self.trouble}", retry_after=5)
        if self.proxy.claims(headers.keys()):
            return self._proxied(self.proxy, peer, headers)
        token = _bearer(headers)
        if token is None:
            self._say("anonymous", f"a request from {peer.address} has neither a proxied identity nor a token")
            raise _unauthorized()
        return await self._owner(token, peer)

    def _proxied(self, proxy: FrontProxy, peer: Peer, headers: Headers) -> Identity:
        """The identity of headers, if the connection is the front proxy's."""
        why = peer.mistrusted(proxy)
        if why:
            self._say(
                "forged",
                f"identity headers from {peer.address} are not believed: {why}. If kube-apiserver sent them, its "
                "front-proxy CA and the ConfigMap kube-system/extension-apiserver-authentication do not agree; if not, "
                "somebody tries to be somebody else",
            )
            raise _unauthorized(close=True)
        identity = from_headers(proxy, headers)
        if identity is None:
            self._say("nameless", f"a proxied request from {peer.address} names no user")
            raise _unauthorized()
        return identity

    async def _owner(self, token: str, peer: Peer) -> Identity:
        key = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        answer = self._tokens.get(key)
        if answer is None:
            answer = await self._reviews.token(token)
            if answer.known:
                self._tokens.put(key, answer)
        if not answer.known:
            self._say("unreviewed", f"no token can be reviewed: {answer.reason}")
            raise RefusalError(503, f"the token could not be reviewed: {answer.reason}", retry_after=1)
        if answer.identity is None:
            self._say("token", f"a token from {peer.address} is nobody's: {answer.reason or 'not authenticated'}")
            raise _unauthorized()
        return authenticated(answer.identity)

    async def authorize(self, identity: Identity, attributes: Attributes) -> None:
        """Return when it may be done. Raises `RefusalError` (403) when not, also when nobody could say."""
        if identity.master:
            return
        key = (identity, attributes)
        decision = self._decisions.get(key)
        if decision is None:
            decision = await self._reviews.access(identity, attributes)
            if decision.known:
                self._decisions.put(key, decision)
        if not decision.known:
            self._say("unreviewed", f"no access can be reviewed: {decision.reason}")
            raise _forbidden(identity, attributes, f"authorization check failed: {decision.reason}")
        if not decision.allowed:
            raise _forbidden(identity, attributes, decision.reason)

    def _say(self, kind: str, sentence: str) -> None:
        """Count, and log once in a while: a client that tries again and again is one trouble."""
        self.refused[kind] = self.refused.get(kind, 0) + 1
        now = self._now()
        if now - self._said.get(kind, -_SAID_AGAIN) >= _SAID_AGAIN:
            self._said[kind] = now
            _log.error("%s", sentence)


def _bearer(headers: Headers) -> str | None:
    value = next(iter(headers.getall("Authorization", ())), "")
    scheme, _, token = value.partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def _unauthorized(*, close: bool = False) -> RefusalError:
    return RefusalError(401, "Unauthorized", close=close, headers={"WWW-Authenticate": "Bearer"})


def _forbidden(identity: Identity, attributes: Attributes, reason: str) -> RefusalError:
    """In the words of every API server."""
    what = attributes.resource + (f"/{attributes.subresource}" if attributes.subresource else "")
    if attributes.path:
        text = f'forbidden: User "{identity.user}" cannot {attributes.verb} path "{attributes.path}"'
    else:
        subject = f'{what}.{attributes.group} "{attributes.name}"' if attributes.name else f"{what}.{attributes.group}"
        place = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
        text = (
            f'{subject} is forbidden: User "{identity.user}" cannot {attributes.verb} resource "{what}" in API group '
            f'"{attributes.group}" {place}'
        )
    return RefusalError(403, f"{text}: {reason}" if reason else text, plural=attributes.resource, name=attributes.name)

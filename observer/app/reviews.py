"""Asking the API server whose token something is and who may do what: `exporters.aggregated.access.Reviews`."""

from __future__ import annotations

import asyncio

import msgspec

from exporters.aggregated.access import Attributes, Decision, TokenAnswer
from exporters.aggregated.identity import Identity
from observer.kube.answers import Answer, Outcome
from observer.kube.client import ApiClient

REVIEW_SECONDS = 2.5
"""One try; two of them fit into the time of an answer."""
_PAUSE = 0.2
_TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_AGAIN = {Outcome.NO_ANSWER, Outcome.UNAVAILABLE, Outcome.SILENT, Outcome.THROTTLED}


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] | None = None


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)
    audiences: tuple[str, ...] = ()
    error: str = ""


class _TokenReview(msgspec.Struct):
    status: _TokenStatus


class _AccessStatus(msgspec.Struct, rename="camel"):
    allowed: bool = False
    denied: bool = False
    reason: str = ""
    evaluation_error: str = ""


class _AccessReview(msgspec.Struct):
    status: _AccessStatus


class KubeReviews:
    """Both reviews over one client. They do not wait behind lists, and are tried twice."""

    def __init__(self, client: ApiClient, audiences: tuple[str, ...] = ()) -> None:
        self._client = client
        self._audiences = audiences

    async def token(self, token: str) -> TokenAnswer:
        """Whose token this is. One for other audiences than ours is nobody's."""
        spec: dict[str, object] = {"token": token}
        if self._audiences:
            spec["audiences"] = self._audiences
        answer = await self._ask(_TOKENS, "authentication.k8s.io/v1", "TokenReview", spec)
        if not answer.ok:
            return TokenAnswer(None, answer.message, known=False)
        try:
            status = msgspec.json.decode(answer.body, type=_TokenReview).status
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return TokenAnswer(None, f"the review cannot be read: {error}", known=False)
        if not status.authenticated or not status.user.username:
            return TokenAnswer(None, status.error)
        if self._audiences and not set(self._audiences) & set(status.audiences):
            return TokenAnswer(None, f"the token is for {', '.join(status.audiences) or 'no audience'}")
        user = status.user
        extra = tuple(sorted((user.extra or {}).items()))
        return TokenAnswer(Identity(user=user.username, uid=user.uid, groups=user.groups, extra=extra))

    async def access(self, identity: Identity, attributes: Attributes) -> Decision:
        """Whether somebody may do something."""
        spec: dict[str, object] = {"user": identity.user}
        if identity.uid:
            spec["uid"] = identity.uid
        spec |= {"groups": identity.groups, "extra": dict(identity.extra)}
        if attributes.path:
            spec["nonResourceAttributes"] = {"path": attributes.path, "verb": attributes.verb}
        else:
            asked: dict[str, str] = msgspec.to_builtins(attributes)
            spec["resourceAttributes"] = {name: value for name, value in asked.items() if value}
        answer = await self._ask(_ACCESS, "authorization.k8s.io/v1", "SubjectAccessReview", spec)
        if not answer.ok:
            return Decision(allowed=False, reason=answer.message, known=False)
        try:
            status = msgspec.json.decode(answer.body, type=_AccessReview).status
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return Decision(allowed=False, reason=f"the review cannot be read: {error}", known=False)
        return Decision(status.allowed and not status.denied, status.reason or status.evaluation_error)

    async def _ask(self, path: str, version: str, kind: str, spec: dict[str, object]) -> Answer:
        body = {"apiVersion": version, "kind": kind, "metadata": {}, "spec": spec}
        answer = await self._client.request("POST", path, body=body, seconds=REVIEW_SECONDS, urgent=True)
        if answer.outcome in _AGAIN:
            await asyncio.sleep(_PAUSE)
            answer = await self._client.request("POST", path, body=body, seconds=REVIEW_SECONDS, urgent=True)
        return answer

"""Both reviews against a small API server: what is asked, what an answer means, and that nobody's answer is no answer."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from exporters.aggregated.access import Attributes, Decision, TokenAnswer
from exporters.aggregated.identity import Identity
from observer.app.reviews import KubeReviews
from observer.clock import SystemClock
from observer.kube.client import ApiClient
from tests.kube.steady import PlainCredentials

ALICE = Identity(user="alice", uid="7", groups=("dev",), extra=(("scopes", ("a", "b")),))
GET = Attributes(verb="get", group="g", version="v1", resource="r", subresource="s", namespace="n", name="x")


class Server:
    """Answers the next review with what it was given; keeps what was asked."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, Any]] = []
        self.asked: list[dict[str, Any]] = []

    async def review(self, request: web.Request) -> web.Response:
        self.asked.append(await request.json())
        status, body = self.answers.pop(0)
        return web.json_response(body, status=status)


@pytest.fixture
async def kube(aiohttp_server):
    server = Server()
    app = web.Application()
    app.router.add_post("/apis/authentication.k8s.io/v1/tokenreviews", server.review)
    app.router.add_post("/apis/authorization.k8s.io/v1/subjectaccessreviews", server.review)
    listening = await aiohttp_server(app)
    async with ApiClient(PlainCredentials(str(listening.make_url("")).rstrip("/"), "t"), SystemClock()) as client:
        yield server, client


ACCESS = {
    "allowed": ({"allowed": True}, Decision(allowed=True)),
    "not allowed": ({"allowed": False, "reason": "no role"}, Decision(allowed=False, reason="no role")),
    "denied wins": ({"allowed": True, "denied": True}, Decision(allowed=False)),
    "could not be evaluated": (
        {"allowed": False, "evaluationError": "broken role"},
        Decision(allowed=False, reason="broken role"),
    ),
    "an empty status": ({}, Decision(allowed=False)),
}


@pytest.mark.parametrize(("status", "wanted"), ACCESS.values(), ids=ACCESS)
async def test_what_an_access_review_says(kube, status: dict[str, Any], wanted: Decision) -> None:
    server, client = kube
    server.answers.append((201, {"status": status}))
    assert await KubeReviews(client).access(ALICE, GET) == wanted
    spec = server.asked[0]["spec"]
    assert (spec["user"], spec["uid"], spec["groups"], spec["extra"]) == ("alice", "7", ["dev"], {"scopes": ["a", "b"]})
    assert spec["resourceAttributes"] == {
        "verb": "get", "group": "g", "version": "v1", "resource": "r", "subresource": "s", "namespace": "n", "name": "x",
    }  # fmt: skip


async def test_a_path_is_reviewed_as_a_path(kube) -> None:
    server, client = kube
    server.answers.append((201, {"status": {"allowed": True}}))
    await KubeReviews(client).access(ALICE, Attributes(verb="get", path="/openapi/v2"))
    assert server.asked[0]["spec"]["nonResourceAttributes"] == {"path": "/openapi/v2", "verb": "get"}
    assert "resourceAttributes" not in server.asked[0]["spec"]


USER = {"username": "bob", "groups": ["system:authenticated"], "extra": {"k": ["v"]}}
BOB = Identity(user="bob", groups=("system:authenticated",), extra=(("k", ("v",)),))
TOKENS = {
    "known": ({"authenticated": True, "user": USER}, (), TokenAnswer(BOB)),
    "our audience": ({"authenticated": True, "user": USER, "audiences": ["api"]}, ("api",), TokenAnswer(BOB)),
    "another audience": ({"authenticated": True, "user": USER, "audiences": ["vault"]}, ("api",), TokenAnswer(None, "the token is for vault")),
    "an API server without audiences": ({"authenticated": True, "user": USER}, ("api",), TokenAnswer(None, "the token is for no audience")),
    "nobody's": ({"authenticated": False, "error": "expired"}, (), TokenAnswer(None, "expired")),
    "nameless": ({"authenticated": True, "user": {}}, (), TokenAnswer(None)),
}  # fmt: skip


@pytest.mark.parametrize(("status", "audiences", "wanted"), TOKENS.values(), ids=TOKENS)
async def test_what_a_token_review_says(
    kube, status: dict[str, Any], audiences: tuple[str, ...], wanted: TokenAnswer
) -> None:
    server, client = kube
    server.answers.append((201, {"status": status}))
    assert await KubeReviews(client, audiences).token("secret") == wanted
    assert server.asked[0]["spec"].get("audiences", []) == list(audiences)


async def test_a_failure_is_tried_once_more_and_then_nobody_can_say(kube) -> None:
    server, client = kube
    server.answers += [(503, {}), (201, {"status": {"allowed": True}})]
    assert await KubeReviews(client).access(ALICE, GET) == Decision(allowed=True)
    server.answers += [(503, {"kind": "Status", "message": "starting"})] * 2
    assert await KubeReviews(client).access(ALICE, GET) == Decision(allowed=False, reason="starting", known=False)
    server.answers.append((403, {"kind": "Status", "message": "no right to review"}))
    assert await KubeReviews(client).token("x") == TokenAnswer(None, "no right to review", known=False)
    server.answers.append((201, ["no review"]))
    assert not (await KubeReviews(client).access(ALICE, GET)).known

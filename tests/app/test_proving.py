"""The uncached list behind a membership proof: what is asked of the server, and what its answer proves."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from observer.app.proving import label_selector, membership
from observer.clock import SystemClock
from observer.kube.answers import Answer, Outcome
from router_contract.judging import ProofMember
from router_contract.targets import Ready
from tests.kube.test_observations import found

SELECTORS = {
    "nothing is wanted": ((), ""),
    "filled in": ((("app", "{namespace}-{name}"), ("kind", "engine")), "app=prod-chat,kind=engine"),
    "any value, and none": ((("a", "*"), ("b", "!")), "a,!b"),
    "one of two": ((("a", "x|y"),), "a in (x,y)"),
    "what only a role fills in is not asked": ((("role", "{role}"), ("a", "x")), "a=x"),
}


@pytest.mark.parametrize(("labels", "selector"), SELECTORS.values(), ids=SELECTORS)
def test_what_is_asked(labels: tuple[tuple[str, str], ...], selector: str) -> None:
    assert label_selector(labels, found()) == selector


class Server:
    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[tuple[str, Any]] = []

    async def request(self, method: str, path: str, *, query: Any) -> Answer:
        self.asked.append((f"{method} {path}", query))
        return self.answer


def pod(name: str, ready: str = "True", **more: Any) -> dict[str, Any]:
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    return {"metadata": {"name": name, "uid": f"uid-{name}", "namespace": "prod", **more}, "spec": {}, "status": status}


def listed(*pods: dict[str, Any]) -> Answer:
    return Answer(outcome=Outcome.OK, status=200, body=orjson.dumps({"items": list(pods)}))


ANSWERS = {
    "two Pods": (
        listed(pod("a"), pod("b", "False")),
        (ProofMember(uid="uid-a", ready=Ready.TRUE), ProofMember(uid="uid-b", ready=Ready.FALSE)),
    ),
    "one is going": (
        listed(pod("a", deletionTimestamp="2026-01-01T00:00:00Z")),
        (ProofMember(uid="uid-a", ready=Ready.TRUE, terminating=True),),
    ),
    "none": (listed(), ()),
    "refused": (Answer(outcome=Outcome.FORBIDDEN, status=403), None),
    "no list": (Answer(outcome=Outcome.OK, status=200, body=b"{"), None),
    "a Pod that cannot be read": (listed({"metadata": {}}), None),
}


@pytest.mark.parametrize(("answer", "members"), ANSWERS.values(), ids=ANSWERS)
async def test_what_an_answer_proves(answer: Answer, members: tuple[ProofMember, ...] | None) -> None:
    server = Server(answer)
    proof = await membership(server, SystemClock(), found(), (("a", "x"),))  # type: ignore[arg-type]  # a stand-in
    assert proof.members == members
    assert server.asked == [("GET /api/v1/namespaces/prod/pods", {"labelSelector": "a=x"})]

"""The uncached proof: what is asked of the server, and what an answer proves."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from observer.clock import SystemClock
from observer.discover.platforms import read_platform
from observer.discover.platforms.select import Wanted
from observer.discover.platforms.world import World
from observer.discover.proving import label_selector, prove
from observer.kube.answers import Answer, Outcome
from observer.kube.records import document
from router_contract.judging import ProofMember
from router_contract.targets import Ready
from tests.discover.platforms.shapes import raw, thing

SELECTORS = {
    "exactly": ((Wanted("a", ("x",)),), "a=x"),
    "one of two": ((Wanted("a", ("x", "y")),), "a in (x,y)"),
    "any value, and none": ((Wanted("a"), Wanted("b", absent=True)), "a,!b"),
    "none of two": ((Wanted("a", ("x", "y"), unless=True),), "a notin (x,y)"),
}


@pytest.mark.parametrize(("wants", "selector"), SELECTORS.values(), ids=SELECTORS)
def test_requirements_as_a_label_selector(wants, selector):
    assert label_selector(wants) == selector


class Server:
    """Answers in turn."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, Any]] = []

    async def request(self, method: str, path: str, *, query: Any) -> Answer:
        self.asked.append((f"{method} {path}", query))
        return self.answers.pop(0)


def pod(name: str, ready: str = "True", phase: str = "Running", **more: Any) -> dict[str, Any]:
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}
    meta = {"name": name, "uid": f"uid-{name}", "namespace": "prod", "labels": {"app": "x"}, **more}
    return {"metadata": meta, "spec": {}, "status": status}


def listed(*pods: dict[str, Any], more: str = "") -> Answer:
    body = {"metadata": {"resourceVersion": "1", **({"continue": more} if more else {})}, "items": list(pods)}
    return Answer(outcome=Outcome.OK, status=200, body=orjson.dumps(body))


def member(name: str, ready: Ready = Ready.TRUE, *, terminating: bool = False) -> ProofMember:
    return ProofMember(uid=f"uid-{name}", ready=ready, terminating=terminating)


FORBIDDEN = Answer(outcome=Outcome.FORBIDDEN, status=403)
ANSWERS = {
    "two Pods": ((listed(pod("a"), pod("b", "False")),), (member("a"), member("b", Ready.FALSE))),
    "two pages": ((listed(pod("a"), more="t"), listed(pod("b"))), (member("a"), member("b"))),
    "one is going": ((listed(pod("a", deletionTimestamp="2026-01-01T00:00:00Z")),), (member("a", terminating=True),)),
    "one has ended": ((listed(pod("a"), pod("b", phase="Failed")),), (member("a"),)),
    "one whose labels do not fit": ((listed(pod("a"), pod("b", labels={"app": "y"})),), (member("a"),)),
    "none": ((listed(),), ()),
    "refused": ((FORBIDDEN,), None),
    "refused at the second page": ((listed(pod("a"), more="t"), FORBIDDEN), None),
    "no list": ((Answer(outcome=Outcome.OK, status=200, body=b"{"),), None),
    "a Pod that cannot be read": ((listed({"metadata": {}}),), None),
    "pages without end": (tuple(listed(pod("a"), more="t") for _ in range(20)), None),
}
PLATFORM = read_platform("""apiVersion: observer.modeldeployment.io/v1alpha1
kind: Platform
name: own
target: {version: v1, kind: Thing, plural: things}
pods: {selector: spec.selector}
roles: [{name: {fixed: server}}]
""")


@pytest.mark.parametrize(("answers", "members"), ANSWERS.values(), ids=ANSWERS)
async def test_what_an_answer_proves(answers, members):
    server = Server(*answers)
    target = document(raw(thing("v1", "Thing", "t", "prod", spec={"selector": {"app": "x"}})))
    proof = await prove(server, SystemClock(), PLATFORM, target, World())  # type: ignore[arg-type]  # a stand-in
    assert proof.members == members
    assert server.asked[0] == ("GET /api/v1/namespaces/prod/pods", {"labelSelector": "app=x", "limit": "500"})
    assert not server.answers


async def test_where_nothing_is_selected_nothing_is_asked():
    server = Server()
    target = document(raw(thing("v1", "Thing", "t", "prod", spec={})))
    proof = await prove(server, SystemClock(), PLATFORM, target, World())  # type: ignore[arg-type]  # a stand-in
    assert (proof.members, server.asked) == ((), [])

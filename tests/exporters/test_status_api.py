"""Status, explanation and contract over a real socket."""

from __future__ import annotations

import pytest

from tests.exporters.judged import EVERYTHING, judged
from tests.exporters.reports import Pods, report
from tests.exporters.sources import Reports
from tests.exporters.test_api import serving

BASE = "/api/v1/namespaces/prod/modeldeployments/chat"


async def test_each_document_is_at_its_path() -> None:
    async with serving(Reports(EVERYTHING)) as session:
        found = {part: await (await session.get(f"{BASE}/{part}")).json() for part in ("status", "explain", "contract")}
    assert found["status"]["status"]["phase"] == "Degraded"
    assert found["explain"]["sentences"] == ["One.", "Two.", "Three."]
    assert "history" not in found["explain"]
    assert [check["item"] for check in found["contract"]["checks"]] == ["port", "events"]


async def test_history_is_asked_for() -> None:
    async with serving(Reports(EVERYTHING)) as session, session.get(f"{BASE}/explain?history=true") as answer:
        assert len((await answer.json())["history"]) == 2


REFUSED = {
    "not judged yet": (report(Pods().pod("p")), "status", 503, "prod/chat is not judged yet"),
    "not explained yet": (report(Pods().pod("p")), "explain", 503, "prod/chat is not judged yet"),
    "no contract yet": (report(Pods().pod("p")), "contract", 503, "prod/chat is not judged yet"),
    "unknown": (None, "status", 404, "no deployment prod/chat is observed"),
    "no boolean": (judged(), "explain?history=all", 400, "history is 'all'; want true or false"),
}


@pytest.mark.parametrize(("made", "part", "code", "message"), REFUSED.values(), ids=REFUSED)
async def test_refusals_are_status_objects(made, part: str, code: int, message: str) -> None:
    source = Reports(made) if made is not None else Reports()
    async with serving(source) as session, session.get(f"{BASE}/{part}") as answer:
        body = await answer.json()
    assert (answer.status, body["kind"], body["message"], body["details"]["name"]) == (code, "Status", message, "chat")


async def test_lists_say_phase_and_why_and_null_until_judged() -> None:
    unjudged = report(Pods().pod("p"))
    for made, phase, answer, eligible in (
        (judged(), "Degraded", {"type": "Member p1", "status": "False", "reason": "Down"}, 1),
        (unjudged, None, None, None),
    ):
        async with serving(Reports(made)) as session, session.get("/api/v1/deployments") as response:
            (item,) = (await response.json())["items"]
        assert (item["phase"], item["answer"], item["roles"][0]["eligible"]) == (phase, answer, eligible)

"""Status, explanation and contract over a real socket."""

from __future__ import annotations

import io

import aiohttp
import pytest
from msgspec.structs import replace
from rich.console import Console

from exporters.api import Api
from exporters.families import FAMILIES
from exporters.prometheus import Renderer
from exporters.self_metrics import SelfMetrics
from exporters.server import Listen, Server
from exporters.status_tables import explanation
from router_contract.platform_words import Look, NoteFact
from router_contract.status import Finding
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


class Looked:
    """Looks at one thing, and remembers for whom."""

    def __init__(self):
        self.asked = []

    async def look(self, key):
        self.asked.append(key)
        return (
            Look(kind="Event", name="chat", reason="Grew", said="no room", advice="Act", whose="you", hint="add some"),
        )


async def test_what_is_looked_at_on_demand_notices_and_notes_are_part_of_an_explanation() -> None:
    notice = Finding(
        type="Planned", status="True", reason="InForce", advice="ClearsByItself", whose="c", hint="know it"
    )
    told = replace(EVERYTHING.explanation, notices=(notice,), notes=(NoteFact(topic="one replica", says="by class"),))
    looks = Looked()
    api = Api(
        Reports(replace(EVERYTHING, explanation=told)), Renderer(FAMILIES, SelfMetrics("t", "3").registry), looks=looks
    )
    server = Server(api.routes(), Listen(port=0), SelfMetrics("t", "3"))
    await server.start()
    try:
        async with aiohttp.ClientSession(server.url) as session:
            assert (await session.get(f"{BASE}/status")).status == 200
            assert looks.asked == [], "nobody looks for a status"
            made = await (await session.get(f"{BASE}/explain")).json()
            other = await session.get(BASE.replace("chat", "other") + "/explain")
    finally:
        await server.stop()
    assert [str(key) for key in looks.asked] == ["prod/chat"]
    assert other.status == 404
    assert made["notices"][0]["hint"] == "know it"
    assert made["notes"] == [{"topic": "one replica", "says": "by class"}]
    assert made["looks"] == [{"kind": "Event", "name": "chat", "reason": "Grew", "said": "no room", "advice": "Act", "whose": "you", "hint": "add some"}]  # fmt: skip
    console = Console(width=200, record=True, file=io.StringIO())
    for part in explanation(made, width=200):
        console.print(part)
    shown = console.export_text()
    for text in ("TRUE, WITH A NOTICE", "know it", "LOOKED AT", "no room", "act: add some", "ABOUT", "by class"):
        assert text in shown

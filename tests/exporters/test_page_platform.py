"""The page of a deployment speaks its platform's words: notices on what holds, and what its users ask."""

from __future__ import annotations

from msgspec.structs import replace

from router_contract.platform_words import NoteFact
from router_contract.status import Finding
from tests.exporters.judged import EVERYTHING
from tests.exporters.page_world import PageWorld, serving
from tests.exporters.test_page import CHAT, HTML


async def test_notices_and_notes_stand_on_the_page_as_text() -> None:
    notice = Finding(
        type="Planned",
        status="True",
        reason="LaunchPlanInForce",
        message="nothing free (as the operator says)",
        advice="ClearsByItself",
        whose="cluster",
        hint="it serves on the plan it holds",
    )
    notes = (NoteFact(topic="one replica", says="A class without <scalingPolicy> gives one."),)
    made = replace(EVERYTHING, explanation=replace(EVERYTHING.explanation, notices=(notice,), notes=notes))
    async with serving(PageWorld(made)) as session, session.get(CHAT, headers=HTML) as answer:
        html = await answer.text()
    assert "Planned: LaunchPlanInForce" in html
    assert "clears by itself (cluster): it serves on the plan it holds" in html
    assert "<dt>one replica</dt><dd>A class without &lt;scalingPolicy&gt; gives one.</dd>" in html

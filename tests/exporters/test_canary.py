"""The gate, the facade and the families: three answers stay three, and what is not known is never a number."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from aiohttp import web

from exporters.canary import CanaryApi
from exporters.canary_document import Asked, canary_document, gate_document
from exporters.canary_facade import FacadeError, answer
from exporters.canary_families import canary_families
from observer.judge.canary.condition import worst
from router_contract.canary_results import Decision, Reason, Verdict
from router_contract.canary_view import CanaryView
from router_contract.verdicts import Status
from tests.exporters.canaries import DEFINITION, NOW, Source, status, view, with_value

ROLLBACK = status(Verdict.FAILED, Decision.ROLLBACK, Reason.THRESHOLD_BREACHED)
NONE = status(None, Decision.HOLD, Reason.AWAITING_SAMPLE, step=1, results=())


@pytest.mark.parametrize(
    ("made", "asked", "verdict", "decision", "reason"),
    [
        pytest.param(view(), Asked(), "Passed", "Hold", "Bake", id="as-judged"),
        pytest.param(view(), Asked(revision="2"), "Passed", "Hold", "Bake", id="this-revision"),
        pytest.param(view(), Asked(revision="3"), "Inconclusive", "Hold", "RevisionMismatch", id="other-revision"),
        pytest.param(view(), Asked(max_age=5), "Inconclusive", "Hold", "TooOld", id="older-than-asked"),
        pytest.param(view(age=91), Asked(), "Inconclusive", "Hold", "Stale", id="no-sample-for-long"),
        pytest.param(view(look_age=31), Asked(), "Inconclusive", "Hold", "Stale", id="nobody-looked"),
        pytest.param(view(age=-4), Asked(max_age=1), "Passed", "Hold", "Bake", id="clocks-a-little-apart"),
        pytest.param(view(age=-6), Asked(), "Inconclusive", "Hold", "Stale", id="of-a-moment-that-has-not-come"),
        pytest.param(view(NONE), Asked(), "Inconclusive", "Hold", "AwaitingSample", id="no-sample-in-this-step"),
        pytest.param(view(NONE), Asked(step=0), "Passed", "Advance", "StepPassed", id="an-earlier-step"),
        pytest.param(view(), Asked(step=1), "Inconclusive", "Hold", "StepMismatch", id="a-later-step"),
        pytest.param(view(ROLLBACK), Asked(), "Failed", "Rollback", "ThresholdBreached", id="rollback"),
        pytest.param(view(ROLLBACK, age=9000), Asked(max_age=5), "Failed", "Rollback", "ThresholdBreached", id="final"),
        pytest.param(view(ROLLBACK), Asked(step=0), "Failed", "Rollback", "ThresholdBreached", id="rollback-of-a-step"),
        pytest.param(view(ROLLBACK, look_age=31), Asked(), "Inconclusive", "Hold", "Stale", id="old-rollback"),
    ],
)
def test_the_gate(made: Any, asked: Asked, verdict: str, decision: str, reason: str) -> None:
    found = gate_document(made, asked)
    assert found is not None
    assert (found["verdict"], found["decision"], found["reason"]) == (verdict, decision, reason)


PASSES, ADVANCES = status(), status(decision=Decision.ADVANCE)
UNSURE = status(Verdict.INCONCLUSIVE, Decision.ADVANCE)
FAILS = status(Verdict.FAILED, Decision.HOLD)
PARKED = status(Verdict.FAILED, Decision.FAILED)


@pytest.mark.parametrize(
    ("made", "confirm", "rollback"),
    [
        pytest.param(view(ADVANCES), 200, 409, id="a-pass-that-advances"),
        pytest.param(view(PASSES), 409, 409, id="a-pass-that-is-held-by-its-bake"),
        pytest.param(view(UNSURE), 409, 409, id="inconclusive-whatever-is-decided"),
        pytest.param(view(ADVANCES, age=91), 409, 409, id="a-pass-that-is-too-old"),
        pytest.param(view(ADVANCES, look_age=31), 409, 409, id="nobody-looked"),
        pytest.param(view(FAILS), 409, 409, id="one-failed-check-within-the-limit"),
        pytest.param(view(ROLLBACK), 409, 200, id="rollback"),
        pytest.param(view(ROLLBACK, look_age=31), 409, 409, id="old-rollback"),
        pytest.param(view(PARKED), 409, 409, id="parked"),
        pytest.param(view(judged=False), 503, 503, id="not-judged-yet"),
    ],
)
async def test_flaggers_hooks_go_on_or_back_only_when_it_is_decided(
    aiohttp_client: Any, made: Any, confirm: int, rollback: int
) -> None:
    app = web.Application()
    app.add_routes(CanaryApi(Source(made)).routes())
    client = await aiohttp_client(app)
    found = [
        (await client.post(f"/api/v1/canary/demo/chat-2/engine/flagger/{hook}")).status
        for hook in ("confirm", "rollback")
    ]
    assert found == [confirm, rollback]


def test_before_the_first_look_the_gate_has_no_answer() -> None:
    assert gate_document(view(judged=False), Asked()) is None
    assert canary_document(view(judged=False))["status"] is None


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_only_finite_numbers_are_written(number: float) -> None:
    made = view(status(results=(with_value(number),)))
    found = gate_document(made, Asked())
    assert found is not None
    assert found["metrics"][0]["estimate"] is None
    assert canary_document(made)["status"]["metricResults"][0]["estimate"] is None


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("modeldeployment_canary_verdict", ["1"]),
        ('modeldeployment_canary_verdict{namespace="demo",name="chat-2"}', ["1"]),
        ('modeldeployment_canary_verdict{revision!="2"}', []),
        ('modeldeployment_canary_verdict{revision=~"2|3", component="engine",}', ["1"]),
        ('modeldeployment_canary_verdict{revision!~"2|3"}', []),
        ('modeldeployment_canary_verdict{revision=~"(2|3)"}', ["1"]),
        ('modeldeployment_canary_metric_value{metric="errors",side="stable"}', ["0.003"]),
        (" vector( 1 ) ", ["1"]),
    ],
)
def test_the_facade_answers_selectors(query: str, values: list[str]) -> None:
    assert [each["value"] for each in answer(query, [view()], NOW.wall)] == [[NOW.wall, each] for each in values]


@pytest.mark.parametrize(
    ("made", "values"),
    [
        pytest.param(view(ROLLBACK), ["0"], id="failed"),
        pytest.param(view(NONE), [], id="inconclusive"),
        pytest.param(view(age=91), [], id="stale"),
        pytest.param(view(judged=False), [], id="unknown"),
    ],
)
def test_the_facade_keeps_three_answers(made: Any, values: list[str]) -> None:
    found = answer("modeldeployment_canary_verdict", [made], NOW.wall)
    assert [each["value"][1] for each in found] == values


@pytest.mark.parametrize(
    "query",
    [
        "up",
        "sum(modeldeployment_canary_verdict)",
        "vector(2)",
        "modeldeployment_canary_verdict{name=chat}",
        'modeldeployment_canary_verdict{name=~"(a+)+b"}',
        'modeldeployment_canary_verdict{name=~"("}',
        'modeldeployment_canary_verdict{name=~"' + "(|.)" * 900 + 'x"}',
        'modeldeployment_canary_verdict{name=~"((a|b)|c)"}',
        "modeldeployment_canary_verdict[5m]",
        "x" * 5000,
    ],
)
def test_the_facade_refuses_everything_else(query: str) -> None:
    with pytest.raises(FacadeError):
        answer(query, [view()], NOW.wall)


def test_families_have_no_series_for_what_is_not_known() -> None:
    def names(made: Any) -> set[str]:
        families = canary_families(Source(made))
        return {each.name.removeprefix("modeldeployment_canary_") for each in families if list(each.rows(None))}  # type: ignore[arg-type]  # these rows need no snapshot

    assert {"verdict", "metric_value", "metric_threshold", "metric_samples", "decision", "phase"} <= names(view())
    assert not {"verdict", "metric_value", "metric_samples", "metric_verdict"} & names(view(age=91))
    assert names(view(judged=False)) == {"decisions_total"}


@pytest.mark.parametrize(
    ("made", "phase"),
    [
        (view(), "Waiting"),
        (view(NONE), "Analysing"),
        (view(ROLLBACK), "RolledBack"),
        (view(status(Verdict.PASSED, Decision.ADVANCE, Reason.COMPLETED)), "Completed"),
        (view(status(None, Decision.FAILED, Reason.ANALYSIS_STALLED)), "Parked"),
        (view(look_age=31), None),
        (view(judged=False), None),
    ],
)
def test_the_phase_is_one_word_or_nothing(made: Any, phase: str | None) -> None:
    family = next(each for each in canary_families(Source(made)) if each.name.endswith("_phase"))
    found = [labels[-1] for labels, _ in family.rows(None)]  # type: ignore[arg-type]  # these rows need no snapshot
    assert found == ([] if phase is None else [phase])


ADVANCED = status(Verdict.PASSED, Decision.ADVANCE, Reason.STEP_PASSED)
EDITED = msgspec.structs.replace(DEFINITION, canary="3")
OLD = {
    "of a moment that has not come": view(ADVANCED, age=-3600),
    "nobody looked for long": view(ADVANCED, look_age=31),
    "no sample for long": view(ADVANCED, age=91),
    "the canary is another revision now": msgspec.structs.replace(view(ADVANCED), definition=EDITED),
    "not judged": view(judged=False),
}


@pytest.mark.parametrize("made", OLD.values(), ids=OLD)
def test_what_is_old_advances_nothing_by_any_way(made: CanaryView) -> None:
    fresh = view(ADVANCED)
    query = 'modeldeployment_canary_decision{decision="Advance"}'
    assert [len(answer(each, [fresh], NOW.wall)) for each in (query, "modeldeployment_canary_verdict")] == [1, 1]
    assert [answer(each, [made], NOW.wall) for each in (query, "modeldeployment_canary_verdict")] == [[], []]
    told = gate_document(made, Asked())
    assert told is None or (told["verdict"], told["decision"]) == ("Inconclusive", "Hold")
    (shown,) = worst([made])
    assert shown.status is Status.UNKNOWN


def test_what_nobody_looks_at_any_more_is_no_number() -> None:
    made = view(look_age=31)
    for name in ("step", "failed_checks", "failure_limit", "traffic_weight", "request_share", "phase"):
        assert answer(f"modeldeployment_canary_{name}", [made], NOW.wall) == []


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("", 200),
        ("?revision=2&step=0&maxAge=60s", 200),
        ("?rev=3", 400),
        ("?Revision=3", 400),
        ("?max_age=1", 400),
        ("?revision=2&revision=3", 400),
        ("?maxAge=soon", 400),
        ("?step=-1", 400),
        ("?maxAge=nan", 400),
        ("?" + "x" * 5000, 400),
    ],
)
async def test_a_condition_that_is_not_understood_passes_nothing(aiohttp_client: Any, query: str, code: int) -> None:
    app = web.Application()
    app.add_routes(CanaryApi(Source(view(ADVANCED))).routes())
    client = await aiohttp_client(app)
    for path in ("", "/flagger/confirm"):
        ask = client.post if path else client.get
        assert (await ask(f"/api/v1/canary/demo/chat-2/engine{path}{query}")).status == code


@pytest.mark.parametrize(
    ("time", "code"),
    [
        ("", 200),
        (f"&time={NOW.wall}", 200),
        (f"&time={NOW.wall - 59:.3f}", 200),
        ("&time=2023-11-14T23:36:40Z", 200),
        (f"&time={NOW.wall - 3600}", 400),
        ("&time=2023-11-14T00:00:00Z", 400),
        ("&time=2023-11-14T23:36:40", 400),
        ("&time=yesterday", 400),
        ("&time=nan", 400),
        ("&time=1e999", 400),
    ],
)
async def test_the_facade_tells_of_now_and_never_as_of_another_time(aiohttp_client: Any, time: str, code: int) -> None:
    app = web.Application()
    app.add_routes(CanaryApi(Source(view())).routes())
    client = await aiohttp_client(app)
    answered = await client.get(f"/prometheus/api/v1/query?query=modeldeployment_canary_verdict{time}")
    assert answered.status == code
    assert ((await answered.json())["status"] == "success") is (code == 200)

"""Small clients by the documented rules of Argo's web metric, Flagger's hooks and OME, with the limits of our manifests.

Each hears the observer's real answers, or nothing for five minutes, on a clock of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import pytest
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application
from ruamel.yaml import YAML

from exporters.canary import CanaryApi
from router_contract.canary_results import Decision, Reason, Verdict
from router_contract.fields import parse_seconds
from tests.exporters.canaries import Source, status, view

DOCS = Path(__file__).parents[2] / "docs/canary"
HOLDS = "holds"
OUTAGE = 300.0


def manifest(name: str) -> Any:
    return YAML(typ="safe", pure=True).load((DOCS / name).read_text())


def path(url: str) -> str:
    return "/" + url.split("://")[1].partition("/")[2]


class Asks(Protocol):
    """One request: status and body, or ``None`` when nobody answers."""

    async def __call__(self, method: str, path: str, /) -> tuple[int, Any] | None: ...


async def argo(ask: Asks, seconds: float, **wrong: Any) -> str:
    """A web metric: errors are asked again after 10 s; limits are exceeded, not reached."""
    (metric,) = manifest("argo-rollouts.yaml")["spec"]["metrics"]
    metric |= wrong
    web = metric["provider"]["web"]
    assert (metric["successCondition"], metric["failureCondition"]) == ('result == "Passed"', 'result == "Failed"')
    now, errors, failed, inconclusive, passed = 0.0, 0, 0, 0, 0
    while now <= seconds:
        told = await ask("GET", path(web["url"]))
        if told is None or not 200 <= told[0] < 300 or "verdict" not in told[1]:
            errors += 1
            now += 10.0
            if errors > metric["consecutiveErrorLimit"]:
                return "aborts"
            continue
        errors, result = 0, told[1]["verdict"]
        passed = passed + 1 if result == "Passed" else 0
        failed += result == "Failed"
        inconclusive += result not in {"Passed", "Failed"}
        if failed > metric["failureLimit"]:
            return "aborts"
        if inconclusive > metric["inconclusiveLimit"]:
            return "pauses"
        if passed >= metric["consecutiveSuccessLimit"]:
            return "advances"
        now += 30.0
    return HOLDS


async def flagger(ask: Asks, seconds: float, **wrong: Any) -> str:
    """Hooks: up to 202 is yes; anything else waits, and a rollback hook that says anything else does nothing.

    A hook of the type rollout that is not answered yes is a failed check; so many of them roll back.
    """
    plan = manifest("flagger.yaml")["spec"]["analysis"]
    hooks = plan["webhooks"]
    if not wrong:
        assert {hook["type"] for hook in hooks} <= {"confirm-traffic-increase", "confirm-promotion", "rollback"}
    now, failed = 0.0, 0
    while now <= seconds:
        yes = set()
        for hook in [hook | wrong for hook in hooks]:
            told = await ask("POST", path(hook["url"]))
            if told is not None and told[0] <= 202:
                yes.add(hook["type"])
        failed += bool(wrong) and "rollout" not in yes
        if failed >= plan["threshold"]:
            return "aborts"
        if "rollback" in yes:
            return "aborts"
        if yes:
            return "advances"
        now += 30.0
    return HOLDS


async def ome(ask: Asks, seconds: float, **wrong: Any) -> str:
    """A query: no answer and an empty one are inconclusive, and stall only after the ready timeout."""
    canary = manifest("ome.yaml")["rollout"]["groups"][0]["canary"]
    gate = canary["steps"][0]["analysis"]
    (metric,) = gate["metrics"]
    assert (canary["readyTimeout"], gate["onInconclusive"], metric["operator"]) == ("15m", "Hold", "GTE")
    canary |= wrong
    stall = parse_seconds(canary["readyTimeout"])
    assert stall is not None
    on_inconclusive = wrong.get("onInconclusive", gate["onInconclusive"])
    query = metric["query"].replace("{{ .CanaryRevision }}", "2")
    where = path(canary["prometheus"]["serverAddress"]) + "/api/v1/query?query=" + query
    now, failed = 0.0, 0
    while now <= seconds:
        told = await ask("GET", where)
        result = told[1]["data"]["result"] if told is not None and told[0] == 200 else []
        values = [float(each["value"][1]) for each in result]
        if values and min(values) >= float(metric["threshold"]):
            return "advances"
        failed += bool(values)
        if failed >= gate["failureLimit"]:
            return "aborts"
        if not values and on_inconclusive == "Rollback":
            return "aborts"
        if not values and now >= stall:
            return "parks"
        now += 60.0
    return HOLDS


CLIENTS = {"argo": argo, "flagger": flagger, "ome": ome}
ADVANCES = view(status(Verdict.PASSED, Decision.ADVANCE, Reason.COMPLETED, step=2))
FAILED = view(status(Verdict.FAILED, Decision.ROLLBACK, Reason.THRESHOLD_BREACHED))
UNSURE = view(status(Verdict.INCONCLUSIVE, Decision.HOLD, Reason.NO_DATA))


@pytest.mark.parametrize("name", list(CLIENTS))
@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        pytest.param(ADVANCES, "advances", id="passed"),
        pytest.param(FAILED, "aborts", id="failed"),
        pytest.param(UNSURE, HOLDS, id="inconclusive"),
        pytest.param(view(age=500.0), HOLDS, id="stale"),
        pytest.param(view(judged=False), HOLDS, id="not-judged-yet"),
        pytest.param(None, HOLDS, id="unknown-there"),
    ],
)
async def test_each_client_does_what_was_judged(name: str, made: Any, wanted: str) -> None:
    app = Application()
    app.add_routes(CanaryApi(Source(*([made] if made is not None else []))).routes())
    async with TestClient(TestServer(app)) as client:

        async def ask(method: str, where: str) -> tuple[int, Any]:
            async with client.request(method, where) as response:
                assert response.status != 204
                return response.status, await response.json()

        assert await CLIENTS[name](ask, OUTAGE) == wanted


@pytest.mark.parametrize("name", list(CLIENTS))
async def test_five_minutes_without_an_observer_move_nothing(name: str) -> None:
    async def nobody(_: str, __: str) -> None:
        return None

    assert await CLIENTS[name](nobody, OUTAGE) == HOLDS


@pytest.mark.parametrize(
    ("name", "wrong", "moved"),
    [
        pytest.param("argo", {"consecutiveErrorLimit": 4}, "aborts", id="argo-with-its-own-default"),
        pytest.param("argo", {"consecutiveErrorLimit": 29}, "aborts", id="argo-just-too-few"),
        pytest.param("flagger", {"type": "rollout"}, "aborts", id="flagger-with-rollout-hooks"),
        pytest.param("ome", {"readyTimeout": "4m"}, "parks", id="ome-with-a-short-ready-timeout"),
        pytest.param("ome", {"onInconclusive": "Rollback"}, "aborts", id="ome-that-rolls-back-at-once"),
    ],
)
async def test_the_same_outage_moves_a_client_with_other_limits(name: str, wrong: dict[str, Any], moved: str) -> None:
    """The control: without the limits of our manifests the outage is felt, so the test above can fail."""

    async def nobody(_: str, __: str) -> None:
        return None

    assert await CLIENTS[name](nobody, OUTAGE, **wrong) == moved


async def test_argos_default_inconclusive_limit_pauses_at_the_first_unsure_answer() -> None:
    async def unsure(_: str, __: str) -> tuple[int, Any]:
        return 200, {"verdict": "Inconclusive"}

    assert await argo(unsure, OUTAGE) == HOLDS
    assert await argo(unsure, OUTAGE, inconclusiveLimit=0) == "pauses"

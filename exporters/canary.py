"""Canary analyses over HTTP: the status document, the gate, the hooks, and the Prometheus facade. All from memory.

Flagger's hooks are answered 200 or 409 and never 204. Whoever asks for what does not exist gets 404, before the first
look 503; both are errors to every client of the gate, never a pass.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any, Protocol

from aiohttp import web

from exporters.canary_document import Asked, canary_document, gate_document
from exporters.canary_facade import FacadeError, answer
from exporters.encoding import encode
from exporters.forms import BadFormError, form_of
from exporters.statuses import failure
from router_contract.canary_results import Decision, Verdict
from router_contract.canary_view import CanaryView
from router_contract.readings import Instant
from router_contract.targets import DeploymentKey

STATUS_PATH = "/api/v1/namespaces/{namespace}/canaries/{name}"
LIST_PATH = "/api/v1/canaries"
GATE_PATH = "/api/v1/canary/{namespace}/{name}/{component}"
FACADE_PATH = "/prometheus/api/v1/query"
ASKED = ("revision", "step", "maxAge")
"""What a client of the gate may ask the answer to be about."""
PRESENT = 60.0
"""An instant query is about now: a ``time`` further away (s) has no answer here, and never the one of now."""
MOST_NAMED = 10
"""Analyses that the answer about one that does not exist names."""
PATHS = (LIST_PATH, STATUS_PATH, GATE_PATH, FACADE_PATH)


class CanarySource(Protocol):
    """Who knows about canary analyses; answers are made for the moment of the call."""

    def now(self) -> Instant:
        """This moment."""
        ...

    def canaries(self) -> tuple[CanaryView, ...]:
        """Every analysis, sorted by namespace and name."""
        ...

    def canary(self, key: DeploymentKey) -> CanaryView | None:
        """One of them; ``None`` when there is none of this name."""
        ...


class CanaryApi:
    """The handlers over one source."""

    def __init__(self, source: CanarySource) -> None:
        self._source = source

    def routes(self) -> list[web.AbstractRouteDef]:
        """Every route of the canary part."""
        return [
            web.get(LIST_PATH, self._list),
            web.get(STATUS_PATH, self._status),
            web.get(GATE_PATH, self._gate),
            web.post(f"{GATE_PATH}/flagger/confirm", self._confirm),
            web.post(f"{GATE_PATH}/flagger/rollback", self._rollback),
            web.get(FACADE_PATH, self._query),
            web.post(FACADE_PATH, self._query),
        ]

    async def _list(self, _: web.Request) -> web.Response:
        return _json({"items": [canary_document(each) for each in self._source.canaries()]})

    async def _status(self, request: web.Request) -> web.Response:
        key = DeploymentKey(request.match_info["namespace"], request.match_info["name"])
        view = self._source.canary(key)
        return self._no_such(key) if view is None else _json(canary_document(view))

    async def _gate(self, request: web.Request) -> web.Response:
        found = self._answer(request)
        return found if isinstance(found, web.Response) else _json(found)

    async def _confirm(self, request: web.Request) -> web.Response:
        """May it go on: 200 for a pass that advances, else 409."""
        found = self._answer(request)
        if isinstance(found, web.Response):
            return found
        goes = found["verdict"] == Verdict.PASSED and found["decision"] == Decision.ADVANCE
        return _json(found, 200 if goes else 409)

    async def _rollback(self, request: web.Request) -> web.Response:
        """Must it go back: 200 only for a decided rollback, else 409."""
        found = self._answer(request)
        if isinstance(found, web.Response):
            return found
        return _json(found, 200 if found["decision"] == Decision.ROLLBACK else 409)

    def _answer(self, request: web.Request) -> dict[str, Any] | web.Response:
        """The gate's answer, or the failure that is none."""
        told = request.match_info
        key = DeploymentKey(told["namespace"], told["name"])
        view = self._source.canary(key)
        if view is None or view.definition.component != told["component"]:
            return self._no_such(key, told["component"])
        asked = _asked(request)
        if isinstance(asked, str):
            return failure(400, asked)
        found = gate_document(view, asked)
        return failure(503, f"canary {key} was not judged yet") if found is None else found

    def _no_such(self, key: DeploymentKey, component: str = "") -> web.Response:
        of = f" for the component {component[:63]!r}" if component else ""
        known = [f"{each.key} ({each.definition.component})" for each in self._source.canaries()]
        there = f"; there is {', '.join(known[:MOST_NAMED])}{' …' if len(known) > MOST_NAMED else ''}" if known else ""
        return failure(404, f"there is no canary analysis {key}{of}{there}", name=key.name)

    async def _query(self, request: web.Request) -> web.Response:
        """One instant query, as Prometheus answers it."""
        try:
            form = await form_of(request) if request.method == "POST" else {}
        except BadFormError as error:
            return _json({"status": "error", "errorType": "bad_data", "error": str(error)}, 400)
        query = form.get("query", "") or request.query.get("query", "")
        moment = form.get("time", "") or request.query.get("time", "")
        if moment and not _is_now(moment, self._source.now().wall):
            wrong = f"time: found {moment[:40]!r}, wanted now: what was is asked of a Prometheus that scrapes /metrics"
            return _json({"status": "error", "errorType": "bad_data", "error": wrong}, 400)
        try:
            result = answer(query, self._source.canaries(), self._source.now().wall)
        except FacadeError as error:
            kind = "bad_data" if not query else "execution"
            body = {"status": "error", "errorType": kind, "error": str(error)}
            return _json(body, 422 if query else 400)
        return _json({"status": "success", "data": {"resultType": "vector", "result": result}})


def _is_now(text: str, now: float) -> bool:
    """Whether a time, in seconds or as RFC 3339, is about now."""
    try:
        wall = float(text)
    except ValueError:
        try:
            told = datetime.fromisoformat(text)
        except ValueError:
            return False
        wall = told.timestamp() if told.tzinfo is not None else math.nan
    return abs(wall - now) <= PRESENT


def _asked(request: web.Request) -> Asked | str:
    """The query's parameters, or what is wrong with them."""
    told = request.query
    # A condition that is not understood must not pass for one that holds.
    odd = sorted({name for name in told if name not in ASKED or len(told.getall(name)) > 1})
    if odd:
        return f"found the parameters {', '.join(each[:40] for each in odd[:5])}, wanted each of {', '.join(ASKED)} at most once"
    step, age = told.get("step"), told.get("maxAge")
    if step is not None and not (step.isascii() and step.isdigit() and len(step) < 5):
        return f"step: found {step[:40]!r}, wanted a whole number from 0"
    seconds = None
    if age is not None:
        try:
            seconds = float(age.removesuffix("s"))
        except ValueError:
            seconds = math.nan
        if not (math.isfinite(seconds) and seconds >= 0):
            return f"maxAge: found {age[:40]!r}, wanted seconds, as 90 or 90s"
    return Asked(revision=told.get("revision"), step=None if step is None else int(step), max_age=seconds)


def _json(body: dict[str, Any], status: int = 200) -> web.Response:
    headers = {"Cache-Control": "no-store"}
    return web.Response(status=status, body=encode(body), content_type="application/json", headers=headers)

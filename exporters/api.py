"""The HTTP answers: deployments, metrics documents, targets, our own metrics and the probes.

Handlers answer from memory. Only ``?fresh=true`` waits, and never longer than its budget; the values then say how old
they are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator

from aiohttp import web

from exporters.document import metrics_document, not_found
from exporters.encoding import UNRENDERABLE, encode
from exporters.paging import BadQueryError, page
from exporters.prometheus import Exposition, Format, Renderer, negotiate
from exporters.protocols import Documents, Looks, Prepare, ReportSource, at_once
from exporters.signals_read import NO_SIGNALS, document_report
from exporters.snapshot import Index, snapshot
from exporters.status import contract_document, explain_document, status_document
from exporters.statuses import failure, unavailable
from exporters.summaries import (
    DeploymentSummary,
    deployment_summary,
    target_summary,
    unrendered_summary,
    unrendered_target,
)
from router_contract.documents import Unavailable
from router_contract.targets import DeploymentKey
from router_contract.verdicts import DeploymentReport, TargetStatus

_log = logging.getLogger(__name__)

_SHOWN = 200
FRESH_SECONDS = 8.0
"""How long one ``?fresh=true`` may wait for reads."""
TARGETS_A_STEP = 16
"""After so many targets whose values are made for our own metrics the event loop gets its turn."""
FRESH_IN_FLIGHT = 32
"""How many ``?fresh=true`` may wait at once; the others answer from memory."""

METRICS_PATH = "/api/v1/namespaces/{namespace}/modeldeployments/{name}/metrics"
AGGREGATED_PATH = "/apis/metrics.modeldeployment.io/v1/namespaces/{namespace}/modeldeployments/{name}/metrics"
_DEPLOYMENT_PATH = "/api/v1/namespaces/{namespace}/modeldeployments/{name}"
STATUS_PATH, EXPLAIN_PATH, CONTRACT_PATH = (f"{_DEPLOYMENT_PATH}/{part}" for part in ("status", "explain", "contract"))
PATHS = (
    "/api/v1/deployments",
    STATUS_PATH,
    EXPLAIN_PATH,
    CONTRACT_PATH,
    METRICS_PATH,
    AGGREGATED_PATH,
    "/api/v1/targets",
    "/metrics",
    "/livez",
    "/readyz",
)

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False, "": False}


class Api:
    """The handlers over one source of reports."""

    def __init__(
        self,
        source: ReportSource,
        renderer: Renderer,
        fresh_seconds: float = FRESH_SECONDS,
        *,
        pods: int = 0,
        failed: Callable[[str], None] | None = None,
        looks: Looks | None = None,
        documents: Documents | None = None,
    ) -> None:
        """``pods`` bounds those of one metrics document (0 does not); ``failed`` is told of what could not be rendered.

        ``looks`` looks at what only an explanation needs; ``documents`` has metrics documents as bytes.
        """
        self.prepare: Prepare = at_once
        """Works out, target by target, what a report of some signals is made of."""
        self._rendering = asyncio.Lock()
        self._documents = documents
        self._looks = looks
        self._source = source
        self._renderer = renderer
        self._pods = pods
        self._failed = failed or (lambda _: None)
        self._fresh_seconds = fresh_seconds
        self._fresh = asyncio.Semaphore(FRESH_IN_FLIGHT)

    def routes(self) -> list[web.AbstractRouteDef]:
        """Every path with its handler."""
        return [
            web.get("/api/v1/deployments", self.deployments),
            web.get(STATUS_PATH, self.status),
            web.get(EXPLAIN_PATH, self.explain),
            web.get(CONTRACT_PATH, self.contract),
            web.get(METRICS_PATH, self.document),
            web.get(AGGREGATED_PATH, self.document),
            web.get("/api/v1/targets", self.targets),
            web.get("/metrics", self.metrics),
            web.get("/livez", self.livez),
            web.get("/readyz", self.readyz),
        ]

    async def deployments(self, request: web.Request) -> web.Response:
        """Every deployment in short, of one namespace with ``?namespace=``."""
        namespace = request.query.get("namespace")
        keys = self._source.keys()
        wanted = [key for key in keys if namespace in {None, key.namespace}]
        items = [item for item in map(self._summary, wanted) if item is not None]
        return _json({"items": items})

    def _summary(self, key: DeploymentKey) -> DeploymentSummary | None:
        """One line; a deployment that cannot be rendered is a line that says so, and no other one suffers."""
        try:
            report = document_report(self._source, key)
            return None if report is None else deployment_summary(report)
        except UNRENDERABLE as error:
            self._fail("deployments", str(key), error)
            return unrendered_summary(key, error)

    async def document(self, request: web.Request) -> web.Response:
        """One deployment's metrics document."""
        key = _key(request)
        fresh = request.query.get("fresh", "")
        if fresh not in _BOOLEANS:
            return _not_boolean("fresh", fresh, key)
        if key not in self._source.keys():  # noqa: SIM118 - a source is no mapping
            return unavailable(not_found(key), key.name)
        if _BOOLEANS[fresh]:
            await self._refresh(key)
        if self._documents is not None:
            made = self._documents.document(key)
            return unavailable(made, key.name) if isinstance(made, Unavailable) else _written(made)
        report = document_report(self._source, key)
        return _made(metrics_document(report, self._pods) if report is not None else not_found(key), key)

    async def status(self, request: web.Request) -> web.Response:
        """Everything judging says about one deployment."""
        key = _key(request)
        return _made(status_document(self._source.deployment(key, NO_SIGNALS), key), key)

    async def explain(self, request: web.Request) -> web.Response:
        """One deployment explained, with its last transitions with ``?history=true``."""
        key = _key(request)
        history = request.query.get("history", "")
        if history not in _BOOLEANS:
            return _not_boolean("history", history, key)
        known = key in self._source.keys()  # noqa: SIM118 - a source is no mapping
        looks = await self._looks.look(key) if self._looks is not None and known else ()
        report = self._source.deployment(key, NO_SIGNALS)
        return _made(explain_document(report, key, history=_BOOLEANS[history], looks=looks), key)

    async def contract(self, request: web.Request) -> web.Response:
        """Both sides of one deployment's router contract."""
        key = _key(request)
        return _made(contract_document(self._source.deployment(key, NO_SIGNALS), key), key)

    async def targets(self, request: web.Request) -> web.Response:
        """Targets that pass the query's filters, a page at a time."""
        try:
            part = page(self._source.targets(), request.query)
        except BadQueryError as error:
            return failure(400, str(error))
        metadata = {"continue": part.token, "remainingItemCount": part.remaining} if part.token else {}
        return _json({"metadata": metadata, "items": [self._target(status) for status in part.items]})

    def _target(self, status: TargetStatus) -> dict[str, object]:
        try:
            return target_summary(status)
        except UNRENDERABLE as error:
            self._fail("targets", f"{status.key.deployment} {status.member}", error)
            return unrendered_target(status, error)

    async def metrics(self, request: web.Request) -> web.Response:
        """Our families and the process's own, as text or OpenMetrics."""
        async with self._rendering:
            made = await self._exposition(negotiate(request.headers.get("Accept", "")))
        return web.Response(body=made.body, headers={"Content-Type": made.content_type, "Vary": "Accept"})

    async def _exposition(self, target: Format) -> Exposition:
        """Everything that can be rendered. What cannot be is left out and counted: one deployment, else one family."""
        index, whole = await self._reports()
        shot = index.snapshot(None if whole else self._source.targets())
        try:
            made = await _stepped(self._renderer.steps(shot, target))
        except UNRENDERABLE as error:
            _log.warning("rendering metrics failed, looking for what to leave out: %s", error)
        else:
            for _ in index.let_go():
                await asyncio.sleep(0)
            return made
        failing = self._renderer.faults(shot)
        shared = self._renderer.faults(snapshot((), ()), failing)  # no deployment's: leaving one out would not help
        own = failing.keys() - shared.keys()
        kept: list[DeploymentReport] = []
        for report in index.reports:
            faults = self._renderer.faults(snapshot((report,), ()), own)
            if not faults:
                kept.append(report)
            for name, why in list(faults.items())[:1]:
                self._fail("metrics", f"{report.key} ({name})", why)
        shot = snapshot(kept, shot.statuses)
        left = shared | self._renderer.faults(shot, own)
        for name, why in left.items():
            self._fail("metrics-family", name, why)
        return self._renderer.render_without(shot, target, frozenset(left))

    def _fail(self, what: str, whose: str, why: object) -> None:
        self._failed(what)
        _log.warning("%s of %s cannot be rendered and is left out: %s", what, whose, str(why)[:_SHOWN])

    async def livez(self, _: web.Request) -> web.Response:
        """200 while the observer's own loop judges on time."""
        return _probe(*self._source.alive())

    async def readyz(self, _: web.Request) -> web.Response:
        """200 once answers can be trusted."""
        return _probe(*self._source.ready())

    async def _refresh(self, key: DeploymentKey) -> None:
        if self._fresh.locked():
            return
        async with self._fresh:
            try:
                async with asyncio.timeout(self._fresh_seconds):
                    await self._source.refresh(key)
            except TimeoutError:
                return

    async def _reports(self) -> tuple[Index, bool]:
        """Every report with the values that the families look at, and whether none had to be left out."""
        whole, found = True, Index()
        for key in self._source.keys():  # noqa: SIM118 - a source is no mapping
            for number, _ in enumerate(self.prepare(key, self._renderer.signals), 1):
                if number % TARGETS_A_STEP == 0:
                    await asyncio.sleep(0)
            await asyncio.sleep(0)
            try:
                report = self._source.deployment(key, self._renderer.signals, self._renderer.totals)
            except UNRENDERABLE as error:
                self._fail("report", str(key), error)
                whole = False
                continue
            if report is not None:
                found.add(report)
        return found, whole


async def _stepped(steps: Generator[None, None, Exposition]) -> Exposition:
    """What steps give, with a turn for the event loop after each."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            made: Exposition = end.value
            return made
        await asyncio.sleep(0)


def _key(request: web.Request) -> DeploymentKey:
    return DeploymentKey(request.match_info["namespace"], request.match_info["name"])


def _not_boolean(name: str, found: str, key: DeploymentKey) -> web.Response:
    return failure(400, f"{name} is {found!r}; want true or false", name=key.name)


def _made(made: object, key: DeploymentKey) -> web.Response:
    return unavailable(made, key.name) if isinstance(made, Unavailable) else _json(made)


def _json(value: object) -> web.Response:
    return _written(encode(value))


def _written(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


def _probe(good: bool, sentence: str) -> web.Response:
    return web.Response(status=200 if good else 503, text=f"{'ok' if good else 'failing'}: {sentence}\n")

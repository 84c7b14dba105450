"""What `observer top` shows: deployments, their roles, and every replica's Pods with load, rates and freshness.

Every number is the one of the metrics document at the same instant; the levels of one Pod, which the document adds up,
come from the same values. What is not known is null.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

import msgspec
from aiohttp import web

from exporters.combine import Gap
from exporters.document import metrics_document
from exporters.encoding import UNRENDERABLE, encode, in_words
from exporters.entries import PodValues
from exporters.pods import Pod, roster
from exporters.protocols import ReportSource
from exporters.signals_read import document_report
from exporters.summaries import DeploymentSummary, deployment_summary
from router_contract.documents import CacheHit, ModelDeploymentMetrics, WindowEntry
from router_contract.readings import Estimate, State
from router_contract.targets import Component, RoleKind
from router_contract.verdicts import DeploymentReport

PATH = "/api/v1/top"
MOST_REPLICAS = 5_000
"""Pods in one answer; of more the answer says how many were left out."""
_ENGINE = "engine/"
_OWN_CACHE = "local-prefix"
_GENERATE = frozenset({RoleKind.SERVER, RoleKind.DECODE})


class Figures(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Numbers of one line: levels, rates per second, seconds, fractions. ``stale`` names those of which a part is stale.

    ``ttft`` is the median of the window, ``age_seconds`` the age of the oldest number shown.
    """

    running: float | None = None
    waiting: float | None = None
    kv_cache_usage: float | None = None
    requests_per_second: float | None = None
    tokens_per_second: float | None = None
    ttft: float | None = None
    cache_hit: float | None = None
    age_seconds: float | None = None
    stale: tuple[str, ...] = ()


class ReplicaLine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One Pod: whose it is, how its group stands (null before judging), and its target's state."""

    role: str
    pod: str
    software: str
    group: str | None
    target: str | None
    figures: Figures


class DeploymentLine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One deployment: its phase, replicas ready and wanted (null where a role's is not known), and its Pods.

    ``state`` is the document's: under ``Partial`` and ``Unavailable`` sums are of the Pods that could be read.
    """

    namespace: str
    name: str
    phase: str | None
    state: str
    message: str
    ready: int | None
    desired: int | None
    figures: Figures
    replicas: tuple[ReplicaLine, ...]


def deployment_line(report: DeploymentReport) -> DeploymentLine:
    """One deployment at its report's instant."""
    summary = deployment_summary(report)
    made = metrics_document(report)
    document = made if isinstance(made, ModelDeploymentMetrics) else None
    replicas = tuple(_replicas(report, document))
    return DeploymentLine(
        namespace=report.key.namespace,
        name=report.key.name,
        phase=summary.phase,
        state=summary.state,
        message=summary.message,
        ready=_whole(role.ready for role in summary.roles),
        desired=_whole(role.desired for role in summary.roles),
        figures=_of_deployment(summary, document, replicas),
        replicas=replicas,
    )


def _whole(numbers: Iterable[int | None]) -> int | None:
    """A sum of which every part is known; of no part at all nothing is."""
    found = list(numbers)
    return None if not found or None in found else sum(number for number in found if number is not None)


def _sum(parts: Iterable[float | None]) -> float | None:
    """A sum of which every part is known; ``None`` for no part at all."""
    found = list(parts)
    known = [part for part in found if part is not None]
    return math.fsum(known) if known and len(known) == len(found) else None


def _largest(parts: Iterable[float | None]) -> float | None:
    """The largest where every part is known: an unknown one could be larger."""
    found = list(parts)
    known = [part for part in found if part is not None]
    return max(known) if known and len(known) == len(found) else None


def _of_deployment(
    summary: DeploymentSummary, document: ModelDeploymentMetrics | None, replicas: tuple[ReplicaLine, ...]
) -> Figures:
    """Sums over roles, the fullest role's cache, the slowest role's first token; requests are the routers'.

    Tokens are those of roles that generate, first tokens and prefix caches those of roles that see prompts.
    """
    roles = summary.roles
    kinds = {role.name: role.kind for role in roles}
    engines = [each for each in replicas if each.role in kinds]
    prompted = [each.pod for each in engines if kinds[each.role] != RoleKind.ENCODE]
    routers = [each.figures.requests_per_second for each in replicas if each.role == "router"]
    stale = {
        "running": any(role.running_state == State.STALE.value for role in roles),
        "waiting": any(role.waiting_state == State.STALE.value for role in roles),
        "kvCacheUsage": any(role.kv_cache_usage_state == State.STALE.value for role in roles),
        "tokensPerSecond": any("tokensPerSecond" in each.figures.stale for each in engines),
        "requestsPerSecond": any("requestsPerSecond" in each.figures.stale for each in replicas),
        "ttft": any(role.ttft is not None and role.ttft.state == State.STALE.value for role in roles),
        "cacheHit": any("cacheHit" in each.figures.stale for each in engines),
    }
    return Figures(
        running=_sum(role.running for role in roles),
        waiting=_sum(role.waiting for role in roles),
        kv_cache_usage=_largest(role.kv_cache_usage for role in roles),
        requests_per_second=_sum(routers),
        tokens_per_second=_sum(each.figures.tokens_per_second for each in engines if kinds[each.role] in _GENERATE),
        ttft=_largest(_median(role.ttft) for role in roles if role.kind != RoleKind.ENCODE),
        cache_hit=_hits(prompted, document),
        age_seconds=summary.age_seconds,
        stale=tuple(name for name, holds in stale.items() if holds),
    )


def _hits(pods: list[str], document: ModelDeploymentMetrics | None) -> float | None:
    """Tokens found of tokens looked up, over all of these Pods; not known while one of them is not."""
    found = {each.pod: each for each in (document.cache_hits or () if document else ()) if each.scope == _OWN_CACHE}
    entries = [found[pod] for pod in pods if pod in found]
    queries = math.fsum(each.queries / each.window_seconds for each in entries)
    if not entries or len(entries) < len(pods) or not queries:
        return None
    return math.fsum(each.hits / each.window_seconds for each in entries) / queries


def _median(entry: WindowEntry | None) -> float | None:
    return entry.p50.value if entry is not None and isinstance(entry.p50, Estimate) else None


def _replicas(report: DeploymentReport, document: ModelDeploymentMetrics | None) -> Iterator[ReplicaLine]:
    groups = {
        member.name: group.state.value
        for role in (report.role_status if report.judged else ())
        for group in role.groups
        for member in group.members
    }
    for pod in roster(report).pods:
        status = pod.target.status if pod.target is not None else None
        yield ReplicaLine(
            role=pod.scope.removeprefix(_ENGINE),
            pod=pod.name,
            software=pod.place.software,
            group=groups.get(pod.name),
            target=status.state.value if status is not None else None,
            figures=_of_pod(pod, document),
        )


def _of_pod(pod: Pod, document: ModelDeploymentMetrics | None) -> Figures:
    stale: list[str] = []
    ages: list[float] = []

    def kept(name: str, number: float, state: object, age: object) -> float:
        if state in {State.STALE, State.STALE.value}:
            stale.append(name)
        if isinstance(age, float):
            ages.append(age)
        return number

    def level(name: str, signal: str) -> float | None:
        found = PodValues(pod).level(signal) if pod.target is not None else None
        return None if found is None or isinstance(found, Gap) else kept(name, found.value, found.state, found.age)

    def rate(name: str, entry: str) -> float | None:
        found = next((each for each in traffic if each.pod == pod.name and each.name == entry), None)
        return None if found is None else kept(name, found.value, found.state, found.age_seconds)

    traffic = (document.traffic or ()) if document is not None else ()
    router = pod.target is not None and pod.target.status.component is Component.ROUTER
    first = _first_token(pod, document)
    hit = _hit(pod, document)
    median = _median(first)
    return Figures(
        running=None if router else level("running", "requests-running"),
        waiting=None if router else level("waiting", "requests-waiting"),
        kv_cache_usage=None if router else level("kvCacheUsage", "kv-cache-usage"),
        requests_per_second=rate("requestsPerSecond", "requests"),
        tokens_per_second=rate("tokensPerSecond", "generation-tokens"),
        ttft=None if first is None or median is None else kept("ttft", median, first.state, first.age_seconds),
        cache_hit=None if hit is None else kept("cacheHit", hit.rate, hit.state, hit.age_seconds),
        age_seconds=max(ages, default=None),
        stale=tuple(stale),
    )


def _first_token(pod: Pod, document: ModelDeploymentMetrics | None) -> WindowEntry | None:
    entries = (document.latency or ()) if document is not None else ()
    return next((each for each in entries if each.pod == pod.name and each.name == "ttft"), None)


def _hit(pod: Pod, document: ModelDeploymentMetrics | None) -> CacheHit | None:
    """The share of its own prefix cache: of the tiers, the one that every engine has."""
    entries = (document.cache_hits or ()) if document is not None else ()
    return next((each for each in entries if each.pod == pod.name and each.scope == _OWN_CACHE), None)


class TopApi:
    """The route over one source of reports."""

    def __init__(self, source: ReportSource, failed: Callable[[str], None] = lambda _: None) -> None:
        self._source = source
        self._failed = failed

    def routes(self) -> list[web.AbstractRouteDef]:
        """The one path."""
        return [web.get(PATH, self.handle)]

    async def handle(self, request: web.Request) -> web.Response:
        """Every deployment with its replicas, of one namespace with ``?namespace=``."""
        wanted = request.query.get("namespace")
        items: list[DeploymentLine] = []
        left, room = 0, MOST_REPLICAS
        for key in self._source.keys():  # noqa: SIM118 - a source is no mapping
            if wanted not in {None, key.namespace}:
                continue
            try:
                report = document_report(self._source, key)
                line = deployment_line(report) if report is not None else None
            except UNRENDERABLE as error:
                self._failed("top")
                line = _unrendered(key.namespace, key.name, error)
            if line is None:
                continue
            fits = line.replicas[:room]
            left, room = left + len(line.replicas) - len(fits), room - len(fits)
            items.append(msgspec.structs.replace(line, replicas=fits))
        return web.Response(body=encode({"items": items, "leftOut": left}), content_type="application/json")


def _unrendered(namespace: str, name: str, error: Exception) -> DeploymentLine:
    return DeploymentLine(
        namespace=namespace,
        name=name,
        phase=None,
        state="Unavailable",
        message=f"it could not be rendered: {in_words(error)}",
        ready=None,
        desired=None,
        figures=Figures(),
        replicas=(),
    )

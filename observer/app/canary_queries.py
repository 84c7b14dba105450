"""The query source of canary analyses: where their queries go, what is wrong before any is sent, and the answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Self

from observer.clock import Clock
from observer.collect.promql import PromqlClient, Query
from observer.collect.promql_check import prepared
from observer.collect.promql_source import BasicAuth, Bound, Provider, SourceRules, bind
from observer.discover.admission import refusal
from observer.judge.canary.template import variables
from observer.settings import Settings
from router_contract.canary import Analysis, CanaryAnalysis, PromqlMetric
from router_contract.canary_inputs import QueryAnswer, QueryObservation, QueryTrouble
from router_contract.targets import Tls

SecretReader = Callable[[str, str], Awaitable[Mapping[str, bytes] | None]]
"""The data of a Secret by namespace and name; ``None`` where it is not there or may not be read."""


def rules_of(settings: Settings) -> SourceRules:
    """Which sources of queries settings allow."""
    told = settings.canary
    providers = {
        each.name: Provider(
            server_address=each.server_address,
            namespaces=each.namespaces,
            headers=each.headers,
            token_file=each.token_file,
            basic=None
            if each.username is None or each.password_file is None
            else BasicAuth(username=each.username, password_file=each.password_file),
            tls=None if each.ca_file is None else Tls(ca_file=each.ca_file),
        )
        for each in told.providers
    }
    return SourceRules(
        providers=providers, default_provider=told.default_provider, allow_server_address=told.allow_server_address
    )


class QuerySource:
    """Use as a context; `ask` outside of it is no query: every query metric is then not measured."""

    def __init__(self, clock: Clock, settings: Settings) -> None:
        self._rules = rules_of(settings)
        allow = settings.security.allow_cidrs
        self._client = PromqlClient(clock, lambda address: refusal(address, allow))
        self._open = False
        self._listed = frozenset((each.namespace, each.name) for each in settings.canary.secrets)
        self._secrets: dict[tuple[str, str], Mapping[str, bytes] | None] = {}
        self.read_secret: SecretReader | None = None

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        self._open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        await self._client.__aexit__(kind, error, trace)

    async def refresh(self, definition: CanaryAnalysis) -> None:
        """Read the Secret of an analysis again, if settings list it: a rotated token is used from the next sample on."""
        named = _secret(definition)
        if named is not None and named in self._listed and self.read_secret is not None:
            self._secrets[named] = await self.read_secret(*named)

    def _bound(self, definition: CanaryAnalysis) -> Bound | QueryTrouble:
        named = _secret(definition)
        secret = None if named is None else self._secrets.get(named)
        return bind(definition.source, self._rules, definition.namespace, secret)

    async def ask(self, definition: CanaryAnalysis, analysis: Analysis) -> list[QueryObservation]:
        """The query metrics of a gate: all at once, within its deadline."""
        metrics = [(each.name, each.measure) for each in analysis.metrics if isinstance(each.measure, PromqlMetric)]
        if not metrics or not self._open:
            return []
        bound = self._bound(definition)
        values = variables(definition, definition.canary, definition.stable)
        texts = [
            (name, place, prepared(text, values) if isinstance(bound, Bound) else bound, measure.timeout)
            for name, measure in metrics
            for place, text in enumerate((measure.query, measure.traffic_query))
            if text is not None
        ]
        sent = [
            (name, place, Query(text=text, timeout=most)) for name, place, text, most in texts if isinstance(text, str)
        ]
        found: dict[tuple[str, int], QueryAnswer | QueryTrouble] = {
            (name, place): text for name, place, text, _ in texts if isinstance(text, QueryTrouble)
        }
        if isinstance(bound, Bound) and sent:
            queries = [query for _, _, query in sent]
            answers = await self._client.sample(bound, queries, analysis.deadline, analysis.interval)
            found |= {(name, place): answer for (name, place, _), answer in zip(sent, answers, strict=True)}
        return [
            QueryObservation(metric=name, outcome=found[name, 0], traffic=found.get((name, 1))) for name, _ in metrics
        ]

    def troubles(self, definition: CanaryAnalysis) -> tuple[str, ...]:
        """What is known to be wrong before any sample: no source, or a query that cannot be sent."""
        if not _asks(definition):
            return ()
        bound = self._bound(definition)
        if isinstance(bound, QueryTrouble):
            return (f"{bound.reason}: {bound.detail}",)
        values = variables(definition, definition.canary, definition.stable)
        found = []
        for step in definition.steps:
            for metric in step.analysis.metrics if step.analysis is not None else ():
                if not isinstance(metric.measure, PromqlMetric):
                    continue
                for text in (metric.measure.query, metric.measure.traffic_query):
                    told = prepared(text, values) if text is not None else ""
                    if isinstance(told, QueryTrouble):
                        found.append(f"{metric.name}: {told.reason}: {told.detail}")
        return tuple(found)


def _secret(definition: CanaryAnalysis) -> tuple[str, str] | None:
    """Namespace and name of the Secret with the token: always in the analysis's own namespace."""
    auth = None if definition.source is None else definition.source.auth
    return None if auth is None else (definition.namespace, auth.name)


def _asks(definition: CanaryAnalysis) -> bool:
    """Whether any metric is a query."""
    gates = (step.analysis for step in definition.steps)
    return any(
        isinstance(metric.measure, PromqlMetric) for gate in gates if gate is not None for metric in gate.metrics
    )

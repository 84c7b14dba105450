"""The collectors beside the scrapes of one running observer: probes of engines' APIs and readers of routers' views."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from observer.app.judging import Judging
from observer.app.told import view_options
from observer.clock import Clock
from observer.collect.api_probe import ApiProbe, ProbeOptions
from observer.collect.fetch import Fetcher
from observer.collect.router_view import RouterViewReader
from observer.settings import Settings
from observer.supervise import Supervisor
from router_contract.probes import MemberProbe
from router_contract.router_views import RouterView, ViewFailed
from router_contract.targets import DeploymentKey


class Reading(msgspec.Struct, frozen=True):
    """What every collector needs; ``most`` is how many members each may visit."""

    fetcher: Fetcher
    clock: Clock
    supervisor: Supervisor
    settings: Settings
    most: int


def make_probe(reading: Reading, sink: Callable[[MemberProbe], None]) -> ApiProbe:
    """The probe of engines' APIs."""
    scrape = reading.settings.scrape
    return ApiProbe(
        fetcher=reading.fetcher,
        sink=sink,
        clock=reading.clock,
        supervisor=reading.supervisor,
        options=ProbeOptions.of(scrape.period, scrape.timeout),
        most=reading.most,
    )


def make_views(
    reading: Reading, sink: Callable[[DeploymentKey, RouterView | ViewFailed], None], judging: Judging
) -> RouterViewReader:
    """The reader of routers' views."""
    return RouterViewReader(
        fetcher=reading.fetcher,
        sink=sink,
        clock=reading.clock,
        supervisor=reading.supervisor,
        circuits=lambda subject: judging.circuits(subject.deployment, subject.member),
        endpoints=lambda subject: judging.endpoints(subject.deployment, subject.member),
        options=view_options(reading.settings),
        most=reading.most,
    )

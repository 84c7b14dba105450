"""Which publishers to subscribe to: what the engine itself reports, then what discovery declared; never a guessed port."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

from observer.clock import Clock
from observer.collect.kv_collector import KvCollector
from router_contract.kv_events import Hash
from router_contract.kv_media import equal_hashes
from router_contract.kv_sources import SGLANG_PATH, VLLM_PATH, Sources, from_sglang, from_vllm
from router_contract.kv_streams import (
    KvIndexSummary,
    KvLookup,
    KvStreamSummary,
    ReceiverSummary,
    StreamKey,
    StreamSource,
)
from router_contract.readings import Instant
from router_contract.targets import Deployment, DeploymentKey, KvEventSource, Member, Role

Fetch = Callable[[Member, str], Awaitable[bytes | None]]
"""Asks a member's API for a path: the body, or ``None`` when it did not answer with 200."""

_REPORTS: dict[str, tuple[str, Callable[[bytes, str], Sources]]] = {
    "vllm": (VLLM_PATH, from_vllm),
    "sglang": (SGLANG_PATH, from_sglang),
}


def stream_sources(
    deployments: Iterable[Deployment], reported: dict[str, tuple[KvEventSource, ...]] | None = None
) -> list[StreamSource]:
    """A stream for each publisher of each member that exists. ``reported`` (by member UID) outranks what was declared.

    A terminating member keeps its streams: it still holds blocks and still says what it evicts.
    """
    return [
        StreamSource(
            key=StreamKey(deployment.key, member.uid, source.rank),
            member=member.name,
            role=role.name,
            source=source,
            engine=role.engine,
            version=role.engine_version,
            model=deployment.model,
            seeded=equal_hashes(role.engine, role.engine_version, dict(role.environment)),
        )
        for deployment in deployments
        for role in deployment.roles
        for member in role.members()
        for source in (reported or {}).get(member.uid) or member.kv_events
    ]


async def ask_member(role: Role, member: Member, fetch: Fetch) -> Sources | None:
    """What one member's engine says of its publishers; ``None`` where it cannot be asked or did not answer."""
    report = _REPORTS.get(role.engine)
    if report is None or member.api is None or not member.started:
        return None
    path, read = report
    body = await fetch(member, path)
    return None if body is None else read(body, member.host or member.api.host)


class CollectedKv:
    """The collector as exporters want it (`exporters.kv.KvSource`)."""

    def __init__(
        self, collector: KvCollector, clock: Clock, deployments: Callable[[], Sequence[DeploymentKey]]
    ) -> None:
        self._collector = collector
        self._clock = clock
        self._deployments = deployments

    def now(self) -> Instant:
        """This moment."""
        return self._clock.now()

    def kv_deployments(self) -> tuple[DeploymentKey, ...]:
        """The deployments that exist now."""
        return tuple(self._deployments())

    def kv_streams(self, deployment: DeploymentKey | None = None) -> tuple[KvStreamSummary, ...]:
        """Every stream, or those of one deployment."""
        return self._collector.summaries(deployment)

    def kv_index(self, deployment: DeploymentKey) -> KvIndexSummary:
        """The block index of one deployment."""
        return self._collector.index_summary(deployment)

    def kv_lookup(self, deployment: DeploymentKey, hashes: Sequence[Hash], model: str | None) -> KvLookup:
        """Who holds how long a prefix of these hashes."""
        return self._collector.lookup(deployment, hashes, model=model)

    def kv_receiver(self) -> ReceiverSummary:
        """What waits between the sockets and the index."""
        return self._collector.receiver_summary()

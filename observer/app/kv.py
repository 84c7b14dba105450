"""KV events joined to the rest: which publishers to follow, what their streams prove, and the source for exporters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from observer.clock import Clock
from observer.collect.kv_collector import KvCollector, KvLimits
from observer.collect.kv_socket import ReceiverLimits
from observer.collect.kv_zmq import SocketLimits
from observer.evidence import computed_tokens
from observer.judge.attachment import CacheEvidence, LivePolicy, StoreLevel, cache_attached, kv_events_live
from observer.judge.cache_evidence import ComputedSince, engine_account, follow_computed, follow_levels, store_levels
from observer.measure.stream_values import StreamLimits
from observer.settings import Settings
from observer.store import Store
from router_contract import kv_media
from router_contract.kv_events import Hash
from router_contract.kv_streams import (
    KvIndexSummary,
    KvLookup,
    KvStreamSummary,
    ReceiverSummary,
    StreamKey,
    StreamSource,
    also_unknown,
    not_followed,
)
from router_contract.probes import MemberProbe
from router_contract.readings import Instant
from router_contract.targets import (
    Component,
    Deployment,
    DeploymentKey,
    KvEventSource,
    Member,
    Ready,
    Role,
    RoleKind,
    TargetKey,
)
from router_contract.verdicts import Condition, TargetReport

TOLD_SECONDS = 0.25
"""For how long publishers that engines tell of are gathered: at a start thousands do, and each change looks at all members."""
ReadyReplicas = Callable[[DeploymentKey], int | None]
"""How many whole replicas of a deployment were ready at the last judging pass; ``None`` is not known."""


def limits_of(settings: Settings) -> KvLimits:
    """The bounds that settings ask for."""
    told = settings.kv_events
    return KvLimits(
        deployment_bytes=told.deployment_budget,
        process_bytes=told.process_budget,
        stream=StreamLimits(
            silence=told.silent_after,
            tail_wait=told.tail_grace,
            replay_timeout=told.replay_timeout,
            window=told.remembered_batches,
            held_batches=told.live_buffer,
        ),
        receiver=ReceiverLimits(
            share=told.drain_batch,
            sockets=SocketLimits(
                high_water_mark=told.high_water_mark,
                max_message_bytes=told.max_message_bytes,
                reconnect_ms=round(told.reconnect_first * 1000),
                reconnect_max_ms=round(told.reconnect_max * 1000),
            ),
        ),
    )


def _said(probe: MemberProbe) -> tuple[object, ...] | None:
    """What of a member's answers decides on its streams."""
    events = probe.events
    return (events.sources, events.undialable, probe.version) if events is not None else None


class KvPart:
    """Follows the publishers of the deployments that exist. Satisfies `exporters.kv.KvSource`."""

    def __init__(self, store: Store, clock: Clock, settings: Settings) -> None:
        self._store = store
        self._clock = clock
        self._enabled = settings.kv_events.enabled
        self.collector = KvCollector(clock, limits_of(settings))
        self._told: dict[tuple[DeploymentKey, str], MemberProbe] = {}
        self._undialable: tuple[KvStreamSummary, ...] = ()
        self._gathering: asyncio.TimerHandle | None = None

    def on_probe(self, probe: MemberProbe) -> None:
        """An engine told which publishers it has."""
        before = self._told.get((probe.deployment, probe.uid))
        self._told[probe.deployment, probe.uid] = probe
        told = _said(before) if before is not None else None
        if probe.events is not None and told != _said(probe) and self._gathering is None:
            self._gathering = asyncio.get_running_loop().call_later(TOLD_SECONDS, self.sync)

    def close(self) -> None:
        """Follow nobody new from now on."""
        if self._gathering is not None:
            self._gathering.cancel()

    def sync(self) -> None:
        """Follow the publishers of the deployments that exist now."""
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        deployments = self._store.deployments()
        alive = {(each.key, member.uid) for each in deployments for role in each.roles for member in role.members()}
        self._told = {key: probe for key, probe in self._told.items() if key in alive}
        sources = tuple(self._sources(deployments)) if self._enabled else ()
        self.collector.sync(sources)
        followed = {source.key for source in sources}
        lost = self._detached(deployments) if self._enabled else ()
        self._undialable = tuple(each for each in lost if each.key not in followed)

    def _detached(self, deployments: Iterable[Deployment]) -> Iterator[KvStreamSummary]:
        """The publishers that engines tell of and nobody can dial: what they hold is not known, and that is said."""
        for deployment in deployments:
            for role in deployment.roles:
                for member in role.members():
                    probe = self._told.get((deployment.key, member.uid))
                    if probe is None or probe.events is None:
                        continue
                    for rank, why in probe.events.undialable:
                        source = StreamSource(
                            key=StreamKey(deployment.key, member.uid, rank),
                            member=member.name,
                            role=role.name,
                            source=KvEventSource(endpoint="", rank=rank),
                            engine=role.engine,
                            model=deployment.model,
                        )
                        yield not_followed(source, probe.events.at, why)

    def restarted(self, deployment: DeploymentKey, uid: str) -> None:
        """An engine is known to have restarted."""
        self.collector.restarted(deployment, uid)

    def _sources(self, deployments: Iterable[Deployment]) -> Iterator[StreamSource]:
        """What the engine reports, else what the contract or the file says; never a guessed port."""
        for deployment in deployments:
            for role in deployment.roles:
                for member in role.members():
                    probe = self._told.get((deployment.key, member.uid))
                    told = probe.events.sources if probe is not None and probe.events is not None else ()
                    version = role.engine_version
                    if version is None and probe is not None and probe.version is not None:
                        version = probe.version.version
                    for source in told or member.kv_events:
                        yield StreamSource(
                            key=StreamKey(deployment.key, member.uid, source.rank),
                            member=member.name,
                            role=role.name,
                            source=source,
                            engine=role.engine,
                            version=version,
                            model=deployment.model,
                            seeded=kv_media.equal_hashes(role.engine, version, dict(role.environment)),
                        )

    def now(self) -> Instant:
        """This moment."""
        return self._clock.now()

    def kv_deployments(self) -> tuple[DeploymentKey, ...]:
        """The deployments that exist now, sorted."""
        return self._store.keys()

    def kv_streams(self, deployment: DeploymentKey | None = None) -> tuple[KvStreamSummary, ...]:
        """Every stream, or those of one deployment, sorted by key; publishers that cannot be dialled are detached ones."""
        found = self.collector.summaries(deployment)
        lost = [each for each in self._undialable if deployment in (None, each.key.deployment)]
        return tuple(sorted((*found, *lost), key=lambda each: each.key)) if lost else found

    def kv_index(self, deployment: DeploymentKey) -> KvIndexSummary:
        """The block index of one deployment."""
        return self.collector.index_summary(deployment)

    def kv_size(self, deployment: DeploymentKey) -> KvIndexSummary:
        """What that index takes, without what it holds."""
        return self.collector.index_size(deployment)

    def kv_lookup(self, deployment: DeploymentKey, hashes: Sequence[Hash], model: str | None) -> KvLookup:
        """Who holds how long a prefix of these hashes."""
        found = self.collector.lookup(deployment, hashes, model=model)
        return also_unknown(found, (each.key for each in self._undialable if each.key.deployment == deployment))

    def kv_receiver(self) -> ReceiverSummary:
        """What waits between the sockets and the index."""
        return self.collector.receiver_summary()


class KvJudging:
    """What KV streams and stores prove of each deployment. The streams are given, so that a replay judges alike."""

    def __init__(self, store: Store, settings: Settings, ready: ReadyReplicas) -> None:
        self._store = store
        self._live = LivePolicy(silence=settings.kv_events.silent_after)
        self._ready = ready
        self._computed: dict[DeploymentKey, dict[StreamKey, ComputedSince]] = {}
        self._alive: tuple[DeploymentKey, ...] = ()
        self._levels: dict[DeploymentKey, tuple[StoreLevel, ...]] = {}

    def conditions(
        self, deployment: Deployment, streams: Sequence[KvStreamSummary], now: Instant
    ) -> tuple[Condition, ...]:
        """CacheAttached and KVEventsLive of one deployment."""
        self._forget()
        tokens = {key: each.tokens for key, each in self._follow_computed(deployment, streams).items()}
        return (
            cache_attached(self._cache_evidence(deployment, streams, now), now),
            kv_events_live(streams, tokens, now, self._live),
        )

    def _forget(self) -> None:
        """Deployments that are gone; this is asked for each of many at every pass."""
        alive = self._store.keys()
        if alive == self._alive:
            return
        self._alive = alive
        self._levels = {key: self._levels[key] for key in alive if key in self._levels}
        self._computed = {key: self._computed[key] for key in alive if key in self._computed}

    def _follow_computed(
        self, deployment: Deployment, streams: Sequence[KvStreamSummary]
    ) -> Mapping[StreamKey, ComputedSince]:
        """What each stream's rank computed since its last batch; of streams that are gone nothing is kept."""
        before = self._computed.pop(deployment.key, {})
        if not streams:
            return {}
        found = self._computed[deployment.key] = dict[StreamKey, ComputedSince]()
        ports = {
            member.uid: member.metrics.port
            for role in deployment.roles
            for member in role.members()
            if member.metrics is not None
        }
        for stream in streams:
            key = stream.key
            record = self._store.record(
                TargetKey(deployment.key, key.member_uid, Component.ENGINE, ports.get(key.member_uid, 0))
            )
            total = computed_tokens(record, key.rank) if record is not None else None
            if total is not None:
                found[key] = follow_computed(before.get(key), stream.counters.batches, total)
        return found

    def _cache_evidence(
        self, deployment: Deployment, streams: Sequence[KvStreamSummary], now: Instant
    ) -> CacheEvidence:
        if not deployment.stores:
            return CacheEvidence(attached=False)
        pair = {role.kind for role in deployment.roles} >= {RoleKind.PREFILL, RoleKind.DECODE}
        accounts = tuple(
            engine_account(report, measures_store=measures_store(role, pair=pair))
            for role in deployment.roles
            for member in _leaders(role)
            if (report := self._report(deployment.key, member, Component.ENGINE, now)) is not None
        )
        levels: tuple[StoreLevel, ...] = ()
        for store in deployment.stores:
            for member in store.members:
                report = self._report(deployment.key, member, Component.STORE, now)
                if report is not None:
                    before = self._levels.get(deployment.key, ())
                    levels += follow_levels(before, member.name, store_levels(report, store.tenant), now)
        self._levels[deployment.key] = levels
        return CacheEvidence(
            attached=True,
            ready_replicas=self._ready(deployment.key),
            accounts=accounts,
            streams=tuple(streams),
            store_account=levels,
        )

    def _report(self, key: DeploymentKey, member: Member, component: Component, now: Instant) -> TargetReport | None:
        if member.metrics is None:
            return None
        return self._store.target_report(TargetKey(key, member.uid, component, member.metrics.port), now)


def _leaders(role: Role) -> Iterator[Member]:
    """The members that may be asked for their account: serving, not leaving, not known to be unready."""
    for member in role.members():
        if member.serves and not member.terminating and member.ready is not Ready.FALSE:
            yield member


def measures_store(role: Role, *, pair: bool) -> bool:
    """Whether the role's external (vLLM) or storage (SGLang) hits are of the attached store."""
    if pair and role.kind == RoleKind.DECODE:
        return False
    table = STORAGE_FLAGS.get(role.engine)
    return table is None or any(argument.partition("=")[0] in table for argument in role.arguments)


STORAGE_FLAGS = {"sglang": ("--hicache-storage-backend",)}
"""Engines whose storage tier exists only with one of these arguments."""

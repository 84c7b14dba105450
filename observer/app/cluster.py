"""One observer in a cluster: discovery, what is watched by it, what was remembered, and what is published, joined."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from exporters.self_metrics import STATUS_RESULTS
from observer.app.publisher import Publisher
from observer.app.watcher import Watcher
from observer.clock import Clock
from observer.discover.kubernetes import KubernetesDiscovery
from observer.discover.platforms import Platform
from observer.discover.platforms.select import IGNORE
from observer.kube.client import ApiClient
from observer.kube.events import EventTeller
from observer.kube.intent import Key, Stored
from observer.kube.observations import OBSERVATIONS, observation_name, owned_uid, recalled, resource_of
from observer.kube.observing import Observations
from observer.kube.options import KubernetesSettings
from observer.kube.ownership import AlwaysOwner, Ownership
from observer.kube.status_writer import StatusWriter, WriterTuning
from observer.kube.writing import WritingRules
from observer.settings import Settings
from router_contract.discovered import Discovered, ObjectReference
from router_contract.platform_facts import PlatformFacts, SourceFault
from router_contract.targets import Deployment, DeploymentKey

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
PROOF_SECONDS = 5.0
"""A deployment's Pods are listed uncached at most this often, however much a verdict would like it."""
LOOK = 1.0
"""How often it is looked whether sources fail or a proof is wanted, in seconds."""

_log = logging.getLogger(__name__)


def identity_of(settings: KubernetesSettings) -> str:
    """Our name among replicas."""
    return settings.identity or os.environ.get("POD_NAME") or socket.gethostname()


def namespace_of(settings: KubernetesSettings, file: Path = NAMESPACE_FILE) -> str:
    """The namespace of our own Leases."""
    if settings.namespace:
        return settings.namespace
    try:
        return file.read_text(encoding="utf-8").strip() or "default"
    except OSError:
        return os.environ.get("POD_NAMESPACE") or "default"


class Cluster:
    """Watches what discovery finds and this replica owns, beside ``static`` deployments; `start` begins it.

    ``ownership`` may change at any time: what is lost is no longer written or read when its callback's work is done,
    what is gained begins with what the last owner remembered.
    """

    def __init__(
        self,
        watcher: Watcher,
        client: ApiClient,
        platforms: Sequence[Platform],
        settings: Settings,
        clock: Clock,
        *,
        static: Iterable[Deployment] = (),
        ownership: Ownership | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        told = settings.kubernetes
        self._watcher = watcher
        self._proved: dict[DeploymentKey, float] = {}
        self._settings = told
        self._clock = clock
        self._static = tuple(static)
        self._ownership = ownership if ownership is not None else AlwaysOwner()
        may = self._ownership.writes
        self._identity = identity_of(told)
        self._found: tuple[Discovered, ...] = ()
        self._known: dict[DeploymentKey, Discovered] = {}
        self._applied = False
        self._followed: dict[DeploymentKey, Discovered] = {}
        self._targets: dict[Key, ObjectReference] = {}
        self._shown: tuple[SourceFault, ...] = ()
        self._clashes: frozenset[str] = frozenset()
        self._again, self._turn = asyncio.Event(), asyncio.Lock()
        self.observations = Observations(
            client, clock, told.watch.namespaces, on_change=self._stored_changed, chance=chance
        )
        self.discovery = KubernetesDiscovery(
            client,
            platforms,
            namespaces=told.watch.namespaces,
            label_selector=told.watch.label_selector,
            clock=clock,
            supervisor=watcher.supervisor,
            allow=settings.security.allow_cidrs,
            sources=told.optional,
            apply=self._apply,
            on_object=self._target_changed,
        )
        self.writer = StatusWriter(
            client,
            clock,
            lookup=self._stored,
            chance=chance,
            tuning=writer_tuning(told),
            told=watcher.tally.status_written,
            may=may,
        )
        self.teller = EventTeller(client, clock, instance=self._identity, told=watcher.tally.event_told, may=may)
        self.publisher = Publisher(
            clock,
            told.status,
            judging=watcher.judging,
            observations=self.observations,
            writer=self.writer,
            teller=self.teller,
            target=self.discovery.target,
            observer=self._identity,
            ignore=IGNORE,
            chance=chance,
            ownerless=not told.watch.label_selector,
            may=may,
        )
        self._ownership.subscribe(self._again.set)
        watcher.looking.use(client, self.discovered)

    def start(self) -> None:
        """Begin, as children of the watcher's supervisor; they end with it."""
        start = self._watcher.supervise
        if self._settings.status.enabled:
            for result in STATUS_RESULTS:
                self._watcher.tally.status_written(OBSERVATIONS.kind, result, 0)
            for name, run in self.observations.runs:
                start(name, run)
            start("publish observations", self.publisher.run)
            start("write statuses", self.writer.run)
            start("tell Events", self.teller.run)
        start("discover deployments", self.discovery.run)
        start("follow ownership", self._follow_ownership)
        start("look after sources", self._look)
        start("prove memberships", self._prove)

    async def set_static(self, deployments: Iterable[Deployment]) -> None:
        """Watch these of files from now on."""
        self._static = tuple(deployments)
        if self._applied:
            await self._follow()

    def owns(self, key: DeploymentKey) -> bool:
        """Whether a deployment is ours by its name; one that nobody found is decided by its name alone."""
        return self._ownership.owns(self.uid(key))

    def uid(self, key: DeploymentKey) -> str:
        """The UID by which replicas divide deployments; the name of one that has none."""
        found = self._known.get(key)
        return str(key) if found is None else owned_uid(found)

    def discovered(self, key: DeploymentKey) -> Discovered | None:
        """What was discovered of a deployment."""
        return self._known.get(key)

    def elsewhere(self, key: DeploymentKey) -> Deployment | None:
        """A deployment that exists and is not followed here."""
        found = self._known.get(key)
        return None if found is None or key in self._followed else found.deployment

    def all_elsewhere(self) -> tuple[DeploymentKey, ...]:
        """Every deployment that exists and is not followed here, sorted."""
        return tuple(sorted(key for key in self._known if key not in self._followed))

    def labels(self, key: DeploymentKey) -> dict[str, str]:
        """The labels of a deployment's own object; none of one of files."""
        found = self._known.get(key)
        return {} if found is None else dict(found.labels)

    def leads(self, job: str) -> bool:
        """Whether a job that only one replica does is ours now."""
        return self._ownership.owns(job)

    def faults(self) -> tuple[SourceFault, ...]:
        """Every kind of object that cannot be read now, of whichever platform."""
        return (*self.discovery.sources(), *self._own_faults())

    def _own_faults(self) -> tuple[SourceFault, ...]:
        """What of our own cannot be read: it concerns every deployment, where a platform's kinds concern only its own."""
        ours = self.observations.fault() if self._settings.status.enabled else None
        return (ours,) if ours is not None else ()

    async def _apply(self, found: Sequence[Discovered]) -> None:
        """What discovery found: the whole of it, each time."""
        if self._settings.status.enabled:
            # Nothing is judged before it is known what was remembered: a first pass would begin all histories anew.
            await self.observations.known()
        self._found, self._applied = tuple(found), True
        self._known = {each.deployment.key: each for each in reversed(self._found)}
        await self._follow()

    async def let_go(self) -> None:
        """Follow what is ours by now. On return nothing else is read or written."""
        if self._applied:
            await self._follow()

    async def _follow_ownership(self) -> None:
        while True:
            await self._again.wait()
            self._again.clear()
            if self._applied:
                await self._follow()

    async def _follow(self) -> None:
        """Watch and publish what is found and ours."""
        async with self._turn:
            mine = self._chosen()
            foreign = frozenset(owned_uid(each) for each in self._found) - {owned_uid(each) for each in mine.values()}
            # What is lost stops being written before it stops being read; what is gained is written last.
            self.publisher.follow([each for each in mine.values() if self._same(each)], foreign)
            for key, each in mine.items():
                if not self._same(each):
                    self._recall(key, each)
            self._followed = mine
            self._targets = {_key_of(each.target): each.target for each in mine.values() if each.target is not None}
            await self._watch()
            self.publisher.follow(tuple(mine.values()), foreign)

    def _same(self, each: Discovered) -> bool:
        held = self._followed.get(each.deployment.key)
        return held is not None and owned_uid(held) == owned_uid(each)

    def _chosen(self) -> dict[DeploymentKey, Discovered]:
        """What is ours, by name. Two of one name cannot be told apart by anybody: the first stays, files before all."""
        chosen: dict[DeploymentKey, Discovered] = {}
        taken = {each.key for each in self._static}
        clashes = set()
        for each in self._found:
            key = each.deployment.key
            if key in taken:
                clashes.add(f"{key} of {each.facts.platform}")
                continue
            taken.add(key)
            if self._ownership.owns(owned_uid(each)):
                chosen[key] = each
        fresh = clashes - self._clashes
        self._clashes = frozenset(clashes)
        if fresh:
            _log.warning(
                "not watched, another deployment has the same namespace and name: %s", ", ".join(sorted(fresh))
            )
        return chosen

    def _recall(self, key: DeploymentKey, each: Discovered) -> None:
        """Begin a deployment with what its observation remembers."""
        self._watcher.judging.forget(key)
        document = self.observations.get(key.namespace, observation_name(each))
        if document is None:
            return
        memory = recalled(document, owned_uid(each))
        if memory.trouble:
            _log.warning("%s", memory.trouble)
        if memory.stored is not None:
            self._watcher.recall(key, memory.stored)

    async def _watch(self) -> None:
        self._shown = self._own_faults()
        facts = {key: self._facts(each) for key, each in self._followed.items()}
        deployments = [each.deployment for each in self._followed.values()]
        static = [each for each in self._static if self._ownership.owns(str(each.key))]
        await self._watcher.watch((*static, *deployments), facts)

    def _facts(self, each: Discovered) -> PlatformFacts:
        """What the platform says, kinds of it that cannot be read included, with what of our own cannot be."""
        named = {fault.kind for fault in each.facts.sources}
        more = tuple(fault for fault in self._shown if fault.kind not in named)
        return msgspec.structs.replace(each.facts, sources=each.facts.sources + more) if more else each.facts

    async def _look(self) -> None:
        """Keep ``sources[]`` true between two finds, and let observations of what is gone go."""
        while True:
            faults = self._own_faults()
            self.publisher.sweeping = self.discovery.synced
            if self.discovery.synced and self._key(faults) != self._key(self._shown):
                async with self._turn:
                    self._shown = faults
                    self._watcher.platform.facts({key: self._facts(each) for key, each in self._followed.items()})
            await asyncio.sleep(LOOK)

    async def _prove(self) -> None:
        """List the Pods of deployments whose verdict would be held without; few are, and only while views are shaky."""
        while True:
            for key in list(self._followed):
                now = self._clock.now().mono
                if not self._watcher.judging.proof_wanted(key) or now < self._proved.get(key, now):
                    continue
                self._proved[key] = now + PROOF_SECONDS
                proof = await self.discovery.prove(key)
                if proof is not None:
                    self._watcher.platform.proof(key, proof)
            self._proved = {key: due for key, due in self._proved.items() if key in self._followed}
            await asyncio.sleep(LOOK)

    @staticmethod
    def _key(faults: Iterable[SourceFault]) -> tuple[tuple[str, str], ...]:
        return tuple((fault.kind, fault.why) for fault in faults)

    def _stored(self, key: Key) -> Stored | None:
        """What the API server holds of an object that is written, as last heard."""
        if key[0] == OBSERVATIONS:
            return self.observations.stored(key)
        reference = self._targets.get(key)
        document = None if reference is None else self.discovery.target(reference)
        return None if document is None else Stored.of(document)

    def _stored_changed(self, key: Key) -> None:
        self.writer.changed(key)

    def _target_changed(self, reference: ObjectReference) -> None:
        self.writer.changed(_key_of(reference))


def writer_tuning(settings: KubernetesSettings) -> WriterTuning:
    """The writer's pace that settings ask for."""
    told = settings.status
    return WriterTuning(
        rate=told.rate,
        burst=float(told.burst),
        start=told.start_spread,
        rules=WritingRules(
            interval=told.interval, dwell_to_true=told.dwell_to_true, dwell_from_true=told.dwell_from_true
        ),
    )


def _key_of(reference: ObjectReference) -> Key:
    return (resource_of(reference), reference.namespace, reference.name)

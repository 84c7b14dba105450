"""Canary analyses of a cluster: CanaryAnalysis objects and OME's own runs, joined to the same judging as files.

One class for the Kubernetes mode: `ClusterCanaries` follows the objects, hands `Canaries` what there is, keeps each state
in the object's status, and answers for what cannot be judged with a condition on it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import msgspec

from observer.app.canary import Canaries
from observer.app.canary_keeping import KeepError
from observer.app.canary_sides import RevisionEndpoints
from observer.clock import Clock
from observer.discover.ome_canary import OmeUnit, ome_canaries
from observer.discover.platforms.world import owner_uids
from observer.judge.canary.template import variables
from observer.kube.answers import Outcome
from observer.kube.cache import Change, ChangeKind
from observer.kube.canary_state import CANARIES, Held, ensure, held, published, read, read_secret, standing, swap
from observer.kube.client import ApiClient
from observer.kube.informer import Informer
from observer.kube.intent import WantedCondition
from observer.kube.records import Document, watched_documents
from observer.kube.records import document as document_of
from observer.kube.resources import Resource
from observer.kube.watching import WatchTuning
from router_contract.canary import CanaryAnalysis
from router_contract.canary_decode import decode
from router_contract.canary_results import CanaryState, CanaryStatus, Reason
from router_contract.targets import DeploymentKey

_log = logging.getLogger(__name__)
OME: Final = "ome.io"
SERVICES: Final = Resource(group=OME, version="v1beta1", plural="inferenceservices", kind="InferenceService")
POLICIES: Final = Resource(group=OME, version="v1beta1", plural="rolloutpolicies", kind="RolloutPolicy")
SLICES: Final = Resource(group="discovery.k8s.io", version="v1", plural="endpointslices", kind="EndpointSlice")
_SERVICE: Final = "kubernetes.io/service-name"
MIRRORS: Final = "observer.modeldeployment.io/mirrors"
"""The label of objects that we keep for another platform's runs: their definition is the platform's, not their spec."""
_SETTLE: Final = 0.2
"""Changes arrive in bursts; what they come to is looked at once, after so many seconds."""
SERVED_PERIOD: Final = 60.0
"""How often it is asked whether the cluster serves OME's kinds by now, in seconds."""
_REASONS: Final = frozenset(str(reason) for reason in Reason)


class ClusterKeeper:
    """States in the status of CanaryAnalysis objects; satisfies `observer.app.canary_keeping.Keeper`.

    ``wanted`` gives the conditions that go with a status.
    """

    keep_seconds = 30.0

    def __init__(
        self, client: ApiClient, clock: Clock, wanted: Callable[[DeploymentKey], list[WantedCondition]]
    ) -> None:
        self._client = client
        self._clock = clock
        self._wanted = wanted
        self._known: dict[DeploymentKey, Held] = {}

    async def load(self, key: DeploymentKey) -> tuple[str, CanaryState | None]:
        """As `Keeper.load`."""
        found = await read(self._client, key.namespace, key.name)
        if not isinstance(found, Held):
            raise KeepError(f"the CanaryAnalysis {key} cannot be read: {found.outcome}: {found.message}")
        if found.damaged:
            _log.error("%s", found.damaged)
        self._known[key] = found
        return found.version, found.state

    async def swap(self, key: DeploymentKey, version: str, state: CanaryState, status: CanaryStatus) -> str | None:
        """As `Keeper.swap`."""
        before = self._known.get(key)
        if before is None or before.version != version:
            return None
        conditions = standing(self._wanted(key), before.status, before.generation, self._clock.now().wall)
        told = published(status, state, conditions)
        found = await swap(self._client, key.namespace, key.name, version, told)
        if isinstance(found, Held):
            self._known[key] = found
            return found.version
        if found.outcome in {Outcome.CONFLICT, Outcome.NOT_FOUND}:
            return None
        raise KeepError(f"the status of CanaryAnalysis {key} cannot be written: {found.outcome}: {found.message}")

    async def forget(self, key: DeploymentKey) -> None:
        """The object went, and its status with it."""
        self._known.pop(key, None)


class ClusterCanaries:
    """Follows the objects and keeps `Canaries` told. `run` never ends by itself.

    ``owns`` says whether this replica judges a deployment; after a change of ownership call `changed`. Without
    ``namespaces`` all are followed. OME's kinds are followed once the cluster serves them.
    """

    def __init__(
        self,
        client: ApiClient,
        clock: Clock,
        canaries: Canaries,
        *,
        owns: Callable[[DeploymentKey], bool],
        chance: Callable[[], float],
        namespaces: Sequence[str] = (),
        tuning: WatchTuning = WatchTuning(),  # noqa: B008 - frozen
    ) -> None:
        self._client = client
        self._clock = clock
        self._canaries = canaries
        self._owns = owns
        self._change = asyncio.Event()
        self._written: dict[DeploymentKey, str] = {}
        self._ensured: dict[DeploymentKey, tuple[str, Mapping[str, Any], str]] = {}
        """The service's UID, the spec and the object's own UID of what was made."""
        self.problems: tuple[str, ...] = ()

        def informers(
            resource: Resource, on_change: Callable[[Change[Document]], None]
        ) -> tuple[Informer[Document], ...]:
            return tuple(
                Informer(
                    client,
                    watched_documents(resource, namespace),
                    clock,
                    on_change=on_change,
                    chance=chance,
                    tuning=tuning,
                )
                for namespace in (namespaces or (None,))
            )

        self._namespaces = tuple(namespaces)
        self._objects = informers(CANARIES, self._object_changed)
        self._services = informers(SERVICES, lambda _: self._change.set())
        self._policies = informers(POLICIES, lambda _: self._change.set())
        # Endpoints are looked up when they are needed.
        self._slices = informers(SLICES, lambda _: None)
        keeper = ClusterKeeper(client, clock, self._conditions)
        canaries.use(
            keeper,
            lambda made: owns(_target(made)),
            lambda space, name: read_secret(client, space, name),
            self._endpoints,
        )

    def _object_changed(self, change: Change[Document]) -> None:
        """Our own writes of a status are no news."""
        before = change.before
        if change.kind is ChangeKind.DELETED:
            self._ensured.pop(DeploymentKey(change.record.namespace, change.record.name), None)
        if before is None or change.kind is ChangeKind.DELETED or _defined(before) != _defined(change.record):
            self._change.set()

    def changed(self) -> None:
        """Something that decides what is judged here has changed."""
        self._change.set()

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for each in self._objects:
                tasks.create_task(each.run())
            tasks.create_task(self._follow_ome())
            for each in self._objects:
                await each.synced()
            while True:
                self._change.clear()
                await self.reconcile()
                await self._change.wait()
                await asyncio.sleep(_SETTLE)

    async def _follow_ome(self) -> None:
        """Follow OME's kinds from when the cluster serves them; most clusters never do, and that is no trouble."""
        for resource in (SERVICES, POLICIES):
            path = resource.collection(self._namespaces[0] if self._namespaces else None)
            while True:
                answer = await self._client.request("GET", path, query={"limit": "1"})
                if answer.ok:
                    break
                await asyncio.sleep(SERVED_PERIOD)
        async with asyncio.TaskGroup() as tasks:
            for each in (*self._services, *self._policies, *self._slices):
                tasks.create_task(each.run())

    async def reconcile(self) -> None:
        """Hand on what the objects say now. What cannot be judged gets a condition that names each fault."""
        made: list[CanaryAnalysis] = []
        objects: dict[DeploymentKey, str] = {}
        for each in chain(*self._objects):
            if MIRRORS in (each.body["metadata"].get("labels") or {}):
                continue
            found = decode({key: value for key, value in each.body.items() if key != "status"})
            if isinstance(found, tuple):
                await self._refuse(each, "; ".join(str(fault) for fault in found))
            else:
                made.append(found)
                objects[DeploymentKey(each.namespace, each.name)] = each.uid
        units = await self._ome_units()
        made += [unit.definition for unit, _ in units]
        objects |= {unit.key: uid for unit, uid in units}
        await self._canaries.watch(made, {unit.key: unit.run for unit, _ in units}, objects)

    async def _ome_units(self) -> list[tuple[OmeUnit, str]]:
        """The open canaries of OME services whose objects of ours are there, each with its object's UID."""
        units: list[tuple[OmeUnit, str]] = []
        problems: list[str] = []
        for service in chain(*self._services):
            near = {each.name: each.body for each in chain(*self._policies) if each.namespace == service.namespace}
            found = ome_canaries(service.body, near)
            problems += [f"{service.namespace}/{service.name}: {each}" for each in found.problems]
            for unit in found.units:
                uid = await self._mirrored(unit, service)
                if uid is not None:
                    units.append((unit, uid))
        self.problems = tuple(problems)
        return units

    async def _mirrored(self, unit: OmeUnit, service: Document) -> str | None:
        """The UID of the object that keeps a run's state, made now where it is not there; ``None`` while it cannot be."""
        key = unit.key
        known, mine = self._ensured.get(key), self._owns(_target(unit.definition))
        if not mine or (known is not None and known[:2] == (service.uid, unit.spec)):
            return known[2] if known is not None and mine else ""
        if self._of_another(key, service.uid):
            return None  # it goes with the service that is gone, and that it went is heard of
        owner = {
            "apiVersion": SERVICES.api_version,
            "kind": SERVICES.kind,
            "name": service.name,
            "uid": service.uid,
        }
        answer = await ensure(self._client, key.namespace, key.name, unit.spec, owner)
        if not answer.ok:
            _log.error("the CanaryAnalysis %s cannot be written: %s: %s", key, answer.outcome, answer.message)
            return None
        try:
            uid = document_of(msgspec.Raw(answer.body)).uid
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            _log.error("the CanaryAnalysis %s was answered with no object: %s", key, error)
            return None
        self._ensured[key] = service.uid, unit.spec, uid
        return uid

    def _of_another(self, key: DeploymentKey, uid: str) -> bool:
        """Whether the object of this name is still that of an earlier service, whose judged state is none of this one."""
        held = (each for each in chain(*self._objects) if (each.namespace, each.name) == (key.namespace, key.name))
        return any(owner_uids(each) and uid not in owner_uids(each) for each in held)

    def _endpoints(self, made: CanaryAnalysis) -> RevisionEndpoints | None:
        """The Pods behind the Services of an OME service's two revisions; ``None`` while either is not known."""
        values = variables(made, made.canary, made.stable)
        wanted = {values["CanaryService"]: made.canary, values["StableService"]: made.stable}
        if made.target.kind != SERVICES.kind or not all(each.health.complete for each in self._slices):
            return None
        found: dict[str, set[str]] = {}
        for each in chain(*self._slices):
            revision = wanted.get((each.body["metadata"].get("labels") or {}).get(_SERVICE, ""))
            if revision and each.namespace == made.namespace:
                references = (point.get("targetRef") or {} for point in each.body.get("endpoints") or ())
                uids = {str(told["uid"]) for told in references if told.get("uid")}
                found.setdefault(revision, set()).update(uids)
        return found if len(found) == len(wanted) else None

    async def _refuse(self, document: Document, faults: str) -> None:
        """Say on an object why it is not judged; what was judged of it before stays."""
        key = DeploymentKey(document.namespace, document.name)
        target = (document.body.get("spec") or {}).get("targetRef") or {}
        if self._written.get(key) == faults or not self._owns(DeploymentKey(key.namespace, str(target.get("name")))):
            return
        stored = held(document.body)
        wanted = [WantedCondition(type="Accepted", status="False", reason="Invalid", message=faults)]
        conditions = standing(wanted, stored.status, stored.generation, self._clock.now().wall)
        status = {**stored.status, "conditions": conditions}
        answer = await swap(self._client, key.namespace, key.name, stored.version, status)
        if isinstance(answer, Held):
            self._written[key] = faults

    def _conditions(self, key: DeploymentKey) -> list[WantedCondition]:
        """What goes with the status of an analysis that is judged."""
        self._written.pop(key, None)
        view = self._canaries.canary(key)
        problems = () if view is None else view.problems
        found = [WantedCondition(type="Accepted", status="True", reason="Valid", message="")]
        if not problems:
            return [*found, WantedCondition(type="SourceReady", status="True", reason="Ready", message="")]
        words = [word for word in problems[0].split(": ") if word in _REASONS]
        reason = words[0] if words else "NotReady"
        return [
            *found,
            WantedCondition(type="SourceReady", status="False", reason=reason, message="; ".join(problems)),
        ]


def _target(made: CanaryAnalysis) -> DeploymentKey:
    return DeploymentKey(made.namespace, made.target.name)


def _defined(document: Document) -> tuple[Any, ...]:
    """What of an object says what is to be judged."""
    return document.uid, document.body.get("spec"), document.body["metadata"].get("labels")

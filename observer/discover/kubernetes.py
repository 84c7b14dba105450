"""Discovery in a cluster: follows the objects of each platform and says what they add up to.

A change dirties only the deployments that looked at what changed; they are built anew in slices, and the whole set is
handed on. Nothing is handed on before the first lists were read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec

from observer.clock import Clock
from observer.discover.admission import refusal
from observer.discover.feeds import Feeds
from observer.discover.following import Followed
from observer.discover.platforms import Platform
from observer.discover.platforms.document import StatusPolicy
from observer.kube.client import ApiClient
from observer.kube.records import Document
from observer.kube.schemas import Conditions, of_openapi
from observer.kube.watching import WatchTuning
from observer.supervise import Supervisor
from router_contract.discovered import Discovered, ObjectReference
from router_contract.judging import MembershipProof
from router_contract.platform_facts import SourceFault
from router_contract.targets import DeploymentKey

_log = logging.getLogger(__name__)


class DiscoveryTuning(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds. ``debounce`` gathers changes, ``tick`` looks at the feeds' health, ``slice`` is the most CPU
    time before others get a turn; a trouble is a fault after ``grace``; schemas are asked again after ``schemas``; after
    ``refresh`` what did not change is handed on again, as read now.
    """

    debounce: float = 0.1
    tick: float = 1.0
    slice: float = 0.01
    grace: float = 10.0
    schemas: float = 300.0
    refresh: float = 60.0


class KubernetesDiscovery:
    """Run `run` as a supervised child; it starts one child for each informer.

    ``namespaces`` empty means all; ``label_selector`` chooses targets (Pods on platforms without objects). ``allow``
    are the networks of ``security.allowCIDRs``. ``sources`` names the optional sources that may be read, ``None`` for
    all. ``apply`` gets the whole set after each change; ``on_object`` hears of each change of a target, deletions too.
    """

    def __init__(
        self,
        client: ApiClient,
        platforms: Sequence[Platform],
        *,
        namespaces: tuple[str, ...] = (),
        label_selector: str = "",
        clock: Clock,
        supervisor: Supervisor,
        allow: Sequence[str] = (),
        sources: Sequence[str] | None = None,
        apply: Callable[[Sequence[Discovered]], Awaitable[None]],
        on_object: Callable[[ObjectReference], None] = lambda _: None,
        tuning: DiscoveryTuning = DiscoveryTuning(),  # noqa: B008 - frozen
        watching: WatchTuning = WatchTuning(),  # noqa: B008 - frozen
    ) -> None:
        self._client = client
        self._clock = clock
        self._supervisor = supervisor
        self._apply = apply
        self._tuning = tuning
        self._refusal = partial(refusal, allow=tuple(allow))
        self._woken = asyncio.Event()
        self._started = False
        self._owed = True
        self._refreshed = clock.now().mono
        self._shadowed: frozenset[tuple[str, DeploymentKey]] = frozenset()
        self.synced = False
        feeds = Feeds(client, clock, supervisor, watching, tuning.grace)
        self._followed = tuple(
            Followed(
                platform,
                feeds,
                namespaces=namespaces,
                label_selector=label_selector,
                enabled=sources,
                on_object=on_object,
                on_dirty=self._woken.set,
            )
            for platform in platforms
        )

    async def run(self) -> None:
        """Follow for ever."""
        if not self._started:
            self._started = True
            for followed in self._followed:
                followed.start()
            self._supervisor.start("schemas of targets", self._schemas)
        while True:
            await self._wait()
            for followed in self._followed:
                followed.open()
                followed.look(self._clock.now().wall)
            settled = [followed for followed in self._followed if followed.settled]
            if len(settled) < len(self._followed) and not self.synced:
                continue
            self._refresh()
            if await self._rebuild(settled) or self._owed:
                self._owed = True
                await self._apply(self.deployments())
                self._owed, self.synced = False, True

    def deployments(self) -> tuple[Discovered, ...]:
        """What was found last, by namespace and name. Of several platforms that claim one name the first has it."""
        found: dict[DeploymentKey, Discovered] = {}
        shadowed = set()
        for followed in self._followed:
            for each in followed.found.values():
                key = each.discovered.deployment.key
                if found.setdefault(key, each.discovered) is not each.discovered:
                    shadowed.add((followed.platform.name, key))
        for platform, key in shadowed - self._shadowed:
            _log.warning(
                "%s of platform %s is left out: %s has that name", key, platform, found[key].deployment.platform
            )
        self._shadowed = frozenset(shadowed)
        return tuple(found[key] for key in sorted(found))

    def sources(self) -> tuple[SourceFault, ...]:
        """Every kind that cannot be read now, of all platforms, each kind and reason once."""
        found = {(fault.kind, fault.why, fault.detail): fault for each in self._followed for fault in each.faults()}
        return tuple(found[key] for key in sorted(found))

    def target(self, reference: ObjectReference) -> Document | None:
        """The target object as last heard of, ``None`` when there is none (any more) of this UID."""
        for followed in self._followed:
            resource = followed.platform.target
            if (resource.group, resource.plural) == (reference.group, reference.plural):
                found = followed.target((reference.namespace, reference.name))
                if found is not None and found.uid == reference.uid:
                    return found
        return None

    async def prove(self, key: DeploymentKey) -> MembershipProof | None:
        """One consistent uncached list of a deployment's engine Pods; ``None`` for one that is not found here."""
        for followed in self._followed:
            proof = await followed.prove(self._client, self._clock, (key.namespace, key.name))
            if proof is not None:
                return proof
        return None

    async def _wait(self) -> None:
        """Until something is dirty, or the next look is due; then a moment more, so that one build serves many changes."""
        tick = self._tuning.tick if self.synced else self._tuning.debounce
        try:
            async with asyncio.timeout(tick):
                await self._woken.wait()
        except TimeoutError:
            return
        await asyncio.sleep(self._tuning.debounce)
        self._woken.clear()

    def _refresh(self) -> None:
        now = self._clock.now()
        if now.mono - self._refreshed < self._tuning.refresh:
            return
        self._refreshed, self._owed = now.mono, True
        for followed in self._followed:
            followed.refresh(now.wall)

    async def _rebuild(self, settled: Sequence[Followed]) -> bool:
        """Build what is dirty; whether anything changed or went."""
        changed = False
        since = self._clock.now().mono
        for followed in settled:
            changed |= followed.gone
            followed.gone = False
            for key in sorted(followed.dirty):
                now = self._clock.now()
                changed |= followed.rebuild(key, now.wall, self._refusal)
                if now.mono - since > self._tuning.slice:
                    await asyncio.sleep(0)
                    since = self._clock.now().mono
        return changed

    async def _schemas(self) -> None:
        """Learn of each target's kind whether its conditions merge by type; asked again, as definitions change."""
        due: dict[str, float] = {}
        while True:
            for followed in self._followed:
                name, now = followed.platform.name, self._clock.now().mono
                never = followed.platform.document.target.status_policy is StatusPolicy.NEVER
                if never or not followed.found or now < due.get(name, now):
                    continue
                known = await self._schema(followed)
                due[name] = now + (self._tuning.schemas if known else 10 * self._tuning.tick)
            await asyncio.sleep(self._tuning.tick)

    async def _schema(self, followed: Followed) -> bool:
        """Whether an answer was had; an unknown one leaves what was known."""
        resource = followed.platform.target
        base = f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"
        answer = await self._client.request("GET", f"/openapi/v3/{base}")
        if not answer.ok:
            return False
        try:
            policy = of_openapi(answer.document(), resource)
        except msgspec.DecodeError:
            return False
        if policy.conditions in {Conditions.UNKNOWN, Conditions.NOT_SERVED}:
            return False
        if policy.writable is not followed.conditions_map:
            followed.conditions_map = policy.writable
            _log.info("%s", policy.reason)
            followed.everything()
        return True

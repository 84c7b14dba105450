"""Publishes what judging says into the cluster, once a second: observations, our conditions on targets, Events.

It writes only what is this replica's, only once the first evidence is in, and nothing after a pass that could not list.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

import msgspec

from observer.app.judging import Judging
from observer.app.publishing import gist_of, notices, observation_intent, reference_to, target_intent, unseen
from observer.clock import Clock
from observer.kube.answers import Outcome
from observer.kube.events import EventTeller, Notice
from observer.kube.intent import Intent, Key, Stored
from observer.kube.observations import about, observation, observation_name, ours, owned_uid, replaceable
from observer.kube.observing import Observations
from observer.kube.options import OnTarget, StatusSettings
from observer.kube.records import Document
from observer.kube.status_writer import StatusWriter
from router_contract.discovered import Discovered, ObjectReference
from router_contract.readings import Instant
from router_contract.status import Phase, Transition
from router_contract.targets import DeploymentKey
from router_contract.verdicts import DeploymentReport

PERIOD = 1.0
"""How often it is looked for something to write, in seconds."""
RETRY = 10.0
"""After an observation could not be made, it is tried again in so many seconds."""
LOOK_AGAIN = 10.0
"""About how often a text that tells of nothing else than its own change is looked at anew, in seconds."""
SWEEP = 5.0
"""How often it is looked for observations of what is gone, in seconds."""

_log = logging.getLogger(__name__)


class _Published(msgspec.Struct):
    """What is published of one deployment. ``since`` is when it became ours, monotonic seconds."""

    found: Discovered
    since: float
    seen: tuple[Transition, ...] | None = None
    retry_at: float = 0.0
    gist: object = None
    signs: object = None
    again_at: float = 0.0
    intents: dict[Key, Intent] = msgspec.field(default_factory=dict)


class Publisher:
    """``target`` gives an observed object as last heard of, ``ignore`` is the annotation by which it asks to be left out;
    ``ownerless`` says whether observations of what has no object go when it is not followed any more; ``may`` is asked
    before anything is written.

    `follow` takes the deployments that are ours; `run` publishes them until cancelled.
    """

    def __init__(
        self,
        clock: Clock,
        settings: StatusSettings,
        *,
        judging: Judging,
        observations: Observations,
        writer: StatusWriter,
        teller: EventTeller,
        target: Callable[[ObjectReference], Document | None],
        observer: str,
        ignore: str,
        chance: Callable[[], float],
        ownerless: bool = True,
        may: Callable[[], bool] = lambda: True,
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._judging = judging
        self._observations = observations
        self._writer = writer
        self._teller = teller
        self._target = target
        self._observer = observer
        self._ignore = ignore
        self._chance = chance
        self._ownerless = ownerless
        self._may = may
        self._published: dict[DeploymentKey, _Published] = {}
        self._foreign: frozenset[str] = frozenset()
        self._orphans: dict[str, float] = {}
        self._swept = 0.0
        self._refused = ""
        self._rewritten: set[Key] = set()
        self.sweeping = False
        """Whether what is not followed is known not to exist, so that its observation may go."""

    def follow(self, found: Sequence[Discovered], foreign: frozenset[str] = frozenset()) -> None:
        """Publish exactly these from now on. ``foreign`` are the UIDs of deployments that other replicas publish.

        On return nothing more of a deployment that left is written.
        """
        now = self._clock.now().mono
        present = {each.deployment.key: each for each in found}
        for key, held in list(self._published.items()):
            each = present.get(key)
            if each is None or owned_uid(each) != owned_uid(held.found):
                self._withdraw(held)
                del self._published[key]
        for key, each in present.items():
            if key in self._published:
                self._published[key].found = each
            else:
                self._published[key] = _Published(found=each, since=now)
        self._foreign = foreign

    async def run(self) -> None:
        """Look for something to write, once a period, until cancelled."""
        while True:
            for held in list(self._published.values()):
                if self._may():
                    await self._publish(held)
            if self.sweeping and self._may() and self._clock.now().mono - self._swept >= SWEEP:
                await self._sweep()
            await asyncio.sleep(PERIOD)

    async def _publish(self, held: _Published) -> None:
        now = self._clock.now()
        found = held.found
        key = found.deployment.key
        signs = self._signs(found)
        if signs is not None and signs == held.signs and now.mono < held.again_at:
            return
        judged, memory = self._judging.judged(key), self._judging.memory(key)
        if judged is None or memory is None or self._published.get(key) is not held:
            return
        if held.seen is None and not self._judging.settled(found.deployment, now.mono - held.since):
            return
        if not judged.writable and judged.phase is not Phase.DELETING:
            return
        stored = await self._stored(held, now)
        document = self._on_target(found)
        seen = [each.resource_version for each in (stored, document) if each is not None]
        gist = (*gist_of(judged), memory, found.deployment.generation, seen)
        held.signs = signs
        if gist == held.gist and now.mono < held.again_at:
            return
        held.gist, held.again_at = gist, now.mono + LOOK_AGAIN * (0.5 + self._chance())
        # What is said of one deployment takes about a millisecond to put together: others get their turn between.
        await asyncio.sleep(0)
        report = self._judging.add_verdicts(DeploymentReport(deployment=found.deployment, at=now))
        if stored is not None:
            self._submit(held, observation_intent(found, report, memory, stored, self._observer))
        if document is not None:
            intent = target_intent(found, report, Stored.of(document))
            if intent is not None:
                self._submit(held, intent)
        self._tell(held, report, memory.transitions, stored)

    def _signs(self, found: Discovered) -> object:
        """What must change before there is anything to tell at once; ``None`` where more must be looked at."""
        key = found.deployment.key
        name, namespace = observation_name(found), key.namespace
        observed, document = self._observations.get(namespace, name), self._on_target(found)
        if observed is None:
            return None
        seen = [None if each is None else each.resource_version for each in (observed, document)]
        return self._judging.news(key), found.deployment.generation, seen

    def _on_target(self, found: Discovered) -> Document | None:
        """The observed object, where conditions of ours may stand on it."""
        wanted = self._settings.conditions_on_target is OnTarget.WHERE_MERGED and found.conditions_map
        return self._target(found.target) if wanted and found.target is not None else None

    def _submit(self, held: _Published, intent: Intent) -> None:
        """Hand over an intent that differs from the last one by more than its riders."""
        bare = msgspec.structs.replace(intent, riders={})
        if held.intents.get(intent.key) != bare:
            held.intents[intent.key] = bare
            self._writer.submit(intent)
        standing = self._writer.standing(intent.key)
        if standing is not None and standing.stopped and intent.key not in self._rewritten:
            self._rewritten.add(intent.key)
            if held.found.target is not None:
                self._teller.tell(
                    Notice(
                        regarding=held.found.target,
                        kind="status rewritten",
                        reason="StatusRewritten",
                        note=f"the observer no longer writes this status: {standing.reason}",
                        warning=True,
                        at=self._clock.now().wall,
                    )
                )

    def _withdraw(self, held: _Published) -> None:
        for key in held.intents:
            self._writer.withdraw(key)
            self._rewritten.discard(key)
        held.intents.clear()

    async def _stored(self, held: _Published, now: Instant) -> Stored | None:
        """The stored observation; ``None`` while it is being made or cannot be."""
        found = held.found
        name, namespace = observation_name(found), found.deployment.key.namespace
        document = self._observations.get(namespace, name)
        if document is not None and about(document) == owned_uid(found):
            return Stored.of(document)
        if now.mono < held.retry_at or not self._observations.synced or found.deployment.deleting:
            return None
        held.retry_at = now.mono + RETRY
        if document is not None and not replaceable(document, self._followed()):
            self._trouble(f"observation {namespace}/{name} cannot be made: there is one about {about(document)!r}")
            return None
        if document is not None:
            # It is about an earlier object of this name, whose owner reference will take it away; that may take long.
            await self._observations.delete(document)
            held.retry_at = now.mono
            return None
        answer = await self._observations.create(observation(found))
        if not answer.ok and answer.outcome is not Outcome.CONFLICT:
            self._trouble(f"observation {namespace}/{name} cannot be made: {answer.outcome}: {answer.message}")
        return None

    def _trouble(self, text: str) -> None:
        if text != self._refused:
            _log.warning("%s", text)
        self._refused = text

    def _followed(self) -> frozenset[str]:
        """What is there and published, here or by another replica."""
        return self._foreign.union(owned_uid(held.found) for held in self._published.values())

    def _tell(
        self, held: _Published, report: DeploymentReport, transitions: tuple[Transition, ...], stored: Stored | None
    ) -> None:
        """Tell what changed since the last look. What changed before the first look is history, and no news."""
        before, held.seen = held.seen, transitions
        if before is None or not self._settings.events:
            return
        fresh = unseen(transitions, before)
        if not fresh:
            return
        related = reference_to(held.found, stored) if stored is not None else None
        regarding = held.found.target or related
        if regarding is not None:
            for notice in notices(fresh, report, regarding, related if held.found.target is not None else None):
                self._teller.tell(notice)

    async def _sweep(self) -> None:
        """Delete the observations of ours whose object is gone: nobody may take them for the present."""
        now = self._clock.now().mono
        self._swept = now
        followed = self._followed()
        lost = {each.uid: each for each in self._observations if ours(each) and about(each) not in followed}
        self._orphans = {uid: self._orphans.get(uid, now) for uid in lost}
        for uid, document in lost.items():
            if now - self._orphans[uid] < self._settings.orphan_after:
                continue
            self._orphans[uid] = now
            if await self._observations.orphaned(document, self._ignore, ownerless=self._ownerless):
                await self._observations.delete(document)

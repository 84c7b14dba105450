"""Canary analyses joined to the rest: looks on a timer, samples when they are due, state stored before it is shown."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import msgspec

from observer.app.canary_keeping import ABSENT, Keeper, KeepError
from observer.app.canary_native import NativeSource
from observer.app.canary_queries import QuerySource, SecretReader
from observer.app.canary_sides import Kept, RevisionEndpoints, Sides
from observer.clock import Clock
from observer.judge.canary.clocks import due_in, stalls_at
from observer.judge.canary.condition import worst
from observer.judge.canary.evaluate import evaluate
from observer.judge.canary.status import status_of
from observer.measure.canary_cells import Gathering
from observer.settings import Settings
from observer.store import Store
from router_contract.canary import Analysis, CanaryAnalysis
from router_contract.canary_inputs import (
    Observation,
    Observations,
    Run,
    Sample,
)
from router_contract.canary_results import CanaryState, CanaryStatus, Outcome, SampleFate, Verdict
from router_contract.canary_view import FINAL, CanaryView
from router_contract.readings import Instant
from router_contract.targets import Deployment, DeploymentKey
from router_contract.verdicts import Condition

_log = logging.getLogger(__name__)
NO_RUNS: Mapping[DeploymentKey, Run] = {}
NO_OBJECTS: Mapping[DeploymentKey, str] = {}


class _Canary:
    """One analysis: its stored state and what this process holds beside it."""

    def __init__(self, definition: CanaryAnalysis, uid: str) -> None:
        self.definition = definition
        self.uid = uid
        self.version = ABSENT
        self.loaded = False
        self.state: CanaryState | None = None
        self.gathering: Gathering | None = None
        self.before: dict[str, Kept] = {}
        self.of: tuple[str, str, str] | None = None
        self.taken: float | None = None
        self.counted: float | None = None
        self.sampling = False
        self.lock = asyncio.Lock()
        self.status: CanaryStatus | None = None
        self.outcome: Outcome | None = None
        self.looked: Instant | None = None
        self.kept = 0.0
        self.problems: tuple[str, ...] = ()
        self.trouble = ""
        self.tallies: Counter[tuple[str, str]] = Counter()

    @property
    def key(self) -> DeploymentKey:
        return DeploymentKey(self.definition.namespace, self.definition.name)

    @property
    def analysis(self) -> Analysis | None:
        """The gate of the current step."""
        step = 0 if self.state is None else self.state.step
        return self.definition.steps[step].analysis if step < len(self.definition.steps) else None


class Canaries:
    """Every analysis that is defined. Satisfies `exporters.canary.CanarySource`.

    Without a ``keeper`` the state lives as long as the process. Only what this replica ``owns`` is judged; the rest is
    shown as last known, and after half a minute as stale.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        settings: Settings,
        keeper: Keeper | None = None,
        owns: Callable[[CanaryAnalysis], bool] = lambda _: True,
    ) -> None:
        self._clock = clock
        self._keeper = keeper
        self._owns = owns
        self._runs = NO_RUNS
        self._native = NativeSource(store, settings.scrape.fresh_seconds)
        self._period = settings.judging.period
        self._queries = QuerySource(clock, settings)
        self._canaries: dict[DeploymentKey, _Canary] = {}

    def use(
        self,
        keeper: Keeper,
        owns: Callable[[CanaryAnalysis], bool],
        read_secret: SecretReader,
        endpoints: Callable[[CanaryAnalysis], RevisionEndpoints | None],
    ) -> None:
        """Keep states elsewhere, judge only what is ours, read Secrets, and compare revisions with their Services'
        endpoints: what a cluster adds, before `run`.
        """
        self._keeper, self._owns, self._native.endpoints = keeper, owns, endpoints
        self._queries.read_secret = read_secret

    async def watch(
        self,
        definitions: Iterable[CanaryAnalysis],
        runs: Mapping[DeploymentKey, Run] = NO_RUNS,
        objects: Mapping[DeploymentKey, str] = NO_OBJECTS,
    ) -> None:
        """Judge exactly these from now on. A changed definition keeps its state; what changed in it decides what resets.

        ``runs`` says for the analyses of a controller how its rollout stands; for all others the step is moved here.
        ``objects`` are the UIDs of what they are of: one that was made anew under its name has nothing of the earlier.
        """
        self._runs = runs
        found: dict[DeploymentKey, _Canary] = {}
        for definition in definitions:
            own = DeploymentKey(definition.namespace, definition.name)
            fresh = _Canary(definition, objects.get(own, ""))
            known = self._canaries.get(own)
            if known is not None and known.uid != fresh.uid:
                known = None
            if known is not None:
                known.definition = definition
            found[fresh.key] = known or fresh
            await self._queries.refresh(definition)
            found[fresh.key].problems = self._queries.troubles(definition)
        gone = [key for key in self._canaries if key not in found]
        self._canaries = dict(sorted(found.items()))
        for key in gone:
            try:
                if self._keeper is not None:
                    await self._keeper.forget(key)
            except KeepError as error:
                _log.error("%s", error)

    async def run(self) -> None:
        """Look at every analysis each judging period and begin the samples that are due; runs until cancelled."""
        async with self._queries, asyncio.TaskGroup() as samples:
            while True:
                for canary in list(self._canaries.values()):
                    await self._look(canary, None)
                    if not canary.sampling and self._due(canary) == 0.0:
                        canary.sampling = True
                        samples.create_task(self._sample(canary))
                await asyncio.sleep(self._period)

    async def look(self) -> None:
        """Look at every analysis once and take the samples that are due, one after another; no query is sent."""
        for canary in list(self._canaries.values()):
            await self._look(canary, None)
            if self._due(canary) == 0.0:
                await self._sample(canary)

    def _due(self, canary: _Canary) -> float | None:
        if canary.state is None or canary.looked is None or canary.trouble or not self._owns(canary.definition):
            return None
        run = self._run(canary.definition, self._native.sides(canary.definition))
        return due_in(canary.definition, canary.state, run, self._clock.now(), canary.taken)

    def _run(self, definition: CanaryAnalysis, sides: Sides) -> Run:
        """How a rollout stands: as its controller says, else by its Pods alone, and the step is moved here."""
        told = self._runs.get(DeploymentKey(definition.namespace, definition.name))
        if told is not None:
            return msgspec.structs.replace(told, restarted_at=sides.restarted_at)
        return Run(
            target=f"{definition.namespace}/{definition.target.name}/{definition.component}:{definition.canary}",
            canary=definition.canary,
            stable=definition.stable,
            serving=bool(sides.canary),
            restarted_at=sides.restarted_at,
        )

    async def _look(self, canary: _Canary, sample: Sample | None) -> None:
        """Evaluate once; what it concludes is shown only after it was stored. Whoever becomes owner loads first."""
        async with canary.lock:
            if not self._owns(canary.definition):
                canary.loaded = False
                return
            try:
                await self._load(canary)
                await self._evaluate(canary, sample)
            except KeepError as error:
                if canary.trouble != str(error):
                    _log.error("%s", error)
                canary.trouble = str(error)
            else:
                canary.trouble = ""

    async def _load(self, canary: _Canary) -> None:
        if self._keeper is not None and not canary.loaded:
            before = canary.state
            canary.version, canary.state = await self._keeper.load(canary.key)
            # What somebody else counted sets the time of our next sample.
            canary.loaded, canary.taken = True, None
            if before is None or canary.state is None or before.counted != canary.state.counted:
                # And what we gathered was in their samples: it must not count again.
                canary.gathering, canary.counted = None, None

    async def _evaluate(self, canary: _Canary, sample: Sample | None) -> None:
        now, definition = self._clock.now(), canary.definition
        sides = self._native.sides(definition)
        run = self._run(definition, sides)
        outcome = evaluate(definition, canary.state, Observations(run=run, sample=sample), now)
        status = self._status(canary, run, outcome, now)
        if not await self._stored(canary, outcome.state, status):
            canary.loaded = False
            return
        if outcome.fate is SampleFate.COUNTED:
            canary.counted = now.mono
        canary.state, canary.outcome, canary.looked, canary.status = outcome.state, outcome, now, status
        self._gather(canary, sides, outcome, now)

    def _gather(self, canary: _Canary, sides: Sides, outcome: Outcome, now: Instant) -> None:
        """Count on, in a new window where another gate is judged now; of another run or baseline nothing is kept."""
        counted = outcome.fate is SampleFate.COUNTED
        if counted:
            canary.tallies[str(outcome.decision), str(outcome.reason)] += 1
        of = outcome.state.target, outcome.state.canary, canary.definition.stable
        if canary.of != of:
            canary.of, canary.gathering, canary.before = of, None, {}
        if canary.gathering is None or canary.gathering.plan != outcome.state.plan:
            self._keep(canary, sides, outcome, now)
            canary.gathering = Gathering(outcome.state.plan, now.wall)
        elif counted:
            canary.gathering.sampled(
                outcome.state.evaluated_at or now.wall, conclusive=outcome.verdict is not Verdict.INCONCLUSIVE
            )
        if canary.analysis is not None:
            self._native.look(sides, canary.analysis, canary.gathering, now)

    def _status(self, canary: _Canary, run: Run, outcome: Outcome, now: Instant) -> CanaryStatus:
        """What is published, with the measured share in whole percent: more would change with every request."""
        share = None if canary.gathering is None else self._native.share(canary.gathering, now)
        status = status_of(canary.definition, run, outcome, run.weight)
        return msgspec.structs.replace(status, measured_share=None if share is None else round(100 * share))

    def _keep(self, canary: _Canary, sides: Sides, outcome: Outcome, now: Instant) -> None:
        """What stable counted in the step that was left is where the next begins."""
        steps = canary.definition.steps
        gate = steps[outcome.step].analysis if outcome.step < len(steps) else None
        if canary.gathering is not None and gate is not None:
            canary.before |= self._native.keep(sides, gate, canary.gathering, now)

    async def _stored(self, canary: _Canary, state: CanaryState, status: CanaryStatus) -> bool:
        """Whether a state is kept, or need not be; False when somebody else stored one in between."""
        before = canary.state
        if before is not None and canary.status is not None:
            same = msgspec.structs.replace(before, watched_until=state.watched_until) == state
            rest = 0.0 if self._keeper is None else self._keeper.keep_seconds
            if same and 0 <= state.watched_until - canary.kept < rest:
                return True
        if self._keeper is not None:
            swapped = await self._keeper.swap(canary.key, canary.version, state, status)
            if swapped is None:
                return False
            canary.version = swapped
        canary.kept = state.watched_until
        return True

    async def _sample(self, canary: _Canary) -> None:
        """Take one sample and have it counted."""
        try:
            canary.taken = self._clock.now().mono
            sample = await self._taken(canary)
            if sample is not None:
                await self._look(canary, sample)
        finally:
            canary.sampling = False

    async def _taken(self, canary: _Canary) -> Sample | None:
        state, analysis, definition = canary.state, canary.analysis, canary.definition
        if state is None or analysis is None:
            return None
        started = self._clock.now()
        await self._queries.refresh(definition)
        asked = await self._queries.ask(definition, analysis)
        now, gathering = self._clock.now(), canary.gathering
        seen: list[Observation] = [*asked]
        if gathering is not None and gathering.plan == state.plan:
            sides = self._native.sides(definition)
            self._native.look(sides, analysis, gathering, now)
            seen += self._native.observe(sides, analysis, gathering, now, canary.before)
        return Sample(
            id=state.counted + 1,
            step=state.step,
            canary=state.canary,
            plan=state.plan,
            started=started.wall,
            completed=now.wall,
            observations=tuple(seen),
        )

    def now(self) -> Instant:
        """This moment."""
        return self._clock.now()

    def canaries(self) -> tuple[CanaryView, ...]:
        """Every analysis as it stands now, sorted by namespace and name."""
        return tuple(self._view(each) for each in self._canaries.values())

    def canary(self, key: DeploymentKey) -> CanaryView | None:
        """One of them; ``None`` when there is none of this name."""
        found = self._canaries.get(key)
        return None if found is None else self._view(found)

    def _view(self, canary: _Canary) -> CanaryView:
        state, analysis, outcome = canary.state, canary.analysis, canary.outcome
        gated = state is not None and state.step < len(canary.definition.steps)
        over = canary.status is not None and canary.status.decision in FINAL
        return CanaryView(
            definition=canary.definition,
            now=self._clock.now(),
            status=canary.status,
            looked=canary.looked,
            sampled_at=None if state is None else state.evaluated_at,
            sampled_mono=canary.counted,
            interval=None if analysis is None else analysis.interval,
            deadline=0.0 if analysis is None else analysis.deadline,
            stalls_at=stalls_at(canary.definition, state) if gated and not over and state is not None else None,
            share=None if canary.gathering is None else self._native.share(canary.gathering, self._clock.now()),
            warnings=() if outcome is None else outcome.warnings,
            problems=(*canary.problems, *((canary.trouble,) if canary.trouble else ())),
            tallies=tuple((decision, reason, count) for (decision, reason), count in sorted(canary.tallies.items())),
        )

    def conditions(self, deployment: Deployment, _now: Instant) -> tuple[Condition, ...]:
        """The condition CanaryAnalysis of a deployment that has an analysis: the worst of them."""
        return worst(self._view(each) for each in self._canaries.values() if _about(each.definition, deployment.key))


def _about(definition: CanaryAnalysis, key: DeploymentKey) -> bool:
    return (definition.namespace, definition.target.name) == (key.namespace, key.name)

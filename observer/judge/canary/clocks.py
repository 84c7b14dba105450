"""When things are due: samples, the end of warm-up and of the bake, and the stall, which needs no sample to come.

The interval between samples is kept on the monotonic clock while one process lives. What survives it (step entry, last
conclusive sample) is wall time. A clock that jumps back makes things later, never earlier. Time in which nobody watched
(a restart, a change of owner) cannot end a step by itself: a stall is called only after there was time for one sample.
"""

from __future__ import annotations

from typing import Final

import msgspec

from router_contract.canary import Analysis, CanaryAnalysis
from router_contract.canary_inputs import Run
from router_contract.canary_results import CanaryState
from router_contract.readings import Instant

_UNWATCHED: Final = 60.0


def warm_at(analysis: Analysis, state: CanaryState) -> float:
    """When the step's own warm-up ends: no sample before."""
    return state.step_entered + analysis.initial_delay


def baked_at(pause: float | None, state: CanaryState, run: Run) -> float:
    """When a step was long enough in service: counted from its entry, or from the newest start of a canary Pod."""
    since = state.step_entered if run.restarted_at is None else max(state.step_entered, run.restarted_at)
    return since + (pause or 0.0)


def stalls_at(definition: CanaryAnalysis, state: CanaryState) -> float | None:
    """When the step stalls unless a conclusive sample comes; ``None``: never."""
    timeout = definition.stall_timeout(state.step)
    analysis = definition.steps[state.step].analysis
    if timeout is None or analysis is None:
        return None
    entered = state.step_entered
    if analysis.warm_up_excluded:
        entered += analysis.initial_delay + analysis.warm_up.seconds
    anchor = entered if state.conclusive_at is None else max(entered, state.conclusive_at)
    return anchor + timeout


def stalled(definition: CanaryAnalysis, state: CanaryState, now: float, *, sampled: bool) -> bool:
    """Whether the step is stalled. Without a sample (``sampled``) somebody must have watched long enough for one."""
    at = stalls_at(definition, state)
    analysis = definition.steps[state.step].analysis
    if at is None or analysis is None or now < at:
        return False
    return sampled or now - state.watched_from >= analysis.interval + analysis.deadline


def watched(analysis: Analysis | None, state: CanaryState, now: float) -> CanaryState:
    """The state after a look at it now. A gap begins a new stretch of watching; so does a clock that went back."""
    gap = _UNWATCHED if analysis is None else max(_UNWATCHED, 2 * analysis.interval)
    broken = not 0 <= now - state.watched_until <= gap
    return msgspec.structs.replace(state, watched_from=now if broken else state.watched_from, watched_until=now)


def due_in(definition: CanaryAnalysis, state: CanaryState, run: Run, now: Instant, taken: float | None) -> float | None:
    """Seconds until the next sample may begin (0: now); ``None`` while the step asks for none.

    ``taken`` is when this process began the last one (monotonic seconds); without it the stored time of the last sample
    counts, at most one interval.
    """
    if state.park is not None or state.rejected == run.canary or state.step >= len(definition.steps):
        return None
    analysis = definition.steps[state.step].analysis
    if analysis is None or run.paused or not run.serving:
        return None
    wait = warm_at(analysis, state) - now.wall
    if taken is not None:
        wait = max(wait, taken + analysis.interval - now.mono)
    elif state.evaluated_at is not None and state.evaluated_at <= now.wall:
        wait = max(wait, state.evaluated_at + analysis.interval - now.wall)
    return max(0.0, wait)

"""One canary analysis as exporters show it: its definition, its status, and how old what it says is."""

from __future__ import annotations

from typing import Final

import msgspec

from router_contract.canary import CanaryAnalysis
from router_contract.canary_results import CanaryStatus, Decision, Verdict
from router_contract.readings import Instant
from router_contract.targets import DeploymentKey

FINAL: Final = frozenset({Decision.ROLLBACK, Decision.FAILED})
"""Decisions that need no further sample to stay true."""
AHEAD_SECONDS: Final = 5.0
"""So far two clocks may be apart. A sample from further ahead has an age that nobody knows: a clock was set."""
LOOK_SECONDS: Final = 30.0
"""Everything is looked at far more often; an answer whose look is older than this says nothing of now."""


class CanaryView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is known of one analysis at ``now``. ``share`` is the canary's part of all requests since the step began.

    ``status`` is ``None`` before the first look; ``looked`` is when the last one was stored, ``sampled_at`` (wall
    seconds) when the last counted sample was completed, and ``sampled_mono`` the same on the clock that nobody sets, where
    this process took it. ``interval`` and ``deadline`` (seconds) are of the current step,
    ``None`` where it asks for no sample. ``stalls_at`` is wall seconds. ``problems`` are sentences about the configuration and
    the state file. ``tallies`` count samples by the decision and the reason after each since the observer started.
    """

    definition: CanaryAnalysis
    now: Instant
    status: CanaryStatus | None = None
    looked: Instant | None = None
    sampled_at: float | None = None
    sampled_mono: float | None = None
    interval: float | None = None
    deadline: float = 0.0
    stalls_at: float | None = None
    share: float | None = None
    warnings: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    tallies: tuple[tuple[str, str, int], ...] = ()

    @property
    def key(self) -> DeploymentKey:
        """The analysis's own namespace and name."""
        return DeploymentKey(self.definition.namespace, self.definition.name)

    @property
    def deployment(self) -> DeploymentKey:
        """The deployment that it is about."""
        return DeploymentKey(self.definition.namespace, self.definition.target.name)

    @property
    def sample_age(self) -> float | None:
        """Seconds since the last counted sample; ``None`` without one, and where it is of a moment that has not come."""
        if self.sampled_at is None:
            return None
        if self.sampled_mono is not None:
            return max(0.0, self.now.mono - self.sampled_mono)
        age = self.now.wall - self.sampled_at
        return max(0.0, age) if age >= -AHEAD_SECONDS else None

    @property
    def look_stale(self) -> bool:
        """Whether nobody looked for long."""
        return self.looked is None or self.now.mono - self.looked.mono > LOOK_SECONDS

    @property
    def stale(self) -> bool:
        """Whether what it says may no longer hold.

        Nobody looked for long, or since the canary became another revision; or samples are due and the last one is
        older than two intervals and a deadline, or of unknown age.
        """
        if self.status is None or self.look_stale or self.status.canary_revision != self.definition.canary:
            return True
        if self.status.decision in FINAL or self.interval is None or self.sampled_at is None:
            return False
        return self.sample_age is None or self.sample_age > 2 * self.interval + self.deadline

    @property
    def verdict(self) -> Verdict:
        """The verdict of the last sample; Inconclusive without one, and when it is stale."""
        told = None if self.status is None else self.status.verdict
        return Verdict.INCONCLUSIVE if told is None or self.stale else told

"""What platforms say of deployments on its way to judging: kept in recordings, so that a replay judges with the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from observer.app.judging import Judging
from observer.clock import Clock
from observer.collect.recording import Recorder
from router_contract.judging import MembershipProof
from router_contract.platform_facts import PlatformFacts
from router_contract.targets import DeploymentKey


class PlatformPart:
    """``record`` writes one event into whatever is recorded now."""

    def __init__(self, judging: Judging, clock: Clock, record: Callable[[Callable[[Recorder], None]], None]) -> None:
        self._judging = judging
        self._clock = clock
        self._record = record
        self._facts: dict[DeploymentKey, PlatformFacts] = {}

    def facts(self, facts: Mapping[DeploymentKey, PlatformFacts]) -> None:
        """What platforms say from now on; of the deployments left out nothing beyond what a file says."""
        for key, told in facts.items():
            if self._facts.get(key) != told:
                self._keep(key, told)
        self._facts = dict(facts)
        self._judging.set_facts(facts)

    def proof(self, key: DeploymentKey, proof: MembershipProof) -> None:
        """A deployment's Pods were listed uncached, or that failed."""
        self._record(lambda to: to.proof(key, proof, self._clock.now()))
        self._judging.on_proof(key, proof)

    def _keep(self, key: DeploymentKey, told: PlatformFacts) -> None:
        self._record(lambda to: to.facts(key, told, self._clock.now()))

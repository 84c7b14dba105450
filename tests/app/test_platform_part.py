"""What platforms say reaches judging, and a recording of it gives the same back."""

from __future__ import annotations

from pathlib import Path

from exporters.self_metrics import SelfMetrics
from observer.app.judging import Judging
from observer.app.platform_part import PlatformPart
from observer.app.told import limits_of, policy_of
from observer.clock import SystemClock
from observer.collect.recording import Recorder, Recording
from observer.settings import Settings
from observer.store import Store
from router_contract.judging import MembershipProof, ProofMember
from router_contract.platform_facts import (
    BindingFact,
    ContractRole,
    PlatformFacts,
    RouterContract,
    SourceFault,
    WorkloadFact,
)
from router_contract.readings import Instant
from router_contract.targets import DeploymentKey, Ready

KEY = DeploymentKey("prod", "chat")
FACTS = PlatformFacts(
    platform="gpustack",
    managed=True,
    sources=(SourceFault(kind="Workload", why="Forbidden", since=1.5),),
    binding=BindingFact(name="pool", ready=True),
    weights=None,
    workloads=(WorkloadFact(role="server", ordinal=0, reserved=True),),
    contract=RouterContract(
        name="vllm-router", roles=(ContractRole(name="server", kind="Server", selector=(("a", "b"),)),)
    ),
)
PROOF = MembershipProof(at=Instant(3.0, 4.0), members=(ProofMember(uid="a", ready=Ready.TRUE),))


def test_a_recording_gives_back_what_judging_was_told(tmp_path: Path) -> None:
    clock, path = SystemClock(), tmp_path / "r.obsrec"
    settings = Settings()
    recorder = Recorder(path, writer="test", started=clock.now())
    judging = Judging(Store(clock, policy_of(settings), limits_of(settings), SelfMetrics("1", "3")), settings)
    part = PlatformPart(judging, clock, lambda write: write(recorder))
    part.facts({KEY: FACTS})
    part.facts({KEY: FACTS})
    part.proof(KEY, PROOF)
    part.facts({KEY: PlatformFacts()})
    recorder.close()
    with Recording(path) as recording:
        events = list(recording.events())
        assert [event.kind for event in events] == ["facts", "proof", "facts"], "what did not change is not repeated"
        first, proof, last = events
        assert {event.deployment for event in events} == {KEY}
        assert recording.facts(first) == FACTS, "observed, observed absent and not observed stay three things"
        assert recording.proof(proof) == PROOF
        assert recording.facts(last) == PlatformFacts()

"""One simulated deployment while it runs: members by role and replica, routers, clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from observer.clock import Clock
from observer.simulate.background import Background
from observer.simulate.engine import SimulatedEngine
from observer.simulate.kv_hook import KvEventHook
from observer.simulate.load import Clients
from observer.simulate.router import SimulatedRouter
from observer.simulate.spec import DeploymentSpec, RoleSpec
from observer.simulate.vllm_engine import VllmEngine
from observer.simulate.vllm_router import VllmRouter
from observer.simulate.workers import DECODE, ENCODE, PREFILL, REGULAR, WorkerAddress
from router_contract.targets import RoleKind

WORKER_KINDS = {
    RoleKind.SERVER: REGULAR,
    RoleKind.ENCODE: ENCODE,
    RoleKind.PREFILL: PREFILL,
    RoleKind.DECODE: DECODE,
}
BOOTSTRAP_PORT = 8998
ENGINES: dict[str, type[SimulatedEngine]] = {"vllm": VllmEngine}
ROUTERS: dict[str, type[SimulatedRouter[Any]]] = {"vllm_router": VllmRouter}
HookFactory = Callable[[str, RoleSpec], KvEventHook]


@dataclass
class SimulatedReplica:
    """One replica: the engine that serves, and followers that are only counted. ``missing`` seats have no Pod."""

    role: RoleSpec
    ordinal: int
    engine: SimulatedEngine
    missing: set[int] = field(default_factory=set)
    retiring: bool = False
    revision: str = "1"
    generation: int = 1

    @property
    def name(self) -> str:
        """The name of its serving member."""
        return self.engine.name


class SimulatedDeployment:
    """Builds a deployment from its description and keeps its parts."""

    def __init__(
        self,
        spec: DeploymentSpec,
        clock: Clock,
        background: Background,
        *,
        seed: int = 0,
        hooks: HookFactory | None = None,
    ) -> None:
        self.spec = spec
        self._clock = clock
        self._background = background
        self._hooks = hooks
        self._seed = seed
        self._made = 0
        self.replicas = [self._replica(role, ordinal) for role in spec.roles for ordinal in range(role.replicas)]
        self.routers: list[SimulatedRouter[Any]] = []
        if spec.router is not None:
            kind = ROUTERS[spec.router.software]
            self.routers = [
                kind(f"{spec.name}-router-{n}", spec.router, self.addresses(), clock, background, seed=seed + n)
                for n in range(spec.router.replicas)
            ]
        entry = self.routers[0].api.url if self.routers else self.replicas[0].engine.url
        self.clients = Clients(entry, spec.model, background, seed=seed)

    def _replica(self, role: RoleSpec, ordinal: int) -> SimulatedReplica:
        self._made += 1
        name = f"{self.spec.name}-{role.name}-{ordinal}"
        hook = self._hooks(name, role) if self._hooks is not None else None
        engine = ENGINES[role.engine.software](
            name, role.engine, self._clock, self._background, kind=role.kind, hook=hook, seed=self._seed + self._made
        )
        return SimulatedReplica(role, ordinal, engine)

    def address_of(self, replica: SimulatedReplica) -> WorkerAddress:
        """How routers are configured to reach a replica."""
        kind = WORKER_KINDS[RoleKind(replica.role.kind)]
        port = BOOTSTRAP_PORT if kind == PREFILL else None
        return WorkerAddress(replica.engine.url, kind, port, replica.name)

    def addresses(self) -> list[WorkerAddress]:
        """The worker set routers are configured with."""
        return [self.address_of(replica) for replica in self.replicas if not replica.retiring]

    def engines(self) -> Iterator[SimulatedEngine]:
        """Every serving engine."""
        for replica in self.replicas:
            yield replica.engine

    def replica(self, ordinal: int = 0, role: str | None = None) -> SimulatedReplica:
        """A replica by ordinal, of the first role unless one is named. An unknown one is a `KeyError` that says so."""
        wanted = role if role is not None else self.spec.roles[0].name
        for replica in self.replicas:
            if replica.role.name == wanted and replica.ordinal == ordinal:
                return replica
        raise KeyError(f"deployment {self.spec.name}: no replica {ordinal} of role {wanted!r}")

    async def start(self) -> None:
        """Start engines, then routers, then clients."""
        for engine in self.engines():
            await engine.start()
        for router in self.routers:
            await router.start()
        await self.clients.start(self.spec.rate)

    async def close(self) -> None:
        """Stop everything and give all ports back."""
        await self.clients.close()
        for router in self.routers:
            await router.close()
        for engine in self.engines():
            await engine.close()

    async def add_replica(self, role: RoleSpec, ordinal: int, revision: str = "1") -> SimulatedReplica:
        """Start one more replica and tell every router."""
        replica = self._replica(role, ordinal)
        replica.revision = revision
        self.replicas.append(replica)
        await replica.engine.start()
        for router in self.routers:
            router.add_worker(self.address_of(replica))
            await router.register()
        return replica

    async def remove_replica(self, replica: SimulatedReplica) -> None:
        """Take a replica out of every router and end it for good."""
        for router in self.routers:
            router.remove_worker(replica.engine.url)
        await replica.engine.close()
        self.replicas.remove(replica)

    def truth(self) -> dict[str, Any]:
        """What really happened: client answers, and what each engine answered in all its lives."""
        return {
            "clients": self.clients.truth.as_document(),
            "engines": {
                engine.name: {
                    "answers": {str(status): count for status, count in sorted(engine.answers.items())},
                    "disconnects": engine.disconnects,
                    "lives": engine.lives,
                    "phase": engine.phase.value,
                    "url": engine.url,
                }
                for engine in self.engines()
            },
            "routers": {
                router.name: {"api": router.api.url, "metrics": router.metrics.url, "lives": router.lives}
                for router in self.routers
            },
        }

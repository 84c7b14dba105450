"""One simulated deployment while it runs: members by role and replica, routers, clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from observer.clock import Clock
from observer.simulate.background import Background
from observer.simulate.engine import Phase, SimulatedEngine
from observer.simulate.gateway import SglangGateway
from observer.simulate.kv_hook import KvEventHook
from observer.simulate.llm_d import LlmDRouter
from observer.simulate.load import Clients
from observer.simulate.node import Listener
from observer.simulate.router import SimulatedRouter
from observer.simulate.sglang_engine import SglangEngine
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
ENGINES: dict[str, type[SimulatedEngine]] = {"vllm": VllmEngine, "sglang": SglangEngine}
ROUTERS: dict[str, type[SimulatedRouter[Any]]] = {
    "vllm_router": VllmRouter,
    "sglang_gateway": SglangGateway,
    "llm_d": LlmDRouter,
}
HookFactory = Callable[[str, RoleSpec], KvEventHook]


@dataclass
class SimulatedReplica:
    """One replica: the engine that serves, and followers that are only counted. ``missing`` seats have no Pod."""

    role: RoleSpec
    ordinal: int
    engine: SimulatedEngine
    missing: set[int] = field(default_factory=set)
    retiring: bool = False
    replacing: bool = False
    revision: str = "1"
    generation: int = 1

    followers: dict[int, Listener] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of its serving member."""
        return self.engine.name

    def follower_ports(self) -> dict[int, int]:
        """The reserved ports of the followers that exist, by seat. Nothing ever listens on them."""
        return {seat: follower.port for seat, follower in self.followers.items() if seat not in self.missing}

    async def close(self) -> None:
        """End the engine for good and give every port back."""
        await self.engine.close()
        for follower in self.followers.values():
            await follower.close()


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
        self.canary = False
        self._scenario_tasks: list[asyncio.Task[None]] = []
        self.replicas = [self._replica(role, ordinal) for role in spec.roles for ordinal in range(role.replicas)]
        self.routers: list[SimulatedRouter[Any]] = []
        if spec.router is not None:
            kind = ROUTERS[spec.router.software]
            self.routers = [
                kind(f"{spec.name}-router-{n}", spec.router, self.addresses(), clock, background, seed=seed + n)
                for n in range(spec.router.replicas)
            ]
        entries = [router.api.url for router in self.routers] or [engine.url for engine in self.engines()]
        images = any(role.kind == RoleKind.ENCODE for role in spec.roles)
        self.clients = Clients(entries, spec.model, background, seed=seed, images=images)

    def _replica(self, role: RoleSpec, ordinal: int) -> SimulatedReplica:
        self._made += 1
        name = f"{self.spec.name}-{role.name}-{ordinal}"
        hook = self._hooks(name, role) if self._hooks is not None else None
        engine = ENGINES[role.engine.software](
            name, role.engine, self._clock, self._background, kind=role.kind, hook=hook, seed=self._seed + self._made
        )
        followers = {seat: Listener(web.Application) for seat in range(1, role.size)}
        return SimulatedReplica(role, ordinal, engine, followers=followers)

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

    def replica(self, ordinal: int | None = None, role: str | None = None) -> SimulatedReplica:
        """A replica by ordinal, of the first role unless one is named. An unknown one is a `KeyError` that says so.

        Without an ordinal it is the oldest: after a rollout the first ordinals are gone.
        """
        wanted = role if role is not None else self.spec.roles[0].name
        for replica in self.replicas:
            if replica.role.name == wanted and ordinal in (None, replica.ordinal):
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
        for replica in self.replicas:
            await replica.close()

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
        await replica.close()
        self.replicas.remove(replica)

    def run(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Let a scenario's own task run until the deployment is restored."""
        self._scenario_tasks.append(self._background.spawn(work, f"{self.spec.name}: {name}"))

    async def restore(self) -> None:
        """Back to normal: every process runs, reachable and well-behaved, and every router knows every replica."""
        for task in self._scenario_tasks:
            task.cancel()
        self._scenario_tasks.clear()
        self.canary = False
        self.clients.rate = self.spec.rate
        for router in self.routers:
            router.checks_health = router.breaks_circuits = True
            router.view_lost = False
            router.cut_off.clear()
        await self._remove_surplus()
        for replica in self.replicas:
            replica.retiring = replica.replacing = False
            replica.revision = "1"
            replica.missing.clear()
            engine = replica.engine
            engine.load_seconds, engine.warm_seconds = engine.spec.load_seconds, engine.spec.warm_seconds
            engine.behaviour.steady()
            if engine.phase in (Phase.LOADING, Phase.WARMING):
                await engine.die()
            await engine.start()
        for router in self.routers:
            for address in self.addresses():
                router.add_worker(address)
            await router.start()
            await router.register()

    async def _remove_surplus(self) -> None:
        for role in self.spec.roles:
            ours = [replica for replica in self.replicas if replica.role.name == role.name]
            for replica in ours[: max(len(ours) - role.replicas, 0)]:
                await self.remove_replica(replica)

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

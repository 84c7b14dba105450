"""What judging costs with 1,000 and 10,000 members of which some are read each second: CPU a second, and its longest step.

    python -m benchmarks.judging [--members N] [--passes N]

Deployments of 50 members, read every 15 s and evenly over all deployments, one pass a second. In the second pair of rows
each deployment has a router that is asked every 5 s and counts requests, and every engine's API is asked once between
two reads of its metrics. The first step of a pass holds fast what was read; each further one judges a deployment. Asking
for a verdict is measured apart: it is made when somebody asks. CPU time of the judging thread; collections as the
observer runs them (`observer.app.pauses`), their looks left out. The last line is JSON.
"""

from __future__ import annotations

import argparse
import gc
import re
import statistics
import sys
import time
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.collector import POLICY, CpuClock, Nothing
from benchmarks.exposition import SEED, moved
from benchmarks.measuring import Report, spread
from observer.app.judging import Judging
from observer.app.pauses import MIDDLE, NEVER, YOUNG
from observer.collect.allocator import tune_allocator
from observer.measure.exposition import Limits
from observer.settings import Settings
from observer.store import Store
from router_contract.probes import HealthAnswered, MemberProbe, ModelsListed
from router_contract.readings import Instant
from router_contract.router_views import Circuit, RouterView, ViewSource, WorkerRow
from router_contract.targets import (
    Address,
    Component,
    Deployment,
    DeploymentKey,
    Member,
    Replica,
    Role,
    RouterDeclaration,
    Target,
)
from router_contract.verdicts import DeploymentReport

MEMBERS = 50
"""Members of one deployment."""
PERIOD = 15
"""Seconds in which every member is read once, and its API asked once."""
VIEWS = 5
"""Seconds between two views of a router."""
WARM = 2 * PERIOD
"""Passes before the measured ones: the first turns find everything new."""
CORES = {1_000: 0.012, 10_000: 0.08}
LONGEST = 10.0
"""The longest step that is wanted, ms."""


def member(number: int, place: int) -> Member:
    """One engine."""
    address = Address(host=f"10.{number}.0.{place}", port=8000)
    name = f"chat-{number}-{place}"
    return Member(uid=name, name=name, host=address.host, metrics=address, api=address)


def deployment(number: int, *, routed: bool) -> Deployment:
    """One role of `MEMBERS` replicas, behind a router where one is wanted."""
    replicas = tuple(Replica(ordinal=place, members=(member(number, place),)) for place in range(MEMBERS))
    role = Role(name="server", engine="vllm", engine_version="0.32.0", desired=MEMBERS, replicas=replicas)
    host = f"10.{number}.1.1"
    router = Member(uid=f"router-{number}", name="router", host=host, api=Address(host=host, port=9000))
    declared = RouterDeclaration(name="router", software="vllm_router", desired=1, members=(router,))
    key = DeploymentKey("bench", f"chat-{number:03d}")
    return Deployment(key=key, uid=f"uid-{number}", roles=(role,), router=declared if routed else None)


class World:
    """So many members that are read in turn, each second those of all deployments alike."""

    def __init__(self, members: int, *, routed: bool) -> None:
        self.store = Store(CpuClock(), POLICY, Limits(), Nothing())
        settings = Settings()
        scrape = msgspec.structs.replace(settings.scrape, period=float(PERIOD))
        self.judging = Judging(self.store, msgspec.structs.replace(settings, scrape=scrape))
        self.deployments = [deployment(number, routed=routed) for number in range(members // MEMBERS)]
        self.store.set_deployments(self.deployments, Instant(0.0, 0.0))
        engines = [[each for each in of.targets() if each.component is Component.ENGINE] for of in self.deployments]
        self.engines: list[Target] = [target for row in zip(*engines, strict=True) for target in row]
        seed = SEED.read_bytes()
        start = re.compile(rb"^(process_start_time_seconds) .*$", re.MULTILINE)
        self.bodies = [start.sub(rb"\1 1790000000.0", moved(seed, step)) for step in range(4)]
        self.routed = routed
        self.second = 0

    def go(self) -> Instant:
        """One second of reads, probes and views; the moment at its end."""
        second, self.second = self.second, self.second + 1
        turn, part = divmod(second, PERIOD)
        at = Instant(float(second), 1_790_000_000.0 + second)
        for target in self._part(part):
            self.store.on_body(target, self.bodies[turn % 4], "text/plain", at, 0.01)
        if self.routed:
            for target in self._part((part + PERIOD // 2) % PERIOD):
                self.judging.on_probe(probe(target, at))
            for of in self.deployments[second % VIEWS :: VIEWS]:
                self.judging.on_view(of.key, view(of, at))
        return Instant(second + 1.0, at.wall + 1.0)

    def _part(self, part: int) -> list[Target]:
        begin, end = (len(self.engines) * each // PERIOD for each in (part, part + 1))
        return self.engines[begin:end]


def probe(target: Target, at: Instant) -> MemberProbe:
    """An engine whose API answers well."""
    return MemberProbe(
        deployment=target.key.deployment,
        uid=target.key.member_uid,
        member=target.member,
        software="vllm",
        health=HealthAnswered(at=at, healthy=True, status=200),
        models=ModelsListed(at=at, models=("tiny",)),
    )


def view(of: Deployment, at: Instant) -> RouterView:
    """A router that selects every member and counts requests at some."""
    rows = tuple(
        WorkerRow(
            url=f"http://{each.host}:8000",
            host=each.host or "",
            port=8000,
            healthy=True,
            circuit=Circuit.CLOSED,
            in_selection=True,
            load=float((place + int(at.mono)) % 3),
        )
        for place, each in enumerate(of.roles[0].members())
    )
    uid = of.router.members[0].uid if of.router is not None else ""
    return RouterView(router="router", pod_uid=uid, read_at=at, source=ViewSource.WORKERS_API, workers=rows)


def passes(world: World, count: int) -> tuple[list[float], list[float]]:
    """CPU seconds of each pass and of its longest step."""
    whole: list[float] = []
    longest: list[float] = []
    for number in range(WARM + count):
        now = world.go()
        if number == WARM:
            gc.collect()
            gc.freeze()
        begun = last = time.thread_time()
        worst = 0.0
        for _ in world.judging.steps(now):
            moment = time.thread_time()
            worst, last = max(worst, moment - last), moment
        if number >= WARM:
            whole.append(time.thread_time() - begun)
            longest.append(worst)
    return whole, longest


def asked(world: World) -> list[float]:
    """CPU seconds of asking for the verdict of each deployment for the first time after a pass."""
    found = []
    for of in world.deployments:
        report = DeploymentReport(deployment=of, at=Instant(0.0, 0.0))
        begun = time.thread_time()
        world.judging.add_verdicts(report)
        found.append(time.thread_time() - begun)
    return found


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--members", type=int, default=10_000)
    options.add_argument("--passes", type=int, default=2 * PERIOD)
    chosen = options.parse_args()
    tune_allocator()
    gc.set_threshold(YOUNG, MIDDLE, NEVER)
    report = Report("judging", "msgspec")
    for members in sorted({max(MEMBERS, chosen.members // 10), chosen.members}):
        for routed in (False, True):
            print(f"{members} members", file=sys.stderr, flush=True)
            world = World(members, routed=routed)
            whole, longest = passes(world, max(chosen.passes, 2))
            read = f"{members // PERIOD} reads" + (", probes, views" if routed else "")
            name = f"{members:,} members, {read} a second"
            core = statistics.median(whole)
            report.line(f"{name}: core", spread(whole, 1.0), core, CORES.get(members), at_least=False)
            worst = max(longest) * 1e3
            figure = f"{spread(longest)}, the worst {worst:.1f} (median judged)"
            report.line(f"{name}: longest step, ms", figure, statistics.median(longest) * 1e3, LONGEST, at_least=False)
            first = asked(world)
            each = statistics.median(first) / MEMBERS * 1e6
            report.line(f"{name}: asked, us/member", spread(first, 1e6 / MEMBERS), each)
            gc.unfreeze()
    return report.end()


if __name__ == "__main__":
    sys.exit(main())

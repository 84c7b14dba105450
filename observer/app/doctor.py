"""The doctor where the observer runs: its route, and the same examination from a command line."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from exporters.encoding import encode
from exporters.statuses import failure
from observer.clock import Clock, SystemClock
from observer.collect.doctor import USUAL_PORTS, Doctor, Subject, subjects
from observer.collect.fetch import Fetcher
from observer.collect.options import BodyLimits
from observer.judge.diagnosis import examine
from observer.settings import load_files
from router_contract.diagnosis import Examined
from router_contract.targets import Deployment, DeploymentKey

PATH = "/api/v1/namespaces/{namespace}/modeldeployments/{name}/doctor"
MOST = 100
"""Targets examined at once; of a larger deployment the answer says how many were left out."""
AT_ONCE = 16
STEP_SECONDS = 1.5
"""How long one step of an examination that the route runs may take: the whole stays below one answer's time."""
KEPT_SECONDS = 10.0
"""For how long an answer is given again: nobody can make us dial faster than that."""
_KEPT = 100


async def diagnosed(found: Sequence[Subject], doctor: Doctor) -> dict[str, Any]:
    """The answer about some subjects: every target examined, and how many were left out."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(subject: Subject) -> Examined:
        async with limit:
            return examine(await doctor.facts(subject))

    made = await asyncio.gather(*map(one, found[:MOST]))
    answer: dict[str, Any] = msgspec.to_builtins({"targets": made, "leftOut": max(0, len(found) - MOST)})
    return answer


class DoctorApi:
    """The route over the deployments that are observed now. One examination runs at a time."""

    def __init__(self, deployments: Callable[[], Iterable[Deployment]], fetcher: Fetcher, clock: Clock) -> None:
        self._deployments = deployments
        # Only what a deployment declares is dialled: asking does not make us a port scanner.
        self._doctor = Doctor(fetcher, clock, seconds=STEP_SECONDS, usual=())
        self._clock = clock
        self._turn = asyncio.Lock()
        self._kept: OrderedDict[DeploymentKey, tuple[float, dict[str, Any]]] = OrderedDict()

    def routes(self) -> list[web.AbstractRouteDef]:
        """The one path."""
        return [web.get(PATH, self.handle)]

    async def handle(self, request: web.Request) -> web.Response:
        """Examine every target of one deployment from here."""
        key = DeploymentKey(request.match_info["namespace"], request.match_info["name"])
        async with self._turn:
            deployment = next((each for each in self._deployments() if each.key == key), None)
            if deployment is None:
                return failure(404, f"no deployment {key} is observed", name=key.name)
            at, answer = self._kept.get(key, (float("-inf"), {}))
            if self._clock.now().mono - at > KEPT_SECONDS:
                answer = await diagnosed([*subjects(deployment)], self._doctor)
                self._keep(key, answer)
        return web.Response(body=encode(answer), content_type="application/json")

    def _keep(self, key: DeploymentKey, answer: dict[str, Any]) -> None:
        self._kept[key] = (self._clock.now().mono, answer)
        self._kept.move_to_end(key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)


def run_doctor_files(files: Sequence[Path], seconds: float) -> dict[str, Any]:
    """Examine every target of fleet files from this machine. Raises `SettingsError`."""
    found = [each for deployment in load_files(files).deployments for each in subjects(deployment)]
    return run_doctor(found, seconds, usual=())


def run_doctor(found: Sequence[Subject], seconds: float, *, usual: tuple[int, ...] = USUAL_PORTS) -> dict[str, Any]:
    """Examine subjects from this machine; ``seconds`` bounds each step of one."""

    async def work() -> dict[str, Any]:
        clock = SystemClock()
        async with Fetcher(clock, BodyLimits()) as fetcher:
            return await diagnosed(found, Doctor(fetcher, clock, seconds=seconds, usual=usual))

    return asyncio.run(work())

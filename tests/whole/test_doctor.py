"""The doctor where the observer runs: a running fleet is well, a lost engine is found, and nobody is dialled too often."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from exporters.document import metrics_document
from exporters.top import deployment_line
from observer.app.doctor import KEPT_SECONDS
from observer.app.watcher import Watcher
from observer.simulate.fleet import SimulatedFleet
from router_contract.documents import ModelDeploymentMetrics
from router_contract.targets import Address
from tests.fakes.hostile import closed_port
from tests.whole.world import CHAT, SETTINGS, MovableClock, asking, deployments_of, small_fleet

PATH = f"/api/v1/namespaces/{CHAT.namespace}/modeldeployments/{CHAT.name}/doctor"


async def test_a_fleet_is_well_until_an_engine_cannot_be_reached(tmp_path: Path) -> None:
    clock = MovableClock()
    async with (
        SimulatedFleet(small_fleet(), clock=clock) as fleet,
        asking(Watcher(SETTINGS, clock, listen="127.0.0.1:0")) as asked,
    ):
        (deployment,) = deployments_of(fleet, tmp_path)
        await asked.watcher.watch([deployment])
        await asked.ready()
        first = await asked.get(PATH)
        assert (len(first["targets"]), first["leftOut"]) == (3, 0)
        assert all(each["well"] for each in first["targets"]), first

        (role,) = deployment.roles
        (member,) = role.replicas[0].members
        lost = replace(member, metrics=Address(host="127.0.0.1", port=closed_port()))
        replicas = (replace(role.replicas[0], members=(lost,)), *role.replicas[1:])
        await asked.watcher.watch([replace(deployment, roles=(replace(role, replicas=replicas),))])
        # within some seconds the same answer is given again; then everything is tried anew
        assert await asked.get(PATH) == first
        clock.move(KEPT_SECONDS + 1)
        second = await asked.get(PATH)
        ill = [each for each in second["targets"] if not each["well"]]
        assert [each["member"] for each in ill] == [member.name]
        # its own API port has the metrics: that is the exact setting to change
        (found,) = ill[0]["findings"]
        assert member.api is not None
        assert found["cause"] == "WrongPort"
        assert found["change"] == [f"set `metricsPort: {member.api.port}` and `metricsPath: /metrics`"]


async def test_top_says_what_the_document_says(tmp_path: Path) -> None:
    clock = MovableClock()
    async with (
        SimulatedFleet(small_fleet(), clock=clock) as fleet,
        asking(Watcher(SETTINGS, clock, listen="127.0.0.1:0")) as asked,
    ):
        await asked.watcher.watch(deployments_of(fleet, tmp_path))
        await asked.ready()
        clock.stop()
        report = asked.watcher.source.deployment(CHAT)
        assert report is not None
        line, document = deployment_line(report), metrics_document(report)
    assert isinstance(document, ModelDeploymentMetrics)
    gauges = {gauge.name: gauge.value for gauge in (*document.processing, *document.queueing)}
    assert line.figures.running == gauges["running"] == sum(each.figures.running or 0 for each in line.replicas)
    assert line.figures.waiting == gauges["waiting"]
    rates = {entry.pod: entry.value for entry in document.traffic or () if entry.name == "generation-tokens"}
    shown = {each.pod: each.figures.tokens_per_second for each in line.replicas if each.role == "server"}
    assert {pod: value for pod, value in shown.items() if value is not None} == rates

"""The whole application pushes over OTLP by the standard environment: at one instant what arrives equals `/metrics`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from exporters.prometheus import Renderer
from exporters.snapshot import snapshot
from observer.app.watcher import Watcher
from observer.settings import load_files
from observer.simulate.fleet import SimulatedFleet
from tests.exporters.otlp_points import decoded, exposed
from tests.fakes.otlp_collector import grpc_collector
from tests.whole.world import CHAT, SETTINGS, MovableClock, small_fleet


async def test_it_pushes_each_period_and_says_what_metrics_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with grpc_collector() as collected, grpc_collector() as second:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collected.url)
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "1000")
        clock = MovableClock()
        async with SimulatedFleet(small_fleet(), clock=clock) as fleet:
            fleet.write_document(tmp_path / "fleet.json")
            async with Watcher(SETTINGS, clock, listen="127.0.0.1:0") as watcher:
                await watcher.watch(load_files([tmp_path / "fleet.json"]).deployments)
                async with asyncio.timeout(30):
                    while not any(name == "modeldeployment_requests_running" for name, _ in decoded_last(collected)):
                        await asyncio.sleep(0.1)
                    while watcher.source.deployment(CHAT) is None or not watcher.source.ready()[0]:
                        await asyncio.sleep(0.1)
                part = watcher._otlp
                assert part is not None
                clock.stop()
                renderer = Renderer(watcher._families)
                # Nothing else runs between the two: on a stopped clock, taking rows never lets the loop go.
                taken = await part.take()
                report = watcher.source.deployment(CHAT, renderer.signals, renderer.totals)
                assert report is not None
                shot = snapshot((report,), watcher.source.targets())
                text = renderer.render(shot).body.decode()
                monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", second.url)
                with part._sender() as sender:
                    assert sender.offer(taken, clock.now().wall)
                    assert await asyncio.to_thread(sender.wait, 20)
                arrived = decoded(second.requests)
    wanted = exposed(text)
    assert wanted == {key: value for key, value in arrived.items() if key in wanted}
    ours = {key for key in arrived if key[0].startswith("modeldeployment_")}
    assert ours == {key for key in wanted if key[0].startswith("modeldeployment_")}
    assert len(ours) > 50
    print(f"figure: {len(wanted)} series of a running fleet decoded, all equal to /metrics at that instant")


def decoded_last(collected) -> dict:
    return decoded(collected.requests[-1:])

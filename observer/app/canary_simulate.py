"""Canary analyses over a recording: what would have been decided, and when. Queries are not sent: they are not measured."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from exporters.canary_document import canary_document
from exporters.timestamps import rfc3339
from observer.app.canary import Canaries
from observer.app.replay import Replay
from observer.collect.recording import Recording
from router_contract.canary import CanaryAnalysis
from router_contract.canary_view import CanaryView
from router_contract.targets import DeploymentKey

MAX_MOMENTS = 10_000
"""How many changes are kept; those after them are counted in the last document and not listed."""


async def simulate(file: Path, definitions: Iterable[CanaryAnalysis]) -> list[dict[str, Any]]:
    """For each analysis every moment at which its answer changed, and its document at the end.

    Each step is entered when the recording begins or when the one before it has advanced. Raises `RecordingError`.
    """
    with Recording(file) as recording:
        player = Replay(recording)
        canaries = Canaries(player.store, player.clock, player.settings)
        await canaries.watch(definitions)
        moments: dict[DeploymentKey, list[dict[str, Any]]] = {}
        for event in recording.events():
            player.take(event)
            if event.kind == "pass":
                await canaries.look()
                for view in canaries.canaries():
                    _note(moments.setdefault(view.key, []), view)
        return [{"moments": moments.get(each.key, []), "end": canary_document(each)} for each in canaries.canaries()]


def _note(moments: list[dict[str, Any]], view: CanaryView) -> None:
    """Keep this moment if the answer differs from the one before."""
    status = view.status
    if status is None or len(moments) >= MAX_MOMENTS:
        return
    told = {
        "step": status.current_step,
        "verdict": status.verdict,
        "decision": status.decision,
        "reason": status.reason,
        "failedChecks": status.failed_checks,
    }
    before = {name: moments[-1][name] for name in told} if moments else None
    if told != before:
        moments.append({"at": rfc3339(view.now.wall), **told, "sampleID": status.sample_id, "message": status.message})

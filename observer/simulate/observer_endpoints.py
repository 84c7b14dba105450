"""The patched ``/observer/endpoints``: a router's own registry, strict in shape, under a boot generation."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from observer.simulate.workers import Worker


def observer_row(worker: Worker, *, job: dict[str, Any] | None = None, role: str | None = None) -> dict[str, Any]:
    """One worker of the payload. ``in_selection`` is healthy and a circuit that would let a request through."""
    parts = urlsplit(worker.address.url)
    row: dict[str, Any] = {
        "url": worker.url,
        "port": str(parts.port) if parts.port is not None else None,
        "role": role or worker.kind,
        "pod_hint": worker.address.pod or None,
        "worker_id": worker.identity,
        "selection": {
            "registered": True,
            "healthy": worker.healthy,
            "circuit_open": worker.circuit_open,
            "in_selection": worker.healthy and not worker.circuit_open,
        },
    }
    return row if job is None else row | {"last_job": job}


class RegistryRevision:
    """Counts how often the listed workers changed."""

    def __init__(self) -> None:
        self._last: list[dict[str, Any]] | None = None
        self._revision = 0

    def document(self, rows: list[dict[str, Any]], boot_generation: int, now_wall: float) -> dict[str, Any]:
        """The whole payload for rows ordered by URL."""
        ordered = sorted(rows, key=lambda row: str(row["url"]))
        if ordered != self._last:
            self._last = ordered
            self._revision += 1
        return {
            "router": {"boot_generation": boot_generation, "now_ms": int(now_wall * 1000)},
            "registry_revision": self._revision,
            "workers": ordered,
        }

"""Pushing over OTLP from a thread of its own: the event loop hands rows over and never waits.

At most one export is under way. Rows that come while it runs are skipped and counted: the sums are cumulative, so the
next export carries them. A collector that fails is counted, and logged when it begins to fail and when it is back.
Imported only when OTLP is on.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

import msgspec
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from exporters.otlp_data import Converter
from exporters.otlp_options import OtlpError, OtlpPlan
from exporters.otlp_rows import Taken

BATCH = 2_000
"""Data points in one request, so that it stays below the 4 MiB that collectors take by default."""
CLOSE_SECONDS = 3.0
_LONGEST = 300
_THEIRS = "opentelemetry.exporter.otlp"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_log = logging.getLogger(__name__)

Timer = Callable[[], float]


def exporter(plan: OtlpPlan) -> MetricExporter:
    """The standard exporter of a protocol, told by the environment where to send. Raises `OtlpError`."""
    try:
        return _grpc() if plan.protocol == "grpc" else _http()
    except (ValueError, OSError, TypeError) as error:
        raise OtlpError(f"OTLP over {plan.protocol} cannot be set up from the OTEL_* environment: {error}") from error


def _grpc() -> MetricExporter:
    from opentelemetry.exporter.otlp.proto.grpc import exporter as shared  # noqa: PLC0415 - only the one in use
    from opentelemetry.exporter.otlp.proto.grpc import metric_exporter as grpc  # noqa: PLC0415 - only the one in use

    try:
        return grpc.OTLPMetricExporter(max_export_batch_size=BATCH)
    except shared.InvalidCompressionValueException as error:
        raise ValueError(str(error)) from error


def _http() -> MetricExporter:
    from opentelemetry.exporter.otlp.proto.http import metric_exporter as http  # noqa: PLC0415 - only the one in use

    return http.OTLPMetricExporter(max_export_batch_size=BATCH)


class OtlpTally:
    """Our own numbers about pushing; they are there only while OTLP is on."""

    def __init__(self, registry: CollectorRegistry, protocol: str) -> None:
        self._protocol = protocol
        self._exports = Counter("observer_otlp_exports", "Pushes over OTLP by result.", ("result",), registry=registry)
        self._duration = Histogram(
            "observer_otlp_export_duration_seconds", "Time of one push over OTLP.", buckets=_SECONDS, registry=registry
        )
        self._success = Gauge(
            "observer_otlp_last_success_timestamp_seconds",
            "When a push over OTLP last came through.",
            ("protocol",),
            registry=registry,
        )
        self._left_out = Counter(
            "observer_otlp_families_left_out", "Families that could not be pushed, each push.", registry=registry
        )

    def exported(self, good: bool, seconds: float, at: float) -> None:
        """One push ended."""
        self._exports.labels("Ok" if good else "Failed").inc()
        self._duration.observe(seconds)
        if good:
            self._success.labels(self._protocol).set(at)

    def skipped(self) -> None:
        """Rows were not pushed because the push before was still under way."""
        self._exports.labels("Skipped").inc()

    def left_out(self) -> None:
        """A family could not be pushed."""
        self._left_out.inc()


class _Heard(logging.Handler):
    """Keeps the last thing the exporters said instead of writing it: they repeat themselves at each failure."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.last = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Called by logging."""
        self.last = " ".join(record.getMessage().split())[:_LONGEST]


class _Work(msgspec.Struct, frozen=True):
    taken: Sequence[Taken]
    at: float


class Sender:
    """A context; while it is open, rows given to `offer` are pushed. ``timer`` is a monotonic clock in seconds."""

    def __init__(
        self, target: MetricExporter, converter: Converter, tally: OtlpTally, registry: CollectorRegistry, timer: Timer
    ) -> None:
        self._exporter = target
        self._converter = converter
        self._tally = tally
        self._registry = registry
        self._timer = timer
        # It never holds more than one: rows are offered only while nothing is under way.
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._idle = threading.Event()
        self._idle.set()
        self._heard = _Heard()
        self._failing = ""
        self._thread = threading.Thread(target=self._run, name="otlp", daemon=True)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Start the thread."""
        theirs = logging.getLogger(_THEIRS)
        theirs.addHandler(self._heard)
        theirs.propagate = False
        self._thread.start()

    def close(self) -> None:
        """Give up what is under way and end the thread; waits for it at most `CLOSE_SECONDS`."""
        # Shutting the exporter down wakes a push that waits to try again.
        self._exporter.shutdown()
        self._work.put(None)
        self._thread.join(CLOSE_SECONDS)
        theirs = logging.getLogger(_THEIRS)
        theirs.removeHandler(self._heard)
        theirs.propagate = True

    @property
    def failing(self) -> str:
        """Why the last push failed; empty while pushes come through."""
        return self._failing

    def offer(self, taken: Sequence[Taken], at: float) -> bool:
        """Hand over the rows of one instant (wall seconds); False when they are skipped. Never waits.

        Raises ``RuntimeError`` when the thread has ended, which only a bug brings about.
        """
        if not self._thread.is_alive():
            raise RuntimeError("the thread that pushes over OTLP has ended")
        if not self._idle.is_set():
            self._tally.skipped()
            return False
        self._idle.clear()
        self._work.put(_Work(taken, at))
        return True

    def wait(self, seconds: float) -> bool:
        """Whether nothing is under way any more within some seconds; blocks, for tests and the end."""
        return self._idle.wait(seconds)

    def _run(self) -> None:
        while True:
            work = self._work.get()
            if work is None:
                return
            try:
                self._push(work)
            finally:
                self._idle.set()

    def _push(self, work: _Work) -> None:
        began = self._timer()
        self._heard.last = ""
        data = self._converter.data(work.taken, self._registry, work.at)
        good = self._exporter.export(data) is MetricExportResult.SUCCESS
        self._tally.exported(good, self._timer() - began, work.at)
        self._tell("" if good else self._heard.last or "the collector did not take them")

    def _tell(self, failing: str) -> None:
        """Logs speak on change."""
        if failing and not self._failing:
            _log.warning("metrics are not pushed over OTLP: %s; tried again each period", failing)
        elif self._failing and not failing:
            _log.warning("metrics are pushed over OTLP again")
        self._failing = failing

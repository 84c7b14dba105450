"""The observer's metrics about its own work, in a registry of their own.

Whoever does the work tells one of these methods; nothing here is read back. The families follow ours in ``/metrics``.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_BYTES = (1e3, 1e4, 3e4, 1e5, 3e5, 1e6, 3e6, 1e7, 3e7)

OK = "Ok"
STATUS_RESULTS = ("ok", "unchanged", "conflict", "error")
EVENT_RESULTS = ("ok", "counted", "limited", "error")


class SelfMetrics:
    """Counters and histograms of one process; build one, hand it down, give its ``registry`` to the renderer.

    ``source`` is the kind of program (``engine``, ``router``, ``store``), ``result`` is `OK` or a failure kind.
    """

    def __init__(self, version: str, python: str) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        build = Gauge("observer_build_info", "This build of the observer.", ("version", "python"), registry=registry)
        build.labels(version, python).set(1)
        self._watch_process(registry)
        self._scrapes = Counter(
            "observer_scrapes_total", "Reads of targets by result.", ("source", "result"), registry=registry
        )
        self._duration = Histogram(
            "observer_scrape_duration_seconds",
            "Time from asking a target to its whole answer.",
            ("source",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._body = Histogram(
            "observer_scrape_body_bytes", "Size of answers.", ("source",), buckets=_BYTES, registry=registry
        )
        self._parse = Histogram(
            "observer_parse_duration_seconds",
            "Time to read one answer's wanted families.",
            ("source",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._discarded = Counter(
            "observer_samples_discarded_total",
            "Samples of wanted families that could not be used.",
            ("reason",),
            registry=registry,
        )
        self._overruns = Counter(
            "observer_scrape_overruns_total",
            "Reads that were still running when the next one was due.",
            ("source",),
            registry=registry,
        )
        self._requests = Counter(
            "observer_http_requests_total",
            "Requests answered, by route and status.",
            ("route", "code"),
            registry=registry,
        )

        self._unrendered = Counter(
            "observer_render_failures_total",
            "Deployments or families left out of an answer because a value in them could not be rendered.",
            ("what",),
            registry=registry,
        )

        self._writes = Counter(
            "observer_status_writes_total",
            "Writes of status to Kubernetes by kind and result: ok, unchanged, conflict, error.",
            ("kind", "result"),
            registry=registry,
        )
        self._owner = Gauge(
            "observer_shard_owner",
            "Whether this replica owns its shard (1) or stands by (0); absent where there is only one replica.",
            ("shard",),
            registry=registry,
        )
        self._events = Counter(
            "observer_events_total",
            "Events told to Kubernetes by result: ok, counted (added to an earlier one), limited, error.",
            ("result",),
            registry=registry,
        )

    def _watch_process(self, registry: CollectorRegistry) -> None:
        """What stops the whole process, and the series of reads that were looked up."""
        self._results: dict[tuple[str, str], Counter] = {}
        self._by_source: dict[tuple[Histogram, str], Histogram] = {}
        self._lag = Histogram(
            "observer_loop_lag_seconds",
            "How late the event loop ran a step that was due.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._pauses = Histogram(
            "observer_collector_pause_seconds",
            "How long one garbage collection stopped everything, by generation (0 the young, 2 all objects).",
            ("generation",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._unreachable = Counter(
            "observer_collector_objects_collected_total",
            "Objects in cycles that garbage collections found, by generation.",
            ("generation",),
            registry=registry,
        )

    def scraped(
        self, source: str, result: str, duration_seconds: float, body_bytes: int, parse_seconds: float | None
    ) -> None:
        """One read ended. ``parse_seconds`` is ``None`` when nothing was parsed."""
        counter = self._results.get((source, result))
        if counter is None:
            counter = self._results[source, result] = self._scrapes.labels(source, result)
        counter.inc()
        self._of(self._duration, source).observe(duration_seconds)
        if body_bytes:
            self._of(self._body, source).observe(body_bytes)
        if parse_seconds is not None:
            self._of(self._parse, source).observe(parse_seconds)

    def _of(self, family: Histogram, source: str) -> Histogram:
        """The series of a source, looked up once: labels cost more than to count, and reads are many."""
        found = self._by_source.get((family, source))
        if found is None:
            found = self._by_source[family, source] = family.labels(source)
        return found

    def discarded(self, reason: str, samples: int) -> None:
        """Samples of wanted families were dropped."""
        self._discarded.labels(reason).inc(samples)

    def overran(self, source: str, slots: int = 1) -> None:
        """A read was still running when so many further ones were due; they were skipped."""
        self._overruns.labels(source).inc(slots)

    def lagged(self, seconds: float) -> None:
        """The event loop ran a due step this much later than due."""
        self._lag.observe(seconds)

    def paused(self, generation: int, seconds: float, found: int) -> None:
        """A garbage collection stopped everything for so long and found so many unreachable objects."""
        self._pauses.labels(str(generation)).observe(seconds)
        self._unreachable.labels(str(generation)).inc(found)

    def render_failed(self, what: str) -> None:
        """A part of an answer could not be rendered. ``what`` is the kind of answer, so that it stays bounded."""
        self._unrendered.labels(what).inc()

    def status_written(self, kind: str, result: str, count: int = 1) -> None:
        """Writes of a kind's status had this result (`STATUS_RESULTS`); a count of 0 shows that none did so far."""
        self._writes.labels(kind, result).inc(count)

    def owns(self, shard: int, *, held: bool) -> None:
        """This replica owns its shard, or stands by."""
        self._owner.labels(str(shard)).set(held)

    def event_told(self, result: str, count: int = 1) -> None:
        """An Event had this result (`EVENT_RESULTS`)."""
        self._events.labels(result).inc(count)

    def answered(self, route: str, code: int) -> None:
        """A request was answered. ``route`` is the pattern, never the path, so that it stays bounded."""
        self._requests.labels(route, str(code)).inc()

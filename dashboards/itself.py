"""Dashboard 6: the observer itself: what it reads, how long that takes, what it could not do."""

from __future__ import annotations

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import Panel

from dashboards.frame import dashboard, variables
from dashboards.look import NEVER, NOT_KNOWN, ORANGE, RED, lines, rows, steps, tile
from dashboards.queries import CLUSTER_IS, WINDOW, Query, best, quantile, rate, ratio

UID = "observer-self"
IS = CLUSTER_IS
WHO = "cluster, instance"
"""Which observer process: the address that was scraped."""


def _quantiles(title: str, name: str, text: str, *, unit: str = "s", by: str = "source") -> Builder[Panel]:
    legend = f"{{{{{by}}}}}"
    found = (Query(quantile(share, by, name, IS), f"{legend} p{share * 100:.0f}") for share in (0.5, 0.99))
    return lines(title, f"{name}: {text}", *found, unit=unit, nothing="nothing was read, or not known", width=8)


def _now() -> list[Builder[Panel]]:
    up = best("cluster, source", f'observer_targets{{{IS}, state="Up"}}')
    everything = f"sum by (cluster, source) ({best('cluster, source, state', f'observer_targets{{{IS}}}')})"
    failed = f'sum(rate(observer_scrapes_total{{{IS}, result!="Ok"}}[{WINDOW}]))'
    return [
        tile("Observers", "observer_build_info.", Query(f"count({best(WHO, f'observer_build_info{{{IS}}}')})"), colours=steps((1, "text"), first=RED)),
        tile("Targets", "observer_targets.", Query(f"sum({everything})")),
        tile("Targets up", "observer_targets, state Up.", Query(f"sum({up})")),
        tile("Reads that failed", "observer_scrapes_total with any result but Ok, per second.", Query(failed), unit="ops", nothing="none failed yet", colours=steps((0.1, ORANGE))),
        tile("Loop lag p99", "observer_loop_lag_seconds.", Query(f"max({quantile(0.99, WHO, 'observer_loop_lag_seconds', IS)})"), unit="s", colours=steps((0.1, ORANGE), (0.5, RED))),
        tile("Resident memory", "process_resident_memory_bytes.", Query(f"max(process_resident_memory_bytes{{{IS}}} and on ({WHO}) observer_build_info{{{IS}}})"), unit="bytes"),
        tile("Series exposed", "observer_exposed_series.", Query(f"sum({best('cluster, family', f'observer_exposed_series{{{IS}}}')})")),
        tile("Status writes failing", "observer_status_writes_total with result error, per second.", Query(f'sum(rate(observer_status_writes_total{{{IS}, result="error"}}[{WINDOW}]))'), unit="ops", nothing="nothing is written, or not known", colours=steps((0.001, RED))),
        tile("Events not told", "observer_events_total with result limited or error, per second.", Query(f'sum(rate(observer_events_total{{{IS}, result!~"ok|counted"}}[{WINDOW}]))'), unit="ops", nothing="all were told, or not known", colours=steps((0.001, ORANGE))),
        rows("Builds", "observer_build_info.", Query(best(f"{WHO}, version, python", f"observer_build_info{{{IS}}}"), column="runs"), height=4),
    ]  # fmt: skip


def _reading() -> list[Builder[Panel]]:
    states = best("source, state", f"observer_targets{{{IS}}}")
    late = ratio(
        rate("source", f"observer_scrape_overruns_total{{{IS}}}"), rate("source", f"observer_scrapes_total{{{IS}}}")
    )
    return [
        lines("Targets by state", "observer_targets by kind of program and state.", Query(states, "{{source}} {{state}}"), stacked=True, width=8),
        lines("Reads by result", "observer_scrapes_total per second.", Query(rate("source, result", f"observer_scrapes_total{{{IS}}}"), "{{source}} {{result}}"), unit="ops", stacked=True, width=8),
        lines("Reads still running when the next was due", "observer_scrape_overruns_total against observer_scrapes_total.", Query(late, "{{source}}"), unit="percentunit", nothing=NEVER, width=8),
        _quantiles("Time of a read", "observer_scrape_duration_seconds", "from asking to the whole answer."),
        _quantiles("Size of an answer", "observer_scrape_body_bytes", "decoded.", unit="bytes"),
        _quantiles("Time to parse", "observer_parse_duration_seconds", "the wanted families of one answer."),
        lines("Samples that could not be used", "observer_samples_discarded_total by reason.", Query(rate("reason", f"observer_samples_discarded_total{{{IS}}}"), "{{reason}}"), unit="ops", nothing=NEVER, width=8),
        lines("Families that no table knows", "observer_unknown_families by program and version: a rename is seen here first.", Query(best("software, version", f"observer_unknown_families{{{IS}}}"), "{{software}} {{version}}"), width=8),
        lines("Signals a table has and answers lack", "observer_missing_signals by program and version. Some only come with a feature or a first request: a step at a new version is what to look for.", Query(best("software, version", f"observer_missing_signals{{{IS}}}"), "{{software}} {{version}}"), width=8),
    ]  # fmt: skip


def _working() -> list[Builder[Panel]]:
    def level(title: str, name: str, text: str, unit: str) -> Builder[Panel]:
        query = Query(best(WHO, f"{name}{{{IS}}} and on ({WHO}) observer_build_info{{{IS}}}"), "{{instance}}")
        return lines(title, f"{name}: {text}", query, unit=unit, width=8)

    waiting = best(WHO, f"observer_event_queue_bytes{{{IS}}}")
    capacity = best(WHO, f"observer_event_queue_capacity_bytes{{{IS}}}")
    cpu = rate(WHO, f"process_cpu_seconds_total{{{IS}}}") + f" and on ({WHO}) observer_build_info{{{IS}}}"
    return [
        _quantiles("Event loop lag", "observer_loop_lag_seconds", "how late a due step ran.", by="instance"),
        _quantiles("Pauses of garbage collection", "observer_collector_pause_seconds", "how long one collection stopped everything, by generation.", by="generation"),
        lines("Objects collected", "observer_collector_objects_collected_total per second, by generation.", Query(rate("generation", f"observer_collector_objects_collected_total{{{IS}}}"), "{{generation}}"), unit="ops", nothing=NOT_KNOWN, width=8),
        lines("Processor", "process_cpu_seconds_total: cores in use.", Query(cpu, "{{instance}}"), width=8),
        level("Resident memory over time", "process_resident_memory_bytes", "of the process.", "bytes"),
        level("Open files", "process_open_fds", "sockets included.", "short"),
        lines("Series exposed by family", "observer_exposed_series: a guard against ourselves.", Query(f"topk(10, {best('family', f'observer_exposed_series{{{IS}}}')})", "{{family}}"), width=8),
        lines("Requests answered", "observer_http_requests_total by status.", Query(rate("code", f"observer_http_requests_total{{{IS}}}"), "{{code}}"), unit="reqps", stacked=True, width=8),
        lines("Requests answered by route", "observer_http_requests_total by route.", Query(rate("route", f"observer_http_requests_total{{{IS}}}"), "{{route}}"), unit="reqps", width=8),
        lines("Events waiting for the index", "observer_event_queue_bytes against observer_event_queue_capacity_bytes.", Query(ratio(waiting, capacity), "{{instance}}"), unit="percentunit", width=8),
        lines("Event messages waiting", "observer_event_queue_depth.", Query(best(WHO, f"observer_event_queue_depth{{{IS}}}"), "{{instance}}"), width=8),
        lines("Event messages received", "observer_event_messages_total per second.", Query(rate(WHO, f"observer_event_messages_total{{{IS}}}"), "{{instance}}"), unit="ops", width=8),
        lines("Pauses of receiving", "observer_event_pauses_total: times the queue was full.", Query(best(WHO, f"observer_event_pauses_total{{{IS}}}"), "{{instance}}"), width=8),
        lines("Events of streams already gone", "observer_event_discarded_total per second.", Query(rate(WHO, f"observer_event_discarded_total{{{IS}}}"), "{{instance}}"), unit="ops", nothing=NOT_KNOWN, width=8),
    ]  # fmt: skip


def build() -> str:
    """The dashboard's JSON."""
    return dashboard(
        UID,
        "Observer / The observer itself",
        "What the observer reads, how long that takes, what it could not do, and what it costs.",
        [("Now", _now()), ("Reading", _reading()), ("Working", _working())],
        variables(),
    )

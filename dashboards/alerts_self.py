"""The alerts about the observer itself. It is silent about everything else while one of them holds."""

from __future__ import annotations

from typing import Final

from dashboards.rule import Alert

_UID: Final = "observer-self"
_WHO: Final = "the observer at {{ $labels.instance }}"

SELF: Final = (
    Alert(
        name="ObserverDown",
        group="self",
        expr="absent(observer_build_info)",
        lasting="5m",
        severity="critical",
        summary="no observer is scraped",
        description="No series of an observer has come for five minutes: every other alert of these rules is blind. "
        "Look at the observer's Pods and at the scrape job, then with `observer targets -A`.",
        dashboard=_UID,
        choice=(),
    ),
    Alert(
        name="ObserverScrapeOverrun",
        group="self",
        expr="sum by (cluster, instance, source) (rate(observer_scrape_overruns_total[10m]))\n"
        "/ (sum by (cluster, instance, source) (rate(observer_scrapes_total[10m])) > 0) > 0.05",
        lasting="15m",
        severity="warning",
        summary="reads of {{ $labels.source }} targets take longer than their period",
        description=f"{{{{ $value | humanizePercentage }}}} of the reads of {_WHO} were still running when the next was due. "
        "Look with `observer targets -A -o wide`.",
        dashboard=_UID,
        choice=(),
    ),
    Alert(
        name="ObserverEventDrops",
        group="self",
        expr="sum by (cluster, instance) (increase(observer_event_pauses_total[10m])) > 0",
        lasting="10m",
        severity="warning",
        summary=f"{_WHO} cannot keep up with KV events",
        description="It stopped receiving {{ $value | humanize }} times in ten minutes because its queue was full: "
        "publishers may drop what they cannot send. Look with `observer kv NAME`.",
        dashboard=_UID,
        choice=(),
    ),
    Alert(
        name="ObserverStatusWriteFailing",
        group="self",
        expr='sum by (cluster, instance, kind) (rate(observer_status_writes_total{result="error"}[10m])) > 0',
        lasting="10m",
        severity="warning",
        summary=f"{_WHO} cannot write {{{{ $labels.kind }}}}",
        description="Writes to the Kubernetes API go on failing: the status that kubectl shows grows old. "
        "The observer's log names the refusal; `observer status NAME` still shows what is known.",
        dashboard=_UID,
        choice=(),
    ),
    Alert(
        name="ObserverLoopLag",
        group="self",
        expr="histogram_quantile(0.99, sum by (cluster, instance, le) (rate(observer_loop_lag_seconds_bucket[5m]))) > 0.5",
        lasting="10m",
        severity="warning",
        summary=f"{_WHO} is too busy to be on time",
        description="Steps that were due ran {{ $value | humanizeDuration }} late (99th percentile): ages and timeouts lose "
        "their meaning. Give it more processor, or split it.",
        dashboard=_UID,
        choice=(),
    ),
)

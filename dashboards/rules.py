"""Alert and recording rules as data, and as the files that are shipped: a plain rule file, or a PrometheusRule.

Expressions are written with ``<ns>`` and ``<pod>`` for what our labels ``namespace`` and ``pod`` are called in the store:
a Prometheus that scrapes us without ``honorLabels`` renames them to ``exported_…``. Print them with other addresses of
runbooks and dashboards by ``python -m dashboards.rules --runbooks URL --grafana URL``.
"""

from __future__ import annotations

import io
import sys
from typing import Any, Final, NamedTuple

import click
from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import LiteralScalarString

from dashboards.alerts import ALERTS
from dashboards.recording import RECORDINGS
from dashboards.rule import Alert, Recording

RUNBOOKS: Final = "docs/runbooks"
"""Where runbooks are unless told otherwise: in this repository."""
GRAFANA: Final = ""
"""Before the path of a dashboard unless told otherwise: an address on the same Grafana."""


class Labels(NamedTuple):
    """What our labels are called in the store that evaluates the rules."""

    namespace: str
    pod: str

    def written(self, text: str) -> str:
        """A text with the labels' names filled in."""
        return text.replace("<ns>", self.namespace).replace("<pod>", self.pod)


HONOURED: Final = Labels("namespace", "pod")
EXPORTED: Final = Labels("exported_namespace", "exported_pod")


def _expression(text: str, labels: Labels) -> str:
    written = labels.written(text).strip()
    return LiteralScalarString(written + "\n") if "\n" in written else written


def _alert(alert: Alert, labels: Labels, runbooks: str, grafana: str) -> dict[str, Any]:
    choice = "".join(
        f"{'&' if place else '?'}var-{variable}={{{{ $labels.{label} }}}}"
        for place, (variable, label) in enumerate(alert.choice)
    )
    return {
        "alert": alert.name,
        "expr": _expression(alert.expr, labels),
        "for": alert.lasting,
        "labels": {"severity": alert.severity},
        "annotations": {
            "summary": labels.written(alert.summary),
            "description": labels.written(alert.description),
            "runbook_url": f"{runbooks}/{alert.name}.md",
            "dashboard": labels.written(f"{grafana}/d/{alert.dashboard}{choice}"),
        },
    }


def _recording(rule: Recording, labels: Labels) -> dict[str, Any]:
    return {"record": rule.name, "expr": _expression(rule.expr, labels)}


def groups(labels: Labels = HONOURED, *, runbooks: str = RUNBOOKS, grafana: str = GRAFANA) -> list[dict[str, Any]]:
    """The rule groups as Prometheus reads them."""
    made: dict[str, list[dict[str, Any]]] = {}
    for rule in RECORDINGS:
        made.setdefault("observer-records", []).append(_recording(rule, labels))
    for alert in ALERTS:
        made.setdefault(f"observer-{alert.group}", []).append(_alert(alert, labels, runbooks, grafana))
    return [{"name": name, "rules": rules} for name, rules in made.items()]


def rules_text(labels: Labels = HONOURED, *, runbooks: str = RUNBOOKS, grafana: str = GRAFANA) -> str:
    """The plain rule file."""
    return _yaml({"groups": groups(labels, runbooks=runbooks, grafana=grafana)})


def prometheus_rule(
    name: str,
    namespace: str,
    labels: Labels = HONOURED,
    *,
    metadata_labels: dict[str, str] | None = None,
    runbooks: str = RUNBOOKS,
    grafana: str = GRAFANA,
) -> dict[str, Any]:
    """The rules as an object of the Prometheus operator. ``metadata_labels`` are what its ``ruleSelector`` looks for."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(metadata_labels or {})},
        "spec": {"groups": groups(labels, runbooks=runbooks, grafana=grafana)},
    }


def _yaml(document: dict[str, Any]) -> str:
    yaml = YAML()
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=4, offset=2)
    out = io.StringIO()
    yaml.dump(document, out)
    return out.getvalue()


@click.command()
@click.option("--runbooks", default=RUNBOOKS, show_default=True, help="Where the runbook pages are.")
@click.option("--grafana", default=GRAFANA, help="The address of Grafana, before /d/….")
@click.option("--exported-labels", is_flag=True, help="For a store where Prometheus renamed our labels.")
def main(runbooks: str, grafana: str, *, exported_labels: bool) -> None:
    """Print the rule file."""
    labels = EXPORTED if exported_labels else HONOURED
    sys.stdout.write(rules_text(labels, runbooks=runbooks.rstrip("/"), grafana=grafana.rstrip("/")))


if __name__ == "__main__":
    main()

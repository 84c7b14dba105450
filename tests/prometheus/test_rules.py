"""Alert rules through ``promtool``: every case of `rule_cases`, for both names of our labels, and the file's own checks."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from dashboards import shipped_rules
from dashboards.alerts import ALERTS
from dashboards.recording import RECORDINGS
from dashboards.rule import Alert
from dashboards.rules import EXPORTED, HONOURED, Labels, groups
from tests.conftest import require
from tests.prometheus.rule_cases import CASES, Case, D, P, R

pytestmark = pytest.mark.prometheus
LABELS = {"honoured": HONOURED, "renamed": EXPORTED}
SCRAPED = {"namespace": "monitoring", "pod": "observer-0"}
"""What the scrape puts in the place of our renamed labels."""
BY_NAME = {alert.name: alert for alert in ALERTS}


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    tool = require("promtool", "rules are tested with it")
    return subprocess.run([tool, *arguments], capture_output=True, text=True, check=False, timeout=100)


def renamed(series: str, labels: Labels) -> str:
    """The series as a store has it that renamed our labels."""
    if labels is HONOURED:
        return series
    found = re.sub(r"\bnamespace=", f"{labels.namespace}=", re.sub(r"\bpod=", f"{labels.pod}=", series))
    more = ", ".join(f'{name}="{value}"' for name, value in SCRAPED.items())
    return found.replace("{", f"{{{more}, ", 1) if "{" in found else found


def renamed_labels(found: dict[str, str], labels: Labels) -> dict[str, str]:
    return {{"namespace": labels.namespace, "pod": labels.pod}.get(name, name): text for name, text in found.items()}


def expected(case: Case, labels: Labels) -> list[dict[str, Any]]:
    """What promtool must find: the labels, and every annotation with its template written out."""
    if case.labels is None:
        return []
    values = renamed_labels(case.labels, labels)
    rule = next(rule for group in groups(labels) for rule in group["rules"] if rule.get("alert") == case.alert)
    annotations = {name: written(text, values, case.value) for name, text in rule["annotations"].items()}
    return [{"exp_labels": {**values, "severity": rule["labels"]["severity"]}, "exp_annotations": annotations}]


def written(text: str, labels: dict[str, str], value: str) -> str:
    text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda match: labels.get(match.group(1), ""), text)
    return re.sub(r"\{\{ \$value[^}]*\}\}", value, text)


def unit_test(case: Case, labels: Labels) -> dict[str, Any]:
    return {
        "name": case.name,
        "interval": "1m",
        "input_series": [{"series": renamed(series, labels), "values": values} for series, values in case.series],
        "alert_rule_test": [
            {"eval_time": f"{case.minute}m", "alertname": case.alert, "exp_alerts": expected(case, labels)}
        ],
    }


def run(tests: list[dict[str, Any]], labels: Labels, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "rules.yaml").write_text(shipped_rules(exported_labels=labels is EXPORTED), "utf-8")
    (folder / "tests.yaml").write_text(
        json.dumps({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}), "utf-8"
    )
    return promtool("test", "rules", str(folder / "tests.yaml"))


@pytest.mark.parametrize("which", LABELS)
def test_the_file_is_valid_and_lint_finds_nothing(which, tmp_path):
    file = tmp_path / "rules.yaml"
    file.write_text(shipped_rules(exported_labels=which == "renamed"), "utf-8")
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALERTS) + len(RECORDINGS)} rules found" in done.stdout + done.stderr


@pytest.mark.parametrize("which", LABELS)
def test_alerts_fire_when_they_must_and_never_when_they_must_not(which, tmp_path, capsys):
    labels = LABELS[which]
    done = run([unit_test(case, labels) for case in CASES], labels, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    fire = sum(case.labels is not None for case in CASES)
    with capsys.disabled():
        print(
            f"\nfigure: {len(ALERTS)} alerts, {fire} cases that fire and {len(CASES) - fire} that must not, labels {which}"
        )


def test_promtool_would_find_a_case_that_is_wrong(tmp_path):
    silent = Case("wrong", "ObserverDown", 10, ())
    assert run([unit_test(silent, HONOURED)], HONOURED, tmp_path).returncode != 0


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_every_alert_has_cases_of_both_kinds(alert: Alert):
    kinds = Counter(case.labels is not None for case in CASES if case.alert == alert.name)
    assert kinds[True] >= 1
    assert kinds[False] >= (1 if alert.group == "self" else 2)
    if alert.choice:
        assert any("deleting" in case.name for case in CASES if case.alert == alert.name)


RECORDED = (
    ("deployment:requests_finished:rate5m", f'modeldeployment_requests_finished_total{{{P}, reason="stop"}}', "0+60x20", "1"),
    ("deployment:input_tokens:rate5m", f"modeldeployment_input_tokens_total{{{P}}}", "0+60x20", "1"),
    ("deployment:output_tokens:rate5m", f"modeldeployment_output_tokens_total{{{P}}}", "0+60x20", "1"),
    ("role:requests_waiting:sum", f"modeldeployment_requests_waiting{{{P}}}", "3x20", "3"),
    ("role:kv_cache_usage:max", f"modeldeployment_kv_cache_usage_ratio{{{P}}}", "0.5x20", "0.5"),
)  # fmt: skip
PAIRED = (
    ("deployment:prefix_hits:ratio_rate5m", f"modeldeployment_prefix_hit_tokens_total{{{P}}}", f"modeldeployment_prefix_query_tokens_total{{{P}}}", "0.5"),
    ("role:queue_time_seconds:mean_rate5m", f"modeldeployment_queue_time_seconds_sum{{{R}}}", f"modeldeployment_queue_time_seconds_count{{{R}}}", "0.5"),
)  # fmt: skip
QUANTILES = ("time_to_first_token_seconds", "inter_token_latency_seconds")


def _recorded(name: str, series: list[tuple[str, str]], value: str | None) -> dict[str, Any]:
    of = {"deployment": f"{{{D}}}", "role": f"{{{R}}}"}[name.split(":", 1)[0]]
    samples = [] if value is None else [{"labels": f"{name}{of}", "value": float(value)}]
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": each, "values": values} for each, values in series],
        "promql_expr_test": [{"expr": name, "eval_time": "15m", "exp_samples": samples}],
    }


def test_recording_rules_give_numbers_and_nothing_where_nothing_is_known(tmp_path):
    tests = [_recorded(name, [(series, values)], value) for name, series, values, value in RECORDED]
    for name, part, whole, value in PAIRED:
        tests.append(_recorded(name, [(part, "0+30x20"), (whole, "0+60x20")], value))
        tests.append(_recorded(name, [(part, "30x20"), (whole, "60x20")], None))
    for name in QUANTILES:
        family = f"modeldeployment_{name}"
        buckets = [(f'{family}_bucket{{{R}, le="{bound}"}}', "0+60x20") for bound in ("1.0", "+Inf")]
        tests.append(_recorded(f"role:{name}:p95_rate5m", [*buckets, (f"{family}_count{{{R}}}", "0+60x20")], "0.95"))
        still = [(series, "60x20") for series, _ in buckets]
        tests.append(_recorded(f"role:{name}:p95_rate5m", [*still, (f"{family}_count{{{R}}}", "60x20")], None))
    assert {rule.name for rule in RECORDINGS} <= {test["name"] for test in tests}
    done = run(tests, HONOURED, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_shipped_files_are_the_rules():
    for labels in LABELS.values():
        shipped = YAML(typ="safe").load(shipped_rules(exported_labels=labels is EXPORTED))
        assert [group["name"] for group in shipped["groups"]] == [group["name"] for group in groups(labels)]

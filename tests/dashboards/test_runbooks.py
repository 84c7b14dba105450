"""Each alert has a page and each page an alert; every command that a page or an alert names is one the CLI has."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from dashboards.alerts import ALERTS
from dashboards.rule import Alert
from dashboards.rules import EXPORTED, HONOURED, RUNBOOKS, groups, prometheus_rule, rules_text
from dashboards.rules import main as print_rules
from observer.cli.main import observer
from tests.dashboards.documents import documents

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / RUNBOOKS
COMMAND = re.compile(r"`(observer [a-z][^`]*)`")
HEADINGS = ["What it means", "What to look at", "What clears it"]


def page(alert: Alert) -> str:
    return (FOLDER / f"{alert.name}.md").read_text("utf-8")


def parses(command: str) -> None:
    """Raises what click says of a command line that it would refuse, without running it."""
    words = shlex.split(command.replace("{{ ", "{{").replace(" }}", "}}"))[1:]
    context = click.Context(observer, info_name="observer")
    name, verb, rest = observer.resolve_command(context, words)
    assert verb is not None, name
    while isinstance(verb, click.Group):
        name, verb, rest = verb.resolve_command(click.Context(verb, parent=context), rest)
        assert verb is not None
    verb.make_context(name, list(rest), parent=context)


def test_each_alert_has_a_page_and_each_page_an_alert():
    pages = {path.stem for path in FOLDER.glob("*.md")} - {"README"}
    assert pages == {alert.name for alert in ALERTS}
    assert len({alert.name for alert in ALERTS}) == len(ALERTS)
    index = (FOLDER / "README.md").read_text("utf-8")
    assert all(f"[{alert.name}]({alert.name}.md)" in index for alert in ALERTS)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_a_page_says_what_it_means_where_to_look_and_what_clears_it(alert: Alert):
    text = page(alert)
    assert text.startswith(
        f"# {alert.name}\n\nSeverity {alert.severity}, after {alert.lasting}. Dashboard `{alert.dashboard}`."
    )
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == HEADINGS
    assert alert.dashboard in documents()
    assert COMMAND.search(text.split("## What to look at")[1]), "the exact command"
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert (FOLDER / link).is_file(), link


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_every_command_named_is_a_command(alert: Alert, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FILE").touch()
    for command in COMMAND.findall(page(alert) + alert.description):
        parses(command)


def test_a_command_that_does_not_exist_would_be_seen():
    with pytest.raises(click.UsageError):
        parses("observer nothing NAME")
    with pytest.raises(click.UsageError):
        parses("observer explain NAME --nothing")


@pytest.mark.parametrize("labels", [HONOURED, EXPORTED], ids=lambda labels: labels.namespace)
def test_every_alert_says_what_people_need(labels):
    rules = [rule for group in groups(labels) for rule in group["rules"] if "alert" in rule]
    assert {rule["alert"] for rule in rules} == {alert.name for alert in ALERTS}
    for rule in rules:
        assert rule["for"]
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        told = rule["annotations"]
        assert told["runbook_url"] == f"{RUNBOOKS}/{rule['alert']}.md"
        assert told["dashboard"].startswith("/d/observer-")
        assert told["summary"]
        assert "observer" in told["description"] or "Give it" in told["description"]
        assert "<ns>" not in str(rule)
        assert "<pod>" not in str(rule)


def test_other_addresses_and_the_operators_object():
    from click.testing import CliRunner

    printed = CliRunner().invoke(
        print_rules, ["--runbooks", "https://docs.example/r/", "--grafana", "https://g.example"]
    )
    assert printed.output == rules_text(runbooks="https://docs.example/r", grafana="https://g.example")
    assert "runbook_url: https://docs.example/r/ObserverDown.md" in printed.output
    assert "https://g.example/d/observer-self" in printed.output
    made = prometheus_rule("observer", "monitoring", metadata_labels={"release": "prometheus"})
    assert made["kind"] == "PrometheusRule"
    assert made["metadata"] == {"name": "observer", "namespace": "monitoring", "labels": {"release": "prometheus"}}
    assert made["spec"]["groups"] == groups()


@pytest.mark.parametrize("alert", [alert for alert in ALERTS if alert.group != "self"], ids=lambda alert: alert.name)
def test_nothing_about_a_deployment_fires_while_it_is_deleted(alert: Alert):
    assert alert.name == "MetricFamilyMissing" or 'phase="Deleting"' in alert.expr
    assert "or vector(" not in alert.expr, "a number is never made up"

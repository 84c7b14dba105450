"""The verb ``canary``: where a canary analysis stands, with both sides and the sentence that says what holds it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from exporters.printable import printable
from observer.cli.exits import EPILOG
from observer.cli.groups import NameOrCommand
from observer.cli.output import Format, dumped, grouped, show
from observer.cli.run import explained
from observer.cli.show import Asked, asking

_UNKNOWN = "unknown"


@click.group(cls=NameOrCommand, epilog=EPILOG)
def canary() -> None:
    """Canary analyses: `observer canary NAME` shows one; `observer canary simulate FILE` judges over a recording."""


@canary.command(name="simulate", epilog=EPILOG)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--analysis", "-a", "analyses", type=click.Path(path_type=Path), multiple=True, required=True, metavar="FILE", help="A file with the analyses; may be repeated.")  # fmt: skip
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True, help="How to print.")  # fmt: skip
def canary_simulate(file: Path, analyses: tuple[Path, ...], output: str) -> None:
    """Say what analyses would have decided over a recording, and when. Needs no observer; queries are not sent."""
    from observer.app import run_canary_simulation  # noqa: PLC0415 - the application is loaded only where it runs

    with explained():
        found = run_canary_simulation(file, analyses)
    if output != "table":
        click.echo(dumped(found, Format(output)))
        return
    for each in found:
        click.echo(f"{each['end']['metadata']['namespace']}/{each['end']['metadata']['name']}")
        for moment in each["moments"]:
            words = f"{moment['verdict'] or 'no sample':<13} {moment['decision']:<9} {moment['reason']}"
            click.echo(printable(f"  {moment['at']}  step {moment['step'] + 1}  {words}  {moment['message']}"))


@canary.command(name="show", epilog=EPILOG)
@click.argument("name")
@asking(all_namespaces=False)
def canary_show(asked: Asked, name: str) -> None:
    """Show a canary analysis: its step, its verdict, what it decides and why, and every metric on both sides.

    NAME is the analysis's own name. `--watch` follows it.
    """

    def ask() -> Any:
        return asked.get(f"/api/v1/namespaces/{asked.namespace}/canaries/{name}")

    def draw(answer: Any, wide: bool, _: int | None) -> RenderableType:
        return canary_picture(answer, wide=wide)

    show(ask, asked.form, draw, asked.watch)


def canary_picture(answer: dict[str, Any], *, wide: bool) -> RenderableType:
    """The whole answer as text and a table."""
    status = answer["status"]
    if status is None:
        return grouped([Text("nothing was judged yet"), *_notes(answer)])
    parts: list[RenderableType] = [_summary(answer, status), Text(status.get("message", "")), *_notes(answer)]
    results = [*status.get("metricResults", ()), *status.get("dryRunResults", ())]
    if results:
        parts.insert(2, metrics_table(results, wide=wide))
    return grouped(parts)


def _summary(answer: dict[str, Any], status: dict[str, Any]) -> Table:
    spec = answer["spec"]
    table = Table(box=None, pad_edge=False, header_style="bold")
    cells = {
        "TARGET": f"{spec['targetRef']['name']}/{spec['component']}",
        "STABLE": spec["stable"]["revision"],
        "CANARY": spec["canary"]["revision"],
        "STEP": f"{min(status.get('currentStep', 0) + 1, spec['steps'])}/{spec['steps']}",
        "TRAFFIC": _traffic(answer.get("traffic", {})),
        "VERDICT": _UNKNOWN if answer["stale"] or "verdict" not in status else status["verdict"],
        "DECISION": status.get("decision", _UNKNOWN),
        "FAILED": f"{status.get('analysisFailedChecks', 0)}/{status.get('failureLimit', '-')}",
        "REASON": status.get("reason", _UNKNOWN),
        "AGE": _UNKNOWN if answer["sampleAgeSeconds"] is None else f"{answer['sampleAgeSeconds']:.0f} s",
    }
    for name in cells:
        table.add_column(name)
    table.add_row(*cells.values())
    return table


def _traffic(told: dict[str, Any]) -> str:
    """The canary's share of the requests as measured, beside the weight that its controller programmed."""
    share, weight = told.get("canaryShare"), told.get("programmedWeight")
    measured = _UNKNOWN if share is None else f"{share:.1%}"
    return measured if weight is None else f"{measured} (weight {weight}%)"


def metrics_table(results: list[dict[str, Any]], *, wide: bool) -> Table:
    """Each metric with the canary's number, stable's, and what a pass wants."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    names = ["METRIC", "VERDICT", "REASON", "CANARY", "STABLE", "WANTED", "SAMPLES", "BY"]
    for column in names + (["LOW", "HIGH", "PODS", "MESSAGE"] if wide else []):
        table.add_column(column)
    for each in results:
        need = f" of {each['need']}" if each.get("need") is not None else ""
        cells = [
            each["name"] + ("" if each.get("required", True) else " (dry run)"),
            each["verdict"],
            each["reason"],
            _number(each.get("estimate")),
            _number(each.get("stableEstimate")),
            f"{each['operator']} {each['threshold']}",
            f"{_number(each.get('samples'))}{need}",
            each.get("measuredBy") or "query",
        ]
        if wide:
            missing = each.get("missingCount", 0)
            pods = f"{each.get('expectedPods', 0) - missing}/{each.get('expectedPods', 0)}"
            cells += [_number(each.get("low")), _number(each.get("high")), pods, each.get("message", "")]
        table.add_row(*cells)
    return table


def _notes(answer: dict[str, Any]) -> list[RenderableType]:
    """What is wrong or in doubt, a sentence each."""
    found = ["The answer is stale: nothing may be concluded from it."] if answer["stale"] and answer["status"] else []
    return [Text(each) for each in (*found, *answer["warnings"], *answer["problems"])]


def _number(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.6g}"

"""Write the reference pages of `docs/reference/` from the tables that run: settings, metrics, conditions, signals, CLI.

``python scripts/reference.py`` writes, ``--check`` exits 1 when a page differs and says which. Both print what was covered.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from reference_markdown import Page, code, page, table  # noqa: E402 - the path is set just above
from reference_platform import platform  # noqa: E402
from reference_signals import signals  # noqa: E402

from exporters.canary_families import CanaryViews, canary_families  # noqa: E402
from exporters.families import FAMILIES, MEASURED, MERGED  # noqa: E402
from exporters.family import Family  # noqa: E402
from exporters.kv import KvSource  # noqa: E402
from exporters.kv_families import kv_families  # noqa: E402
from exporters.limits import LimitSource, limit_families  # noqa: E402
from exporters.own_costs import OwnCostSource, own_cost_families  # noqa: E402
from exporters.self_metrics import SelfMetrics  # noqa: E402
from observer.cli.exits import Exit  # noqa: E402
from observer.cli.main import observer  # noqa: E402
from observer.judge.advice import ADVICE, Advice, advice  # noqa: E402
from observer.judge.canary.meanings import MEANINGS  # noqa: E402
from observer.judge.meanings import CONDITIONS, GROUP_STATES, LEGS, NOT_OBSERVABLE  # noqa: E402
from observer.settings import describe  # noqa: E402
from router_contract.documents import REASONS, SKIPPED  # noqa: E402

FOLDER = ROOT / "docs" / "reference"


CANARY_REASONS = (
    "Its reasons are those of [canary analyses](#canary-reasons), and `Stale` (Unknown) while what was judged last is too "
    "old, or about another revision, to say anything of now."
)


def settings() -> Page:
    """Every key of both kinds."""
    rows = describe()
    lines = [
        "YAML documents with `apiVersion: observer.modeldeployment.io/v1alpha1`, in one file or many. Unknown keys are",
        "faults; `observer check FILE` tells every fault with its line. Durations are written as `5s` or `1m30s`, sizes as `16MiB`.",
        "",
    ]
    for kind in ("Settings", "Fleet"):
        mine = [row for row in rows if row.path.startswith(f"{kind}.")]
        lines += [f"## {kind}", ""]
        shown = [(code(row.path.removeprefix(f"{kind}.")), row.type, code(row.default), row.meaning) for row in mine]
        lines += table(("key", "type", "default", "meaning"), shown)
    return page("Settings", *lines), len(rows)


def _signals_of() -> dict[str, str]:
    return {each.name: each.signal for each in MEASURED} | {name: signal for name, _, signal in MERGED}


def metrics() -> Page:
    """Every family on `/metrics` that is ours."""
    nobody: Any = None  # rows are asked for at a scrape only
    ours: list[Family] = [*FAMILIES, *kv_families(cast("KvSource", nobody))]
    ours += canary_families(cast("CanaryViews", nobody))
    ours += [*limit_families(cast("LimitSource", nobody)), *own_cost_families(cast("OwnCostSource", nobody))]
    signals = _signals_of()
    rows = [
        (code(each.name), each.type.value, ", ".join(each.labels), each.help, code(signals.get(each.name, "")))
        for each in ours
    ]
    own = [
        (
            code(f"{each.name}_total" if each.type == "counter" else each.name),
            each.type,
            ", ".join(labels),
            each.documentation,
        )
        for each, labels in _own()
    ]
    lines = [
        "A series exists only while what it says is known: absent is never 0. Counters are the observer's own running totals; they",
        "do not fall when an engine restarts. Families of Python's client about this process (`process_…`) stand beside these.",
        "",
        "## What is observed",
        "",
        *table(("family", "type", "labels", "meaning", "signal"), rows),
        "## The observer itself",
        "",
        *table(("family", "type", "labels", "meaning"), own),
    ]
    return page("Metrics", *lines), len(rows) + len(own)


def _own() -> Iterator[tuple[Any, tuple[str, ...]]]:
    """The families about ourselves with their labels, in their order."""
    registry = SelfMetrics("0", "0").registry
    # The client tells the labels of a family without series to nobody, so they are taken from its own fields.
    owners: dict[Any, list[str]] = getattr(registry, "_collector_to_names", {})
    labels = {name: getattr(made, "_labelnames", ()) for made, names in owners.items() for name in names}
    for each in registry.collect():
        yield each, tuple(labels[each.name])


def _advised(row: Advice | None) -> tuple[str, str, str]:
    return ("", "", "") if row is None else (row.course.value, row.whose, row.hint)


def conditions() -> Page:
    """Every condition, state and code, with its meaning and what to do."""
    lines = [
        "Each condition is True, False or Unknown, with a reason, a message and the numbers that it used. Unknown is an answer:",
        "it says that nobody can tell, never that all is well. `Course` says whether a reason clears by itself, needs somebody, is over,",
        f"or stays unknown because what decides it is not read from here. Any condition may be Unknown with `NotObservable`: {NOT_OBSERVABLE.says}.",
        "",
    ]
    covered = 0
    for name, asked in CONDITIONS.items():
        known = {kind_reason: row for kind_reason, row in ADVICE.items() if kind_reason[0] == name}
        rows = [
            (
                code(reason),
                meaning.answers,
                meaning.says,
                *_advised(advice(name, reason) if meaning.answers != "True" else None),
            )
            for reason, meaning in asked.reasons.items()
        ]
        rows += [
            (code(reason), "", "only operators say this", *_advised(row))
            for (_, reason), row in known.items()
            if reason not in asked.reasons and name != "CanaryAnalysis"
        ]
        covered += len(rows)
        lines += [f"## {name}", "", asked.asks, ""]
        lines += (
            table(("reason", "status", "meaning", "course", "whose", "what to do"), rows)
            if rows
            else [CANARY_REASONS, ""]
        )
    tail, more = _other_words()
    return page("Conditions, reasons and states", *lines, *tail), covered + more


def _other_words() -> tuple[list[str], int]:
    others = [(f"{kind} {reason}", row) for (kind, reason), row in ADVICE.items() if kind not in CONDITIONS]
    tables: list[tuple[str, str, Sequence[str], list[Sequence[object]]]] = [
        (
            "Group states",
            "A serving group is the Pods of one replica. Exactly one state holds; the first that matches wins.",
            ("state", "meaning"),
            [(code(state), says) for state, says in GROUP_STATES.items()],
        ),
        (
            "Criteria",
            "The five criteria of eligibility; each is Verified, Failed, Unknown or NotApplicable. A group's reason names one.",
            ("criterion", "holds when"),
            [(code(leg), says) for leg, says in LEGS.items()],
        ),
        (
            "Other findings",
            "What `observer explain` says beside conditions, of groups, members and routers.",
            ("finding", "course", "whose", "what to do"),
            [(name, *_advised(row)) for name, row in others],
        ),
        (
            "Canary reasons",
            "Why a metric, a sample or a step of a canary analysis stands as it does. Only what is Passed is a pass.",
            ("reason", "meaning"),
            [(code(reason.value), says + _hint("CanaryAnalysis", reason.value)) for reason, says in MEANINGS.items()],
        ),
        (
            "Missing codes",
            "Why a value is not there. `partial` says whether it marks the document as partial.",
            ("code", "sentence", "partial"),
            [
                (code(key.value), reason.sentence.replace("{detail}", "…"), "yes" if reason.partial else "no")
                for key, reason in REASONS.items()
            ],
        ),
        (
            "Skipped Pods",
            "Pods that are not expected to serve and never make a document partial.",
            ("code", "sentence"),
            [(code(key.value), says) for key, says in SKIPPED.items()],
        ),
    ]
    lines = [line for title, text, head, rows in tables for line in (f"## {title}", "", text, "", *table(head, rows))]
    return lines, sum(len(rows) for *_, rows in tables)


def _hint(kind: str, reason: str) -> str:
    row = ADVICE.get((kind, reason))
    return f" ({row.hint})" if row else ""


def _commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from _commands(inner, f"{path} {name}")


def _option(parameter: click.Parameter) -> tuple[str, str, str] | None:
    if isinstance(parameter, click.Argument):
        name = (parameter.name or "").upper() + ("…" if parameter.nargs != 1 else "")
        return code(name), "", "optional" if not parameter.required else "required"
    if not isinstance(parameter, click.Option) or parameter.hidden:
        return None
    kind = "flag" if parameter.is_flag or parameter.count else parameter.type.name
    if isinstance(parameter.type, click.Choice):
        kind = " ".join(map(str, parameter.type.choices))
    told = parameter.help or ""
    envvar = f" Environment: `{parameter.envvar}`." if parameter.envvar else ""
    return ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts)), kind, told + envvar


def cli() -> Page:
    """Every verb with its arguments and options."""
    lines = [
        "`kubectl modeldeployment` has the same verbs. `-h` shows any of them in the terminal.",
        "",
        "## Exit codes",
        "",
        *table(("code", "meaning"), [(each.value, each.name.lower().replace("_", " ")) for each in Exit]),
    ]
    found = list(_commands(observer, "observer"))
    for path, command in found:
        told = " ".join((command.help or "").replace("\b", "").split())
        rows = [row for parameter in command.params if (row := _option(parameter)) is not None]
        lines += [f"## {path}", "", told, ""]
        lines += table(("argument or option", "kind", "meaning"), rows) if rows else []
    return page("Command line", *lines), len(found)


PAGES: dict[str, Callable[[], Page]] = {
    "settings": settings,
    "metrics": metrics,
    "conditions": conditions,
    "signals": signals,
    "cli": cli,
    "platform": platform,
}


def main() -> int:
    """Write or compare every page."""
    check, different = "--check" in sys.argv, []
    FOLDER.mkdir(parents=True, exist_ok=True)
    counts = []
    for name, made in PAGES.items():
        text, names = made()
        counts.append(f"{name} {names}")
        path = FOLDER / f"{name}.md"
        if check and (not path.is_file() or path.read_text("utf-8") != text):
            different.append(path.relative_to(ROOT).as_posix())
        elif not check:
            path.write_text(text, "utf-8")
    print(f"figure: names covered: {', '.join(counts)}; {len(different) or 'no'} page differs from the tables")
    for each in different:
        print(f"{each} differs: run `make docs` and commit it")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())

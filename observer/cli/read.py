"""The verb ``read``: one exposition from a file, read by a program's table, as canonical signals."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from exporters import signal_tables
from exporters.live import console, width
from observer.cli.exits import EPILOG, CommandFailed, Exit
from observer.cli.output import Format, dumped, tell
from router_contract import catalog
from router_contract.readings import Histogram, Series, State
from router_contract.signals import SIGNALS
from router_contract.targets import Component
from router_contract.vocabulary import Vocabulary, has_version

if TYPE_CHECKING:
    from observer.measure.extract import Frame


@click.command(epilog=EPILOG)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--engine", metavar="NAME", help="Read it as this engine's.")
@click.option("--router", metavar="NAME", help="Read it as this router's.")
@click.option("--store", metavar="NAME", help="Read it as this cache store's.")
@click.option("--version", metavar="VERSION", help="The program's version; without it every row of its table can hold.")
@click.option("-o", "--output", type=click.Choice([form.value for form in Format]), default=Format.TABLE.value, show_default=True, help="How to print.")  # fmt: skip
def read(
    file: Path, engine: str | None, router: str | None, store: str | None, version: str | None, output: str
) -> None:
    """Read an exposition (Prometheus text or OpenMetrics) from FILE (- for standard input) as canonical signals.

    Needs one of --engine, --router, --store.
    """
    from observer.measure.extract import Extractor, Unreadable  # noqa: PLC0415 - other verbs start without the reader

    named = {Component.ENGINE: engine, Component.ROUTER: router, Component.STORE: store}
    chosen = [(component, name) for component, name in named.items() if name is not None]
    if len(chosen) != 1:
        raise click.UsageError("want one of --engine NAME, --router NAME, --store NAME")
    if version is not None and not has_version(version):
        raise CommandFailed(f"--version is {version!r}; want one that begins with a number, as 0.11.0", Exit.USAGE)
    vocabulary = _table(*chosen[0])
    name = "standard input" if str(file) == "-" else str(file)
    body = _body(file)
    frame = Extractor(vocabulary, version=version).read(body)
    if isinstance(frame, Unreadable):
        raise CommandFailed(f"{name} is not an exposition that can be read: {frame.kind.value}: {frame.detail}")
    for problem in frame.problems:
        tell(f"{name}:{problem.line}: {problem.family}: {problem.kind}: {problem.detail}")
    answer = answer_of(vocabulary, version, frame)
    answer["unknown"] = sorted({*answer["unknown"], *undeclared(vocabulary, body)})
    if not answer["signals"] and (foreign := _foreign(vocabulary, body)):
        tell(f"{name}: {foreign}")
    form = Format(output)
    if form in {Format.JSON, Format.YAML}:
        click.echo(dumped(answer, form))
    else:
        target = console()
        target.print(signal_tables.signals(answer, wide=form is Format.WIDE, width=width(target)))


def _foreign(vocabulary: Vocabulary, body: bytes) -> str:
    """That a file with samples is no exposition of this program, and whose it may be; empty for one without."""
    names = {raw.decode() for raw in set(_NAME.findall(body))}
    if not names or any(vocabulary.claims(name) for name in names):
        return ""
    tables = [table for each in catalog.TABLES.values() for table in each.values()]
    likely = max(tables, key=lambda table: sum(table.claims(name) for name in names))
    said = f"no family of this file belongs to {vocabulary.name}"
    if not any(likely.claims(name) for name in names):
        return f"{said}, nor to any other program that is known"
    return f"{said}; it looks like {likely.name} (--{likely.component.value} {likely.name})"


def _table(component: Component, name: str) -> Vocabulary:
    try:
        return catalog.lookup(component, name)
    except catalog.UnknownSoftware as error:
        raise CommandFailed(str(error), Exit.USAGE) from error


def _body(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise CommandFailed(f"{file} cannot be read: {error.strerror}", Exit.USAGE) from error


def answer_of(vocabulary: Vocabulary, version: str | None, frame: Frame) -> dict[str, Any]:
    """The published form: every signal that was there, what was absent, and families that no row knows.

    A signal that is there and cannot be used (not finite, torn, contradicting itself) has one entry without a value
    whose state says why: it is neither a number nor absent.
    """
    signals: dict[str, list[dict[str, Any]]] = {}
    for signal in {term.signal for term in vocabulary.select(version)} - frame.absent:
        entries = [_entry(signal, series) for series in frame.series(signal)]
        gaps = frame.gaps(signal)
        why = frame.missing(signal)
        if why is not None and not gaps:
            gaps = (((), why),)
        unit = SIGNALS[signal].unit
        entries += [{"value": None, "unit": unit, "labels": dict(labels), "state": code.value} for labels, code in gaps]
        if entries:
            signals[signal] = entries
    return {
        "vocabulary": vocabulary.name,
        "version": version,
        "signals": dict(sorted(signals.items())),
        "absent": sorted(frame.absent),
        "unknown": sorted(frame.unknown_families),
    }


_NAME = re.compile(rb"^([a-zA-Z_:][a-zA-Z0-9_:]*)", re.MULTILINE)
_PARTS = ("_bucket", "_sum", "_count")


def undeclared(vocabulary: Vocabulary, body: bytes) -> set[str]:
    """Sample names with the program's prefix that no row knows, whether or not a TYPE line declares them.

    The observer itself looks at declared families only, which is what makes it fast; a person who asks about one file
    is told everything.
    """
    declared = {match.decode() for match in re.findall(rb"^# TYPE (\S+) ", body, re.MULTILINE)}
    found = set()
    for raw in set(_NAME.findall(body)):
        name = raw.decode()
        bases = {name, *(name.removesuffix(part) for part in _PARTS)}
        if vocabulary.claims(name) and not any(vocabulary.knows(base) or base in declared for base in bases):
            found.add(name)
    return found


def _entry(signal: str, series: Series) -> dict[str, Any]:
    value: Any = _histogram(series.histogram) if series.histogram is not None else _finite(series.value)
    return {
        "value": value,
        "unit": SIGNALS[signal].unit,
        "labels": dict((*series.labels, *series.info)),
        "state": (State.MISSING if value is None else State.FRESH).value,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _histogram(histogram: Histogram) -> dict[str, Any]:
    bounds = ["+Inf" if math.isinf(bound) else bound for bound in histogram.bounds]
    return {
        "count": histogram.count,
        "sum": _finite(histogram.sum),
        "buckets": [list(pair) for pair in zip(bounds, histogram.counts, strict=True)],
    }

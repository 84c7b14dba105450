"""Recomputes every number of the expected documents from the recordings, independently of our reader.

It uses only the parser of ``prometheus_client``, the standard library and the hand-written rules beside it.

``--print FILE`` shows its own numbers for one recording. ``--compare FOLDER`` walks all recordings and compares them,
both ways, with the documents checked in under FOLDER; a difference that ``recompute_differences.json`` does not explain,
or an explanation that explains nothing, makes it exit with 1. An explanation is ``{file, signal, says, why}``: patterns
of the recording and the signal, and a part of the difference's text, so that it never hides another one.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from recompute_rules import COPIES, FOLDERS, Rule, facts, rules

ROOT = Path(__file__).resolve().parent.parent
RECORDINGS = ROOT / "tests" / "recordings"
EXPLAINED = Path(__file__).with_name("recompute_differences.json")

Labels = frozenset[tuple[str, str]]
Numbers = dict[str, float]
"""The numbers of one entry: ``value``, or ``count``, ``sum`` and ``le=…`` of a histogram."""


def recordings() -> list[Path]:
    """Every recording, also the one that asked for OpenMetrics and got text."""
    return sorted(path for path in RECORDINGS.rglob("*") if path.suffix in {".prom", ".openmetrics"})


def vocabulary_of(path: Path) -> str:
    """The program that wrote a recording, by its place."""
    place = path.resolve().relative_to(RECORDINGS).as_posix()
    return next(name for pattern, name in FOLDERS if fnmatch.fnmatch(place, pattern))


def compute(path: Path) -> dict[str, dict[Labels, Numbers]]:
    """By signal and labels, the numbers that a recording holds; signals without a number are left out."""
    families: dict[str, list[Metric]] = defaultdict(list)
    for family in text_string_to_metric_families(path.read_text(encoding="utf-8")):
        families[family.name].append(family)
    found = {}
    for rule in rules(vocabulary_of(path)):
        for name in rule.names:
            numbers = apply(rule, families.get(name, []))
            if numbers:
                found[rule.signal] = numbers
                break
    return found


def apply(rule: Rule, families: Iterable[Metric]) -> dict[Labels, Numbers]:
    """The numbers of one signal in the families of one name."""
    series: dict[tuple[Labels, str], list[tuple[frozenset[tuple[str, str]], float]]] = defaultdict(list)
    for family in families:
        if family.type != ("gauge" if rule.kind == "info" else rule.kind):
            continue
        for sample in family.samples:
            part = part_of(rule, family.name, sample.name, sample.labels)
            value = value_of(rule, sample.labels, sample.value)
            if part is None or value is None:
                continue
            labels = {
                name: text for name, text in sample.labels.items() if not (part.startswith("le=") and name == "le")
            }
            original = frozenset((name, text) for name, text in labels.items() if name not in COPIES)
            series[ours(rule, labels), part].append((original, value))
    found: dict[Labels, Numbers] = defaultdict(dict)
    for (labels, part), values in series.items():
        found[labels][part] = combined(rule, values)
    return dict(found)


def part_of(rule: Rule, family: str, sample: str, labels: dict[str, str]) -> str | None:
    """Which number of an entry a sample is; nothing for `_created` and for series that the rule does not take."""
    if (rule.only and labels.get(rule.only[0]) != rule.only[1]) or (rule.has and not labels.get(rule.has)):
        return None
    if rule.kind != "histogram":
        return "value" if sample == (family + "_total" if rule.kind == "counter" else family) else None
    ending = sample.removeprefix(family)
    if ending == "_bucket":
        return f"le={edge(labels['le'])}"
    return {"_count": "count", "_sum": "sum"}.get(ending)


def value_of(rule: Rule, labels: dict[str, str], value: float) -> float | None:
    """The number of a sample; nothing for NaN, for a removed worker and for a label that is no number."""
    if rule.value_label:
        try:
            value = float(labels[rule.value_label])
        except (KeyError, ValueError):
            return None
    if math.isnan(value) or (rule.removed and value == -1):
        return None
    return value


def ours(rule: Rule, labels: dict[str, str]) -> Labels:
    """The labels that stay, under our names; an empty label is no label."""
    kept = {(rule.keep[name], text) for name, text in labels.items() if text and name in rule.keep}
    if rule.keep_all:
        kept |= {(name, text) for name, text in labels.items() if text}
    return frozenset((name, text) for name, text in kept if name not in COPIES)


def combined(rule: Rule, values: list[tuple[frozenset[tuple[str, str]], float]]) -> float:
    """Copies of one series fold to the largest; then the series of the labels that were not kept combine."""
    copies: dict[frozenset[tuple[str, str]], float] = {}
    for original, value in values:
        copies[original] = max(value, copies.get(original, -math.inf))
    numbers = list(copies.values())
    if rule.combine == "each" and len(numbers) > 1:
        raise ValueError(f"{rule.signal}: {len(numbers)} series for one entry, wanted one")
    return {
        "add": math.fsum,
        "max": max,
        "each": max,
        "weigh": lambda held: math.fsum(held) / len(held),
    }[rule.combine](numbers)


def edge(bound: str | float) -> str:
    """A bucket's bound in one spelling."""
    value = float(bound)
    return "+Inf" if value == math.inf else repr(value)


def read_document(entries: list[dict[str, Any]], complain: Callable[[str], None]) -> dict[Labels, Numbers]:
    """The numbers of one signal in an expected document, in the form of `apply`."""
    found: dict[Labels, Numbers] = {}
    for entry in entries:
        value = entry.get("value")
        labels = frozenset((str(name), str(text)) for name, text in (entry.get("labels") or {}).items() if text)
        if value is None:
            continue
        if labels in found:
            complain(f"two entries with the labels {shown(labels)}")
        if isinstance(value, dict):
            numbers = {part: float(value[part]) for part in ("count", "sum") if value[part] is not None}
            numbers.update({f"le={edge(bound)}": float(count) for bound, count in value["buckets"]})
        else:
            numbers = {"value": float(value)}
        found[labels] = numbers
    return found


def shown(labels: Labels) -> str:
    return "{" + ",".join(f"{name}={text}" for name, text in sorted(labels))[:200] + "}"


def compare(path: Path, document: dict[str, Any]) -> tuple[int, list[tuple[str, str]]]:
    """How many numbers agree, and the differences as (signal, text)."""
    agreed, differences = 0, []
    mine, theirs = compute(path), document["signals"]
    known = facts()
    if document.get("vocabulary") != vocabulary_of(path):
        differences.append(("vocabulary", f"document {document.get('vocabulary')}, wanted {vocabulary_of(path)}"))
    for signal in sorted({*mine, *theirs}):

        def complain(text: str, signal: str = signal) -> None:
            differences.append((signal, text))

        if signal in document.get("absent", ()) and theirs.get(signal):
            complain("both a signal and absent")
        held, said = mine.get(signal, {}), read_document(theirs.get(signal, []), complain)
        for unit in {str(entry.get("unit")) for entry in theirs.get(signal, [])}:
            if signal in known and unit != known[signal][2]:
                complain(f"unit {unit}, wanted {known[signal][2]}")
        for labels in sorted({*held, *said}, key=shown):
            left, right = held.get(labels, {}), said.get(labels, {})
            for part in sorted({*left, *right}):
                if part in left and part in right and math.isclose(left[part], right[part], rel_tol=1e-12):
                    agreed += 1
                else:
                    complain(f"{shown(labels)} {part}: document {right.get(part)}, recomputed {left.get(part)}")
    return agreed, differences


def compare_all(folder: Path) -> int:
    """Compare every recording with its document; the exit code."""
    reasons = json.loads(EXPLAINED.read_text(encoding="utf-8"))
    used: set[int] = set()
    numbers = documents = explained = faults = 0
    for path in recordings():
        place = path.relative_to(RECORDINGS).as_posix()
        checked_in = folder / f"{place}.json"
        if not checked_in.exists():
            print(f"{place}: no document {checked_in}")
            faults += 1
            continue
        agreed, differences = compare(path, json.loads(checked_in.read_text(encoding="utf-8")))
        numbers, documents = numbers + agreed, documents + 1
        open_ones = []
        for signal, text in differences:
            fitting = [
                number
                for number, reason in enumerate(reasons)
                if fnmatch.fnmatch(place, reason["file"])
                and fnmatch.fnmatch(signal, reason["signal"])
                and reason.get("says", "") in text
            ]
            used.update(fitting)
            if fitting:
                explained += 1
            else:
                open_ones.append(f"    {signal}: {text}")
        print(f"{place}: {agreed} numbers agree, {len(differences)} differ, {len(open_ones)} of them unexplained")
        print(*open_ones, sep="\n", end="\n" if open_ones else "")
        faults += len(open_ones)
    for number, reason in enumerate(reasons):
        if number not in used:
            print(f"explains nothing: {reason['file']} {reason['signal']}")
            faults += 1
    print(f"figure: {numbers} numbers in {documents} documents recomputed, {explained} explained differences")
    return 1 if faults else 0


def print_own(path: Path) -> int:
    """Show this script's own numbers for one recording."""
    known = facts()
    signals = {
        signal: [
            {"numbers": numbers, "unit": known[signal][2], "labels": dict(sorted(labels))}
            for labels, numbers in sorted(entries.items(), key=lambda entry: shown(entry[0]))
        ]
        for signal, entries in sorted(compute(path).items())
    }
    print(json.dumps({"vocabulary": vocabulary_of(path), "signals": signals}, indent=1))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--print", dest="file", type=Path, metavar="FILE")
    chosen.add_argument("--compare", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    return print_own(arguments.file) if arguments.file else compare_all(arguments.compare.resolve())


if __name__ == "__main__":
    sys.exit(main())

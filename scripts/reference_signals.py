"""The reference page of signals: what each means, and which wire names feed it by program and version."""

from __future__ import annotations

from reference_markdown import Page, code, page, table

from router_contract import catalog
from router_contract.signals import SIGNALS
from router_contract.vocabulary import Absence, Term, Vocabulary


def _versions(term: Term) -> str:
    since = f"from {term.since}" if term.since else ""
    before = f"before {term.before}" if term.before else ""
    return " ".join(part for part in (since, before) if part) or "every"


def _where(term: Term) -> str:
    matched = [f"{each.label}{' is not ' if each.negate else '='}{' or '.join(each.values)}" for each in term.match]
    kept = [ours if ours == wire else f"{ours} (wire {wire})" for ours, wire in term.keep]
    return "; ".join([*matched, *([f"kept apart by {', '.join(kept)}"] if kept else [])])


def _notes(term: Term) -> str:
    said = []
    if term.preference:
        said.append("only where the better name is not there")
    if term.absence is Absence.NOT_YET:
        said.append("absent until its first use")
    if term.value_label:
        said.append(f"the number is in label {term.value_label}")
    if term.scale != 1.0:
        said.append(f"times {term.scale:g}")
    if term.unproven:
        said.append(f"unproven: {term.unproven}")
    return "; ".join(said)


def _program(vocabulary: Vocabulary) -> list[str]:
    rows = [
        (code(term.signal), code(term.name), _versions(term), _where(term), _notes(term)) for term in vocabulary.terms
    ]
    names = ", ".join(f"`{name}`" for name in (vocabulary.name, *vocabulary.aliases))
    return [
        f"## {vocabulary.component.value} {vocabulary.name}",
        "",
        f"Known as {names}.",
        "",
        *table(("signal", "name on the wire", "versions", "labels", "notes"), rows),
    ]


def signals() -> Page:
    """Every signal, and which wire names feed it, by program and version."""
    rows = [
        (
            code(each.id),
            each.kind.value,
            each.unit,
            each.combine.value + (f" by `{each.weight}`" if each.weight else ""),
            each.meaning,
        )
        for each in SIGNALS.values()
    ]
    programs = [each for tables in catalog.TABLES.values() for each in tables.values()]
    terms = sum(len(each.terms) for each in programs)
    lines = [
        "A signal is what programs tell, whatever each of them calls it. Bounds of versions come from the releases that were looked",
        "at; between two of them both sides are allowed and presence decides. Where an old and a new name stand together they count",
        "once. `unproven` marks what no recording and no run of the real program exercises.",
        "",
        "## Signals",
        "",
        *table(("signal", "kind", "unit", "combined by", "meaning"), rows),
        *(line for each in programs for line in _program(each)),
    ]
    return page("Signals and the names that feed them", *lines), len(rows) + terms

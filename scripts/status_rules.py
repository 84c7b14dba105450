"""Compare the users' status document with the committed list of its rules, and the list with the cases that prove them.

    python scripts/status_rules.py [PATH] [--list]

PATH, or the variable STATUS_DOCUMENT, names the document. Each sentence of it is known to the list by a short
fingerprint: either as a rule, with our own paraphrase and the cases that prove it, or as one that states no rule.
Sentences that are neither are printed, and so are rules whose cases do not exist. Without a document only the cases are
checked. ``--list`` also prints the sentences of the document that state no rule, for a reader to disagree with. The exit
code is 1 when anything is wrong.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

ROOT = Path(__file__).parent.parent
RULES = ROOT / "tests" / "judge" / "status_rules.json"
PEER_CASES = ROOT / "tests" / "judge" / "peer_cases.json"
TESTS = ROOT / "tests"


class Rule(msgspec.Struct, frozen=True):
    """One sentence that states a rule. ``cases`` are ``file::[Class::]function`` below ``tests``."""

    id: str
    sentence: str
    says: str
    cases: tuple[str, ...]


class PeerCase(msgspec.Struct, frozen=True):
    """One edge that the peer's own tests pin, the cases that give our verdict, and why ours differs (empty if not)."""

    id: str
    part: str
    says: str
    cases: tuple[str, ...]
    differs: str


class Rules(msgspec.Struct, frozen=True):
    """The whole list; ``other`` holds the fingerprints of sentences that state no rule for us."""

    rules: tuple[Rule, ...]
    other: tuple[str, ...]


def read_rules(path: Path = RULES) -> Rules:
    """The committed list."""
    return msgspec.json.decode(path.read_bytes(), type=Rules)


def read_peer_cases(path: Path = PEER_CASES) -> tuple[PeerCase, ...]:
    """The committed list of the peer's edges."""
    return msgspec.json.decode(path.read_bytes(), type=tuple[PeerCase, ...])


def sentences(text: str) -> Iterator[str]:
    """The sentences of a document, with one space between words; headings and list items are sentences too."""
    for paragraph in re.split(r"\n\s*\n", text):
        flat = " ".join(paragraph.split())
        yield from (part for part in re.split(r"(?<=[.!?:])\s+(?=[A-Z•\"])", flat) if part)


def fingerprint(sentence: str) -> str:
    """Eight hex digits that know a sentence whatever its spacing and typographic quotes."""
    plain = re.sub(r"[^a-z0-9]+", " ", sentence.lower()).strip()
    return hashlib.sha256(plain.encode()).hexdigest()[:8]


def existing_cases() -> frozenset[str]:
    """Every test function below ``tests`` as ``file::[Class::]function``."""
    found = set()
    for path in TESTS.rglob("test_*.py"):
        where = path.relative_to(TESTS).as_posix()
        for node in ast.parse(path.read_text()).body:
            found |= {f"{where}::{name}" for name in _functions(node)}
    return frozenset(found)


def _functions(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield node.name
    elif isinstance(node, ast.ClassDef):
        yield from (f"{node.name}::{name}" for child in node.body for name in _functions(child))


def unproven(rules: Iterable[Rule | PeerCase]) -> list[str]:
    """What is wrong with the list itself: a rule without a case, a case that does not exist, an id twice."""
    cases = existing_cases()
    found = []
    seen: set[str] = set()
    for rule in rules:
        if rule.id in seen:
            found.append(f"{rule.id}: a second time")
        seen.add(rule.id)
        if not rule.cases:
            found.append(f"{rule.id}: no case: {rule.says}")
        found += [f"{rule.id}: {case} does not exist" for case in rule.cases if case not in cases]
    return found


def unlisted(rules: Rules, text: str) -> list[str]:
    """The sentences of a document that the list does not know."""
    known = {rule.sentence for rule in rules.rules} | set(rules.other)
    return [sentence for sentence in sentences(text) if fingerprint(sentence) not in known]


def main() -> int:
    """Print what is missing; the exit code says whether anything is."""
    rules, peer = read_rules(), read_peer_cases()
    problems = unproven((*rules.rules, *peer))
    named = [each for each in sys.argv[1:] if each != "--list"]
    path = named[0] if named else os.environ.get("STATUS_DOCUMENT", "")
    if path and "--list" in sys.argv:
        ruleless = (each for each in sentences(Path(path).read_text()) if fingerprint(each) in rules.other)
        print("\n".join(f"states no rule: {sentence}" for sentence in ruleless))
    if path:
        problems += [f"not listed: {sentence}" for sentence in unlisted(rules, Path(path).read_text())]
    for problem in problems:
        print(problem)
    differing = sum(bool(case.differs) for case in peer)
    print(
        f"figure: {len(rules.rules)} rules, {sum(not rule.cases for rule in rules.rules)} without a case, {len(rules.other)} sentences state no rule, {len(peer)} edges of the peer "
        f"({differing} where ours differs and says why), {len(problems)} problems"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

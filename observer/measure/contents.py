"""What an exposition holds, without knowing whether it is the right one: whose names, and what a table reads of them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from observer.measure.extract import PROCESS_START, Extractor, Frame, Unreadable
from router_contract.diagnosis import Contents
from router_contract.vocabulary import Vocabulary

_NAME = re.compile(rb"^([a-zA-Z_:][a-zA-Z0-9_:]*)[ {]", re.MULTILINE)


def likely(body: bytes, tables: Iterable[Vocabulary]) -> Vocabulary | None:
    """The program with the most names in a body; ``None`` when it has names of none."""
    names = {raw.decode() for raw in set(_NAME.findall(body))}
    counts = [(sum(table.claims(name) for name in names), table) for table in tables]
    count, table = max(counts, key=lambda each: each[0])
    return table if count else None


def contents(body: bytes, vocabulary: Vocabulary | None, version: str | None, tables: Iterable[Vocabulary]) -> Contents:
    """Names of the declared program's (``None``: no table has it) and of others, and the signals that its table reads."""
    names = {raw.decode() for raw in set(_NAME.findall(body))}
    claims = {table.name: sum(table.claims(name) for name in names) for table in tables if table is not vocabulary}
    others = tuple(sorted(((name, count) for name, count in claims.items() if count), key=lambda each: -each[1]))
    if vocabulary is None:
        return Contents(names=len(names), claims=others, known_software=False)
    stated, any_version = _sources(body, vocabulary, version), _sources(body, vocabulary, None)
    return Contents(
        names=len(names),
        own=sum(vocabulary.claims(name) for name in names),
        matched=len(stated),
        matched_any=len(any_version),
        lost=tuple(sorted(name for signal, name in any_version.items() if signal not in stated)),
        claims=others,
    )


def _sources(body: bytes, vocabulary: Vocabulary, version: str | None) -> dict[str, str]:
    """The signals that a body tells under a version, each with the wire name it was read from."""
    frame = Extractor(vocabulary, version=version).read(body)
    if isinstance(frame, Unreadable):
        return {}
    return {signal: _source(frame, signal) for signal in frame.signals() if signal != PROCESS_START}


def _source(frame: Frame, signal: str) -> str:
    return next((each.source for each in frame.series(signal)), signal)

"""How one program's exposition maps to signals: terms, the versions they hold for, and checks of a whole table.

A `Term` is one row: a sample name exactly as on the wire, the labels it must carry, what its labels mean and in which
versions it exists. A `Vocabulary` is a program's whole table. Code walks these; it names no metric.

Version bounds come from the releases that were looked at. Between two of them nobody knows where a change fell, so both
sides are allowed there and presence decides: ``since`` is the release right after the last one without the name,
``before`` the first release looked at that lacks it.
"""

from __future__ import annotations

import re
from enum import StrEnum

import msgspec

from router_contract.endpoints import EventsPath, ViewPath
from router_contract.signals import Kind
from router_contract.targets import Component


class Absence(StrEnum):
    """What it means that a term's samples are not in a body that was read whole."""

    ABSENT = "absent"
    """The program does not say; nothing may be concluded."""
    NOT_YET = "not-yet"
    """Created at its first use (label vectors): absent means not incremented, provided a ``paired`` signal was read."""


class Matcher(msgspec.Struct, frozen=True, gc=False):
    """A label that must have (``values``) or must not have (``negate``) one of these values. A missing label is ``""``."""

    label: str
    values: tuple[str, ...]
    negate: bool = False

    def accepts(self, value: str) -> bool:
        """Whether a label value (``""`` when the label is missing) passes."""
        return (value in self.values) is not self.negate


class Labels(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a program's labels mean for combination. Each field lists wire label names.

    ``model`` keeps models apart. ``rank`` values add up (or weigh): each is another engine with its own requests.
    ``copy`` values repeat one number (tensor and pipeline ranks): they fold to one. ``process`` values are partial
    writers of one number (``pid``): the largest counts. Any other label is folded by the signal's rule unless a term
    keeps it. A label that a sample does not carry reads as ``""``.
    """

    model: tuple[str, ...] = ()
    rank: tuple[str, ...] = ()
    copy: tuple[str, ...] = ()
    process: tuple[str, ...] = ()


class Term(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One row of a table.

    ``name`` is the sample name on the wire (for a histogram or summary, without ``_bucket``, ``_sum``, ``_count``).
    ``kind`` is the wire type where it differs from the signal's (a gauge until some version). ``keep`` maps our label
    to the wire label that is kept apart, as ``(("reason", "finished_reason"),)``. ``match`` filters samples.
    ``scale`` multiplies the wire value into the signal's unit. ``since`` is the first version that has it, ``before``
    the first that no longer has it; ``None`` is open. Where several terms of one signal hold and are present, the
    lowest ``preference`` is used and the others are not added; a term is present when a sample passes its ``match``.
    ``paired`` names a signal of the same body whose presence turns a `Absence.NOT_YET` absence into "not incremented
    yet". ``sentinels`` are values that are no measurement (a removed worker's -1): samples with them are left out.
    ``value_label`` names a wire label whose number is the value, in place of the sample's (configuration told as
    labels); a label that is no number gives no value. ``unproven`` says why neither a recording nor a run of the real
    program exercises the row (empty when one does); ``proven_by`` names the test that reads the row from the running
    program where no recording has it.
    """

    signal: str
    name: str
    kind: Kind | None = None
    match: tuple[Matcher, ...] = ()
    keep: tuple[tuple[str, str], ...] = ()
    scale: float = 1.0
    since: str | None = None
    before: str | None = None
    preference: int = 0
    absence: Absence = Absence.ABSENT
    paired: str | None = None
    sentinels: tuple[float, ...] = ()
    value_label: str | None = None
    unproven: str = ""
    proven_by: str = ""


class VersionSource(msgspec.Struct, frozen=True, gc=False):
    """An endpoint of the program's API whose JSON object tells its version: GET ``path``, text at key ``field``."""

    path: str
    field: str


class Vocabulary(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A program's whole table.

    ``name`` is the module's name, ``aliases`` what users and operators call it. ``prefixes`` are the name prefixes
    that belong to this program: a family with such a prefix that `knows` denies is reported as unknown. ``ignored``
    are families, named as on their TYPE line, that we know and do not use. ``version_terms`` are ``(sample name,
    label)`` pairs whose label tells the version, ``version_sources`` the API endpoints that do, best first.

    ``progress`` are signals that only served work moves: they prove progress, and idleness by not moving.
    ``self_moving`` are signals that also move by themselves (health probes, warm-up): they prove that the engine's
    loop runs and say nothing about traffic. ``idle_levels`` are the levels that must all be read and be 0 before an
    engine counts as idle: one that was not read leaves it unknown.
    ``inference_routes`` are the values of a router's ``route`` label that are inference calls; any other value is a
    probe or administration and is shown, not counted as a request.
    ``views`` are the ways to a router's own view, strongest first. ``models_path``, ``health_path`` and
    ``events_paths`` are what an engine's API may be asked; an empty one is never asked (it may generate).
    """

    name: str
    component: Component
    aliases: tuple[str, ...] = ()
    labels: Labels
    terms: tuple[Term, ...]
    prefixes: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    version_terms: tuple[tuple[str, str], ...] = ()
    version_sources: tuple[VersionSource, ...] = ()
    progress: tuple[str, ...] = ()
    self_moving: tuple[str, ...] = ()
    idle_levels: tuple[str, ...] = ()
    inference_routes: tuple[str, ...] = ()
    views: tuple[ViewPath, ...] = ()
    models_path: str = ""
    health_path: str = ""
    events_paths: tuple[EventsPath, ...] = ()

    def select(self, version: str | None) -> tuple[Term, ...]:
        """The terms that can hold for a version.

        With ``None``, or a text that holds no number (``main``), every term can, and presence and preference decide.
        """
        if version is None or not has_version(version):
            return self.terms
        at = parse_version(version)
        return tuple(
            term
            for term in self.terms
            if (term.since is None or at >= parse_version(term.since))
            and (term.before is None or at < parse_version(term.before))
        )

    def claims(self, family: str) -> bool:
        """Whether a family's name belongs to this program by its prefix."""
        return family.startswith(self.prefixes)

    def knows(self, family: str) -> bool:
        """Whether a family is used by a term or ignored on purpose.

        ``family`` is the name on a TYPE line: text expositions keep ``_total`` there, OpenMetrics takes it off, and
        ``_created`` families stand beside counters and histograms; all three forms are known.
        """
        bare = family.removesuffix("_created").removesuffix("_total")
        names = {term.name for term in self.terms} | set(self.ignored)
        return any(name in names for name in (family, bare, f"{bare}_total"))


_NUMBER = re.compile(r"[0-9]+")
_HEAD = re.compile(r"[vV]?[0-9]")
_LONGEST = 9


def has_version(text: str) -> bool:
    """Whether a text starts like a version (``0.5.4``, ``v0.10.0-rc.1``); ``main`` or ``latest`` tell nothing."""
    return _HEAD.match(text) is not None


def parse_version(text: str) -> tuple[int, ...]:
    """The leading dotted numbers of a version, padded to three: ``v0.11.0rc2.dev3+cpu`` is ``(0, 11, 0)``.

    A text without any number gives ``(0, 0, 0)``. Post releases sort with their release, on purpose: no table here
    changes inside one. A number of more than nine digits counts as the largest of nine: programs write any text.
    """
    head = re.split(r"[^0-9.]", text.lstrip("vV"), maxsplit=1)[0]
    digits = [part.lstrip("0") for part in _NUMBER.findall(head)[:3]]
    numbers = [int(part or "0") if len(part) <= _LONGEST else 10**_LONGEST - 1 for part in digits]
    return tuple(numbers + [0] * (3 - len(numbers)))

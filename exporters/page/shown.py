"""How single values look in HTML: numbers, unknowns, ages, states. Everything is escaped here or by the templates.

A value that is not known is a dash that says why, to the mouse, to the keyboard and to a screen reader. Ages are left
empty by these functions and filled by `retime` (and by the script afterwards), so equal facts give equal HTML.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from markupsafe import Markup

from exporters.tables import number, percent, seconds, size
from exporters.timestamps import rfc3339

_TIME = re.compile(r'(<time [^>]*data-at="([0-9.]+)"[^>]*>)[^<]*(</time>)')
FORMATS: dict[str, Callable[[float | None], str]] = {
    "number": number,
    "seconds": seconds,
    "percent": percent,
    "size": size,
    "rate": lambda value: f"{number(value)}/s",
}

_DASH = "\N{EN DASH}"

UNIT_FORMATS = {"seconds": "seconds", "fraction": "percent", "bytes": "size"}
"""Which format a unit of a signal is shown in; any other is a number."""


def unknown(reason: str) -> Markup:
    """A value that is not there, and why."""
    why = reason or "nobody has told"
    return Markup(
        '<span class="unknown" tabindex="0" role="img" aria-label="unknown: {0}" data-tip="{0}">{1}</span>'
    ).format(why, _DASH)


def value(found: float | None, kind: str = "number", reason: str = "", *, stale: bool = False) -> Markup:
    """A number in a format, marked when it is stale; or an unknown with its reason."""
    if found is None or found != found:  # noqa: PLR0124 - NaN is the one number that differs from itself
        return unknown(reason)
    text = FORMATS[kind](found)
    if stale:
        return Markup('<span class="stale">{0}<span class="mark"> stale</span></span>').format(text)
    return Markup("<span>{0}</span>").format(text)


def age(wall: float | None, reason: str = "never read") -> Markup:
    """How long ago a moment was (wall seconds). The text is filled in later.

    A moment made of two clocks wobbles by microseconds; a tenth of a second is exact enough and stands still.
    """
    if wall is None:
        return unknown(reason)
    return Markup('<time datetime="{0}" title="{0}" data-at="{1}"></time>').format(rfc3339(wall), f"{wall:.1f}")


def moment(wall: float | None, reason: str = "not known") -> Markup:
    """A moment as its time of day, with its age beside it."""
    if wall is None:
        return unknown(reason)
    text = rfc3339(wall)
    return Markup('<span class="when">{0}</span> ({1})').format(f"{text[:10]} {text[11:19]} UTC", age(wall))


def ago(elapsed: float) -> str:
    """A time span in words short enough for a table; the script writes the same."""
    span = max(0.0, elapsed)
    if span < 100:
        return f"{span:.0f} s ago"
    return f"{span / 60:.0f} min ago" if span < 6000 else f"{span / 3600:.0f} h ago"


def retime(html: str, now: float) -> str:
    """The same HTML with the text of every age as of ``now`` (wall seconds)."""
    return _TIME.sub(lambda found: f"{found[1]}{ago(now - float(found[2]))}{found[3]}", html)


TONES = {
    "good": {"True", "Ready", "Up", "Eligible", "Fresh", "Verified", "Live", "Confirmed", "Complete", "Passed", "Advance"},
    "bad": {
        "False", "Failing", "NotReady", "Incomplete", "Failed", "Broken", "Unrepaired", "NotConverged", "Unavailable", "Rollback",
    },
    "warn": {
        "Degraded", "Starting", "Retiring", "Replacing", "Unverified", "AwaitingObservation", "Stale", "Partial", "Gap",
        "Replaying", "Shed", "Deleting",
    },
}  # fmt: skip
"""Which states are shown as good, bad or in between; any other (Unknown, Pending …) is neutral."""

SIGNS = {"good": "✔", "bad": "✖", "warn": "▲", "none": "?"}
_QUIET = {"Pending", "NotApplicable", "NotConfigured", "Detached", "Connecting", "Syncing", "Idle", "Hold"}


def tone(state: str) -> str:
    """The tone of a state word."""
    return next((name for name, words in TONES.items() if state in words), "none")


def chip(state: str | None, text: str = "", reason: str = "") -> Markup:
    """A state as a chip: a sign, a word and a colour, so that no meaning hangs on colour alone."""
    if state is None:
        return unknown(reason or "not judged yet")
    quiet = state in _QUIET or text in _QUIET
    kind = "none" if quiet else tone(state)
    sign = "·" if quiet else SIGNS[kind]
    return Markup('<span class="chip {0}" title="{3}"><span aria-hidden="true">{1} </span>{2}</span>').format(
        kind, sign, text or state, reason or text or state
    )


def spark(values: Sequence[float | None], what: str, kind: str = "number") -> Markup:
    """A small line of recent numbers; where nothing is known the line has a gap."""
    known = [found for found in values if found is not None]
    if len(known) < 2:
        return unknown(f"{what}: fewer than two samples yet")
    top = max(known) or 1.0
    step = 100.0 / max(1, len(values) - 1)
    runs: list[list[str]] = [[]]
    for place, found in enumerate(values):
        if found is None:
            runs.append([])
        else:
            runs[-1].append(f"{place * step:.1f},{22 - 20 * found / top:.1f}")
    lines = Markup("").join(
        Markup('<polyline points="{0}"/>').format(" ".join(run if len(run) > 1 else run * 2)) for run in runs if run
    )
    show = FORMATS[kind]
    last = show(values[-1]) if values[-1] is not None else "unknown"
    label = (
        f"{what}, oldest to newest: last {last}, lowest {show(min(known))}, highest {show(top if max(known) else 0.0)}"
    )
    return Markup(
        '<svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label="{0}">{1}</svg>'
    ).format(label, lines)

"""What a platform's document answers and asks beside its conditions: notes, Events, published URLs, the operator's counts."""

from __future__ import annotations

import msgspec


class ReasonFact(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a platform's own document advises for one reason. ``course`` is a word of `Finding.advice`.

    An empty ``condition`` means any, and so does an empty ``phase`` (of the operator). A ``notice`` is told also where
    its condition is True: it holds, and there is something to know about it.
    """

    condition: str
    reason: str
    course: str
    whose: str
    hint: str
    phase: str = ""
    notice: bool = False


class NoteFact(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An answer to what users of a platform ask, about this deployment: its topic and one or two sentences."""

    topic: str
    says: str


class EventFact(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A reason of Events about the target that are read when somebody asks for an explanation, with its advice."""

    reason: str
    course: str
    whose: str
    hint: str


class UrlFact(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A published URL that is asked once when somebody wants an explanation. ``name`` is that of the object that has it."""

    name: str
    url: str
    path: str = ""


class CountsFact(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How many of its own units the operator wants, has and calls ready; ``None`` where it does not say."""

    wanted: int | None = None
    ready: int | None = None
    total: int | None = None


class Look(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One thing that was looked at because an explanation was asked for: an Event, or a published URL.

    ``kind`` is ``Event`` or ``URL``; ``reason`` the Event's, or what came of the URL; ``said`` are its words. ``at`` is
    when it happened last (Events) or was asked (URLs), in wall seconds, ``None`` when nobody says. A ``reason`` of
    ``NotObserved`` means that nobody could look.
    """

    kind: str
    name: str
    reason: str
    said: str = ""
    advice: str = ""
    whose: str = ""
    hint: str = ""
    at: float | None = None

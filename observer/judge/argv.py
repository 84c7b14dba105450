"""Reading a command line by the rules of Python's argparse, which both engines use, without running either engine.

Only registered options are recognised; everything else passes through untouched. What the parser would do depends in
a few places on the Python version; such an occurrence is marked, and the caller decides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec


class Option(msgspec.Struct, frozen=True):
    """One registered option: where it goes, its spellings, and whether it takes a value.

    ``abbreviations`` are single-dash prefixes that resolve to it. ``negatable`` registers ``--no-<long>`` as well.
    ``minimum`` makes it an integer option.
    """

    dest: str
    spellings: tuple[str, ...]
    takes_value: bool = True
    minimum: int | None = None
    abbreviations: tuple[str, ...] = ()
    negatable: bool = False

    def long_spellings(self) -> tuple[str, ...]:
        """Long spellings, negated ones included."""
        long = tuple(text for text in self.spellings if text.startswith("--"))
        return (*long, *(f"--no-{text[2:]}" for text in long)) if self.negatable else long


class Occurrence(msgspec.Struct, frozen=True, kw_only=True):
    """One time an option was written: ``flag`` as written, ``value`` as text or ``None`` when there is none.

    ``doubtful`` says that Python versions differ in how they read it. ``negated`` is the ``--no-`` form.
    """

    option: Option
    flag: str
    value: str | None = None
    negated: bool = False
    doubtful: bool = False
    inline: bool = False


_NEGATIVE_NUMBER = re.compile(r"^-\d+$|^-\d*\.\d+$")
_INTEGER = re.compile(r"^[+-]?\d+(_\d+)*$", re.ASCII)
INT32_MAX = 2**31 - 1


def parse_integer(text: str) -> int | None:
    """An integer as ``int()`` reads it: outer spaces, one sign, single inner underscores; ``None`` when it is not one."""
    stripped = text.strip()
    return int(stripped.replace("_", "")) if _INTEGER.match(stripped) and len(stripped) <= 64 else None


def read_options(
    arguments: Sequence[str], options: Sequence[Option], *, underscores: bool = False
) -> tuple[Occurrence, ...]:
    """Every occurrence of a registered option, in order; reading stops at a bare ``--``.

    ``underscores`` accepts ``_`` for ``-`` in long options, as vLLM's parser does.
    """
    found: list[Occurrence] = []
    index = 0
    while index < len(arguments):
        word = arguments[index]
        index += 1
        if word == "--":
            break
        occurrence = _recognise(word, options, underscores=underscores)
        if occurrence is None:
            continue
        if occurrence.option.takes_value and not occurrence.inline and not occurrence.doubtful:
            value = arguments[index] if index < len(arguments) and _is_value(arguments[index]) else None
            index += value is not None
            occurrence = msgspec.structs.replace(occurrence, value=value)
        found.append(occurrence)
    return tuple(found)


def _is_value(word: str) -> bool:
    if not word.startswith("-") or word == "-":
        return True
    return word != "--" and (_NEGATIVE_NUMBER.match(word) is not None or " " in word)


def _recognise(word: str, options: Sequence[Option], *, underscores: bool) -> Occurrence | None:
    if len(word) < 2 or not word.startswith("-") or _NEGATIVE_NUMBER.match(word):
        return None
    return _long(word, options, underscores=underscores) if word.startswith("--") else _short(word, options)


def _long(word: str, options: Sequence[Option], *, underscores: bool) -> Occurrence | None:
    name, equals, value = word.partition("=")
    if underscores:
        name = name.replace("_", "-")
    spellings = [(text, option) for option in options for text in option.long_spellings()]
    matches = [pair for pair in spellings if pair[0] == name] or [p for p in spellings if p[0].startswith(name)]
    if len(matches) != 1:
        return None
    text, option = matches[0]
    return Occurrence(
        option=option,
        flag=word.partition("=")[0],
        value=value if equals else None,
        inline=bool(equals),
        negated=text not in option.spellings,
    )


def _short(word: str, options: Sequence[Option]) -> Occurrence | None:
    name, equals, value = word.partition("=")
    for option in options:
        if name in option.spellings:
            return Occurrence(option=option, flag=name, value=value if equals else None, inline=bool(equals))
    for option in options:
        if name in option.abbreviations:
            # newer Pythons split at "=", older ones do not
            return Occurrence(
                option=option, flag=name, value=value if equals else None, inline=bool(equals), doubtful=bool(equals)
            )
    for option in options:
        for letter in (text for text in option.spellings if len(text) == 2):
            if word.startswith(letter) and option.takes_value:
                return Occurrence(option=option, flag=letter, value=word[2:], inline=True)
        for short in option.abbreviations:
            if word.startswith(short) and word[len(short) :][:1].isdigit():
                return Occurrence(option=option, flag=word, value=word[len(short) :], inline=True, doubtful=True)
    return None

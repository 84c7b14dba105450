"""What leaves this process for people who are not its users: texts without anything that looks like or is a secret.

Two ways, because neither suffices: by shape (credentials in URLs, bearer tokens, private keys, fields whose names say
so) and by value (whatever settings and files told us, wherever it turns up again).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

HIDDEN = b"hidden"
SHORTEST = 6
"""Shorter values are left to the shapes: hiding every "1" would hide nothing and spoil everything."""
_SHAPES = (
    (re.compile(rb"(?<=://)[^/\s\"'@?#]*:[^/\s\"'@?#]*(?=@)"), HIDDEN),
    (re.compile(rb"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}"), rb"\1 " + HIDDEN),
    (re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), HIDDEN),
    (
        re.compile(
            rb"(?i)([\"']?\b[\w-]*(?:token|secret|passw(?:or)?d|api[_-]?key|credential)[\w-]*[\"']?[ \t]*[:=][ \t]*)"
            rb"(\"[^\"\n]*\"|'[^'\n]*'|[^\s,;&\"'}{\[\]()<>]+)"
        ),
        rb"\1" + HIDDEN,
    ),
)
_NUMBERS = re.compile(rb"[\"']?(?:[0-9.eE+-]*|null|true|false|None|True|False|)[\"']?")


class Redaction:
    """Hides secrets in bytes and texts. Built from what is known now; cheap to build anew."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {secret for secret in secrets if len(secret) >= SHORTEST}
        ordered = sorted(known, key=len, reverse=True)
        self._known = re.compile(b"|".join(re.escape(each.encode()) for each in ordered)) if ordered else None

    def data(self, data: bytes) -> bytes:
        """The bytes with every secret hidden."""
        if self._known is not None:
            data = self._known.sub(HIDDEN, data)
        for shape, instead in _SHAPES[:-1]:
            data = shape.sub(instead, data)
        named, _ = _SHAPES[-1]
        return named.sub(_hidden_value, data)

    def text(self, text: str) -> str:
        """The text with every secret hidden."""
        return self.data(text.encode("utf-8", "replace")).decode("utf-8", "replace")


def _hidden_value(found: re.Match[bytes]) -> bytes:
    """A named value hidden in its own quotes, so that JSON stays JSON; numbers (`prompt_tokens: 5`) are no secrets."""
    value = found[2]
    if _NUMBERS.fullmatch(value):
        return found[0]
    quote = value[:1] if value[:1] in {b'"', b"'"} else b""
    return found[1] + quote + HIDDEN + quote


_NAME = re.compile(r"TOKEN|SECRET|PASSW|KEY|CREDENTIAL", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Whether an environment variable's name says that its value is a secret."""
    return _NAME.search(name) is not None


def without_secrets(value: Any) -> Any:
    """Plain values (of settings or deployments) with every value hidden that stands where secrets stand."""
    if isinstance(value, dict):
        return {name: _of_name(name, each) for name, each in value.items()}
    return [without_secrets(each) for each in value] if isinstance(value, list | tuple) else value


def _of_name(name: str, value: Any) -> Any:
    hidden = HIDDEN.decode()
    if name == "headers" and isinstance(value, dict):
        return dict.fromkeys(value, hidden)
    if name == "headers" and isinstance(value, list | tuple):
        return [(header, hidden) for header, _ in value]
    if name == "environment" and isinstance(value, list | tuple):
        return [(variable, hidden if is_secret_name(variable) else text) for variable, text in value]
    return without_secrets(value)

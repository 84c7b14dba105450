"""What others wrote, on a terminal: names and messages are shown and never obeyed."""

from __future__ import annotations

import pytest
from rich.table import Table
from rich.text import Text

from exporters.live import console
from exporters.printable import printable

HOSTILE = {
    "clears the screen": "\x1b[2J",
    "names the window": "\x1b]0;root\x07",
    "one byte for two": "\x9b2J",
    "goes back over the line": "well\rbad",
    "deletes": "a\x08\x7f",
    "turns the direction around": "\u202egnp.exe\u2066",
    "no character": "a\x00b",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_terminal_obeys_nothing_of_others(
    text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    table = Table(box=None)
    table.add_column(text)
    table.add_row(Text(text, "red"))
    target = console()
    target.print(text)
    target.print(Text(f"well {text}"))
    target.print(table)
    shown = capsys.readouterr().out
    assert "\x1b[31m" in shown, "our own colours are sent"
    rest = shown
    for ours in ("\x1b[31m", "\x1b[0m", "\x1b[1m"):
        rest = rest.replace(ours, "")
    assert printable(rest) == rest


@pytest.mark.parametrize("text", ["a\tb\nc", "Ünïcode \U0001f600", "", "-"])
def test_texts_are_as_they_are(text: str) -> None:
    assert printable(text) == text

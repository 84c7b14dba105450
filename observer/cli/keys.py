"""Single keys from a terminal, without a thread: the caller waits for one with a time limit."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from types import TracebackType
from typing import Self

ESCAPE, ENTER, BACK, INTERRUPT = "\x1b", "\n", "\x7f", "\x03"


class Keys:
    """A context in which a terminal gives keys as they are pressed. Without a terminal nothing is ever pressed."""

    def __init__(self) -> None:
        self._file = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else -1
        self._before: list[object] = []

    def __enter__(self) -> Self:
        if self._file >= 0:
            self._before = termios.tcgetattr(self._file)
            tty.setcbreak(self._file)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file >= 0:
            termios.tcsetattr(self._file, termios.TCSADRAIN, self._before)  # type: ignore[arg-type]  # as it was given

    def wait(self, seconds: float) -> str:
        """The keys pressed within some seconds: several when they came at once, none when the time is over."""
        ready, _, _ = select.select([self._file] if self._file >= 0 else [], [], [], seconds)
        if not ready:
            return ""
        data = os.read(self._file, 64)
        return data.decode(errors="replace").replace("\r", ENTER)

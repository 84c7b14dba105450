"""Exit codes, and how an expected failure ends a command."""

from __future__ import annotations

from enum import IntEnum

import click

from exporters.printable import printable


class Exit(IntEnum):
    """What a command exits with. Part of the interface: scripts depend on it."""

    OK = 0
    FAILED = 1
    """The answer is a failure: not found, unavailable, faults in a file, a body that cannot be read."""
    USAGE = 2
    """The command line itself is wrong."""
    UNREACHABLE = 3
    """No observer answered at the server's address."""
    INTERRUPTED = 130
    """Stopped with Ctrl-C."""


EPILOG = (
    "Exit codes: 0 well; 1 the answer is a failure (not found, unavailable, faults found, unreadable); "
    "2 wrong command line; 3 no observer answers at the server's address; 130 interrupted."
)


class CommandFailed(click.ClickException):
    """Ends a command with a sentence on standard error and one of our exit codes."""

    def __init__(self, message: str, code: Exit = Exit.FAILED, *, status: int | None = None) -> None:
        """``status`` is the HTTP status behind it, where there was one."""
        super().__init__(printable(message))
        self.code = code
        self.status = status

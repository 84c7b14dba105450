"""The group of all verbs and the entry point."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

import click

from observer.cli.canary import canary
from observer.cli.exits import EPILOG, CommandFailed, Exit
from observer.cli.kv import kv
from observer.cli.read import read
from observer.cli.run import check, demo, record, replay, serve
from observer.cli.show import get, metrics, targets
from observer.cli.status import contract, explain, status


@click.group(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(version("modeldeployment-observer"), prog_name="observer")
def observer() -> None:
    """Watches LLM routers and engines and says, with evidence, what really serves. Unknown is a value.

    `observer demo` needs nothing else. `observer serve --config FILE` watches your own targets; `get`, `status`,
    `explain`, `contract`, `metrics` and `targets` ask a running observer.
    """


for verb in (demo, serve, check, get, status, explain, contract, metrics, targets, kv, canary, record, replay, read):
    observer.add_command(verb)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line (this process's by default); the exit code."""
    try:
        answer = observer.main(
            args=None if arguments is None else list(arguments), prog_name="observer", standalone_mode=False
        )
    except click.exceptions.Abort:
        return int(Exit.INTERRUPTED)
    except click.ClickException as error:
        error.show()
        return int(error.code if isinstance(error, CommandFailed) else error.exit_code)
    return answer if isinstance(answer, int) else int(Exit.OK)

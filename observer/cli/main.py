"""The group of all verbs and the entry point."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

import click

from observer.cli.bundle import bundle
from observer.cli.canary import canary
from observer.cli.completion import completion
from observer.cli.doctor import doctor
from observer.cli.exits import EPILOG, CommandFailed, Exit
from observer.cli.kv import kv
from observer.cli.limits import limits
from observer.cli.read import read
from observer.cli.run import check, demo, record, replay, serve
from observer.cli.show import get, metrics, targets
from observer.cli.status import contract, explain, status
from observer.cli.top import top


@click.group(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(version("modeldeployment-observer"), prog_name="observer")
def observer() -> None:
    """Watches LLM routers and engines and says, with evidence, what really serves. Unknown is a value.

    `observer demo` needs nothing else. `observer serve --config FILE` watches your own targets; `get`, `status`,
    `explain`, `contract`, `metrics` and `targets` ask a running observer.
    """


SHORT_HELP = {
    "demo": "Start a simulated fleet and watch it: a live table.",
    "serve": "Watch the targets that files name; answer over HTTP.",
    "check": "Say every fault of settings and fleet files, by line.",
    "get": "List deployments: ready replicas, load, latency.",
    "top": "Watch load, rates and freshness, live and sortable.",
    "status": "Show what is concluded: phase, roles, conditions.",
    "explain": "Say what holds, why, and what to do.",
    "contract": "Compare the router's contract with what is there.",
    "metrics": "Show a metrics document, and all that is missing.",
    "targets": "List what is read, and how the last read went.",
    "limits": "Show how near each of the observer's limits is.",
    "doctor": "Say why a target is silent, and what to change.",
    "kv": "KV-event streams: who holds which blocks.",
    "canary": "Canary analyses: verdict, decision and why.",
    "bundle": "Write a redacted recording for whoever helps.",
    "record": "Watch as `serve` does and keep all that is read.",
    "replay": "Judge a recording again, offline.",
    "read": "Read one exposition file as canonical signals.",
    "completion": "Print a shell's completion script.",
}
"""What the list of verbs says of each, in one line of a terminal of 80 columns."""

for verb in (
    demo,
    serve,
    check,
    get,
    top,
    status,
    explain,
    contract,
    metrics,
    targets,
    limits,
    doctor,
    kv,
    canary,
    bundle,
    record,
    replay,
    read,
    completion,
):
    verb.short_help = SHORT_HELP[verb.name or ""]
    observer.add_command(verb)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line (this process's by default); the exit code."""
    return run(observer, "observer", arguments)


def run(group: click.Group, name: str, arguments: Sequence[str] | None) -> int:
    """Run a command line of one of our programs; the exit code."""
    try:
        answer = group.main(args=None if arguments is None else list(arguments), prog_name=name, standalone_mode=False)
    except click.exceptions.Abort:
        return int(Exit.INTERRUPTED)
    except click.ClickException as error:
        error.show()
        return int(error.code if isinstance(error, CommandFailed) else error.exit_code)
    return answer if isinstance(answer, int) else int(Exit.OK)

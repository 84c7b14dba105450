"""The plugin of kubectl: the observer's own verbs, asked through kubectl's kubeconfig."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from importlib.metadata import version

import click

from observer.cli.exits import EPILOG
from observer.cli.kubectl import Kubectl
from observer.cli.main import observer, run

VERBS = ("get", "top", "status", "explain", "contract", "metrics", "targets", "doctor", "kv", "canary")
"""Those of `observer` that make sense beside kubectl."""


def _option(name: str, field: str, text: str) -> click.Option:
    def keep(context: click.Context, _: click.Parameter, value: str | None) -> None:
        if value is not None:
            setattr(context.ensure_object(Kubectl), field, value)

    return click.Option([name], expose_value=False, callback=keep, is_eager=True, help=text)


def _options() -> list[click.Parameter]:
    return [
        _option("--context", "context", "The kubeconfig's context; its current one when not given."),
        _option("--kubeconfig", "kubeconfig", "The kubeconfig; kubectl's own choice when not given."),
        _option(
            "--observer",
            "observer",
            "NAMESPACE/SERVICE[:PORT] of the observer, to ask its Service and not the aggregated API.",
        ),
    ]


def _through_kubectl(command: click.Command) -> click.Command:
    """A verb of `observer` (with its own verbs, if it has some) that takes kubectl's options too."""
    found = copy.copy(command)
    if isinstance(found, click.Group):
        found.commands = {name: _through_kubectl(each) for name, each in found.commands.items()}
        return found
    found.params = [*command.params, *_options()]
    for parameter in found.params:
        if isinstance(parameter, click.Option) and parameter.name in {"server", "namespace"}:
            place = found.params.index(parameter)
            found.params[place] = plain = copy.copy(parameter)
            plain.show_default = False
            plain.help = (
                "The observer's address, to ask it directly."
                if parameter.name == "server"
                else "The deployments' namespace; that of the context when not given."
            )
    return found


@click.group(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(version("modeldeployment-observer"), prog_name="kubectl modeldeployment")
@click.pass_context
def plugin(context: click.Context) -> None:
    """What an LLM deployment really serves, asked of the observer in the cluster.

    The observer is found through kubectl: by the aggregated API metrics.modeldeployment.io where it is there, else
    through the observer's Service; `--server` names one directly.
    """
    context.call_on_close(context.ensure_object(Kubectl).closing.close)


for _name in VERBS:
    if _name in observer.commands:
        plugin.add_command(_through_kubectl(observer.commands[_name]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line (this process's by default); the exit code."""
    return run(plugin, "kubectl modeldeployment", arguments)


if __name__ == "__main__":
    raise SystemExit(main())

"""The verb ``completion``: the script that lets a shell complete our verbs, options and choices."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from observer.cli.exits import EPILOG

INSTALL = {
    "bash": "observer completion bash > ~/.local/share/bash-completion/completions/observer",
    "zsh": "observer completion zsh > ~/.zfunc/_observer  # with fpath+=(~/.zfunc) before compinit in ~/.zshrc",
    "fish": "observer completion fish > ~/.config/fish/completions/observer.fish",
}
"""How each shell takes the script for good."""


@click.command(epilog=EPILOG)
@click.argument("shell", type=click.Choice(sorted(INSTALL)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of SHELL. Its first line says how to install it."""
    root = context.find_root()
    name = root.info_name or "observer"
    made = get_completion_class(shell)
    if made is None:  # pragma: no cover - the choices are those that click knows
        raise click.UsageError(f"no completion for {shell}")
    # The variable must be named as click derives it from the program's name.
    variable = f"_{name}_COMPLETE".replace("-", "_").replace(" ", "_").upper()
    source = made(root.command, {}, name, variable).source()
    header = f"#compdef {name}\n" if shell == "zsh" else ""
    body = source.removeprefix(f"#compdef {name}").lstrip("\n")
    click.echo(f"{header}# install: {INSTALL[shell].replace('observer', name)}\n{body}")

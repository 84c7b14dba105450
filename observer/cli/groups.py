"""Verbs that take a name or a command of their own."""

from __future__ import annotations

import click


class NameOrCommand(click.Group):
    """A group whose first word may be a name: any word that is no command of it goes to its command ``show``."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of the first word, or ``show`` with that word as its name."""
        if args and args[0] not in self.commands:
            return "show", self.commands["show"], args
        return super().resolve_command(ctx, args)

"""The verbs that say what judging concluded: ``status``, ``explain`` and ``contract``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from rich.console import RenderableType

from exporters import status_tables
from observer.cli.exits import EPILOG
from observer.cli.output import Draw, grouped, show
from observer.cli.show import Asked, asking


def _ask(asked: Asked, name: str, part: str, query: dict[str, str] | None = None) -> Callable[[], Any]:
    path = f"/api/v1/namespaces/{asked.namespace}/modeldeployments/{name}/{part}"
    return lambda: asked.get(path, query)


@click.command(epilog=EPILOG)
@click.argument("name")
@asking(all_namespaces=False)
def status(asked: Asked, name: str) -> None:
    """Show what is concluded about a deployment: phase, roles, conditions, groups, and what its routers see.

    A dash is not known and never zero. `-o wide` adds what cannot be observed and the drain answers.
    """

    def draw(answer: Any, wide: bool, width: int | None) -> RenderableType:
        return grouped([*status_tables.status(answer, wide=wide, width=width)])

    show(_ask(asked, name, "status"), asked.form, draw, asked.watch)


@click.command(epilog=EPILOG)
@click.argument("name")
@click.option("--history", is_flag=True, help="Also show what changed last, newest first.")
@asking(all_namespaces=False)
def explain(asked: Asked, name: str, history: bool) -> None:
    """Explain a deployment: in three sentences what holds, why, and what to do; then what else is wrong or not known."""

    def draw(answer: Any, _: bool, width: int | None) -> RenderableType:
        return grouped([*status_tables.explanation(answer, width=width)])

    show(_ask(asked, name, "explain", {"history": "true"} if history else {}), asked.form, draw, asked.watch)


@click.command(epilog=EPILOG)
@click.argument("name")
@asking(all_namespaces=False)
def contract(asked: Asked, name: str) -> None:
    """Compare the contract that a deployment's router was rendered from with what is there."""
    draw: Draw = _contract
    show(_ask(asked, name, "contract"), asked.form, draw, asked.watch)


def _contract(answer: Any, _: bool, width: int | None) -> RenderableType:
    return grouped([*status_tables.contract(answer, width=width)])

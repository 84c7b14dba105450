"""The verbs that ask a running observer: ``get``, ``metrics`` and ``targets``."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import click
from click.core import ParameterSource
from rich.console import RenderableType
from rich.text import Text

from exporters import tables
from observer.cli.client import DEFAULT_SERVER, Asks, Client, Finder
from observer.cli.exits import EPILOG, CommandFailed, Exit
from observer.cli.output import Format, grouped, show, tell

P = ParamSpec("P")

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_NAMED = re.compile(r"/api/v1/namespaces/([^/]+)/modeldeployments/([^/]+)/")
PAGE = "1000"
"""How many targets are asked for at once."""


class Asked:
    """What every asking verb was told: the client, the namespace (``None`` for all), the format, the watch period."""

    def __init__(self, client: Asks, namespace: str | None, form: Format, watch: float | None) -> None:
        self.client, self.namespace, self.form, self.watch = client, namespace, form, watch

    def get(self, path: str, query: dict[str, str] | None = None) -> Any:
        """The JSON at a path of the observer. A name that is not there is told with those that are like it."""
        try:
            return self.client.get(path, query, waiting=tell)
        except CommandFailed as failed:
            found = _NAMED.match(path)
            if failed.status != 404 or found is None or "is observed" not in failed.message:
                raise
            hint = like(found[2], self.namespace, self.client.get("/api/v1/deployments", waiting=tell)["items"])
            raise CommandFailed(f"{failed.message}. {hint}", failed.code, status=404) from failed


def asking(*, all_namespaces: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options that asking verbs share; the verb gets them as one `Asked`, first."""

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        @click.option("--server", envvar="OBSERVER_SERVER", default=DEFAULT_SERVER, show_default=True, show_envvar=True, help="The observer's address.")  # fmt: skip
        @click.option("--token-file", envvar="OBSERVER_TOKEN_FILE", type=click.Path(path_type=Path), show_envvar=True, help="A file with the observer's token.")  # fmt: skip
        @click.option("--timeout", type=click.FloatRange(min=0.1, max=600), default=15.0, show_default=True, metavar="SECONDS", help="How long to wait for an answer.")  # fmt: skip
        @click.option("-n", "--namespace", default="default", show_default=True, help="The deployments' namespace.")
        @click.option("-o", "--output", type=click.Choice([form.value for form in Format]), default=Format.TABLE.value, show_default=True, help="How to print.")  # fmt: skip
        @click.option("-w", "--watch", is_flag=True, help="Ask again and again until Ctrl-C.")
        @click.option("--interval", type=click.FloatRange(min=0.2, max=3600), default=2.0, show_default=True, metavar="SECONDS", help="How often --watch asks.")  # fmt: skip
        @wraps(verb)
        def wrapped(server: str, token_file: Path | None, timeout: float, namespace: str, output: str, watch: bool, interval: float, **rest: Any) -> None:  # fmt: skip
            everywhere = rest.pop("everywhere", False)
            _check_names(NAME=rest.get("name"), **{"--namespace": namespace})
            context = click.get_current_context()
            finder: Finder | None = context.obj
            client: Asks
            if finder is not None and _unsaid(context, "server"):
                client = finder.client(token_file, timeout)
            else:
                address = server if "://" in server else f"http://{server}"
                client = Client(server=address, token_file=token_file, seconds=timeout)
            if finder is not None and not everywhere and _unsaid(context, "namespace"):
                namespace = finder.namespace()
            verb(Asked(client, None if everywhere else namespace, Format(output), interval if watch else None), **rest)

        if all_namespaces:
            option = click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Of every namespace.")
            return option(wrapped)
        return wrapped

    return decorate


def _check_names(**names: str | None) -> None:
    """Names go into paths: what no deployment or namespace can be called is refused here."""
    for what, name in names.items():
        if name is not None and not _NAME.fullmatch(name):
            raise CommandFailed(f"{what} is {name!r}; want a name as `observer get -A` lists it", Exit.USAGE)


def _unsaid(context: click.Context, option: str) -> bool:
    """Whether neither the command line nor the environment says an option."""
    return context.get_parameter_source(option) is ParameterSource.DEFAULT


@click.command(epilog=EPILOG)
@click.argument("name", required=False)
@asking(all_namespaces=True)
def get(asked: Asked, name: str | None) -> None:
    """List deployments: replicas, load, latency, and whether what is known is complete.

    With NAME only that one. `-o wide` adds models, inter-token latency and why something is not complete.
    """

    def ask() -> Any:
        items = asked.get("/api/v1/deployments")["items"]
        mine = [item for item in items if asked.namespace in {None, item["namespace"]}]
        if name is not None:
            mine = [item for item in mine if item["name"] == name]
            if not mine:
                raise CommandFailed(_not_there(name, asked.namespace, items))
        elif not mine and asked.watch is None:
            tell(_none(asked.namespace, items))
        return {"items": mine}

    def draw(answer: Any, wide: bool, width: int | None) -> RenderableType:
        return tables.deployments(answer["items"], wide=wide, width=width, everywhere=asked.namespace is None)

    show(ask, asked.form, draw, asked.watch)


def _not_there(name: str, namespace: str | None, items: list[Any]) -> str:
    others = [f"{item['namespace']}/{item['name']}" for item in items]
    known = ", ".join(others[:10]) or "none at all"
    where = f"in namespace {namespace}" if namespace else "in any namespace"
    return f"no deployment {name} {where}; observed: {known}. {like(name, namespace, items)}"


def like(name: str, namespace: str | None, items: list[Any]) -> str:
    """What may have been meant by a name that is not there: the same one elsewhere, or one that is like it."""
    places = sorted(item["namespace"] for item in items if item["name"] == name)
    if places:
        return f"There is one in {', '.join(places)}: use -n {places[0]}"
    here = {item["name"] for item in items if namespace in {None, item["namespace"]}}
    close = get_close_matches(name, sorted(here), 1, 0.6)
    if close:
        return f"Did you mean {close[0]}?"
    close = get_close_matches(name, sorted({item["name"] for item in items}), 1, 0.6)
    if close:
        place = next(item["namespace"] for item in items if item["name"] == close[0])
        return f"Did you mean {close[0]} in namespace {place} (-n {place})?"
    return "`observer get -A` lists all"


def _none(namespace: str | None, items: list[Any]) -> str:
    places = sorted({item["namespace"] for item in items})
    if namespace is None or not places:
        return "No deployment is observed."
    return f"No deployment in namespace {namespace}; there are some in {', '.join(places)}: use -n or -A."


@click.command(epilog=EPILOG)
@click.argument("name")
@click.option("--fresh", is_flag=True, help="Let the observer read the deployment once more first.")
@asking(all_namespaces=False)
def metrics(asked: Asked, name: str, fresh: bool) -> None:
    """Show a deployment's metrics document: levels, windows, cache hits, and everything that is missing and why."""

    def ask() -> Any:
        path = f"/api/v1/namespaces/{asked.namespace}/modeldeployments/{name}/metrics"
        return asked.get(path, {"fresh": "true"} if fresh else {})

    def draw(answer: Any, wide: bool, width: int | None) -> RenderableType:
        return grouped([*tables.document(answer, wide=wide, width=width)])

    show(ask, asked.form, draw, asked.watch)


@click.command(epilog=EPILOG)
@click.option("--deployment", help="Only of this deployment.")
@click.option("--component", type=click.Choice(["engine", "router", "store"]), help="Only this kind of program.")
@click.option("--state", type=click.Choice(["Pending", "Up", "Failing", "Shed"]), help="Only in this state.")
@asking(all_namespaces=True)
def targets(asked: Asked, deployment: str | None, component: str | None, state: str | None) -> None:
    """List what is read: each target's state, last error, duration, size, samples and when it is due."""
    wanted = {"namespace": asked.namespace, "deployment": deployment, "component": component, "state": state}
    query = {name: value for name, value in wanted.items() if value is not None}

    def ask() -> Any:
        items: list[Any] = []
        token = ""  # nosec B105 - no token
        while True:
            part = asked.get("/api/v1/targets", {**query, "limit": PAGE, **({"continue": token} if token else {})})
            items += part["items"]
            token = part["metadata"].get("continue", "")
            if not token:
                return {
                    "items": sorted(
                        items, key=lambda item: [item[name] for name in ("namespace", "deployment", "pod", "port")]
                    )
                }

    def draw(answer: Any, wide: bool, width: int | None) -> RenderableType:
        if not answer["items"]:
            return Text(_no_target(asked, deployment, component, state))
        return tables.targets(answer["items"], wide=wide, width=width, everywhere=asked.namespace is None)

    show(ask, asked.form, draw, asked.watch)


def _no_target(asked: Asked, *filters: str | None) -> str:
    """That there is none, and where there are some: the filters, or another namespace."""
    if any(filters):
        place = f" in namespace {asked.namespace} (-A asks in all)" if asked.namespace else ""
        return f"No target{place} is as asked: {', '.join(text for text in filters if text)}."
    places = sorted({item["namespace"] for item in asked.get("/api/v1/deployments")["items"]})
    if asked.namespace is None or not places:
        return "No target is observed."
    if asked.namespace in places:
        return f"No target in namespace {asked.namespace}: its deployments have none."
    return f"No target in namespace {asked.namespace}; there are deployments in {', '.join(places)}: use -n or -A."

"""`observer canary`: both sides of each metric, the sentence that holds the step, and doubt where there is doubt."""

from __future__ import annotations

from click.testing import CliRunner

from exporters.canary import CanaryApi
from observer.cli.canary import canary
from tests.cli.serving import served
from tests.exporters.canaries import Source, view


def shown(source: Source, *arguments: str) -> str:
    with served(None, *CanaryApi(source).routes()) as url:
        found = CliRunner().invoke(canary, ["chat-2", "-n", "demo", "--server", url, *arguments])
    assert found.exit_code == 0, found.output
    return found.output


def test_both_sides_and_the_sentence() -> None:
    text = shown(Source(view()), "-o", "wide")
    for word in ("chat/engine", "Passed", "0.002", "0.003", "LTE 0.01", "router", "3/4", "held by its bake"):
        assert word in " ".join(text.split()), (word, text)


def test_what_is_stale_is_unknown() -> None:
    text = shown(Source(view(age=1000.0)))
    assert "unknown" in text
    assert "stale" in text


def test_before_the_first_look() -> None:
    assert "nothing was judged yet" in shown(Source(view(judged=False)))


def test_a_name_that_is_not_there_is_answered_with_those_that_are() -> None:
    with served(None, *CanaryApi(Source(view())).routes()) as url:
        found = CliRunner().invoke(canary, ["chat", "-n", "demo", "--server", url])
    assert found.exit_code == 1
    assert "there is no canary analysis demo/chat; there is demo/chat-2 (engine)" in " ".join(found.output.split())

"""Settings of the aggregated API: what is refused, and what holds when nothing is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from observer.settings import Settings, SettingsError, load_files

HEAD = "apiVersion: observer.modeldeployment.io/v1alpha1\nkind: Settings\n"


def test_it_is_off_unless_asked_for() -> None:
    assert not Settings().aggregated.enabled


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("aggregated: {certFile: /a}", "`certFile` alone"),
        ("aggregated: {keyFile: /a}", "`keyFile` alone"),
        ('aggregated: {listen: "10250"}', "host:port"),
        ("aggregated: {secret: Not_a_name}", "a name of lower-case letters"),
        ("aggregated: {drainGrace: 1h}", "drainGrace"),
    ],
)
def test_a_fault_is_named(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(HEAD + text + "\n")
    with pytest.raises(SettingsError) as failed:
        load_files([file])
    assert words in str(failed.value)


def test_both_files_together_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(HEAD + "aggregated: {enabled: true, certFile: /a, keyFile: /b, audiences: [api]}\n")
    found = load_files([file]).settings.aggregated
    assert (found.cert_file, found.key_file, found.audiences) == ("/a", "/b", ("api",))

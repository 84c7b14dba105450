"""Settings of Leases: times under which two could write at once are refused, each by its words."""

from __future__ import annotations

from pathlib import Path

import pytest

from observer.settings import SettingsError, load_files

HEAD = "apiVersion: observer.modeldeployment.io/v1alpha1\nkind: Settings\nkubernetes:\n  lease: "


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{deadline: 15s}", "duration > deadline > 1.2 x retry"),
        ("{duration: 8s}", "duration > deadline > 1.2 x retry"),
        ("{retry: 9s}", "duration > deadline > 1.2 x retry"),
        ("{duration: 15500ms}", "whole seconds"),
        ("{name: No_Name}", "a name of lower-case letters"),
    ],
)
def test_a_fault_is_named(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(HEAD + text + "\n")
    with pytest.raises(SettingsError) as failed:
        load_files([file])
    assert words in str(failed.value)
    assert "kubernetes.lease" in str(failed.value)


def test_times_that_fit_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(HEAD + "{name: mine, duration: 6s, deadline: 4s, retry: 1s}\n")
    found = load_files([file]).settings.kubernetes.lease
    assert (found.name, found.timing.duration, found.timing.deadline, found.timing.retry) == ("mine", 6.0, 4.0, 1.0)

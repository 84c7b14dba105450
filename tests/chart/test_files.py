"""What the chart keeps of other parts is what those parts say now."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from observer.settings import describe

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import chart_files  # noqa: E402 - a script, found only now


def paths(schema: dict[str, Any], prefix: str = "") -> dict[str, dict[str, Any]]:
    """Every key path of a schema, lists of mappings as ``name[]``, as `describe` writes them."""
    found: dict[str, dict[str, Any]] = {}
    for name, value in schema.get("properties", {}).items():
        path, inner = f"{prefix}{name}", value
        if value.get("type") == "array" or "array" in value.get("type", ()):
            path, inner = f"{path}[]", value["items"]
        found[path] = value
        found |= paths(inner, f"{path}.")
    return found


def settings_schema() -> dict[str, Any]:
    committed = json.loads((chart_files.CHART / "values.schema.json").read_text("utf-8"))
    return dict(committed["properties"]["settings"])


def test_making_the_files_anew_gives_no_difference() -> None:
    assert chart_files.differing() == [], "run: python scripts/chart_files.py"


def test_a_file_that_is_changed_or_missing_is_found(tmp_path: Path) -> None:
    for name, text in chart_files.texts().items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    assert chart_files.differing(tmp_path) == []
    (tmp_path / "values.schema.json").write_text("{}", "utf-8")
    (tmp_path / "files" / "platforms.json").unlink()
    assert chart_files.differing(tmp_path) == ["files/platforms.json", "values.schema.json"]


def test_the_schema_has_every_key_of_settings_and_no_other() -> None:
    """Counted from `describe`, which users read, and not from what the schema is made of."""
    wanted = {row.path.removeprefix("Settings."): row for row in describe() if row.path.startswith("Settings.")}
    found = paths(settings_schema())
    assert set(found) == set(wanted)
    for path, row in wanted.items():
        if path in {"apiVersion", "kind"}:
            continue
        assert found[path]["description"] == row.meaning, path
        if row.default not in {"", "required"} and not row.path.endswith("[]"):
            shown = found[path]["default"]
            assert (str(shown).lower() if isinstance(shown, bool) else str(shown)) == row.default, path


def test_every_mapping_of_the_schema_refuses_keys_it_does_not_know() -> None:
    committed = json.loads((chart_files.CHART / "values.schema.json").read_text("utf-8"))
    open_ones = {
        path
        for path, value in paths(committed).items()
        if value.get("type") == "object" and "properties" in value and value.get("additionalProperties") is not False
    }
    assert open_ones == set()


@pytest.mark.parametrize("form", sorted(chart_files.PATTERNS))
def test_a_written_form_of_the_schema_takes_the_defaults_of_settings(form: str) -> None:
    rows = [row for row in describe() if row.type == form and row.default not in {"", "required"}]
    for row in rows:
        assert re.search(chart_files.PATTERNS[form], row.default), row
    assert not re.search(chart_files.PATTERNS[form], "nothing at all")


def test_the_roles_name_what_the_platforms_read() -> None:
    made = json.loads((chart_files.CHART / "files" / "platforms.json").read_text("utf-8"))
    kinds = {(kind["group"], kind["plural"]) for kind in made["gpustack"]}
    assert {("worker.gpustack.ai", "modeldeployments"), ("kueue.x-k8s.io", "workloads")} <= kinds
    assert next(kind["name"] for kind in made["gpustack"]) == "target"


def test_the_chart_s_version_of_the_program_is_the_program_s() -> None:
    chart = YAML(typ="safe").load((chart_files.CHART / "Chart.yaml").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert chart["appVersion"] == project["version"]

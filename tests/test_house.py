"""The rules of the house that no linter checks: what the wheel holds, who reads clocks, who catches everything."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("router_contract", "observer", "exporters", "dashboards")
CLOCKS = {"time", "monotonic", "perf_counter", "process_time", "time_ns", "monotonic_ns", "now", "utcnow", "today"}


def sources() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def calls(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
        ):
            yield node.lineno, f"{node.func.value.id}.{node.func.attr}"


def test_the_wheel_holds_the_four_packages_and_nothing_else(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/", 1)[0] for name in archive.namelist()}
        held = set(archive.namelist())
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)
    on_disk = {str(path.relative_to(ROOT)) for path in sources()}
    on_disk |= {
        str(path.relative_to(ROOT)) for kind in ("json", "yaml") for path in ROOT.glob(f"dashboards/*/*.{kind}")
    }
    assert on_disk <= held, f"sources missing from the wheel: {sorted(on_disk - held)}"


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_keeps_the_rules(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    name = str(path.relative_to(ROOT))
    faults: list[str] = []
    if not ast.get_docstring(tree):
        faults.append("no module docstring")
    if text.count("\n") + 1 > 350:
        faults.append(f"{text.count(chr(10)) + 1} lines, at most 350")
    faults.extend(
        f"line {line}: {call} reads a clock; only observer/clock.py may"
        for line, call in calls(tree)
        if name != "observer/clock.py"
        and call.split(".")[0] in {"time", "datetime", "date", "dt"}
        and call.split(".")[1] in CLOCKS
    )
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > 70:
                faults.append(f"line {node.lineno}: {node.name} has {length} lines, at most 70")
        if isinstance(node, ast.ExceptHandler) and name != "observer/supervise.py":
            broad = node.type is None or (
                isinstance(node.type, ast.Name) and node.type.id in {"Exception", "BaseException"}
            )
            if broad:
                faults.append(f"line {node.lineno}: broad except; only observer/supervise.py may")
        if isinstance(node, ast.Global):
            faults.append(f"line {node.lineno}: global statement")
    if not name.startswith(
        ("router_contract/engines", "router_contract/routers", "router_contract/stores", "observer/simulate")
    ):
        match = re.search(r"\b(vllm:|sglang:|smg_|sgl_router_|llm_d_epp_|vllm_router_)[a-z_]+", text)
        if match:
            faults.append(f"metric name {match.group(0)} outside the tables")
    if re.search(r"\b(TODO|FIXME|XXX|NotImplementedError)\b", text):
        faults.append("unfinished work is marked in the source")
    assert not faults, f"{name}: " + "; ".join(faults)


def test_ignored_lint_rules_and_type_errors_name_a_code_and_a_reason() -> None:
    faults = []
    for path in [*sources(), *sorted((ROOT / "tests").rglob("*.py"))]:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found = re.search(r"#\s*(noqa|type:\s*ignore)(.*)$", line)
            if (
                found
                and path.name != "test_house.py"
                and not re.match(r"^(: [A-Z0-9, ]+|\[[a-z, -]+\])\s*#?\s*\S+", found.group(2))
            ):
                faults.append(f"{path.relative_to(ROOT)}:{number}")
    assert not faults, f"noqa or type: ignore without a code and a reason: {faults}"


def test_the_locks_hold_every_declared_dependency() -> None:
    """A dependency that is declared and not locked breaks the first command of the README on a bare machine."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    run, dev = project["dependencies"], project["optional-dependencies"]["dev"]
    for name, requirements in {"run": run, "dev": [*run, *dev]}.items():
        text = (ROOT / "requirements" / f"{name}.lock").read_text(encoding="utf-8")
        locked = {normal(found) for found in re.findall(r"^([A-Za-z0-9._-]+)==", text, re.MULTILINE)}
        lacking = {normal(re.split(r"[\[<>=!;~ ]", each, maxsplit=1)[0]) for each in requirements} - locked
        assert not lacking, f"{name}.lock lacks {sorted(lacking)}; run make lock"


def normal(name: str) -> str:
    """A distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()

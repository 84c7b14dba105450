"""Following files: only whole and valid versions are taken, and a refused one is visible."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from observer.clock import SystemClock
from observer.discover.watch import FileWatch
from observer.settings import Configuration, SettingsError, load_files

FLEET = "apiVersion: observer.modeldeployment.io/v1alpha1\nkind: Fleet\n"


def fleet(*names: str) -> str:
    return (
        FLEET
        + "deployments:\n"
        + "".join(f"- {{name: {name}, engine: vllm, roles: [{{name: r, desired: 0}}]}}\n" for name in names)
    )


class Applied:
    def __init__(self) -> None:
        self.names: list[list[str]] = []
        self.event = asyncio.Event()

    async def __call__(self, version: Configuration) -> None:
        self.names.append([each.key.name for each in version.deployments])
        self.event.set()


def watch(path: Path, applied: Applied) -> FileWatch[Configuration]:
    return FileWatch([path], load=load_files, invalid=SettingsError, apply=applied, clock=SystemClock(), period=0.01)


async def looks(watching: FileWatch[Configuration], count: int = 2) -> list[bool]:
    return [await watching.poll() for _ in range(count)]


async def test_a_change_is_taken_when_two_looks_agree(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(fleet("a"))
    applied = Applied()
    watching = watch(path, applied)
    assert await looks(watching) == [False, False]
    path.write_text(fleet("a", "b"))
    assert await looks(watching, 3) == [False, True, False]
    assert applied.names == [["a", "b"]]
    assert watching.state.changes == 1


async def test_half_a_written_file_is_never_used(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    whole = fleet("a", "b", "c")
    path.write_text(whole)
    applied = Applied()
    watching = watch(path, applied)
    for cut in range(len(FLEET), len(whole), 7):
        path.write_text(whole[:cut])
        assert await watching.poll() is False
    path.write_text(whole)
    assert await looks(watching) == [False, False]
    assert applied.names == []
    assert watching.state.invalid is None


async def test_an_invalid_version_keeps_the_last_good_one_and_is_visible(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    good = fleet("a")
    path.write_text(good)
    applied = Applied()
    watching = watch(path, applied)
    path.write_text(good + "deploymets: 1\n")
    assert await looks(watching, 4) == [False] * 4
    assert applied.names == []
    assert "deploymets" in (watching.state.invalid or "")
    assert watching.state.invalid_since is not None
    path.unlink()
    await looks(watching)
    assert "no such file" in (watching.state.invalid or "")
    path.write_text(good)
    await looks(watching)
    assert watching.state.invalid is None
    path.write_text(fleet("b"))
    await looks(watching)
    assert applied.names == [["b"]]
    assert watching.state.invalid is None


async def test_a_swapped_link_of_a_mounted_folder_is_seen(tmp_path: Path) -> None:
    for version, name in (("v1", "a"), ("v2", "b")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "f.yaml").write_text(fleet(name))
        os.utime(tmp_path / version / "f.yaml", (1_000_000, 1_000_000))
    (tmp_path / "..data").symlink_to("v1")
    (tmp_path / "f.yaml").symlink_to("..data/f.yaml")
    applied = Applied()
    watching = watch(tmp_path / "f.yaml", applied)
    (tmp_path / "..new").symlink_to("v2")
    (tmp_path / "..new").replace(tmp_path / "..data")
    assert await looks(watching) == [False, True]
    assert applied.names == [["b"]]


async def test_a_file_that_appears_in_a_watched_folder_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(fleet("a"))
    applied = Applied()
    watching = watch(tmp_path, applied)
    (tmp_path / "b.yaml").write_text(fleet("b"))
    assert await looks(watching) == [False, True]
    assert applied.names == [["a", "b"]]


async def test_the_loop_looks_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(fleet("a"))
    applied = Applied()
    watching = watch(path, applied)
    running: Callable[[], None] = asyncio.get_running_loop().create_task(watching.run()).cancel
    path.write_text(fleet("z"))
    async with asyncio.timeout(5):
        await applied.event.wait()
    running()
    assert applied.names == [["z"]]

"""What is no regular file is named and never waited for, alone or in a folder that is followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from observer.discover.watch import fingerprint
from observer.settings import check_files
from observer.yamldoc.faults import Fault
from observer.yamldoc.nodes import MAX_FILE_BYTES, read_bytes


def fifo(folder: Path) -> Path:
    path = folder / "pipe.yaml"
    os.mkfifo(path)
    return path


@pytest.mark.timeout(20)
def test_a_pipe_without_a_writer_is_refused_at_once(tmp_path):
    (fault,) = check_files([fifo(tmp_path)])
    assert (fault.found, fault.wanted) == ("a pipe", "a regular file")


@pytest.mark.timeout(20)
def test_a_pipe_in_a_followed_folder_is_refused_at_once(tmp_path):
    (tmp_path / "good.yaml").write_text("apiVersion: observer.modeldeployment.io/v1alpha1\nkind: Settings\n")
    before = fingerprint([tmp_path])
    fifo(tmp_path)
    (fault,) = check_files([tmp_path])
    assert fault.found == "a pipe"
    assert fingerprint([tmp_path]) != before


def test_a_link_to_a_pipe_is_a_pipe(tmp_path):
    link = tmp_path / "link.yaml"
    link.symlink_to(fifo(tmp_path))
    found = read_bytes(link)
    assert isinstance(found, Fault)
    assert found.found == "a pipe"


@pytest.mark.parametrize(("path", "found"), [("/dev/zero", "a device"), ("/dev", "a folder")])
def test_devices_and_folders_are_no_files(path, found):
    fault = read_bytes(Path(path))
    assert isinstance(fault, Fault)
    assert fault.found == found


def test_a_link_to_a_file_is_read(tmp_path):
    (tmp_path / "real").write_text("a: 1\n")
    link = tmp_path / "link.yaml"
    link.symlink_to(tmp_path / "real")
    assert read_bytes(link) == b"a: 1\n"


def test_no_descriptor_is_left_open(tmp_path):
    path = fifo(tmp_path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        read_bytes(path)
        read_bytes(tmp_path)
        read_bytes(tmp_path / "none")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_followed_file_is_read_to_the_limit_only(tmp_path):
    path = tmp_path / "large.yaml"
    with path.open("wb") as stream:
        stream.truncate(1 << 40)  # sparse: reading all of it would end the process
    assert isinstance(read_bytes(path), Fault)
    assert fingerprint([path])
    assert path.stat().st_size > MAX_FILE_BYTES

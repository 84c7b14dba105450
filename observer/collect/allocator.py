"""Process-wide preparation for many short reads: the C allocator and the limit of open files."""

from __future__ import annotations

import ctypes
import platform
import resource

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def tune_allocator(mmap_threshold: int = 64 << 20, trim_threshold: int = 256 << 20) -> bool:
    """Keep freed body buffers in the process instead of returning them to the kernel after each read (bytes).

    On glibc a 190 kB body is otherwise mapped, faulted in and unmapped at each fetch, the largest single cost of a
    read. Returns whether both settings were taken; elsewhere than on glibc nothing is done.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    libc = ctypes.CDLL(None)
    mmap = libc.mallopt(_M_MMAP_THRESHOLD, ctypes.c_int(mmap_threshold))
    trim = libc.mallopt(_M_TRIM_THRESHOLD, ctypes.c_int(trim_threshold))
    return bool(mmap and trim)


def raise_file_limit() -> int:
    """Raise the soft limit of open files to the hard one and return what holds now: each target holds a connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        hard = max(soft, 1 << 20)
    if soft < hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        except (OSError, ValueError):
            return soft
    return hard

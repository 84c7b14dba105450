"""Build the programs of a real cluster that tests marked `cluster` run: once, into a cache outside the clone.

    python scripts/cluster_tools.py [--jobs N] [etcd|kube|helm ...]

Each small Go module below ``tests/cluster/`` pins its programs as tool dependencies. Its binaries are kept under the
hash of its ``go.mod`` and ``go.sum``, so a changed version is a new folder and an unchanged one is reused. Prints one
line for each step and the folders last. Go is the version of the modules (1.26); a newer one builds a server whose
OpenAPI is broken, so no toolchain is fetched.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

MODULES = Path(__file__).resolve().parent.parent / "tests" / "cluster"
PROGRESS_S = 20.0


@dataclass(frozen=True)
class Module:
    """One Go module: its folder's name and the programs it makes, package by binary name."""

    name: str
    programs: dict[str, str]
    ldflags: str = ""
    go: str = ""
    """The only Go that builds it right, as the beginning of its version; empty for any."""

    @property
    def source(self) -> Path:
        """The folder of ``go.mod``."""
        return MODULES / self.name

    def folder(self) -> Path:
        """Where its binaries are or will be."""
        pins = b"".join((self.source / file).read_bytes() for file in ("go.mod", "go.sum"))
        return cache_root() / f"{self.name}-{hashlib.sha256(pins).hexdigest()[:16]}"

    def ready(self) -> bool:
        """Whether every binary was built."""
        return (self.folder() / ".complete").is_file()


KUBERNETES = "v1.36.3"
_VERSION = "k8s.io/component-base/version."
KNOWN = (
    Module("etcd", {"etcd": "go.etcd.io/etcd/server/v3"}),
    Module(
        "kube",
        {name: f"k8s.io/kubernetes/cmd/{name}" for name in ("kube-apiserver", "kube-controller-manager", "kubectl")},
        ldflags=" ".join(
            # Without these a client sees v0.0.0 and refuses what depends on the server's version.
            f"-X {_VERSION}{key}={value}"
            for key, value in (("gitVersion", KUBERNETES), ("gitMajor", "1"), ("gitMinor", "36"))
        ),
        go="go1.26",
    ),
    Module("helm", {"helm": "helm.sh/helm/v3/cmd/helm"}),
)


def cache_root() -> Path:
    """Where binaries live: ``$XDG_CACHE_HOME/observer/cluster``, below ``~/.cache`` without that variable."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "observer" / "cluster"


def program(name: str) -> Path | None:
    """The path of a program by its binary's name, ``None`` when it was not built. Raises `KeyError` for unknown ones."""
    for module in KNOWN:
        if name in module.programs:
            return module.folder() / name if module.ready() else None
    raise KeyError(name)


def ensure(module: Module, jobs: int) -> Path:
    """The module's folder of binaries, built if need be.

    Raises `FileNotFoundError` without Go, `RuntimeError` with a wrong one, and `subprocess.CalledProcessError` when a
    build fails.
    """
    folder = module.folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if module.ready():
            print(f"{module.name}: present", flush=True)
            return folder
        go = shutil.which("go")
        if go is None:
            raise FileNotFoundError(f"{module.name}: found no go on PATH, wanted Go 1.26")
        version = subprocess.run(
            [go, "env", "GOVERSION"],
            env=os.environ | {"GOTOOLCHAIN": "local"},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout.strip()
        if not version.startswith(module.go):
            raise RuntimeError(f"{module.name}: found {version}, wanted {module.go}")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        begun = time.monotonic()
        environment = os.environ | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
        print(f"{module.name}: downloading modules", flush=True)
        listing = subprocess.run(
            [go, "list", "-deps", *module.programs.values()],
            cwd=module.source, env=environment, check=True, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        total = len(listing.stdout.split())
        print(f"{module.name}: {total} packages listed after {time.monotonic() - begun:.0f} s", flush=True)
        for name, package in module.programs.items():
            flags = ["-v", "-p", str(jobs), "-trimpath", "-ldflags", f"-s -w {module.ldflags}".strip()]
            _build([go, "build", *flags, "-o", str(folder / name), package], module, name, environment, total)
        (folder / ".complete").write_text("\n".join(module.programs) + "\n")
        print(f"{module.name}: built in {time.monotonic() - begun:.0f} s", flush=True)
    return folder


def _build(command: list[str], module: Module, name: str, environment: dict[str, str], total: int) -> None:
    """Run one build and say every `PROGRESS_S` how many packages it compiled; its other words are kept for a failure."""
    begun = spoken = time.monotonic()
    count, other = 0, list[str]()
    with subprocess.Popen(
        command, cwd=module.source, env=environment, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if " " in line.strip() or line.startswith("#"):
                other.append(line)
            else:
                count += 1
            if time.monotonic() - spoken >= PROGRESS_S:
                spoken = time.monotonic()
                print(f"{name}: {count} packages compiled of {total} at most, {spoken - begun:.0f} s", flush=True)
    if process.returncode:
        print("".join(other[-50:]), file=sys.stderr)
        raise subprocess.CalledProcessError(process.returncode, command)
    print(f"{name}: {count} packages compiled and linked in {time.monotonic() - begun:.0f} s", flush=True)


def main() -> None:
    """Build the modules named on the command line, all of them without any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="parallel compilations (default: cores)")
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=", ".join(module.name for module in KNOWN))
    arguments = parser.parse_args()
    unknown = set(arguments.modules) - {module.name for module in KNOWN}
    if unknown:
        parser.error(f"no module {', '.join(sorted(unknown))}; known: {', '.join(module.name for module in KNOWN)}")
    wanted = [module for module in KNOWN if not arguments.modules or module.name in arguments.modules]
    for folder in [ensure(module, arguments.jobs) for module in wanted]:
        print(folder)


if __name__ == "__main__":
    main()

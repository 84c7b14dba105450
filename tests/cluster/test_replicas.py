"""Two replicas need addresses of their own; so their tests run in a network namespace that is made here and ends with them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster

INSIDE = Path(__file__).with_name("inside_replicas.py")
PREPARE = "ip link set lo up && ip addr add 10.200.0.11/32 dev lo && ip addr add 10.200.0.12/32 dev lo && ip addr add 10.200.0.13/32 dev lo"


@pytest.mark.timeout(240)
def test_one_replica_is_drained_another_killed_and_a_third_stands_still(request: pytest.FixtureRequest) -> None:
    inside = [sys.executable, "-m", "pytest", "-s", "-q", "-p", "no:cacheprovider", "--no-cov", str(INSIDE)]
    root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    command = ["unshare", *root, "--net", "sh", "-c", f'{PREPARE} && exec "$@"', "sh", *inside]
    done = subprocess.run(
        command,
        cwd=request.config.rootpath,
        env={**os.environ, "OBSERVER_INSIDE": "1"},
        capture_output=True,
        text=True,
        timeout=230,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-3000:]

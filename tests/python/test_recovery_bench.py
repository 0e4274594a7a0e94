"""bench/recovery.py runs: servers are killed, start again, and have every value. Nothing here looks at a time."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import servers

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SERVER = pathlib.Path(servers.isotherm_binary())
BENCH = SERVER.with_name("isotherm-bench")


def test_killed_servers_have_all_pairs_again(tmp_path):
    if not os.access(BENCH, os.X_OK):
        pytest.skip("isotherm-bench is not built")
    with_redis = shutil.which("redis-server") is not None
    done = subprocess.run([sys.executable, ROOT / "bench/recovery.py", "--server", SERVER, "--bench", BENCH,
                           "--records", "20000", "--redis-records", "5000" if with_redis else "0", "--rounds", "2",
                           "--threads", "2", "--folder", tmp_path], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^isotherm +20,000 pairs, [\d,]+ MiB: [\d.]+, [\d.]+ s; ", done.stdout, re.MULTILINE), done.stdout
    assert not with_redis or re.search(r"^ratio +[\d.]+$", done.stdout, re.MULTILINE), done.stdout
    assert not list(tmp_path.iterdir())

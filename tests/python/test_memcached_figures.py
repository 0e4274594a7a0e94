"""bench/memcached_figures.py runs: servers are started, loaded, and compared. Nothing here looks at a time."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

import servers

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SERVER = pathlib.Path(servers.isotherm_binary())
FAKE_DEVICE = SERVER.with_name("isotherm-server-fake-device")
LOAD = "--keys 200 --clients 3 --threads 2 --window 4 --burst 2 --patience-ms 60000"


def figures(server, *flags):
    """What is printed of each server under one load."""
    if not os.access(SERVER.with_name("memcached_bench"), os.X_OK) or not os.access(server, os.X_OK):
        pytest.skip("memcached_bench or the server is not built")
    done = subprocess.run([sys.executable, ROOT / "bench/memcached_figures.py", SERVER.parent, "--rounds", "1",
                           "--seconds", "0.2", "--server", f"ours={server}", *flags],
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "0 lost"
    lines = re.findall(r"^(\S+) +(\d+) ns a request.*?, ([\d.]+) k/s.*? of (\d+) lost$", done.stdout, re.MULTILINE)
    assert all(int(ns) > 0 and float(rate) > 0 and int(answered) > 0 for _, ns, rate, answered in lines)
    return done.stdout, [name for name, *_ in lines]


def test_reads_by_udp_and_by_meta_commands():
    for load in (LOAD, "--tcp --mg " + LOAD):
        _, names = figures(SERVER, "--load", load)
        assert names in (["ours"], ["ours", "memcached"])


def test_gets_in_packets_are_answered_by_the_device():
    printed, names = figures(FAKE_DEVICE, "--packets", "--load", LOAD)
    assert names[:2] == ["ours", "ours-udp"]
    assert re.findall(r"^(\S+) .* [\d.]+% by the GPU", printed, re.MULTILINE) == ["ours"]


def test_a_server_that_cannot_be_meant_is_named():
    program = SERVER.with_name("memcached_bench")
    if not program.exists():
        pytest.skip("memcached_bench is not built")
    done = subprocess.run([program, "ours=1"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "NAME=PORT:PID:UDP, not ours=1" in done.stderr

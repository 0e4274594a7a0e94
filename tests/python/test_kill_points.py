"""A server that is killed at a named point has, when it starts again, all that it had answered.

The server is the one that breaks rules on demand (src/base/kill_point.h): it ends itself by SIGKILL
when a thread passes the point for the nth time, be it while it starts. Clients write meanwhile, the
journal is written anew and cut behind snapshots, in turn. What was answered is this process's own
record (test_journal.py). Each point is met once; more kills, at random points: ISOTHERM_KILLS=1000.
"""

import os
import random
import shutil
import signal
import subprocess
import time

import pytest
import redis

import servers
from test_journal import Counting, check, folder, start  # noqa: F401: the fixture

KILLS = int(os.environ.get("ISOTHERM_KILLS", "0"))
BINARY = servers.isotherm_binary() + "-broken"
CALLS = {
    "segment": ["open", "allocate", "write", "write.half", "sync", "rename", "remove", "trim"],
    "manifest": ["open", "allocate", "write", "write.half", "sync", "rename"],
    "base": ["copy", "copy.half", "rename", "remove"],
    "snapshot": ["open", "write", "write.half", "sync", "rename"],
    "folder": ["sync"],
    "journal": ["append", "appended", "rewrite", "put_again", "rewritten", "segment", "cut"],
    "moment": ["taken"],
}
POINTS = [f"{kind}.{call}" for kind, calls in CALLS.items() for call in calls]
# Behind the calls of a start, where a start has any.
LATER = {"segment": 12, "manifest": 12, "folder": 20, "journal": 3}


def run_until_killed(folder, point, number, asked, answered, policy):
    """Whether the server was killed; False: it has not met the point in time."""
    os.environ["ISOTHERM_KILL_AT"] = f"{point}:{number}"
    try:
        server = start(folder, "--appendfsync", policy, binary=BINARY)
    except RuntimeError:  # while it started
        return True
    finally:
        del os.environ["ISOTHERM_KILL_AT"]
    clients = []
    try:
        check(server, asked, answered)
        clients = [Counting(i, server.resp_port, asked, answered) for i in range(2)]
        for client in clients:
            client.start()
        admin = redis.Redis(port=server.resp_port)
        deadline = time.monotonic() + servers.LONGEST_SECONDS
        while server.process.poll() is None and time.monotonic() < deadline:
            for command in ("BGSAVE", "BGREWRITEAOF"):
                try:
                    admin.execute_command(command)
                except redis.ResponseError:
                    pass  # one is under way
                await_end(admin, command)
    except (redis.ConnectionError, redis.TimeoutError, OSError):
        pass
    finally:
        killed = wait_for_kill(server)
        server.kill()
        for client in clients:
            client.join()
    return killed


def await_end(admin, command):
    field = {"BGSAVE": "rdb_bgsave_in_progress", "BGREWRITEAOF": "aof_rewrite_in_progress"}[command]
    while admin.info("persistence")[field]:
        time.sleep(0.002)


def wait_for_kill(server):
    try:
        return server.process.wait(timeout=servers.LONGEST_SECONDS) == -signal.SIGKILL
    except subprocess.TimeoutExpired:
        return False


@pytest.mark.skipif(not os.path.exists(BINARY), reason="no build that ends itself")
def test_nothing_answered_is_lost_when_the_server_is_killed_at_a_point(folder):
    asked, answered = {}, {}
    draw = random.Random(KILLS)
    policies = ["always", "everysec", "no"]
    plan = [(point, LATER.get(point.split(".")[0], 1)) for point in POINTS]
    for _ in range(KILLS):
        point = draw.choice(POINTS)
        plan.append((point, draw.randint(1, 2 * LATER.get(point.split(".")[0], 2))))
    for i, (point, number) in enumerate(plan):
        assert run_until_killed(folder, point, number, asked, answered, policies[i % 3]), point
    with start(folder) as server:
        check(server, asked, answered)
    assert sum(answered.values()) > len(plan)


@pytest.mark.skipif(not os.path.exists(BINARY), reason="no build that stands still")
@pytest.mark.parametrize("ends", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_start_that_waits(folder, ends):
    command = [BINARY, "--port", "0", "--memcached-port", "off", "--dir", folder, "--appendonly", "yes"]
    server = servers.Server(command, {**os.environ, "ISOTHERM_HANG_AT": "segment.sync:1"})
    assert servers.soon(lambda: os.path.exists(f"{folder}/appendonly.aof.1.new"))
    server.process.send_signal(ends)
    assert server.process.wait(timeout=servers.LONGEST_SECONDS) == 0
    assert f"ending on signal {ends.value} before the store is filled" in server.output()
    shutil.rmtree(server.folder)


@pytest.mark.skipif(not os.path.exists(BINARY), reason="no build that stands still")
def test_a_second_interrupt_ends_a_server_whose_disk_hangs(folder):
    os.environ["ISOTHERM_HANG_AT"] = "snapshot.sync:1"
    try:
        server = servers.Isotherm("--dir", folder, "--save", "3600 1", binary=BINARY)
    finally:
        del os.environ["ISOTHERM_HANG_AT"]
    server.process.send_signal(signal.SIGINT)
    while "ending on signal" not in server.output():
        time.sleep(0.01)
    # It waits for the snapshot.
    assert server.process.poll() is None
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(timeout=servers.LONGEST_SECONDS) == 1
    server.stopped = True
    shutil.rmtree(server.folder)

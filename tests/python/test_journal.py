"""A server that is killed has, when it starts again, all that it had answered.

The record of what was answered is this process's own: each client counts up its own keys, and
notes a number when its reply has come. What is there after a kill is at least that, and at most
what was asked; keys that are set together agree. The journal is written anew meanwhile. More kills:
ISOTHERM_KILLS=200.
"""

import os
import random
import re
import resource
import shutil
import subprocess
import tempfile
import threading

import pytest
import redis

import servers

KILLS = int(os.environ.get("ISOTHERM_KILLS", "4"))
CLIENTS = 4
KEYS = 8
LONG = 2000  # bytes of a value that come before its number


@pytest.fixture
def folder():
    path = tempfile.mkdtemp(prefix="isotherm-journal-")
    yield path
    shutil.rmtree(path)


def start(folder, *flags, binary=None):
    return servers.Isotherm("--threads", "2", "--appendonly", "yes", "--dir", folder, *flags,
                            binary=binary)


class Counting(threading.Thread):
    """One client: counts up its keys, in pipelines of several commands, until it is cut off."""

    def __init__(self, number, port, asked, answered):
        super().__init__()
        self.random = random.Random(number)
        self.number = number
        self.port = port
        self.asked = asked
        self.answered = answered
        self.pairs = asked.get(f"{number}:left", 0)

    def run(self):
        client = redis.Redis(port=self.port)
        try:
            while True:
                names = [f"{self.number}:{i}" for i in self.random.sample(range(KEYS), 3)]
                pipeline = client.pipeline(transaction=False)
                # Both or none.
                self.pairs += 1
                pair = {f"{self.number}:left": self.pairs, f"{self.number}:right": self.pairs}
                self.asked[f"{self.number}:left"] = self.pairs
                pipeline.mset(pair)
                # In a long value, of which the journal has the part that is new.
                long = f"{self.number}:long"
                self.asked[long] = self.asked.get(long, 0) + 1
                pipeline.setrange(long, LONG, str(self.asked[long]))
                for name in names:
                    self.asked[name] = self.asked.get(name, 0) + 1
                    if self.asked[name] % 5 == 0:
                        pipeline.set(name, self.asked[name], px=10_000_000)
                    else:
                        pipeline.incr(name)
                pipeline.execute()
                for name in [*names, long, f"{self.number}:left"]:
                    self.answered[name] = self.asked[name]
        except (redis.ConnectionError, redis.TimeoutError, OSError):
            pass


@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
def test_nothing_answered_is_lost_when_the_server_is_killed(folder, policy):
    asked, answered = {}, {}
    pause = random.Random(policy)
    for _ in range(KILLS):
        server = start(folder, "--appendfsync", policy)
        try:
            check(server, asked, answered)
            before = sum(answered.values())
            clients = [Counting(i, server.resp_port, asked, answered) for i in range(CLIENTS)]
            for client in clients:
                client.start()
            clients[0].join(pause.uniform(0.02, 0.1))
            redis.Redis(port=server.resp_port).bgrewriteaof()
            clients[0].join(pause.uniform(0, 0.15))
            assert servers.soon(lambda: sum(answered.values()) > before)
        finally:
            server.kill()
        for client in clients:
            client.join()
    with start(folder, "--appendfsync", policy) as server:
        check(server, asked, answered)
    assert sum(answered.values()) > KILLS


def check(server, asked, answered):
    client = redis.Redis(port=server.resp_port)
    for name in asked:
        value = int(client.getrange(name, LONG if name.endswith("long") else 0, -1) or 0)
        assert answered.get(name, 0) <= value <= asked[name], name
        asked[name] = answered[name] = value
        if name.endswith("left"):
            assert int(client.get(name.replace("left", "right")) or 0) == value, name


def test_a_damaged_journal_is_refused_and_left_alone(folder):
    with start(folder) as server:
        client = redis.Redis(port=server.resp_port)
        for i in range(100):
            client.set(f"key{i}", "value")
    path = os.path.join(folder, "appendonly.aof.1")
    with open(path, "r+b") as file:
        file.seek(1000)
        byte = file.read(1)
        file.seek(1000)
        file.write(bytes([byte[0] ^ 4]))
    with open(path, "rb") as file:
        damaged = file.read()
    ended = subprocess.run([servers.isotherm_binary(), "--port", "0", "--memcached-port", "0",
                            "--appendonly", "yes", "--dir", folder],
                           capture_output=True, text=True, timeout=servers.LONGEST_SECONDS, check=False)
    assert ended.returncode == 1
    assert re.search(r"appendonly\.aof\.1 is damaged at byte \d+", ended.stdout + ended.stderr)
    with open(path, "rb") as file:
        assert file.read() == damaged


def test_info_tells_of_the_journal(folder):
    with start(folder) as server:
        client = redis.Redis(port=server.resp_port)
        client.set("key", "value")
        info = client.info("persistence")
        assert info["aof_enabled"] == 1
        assert info["aof_last_write_status"] == "ok"
        assert info["aof_current_size"] >= 80


def sets(client, key):
    """Whether there is memory for it."""
    try:
        return client.set(key, "1")
    except redis.exceptions.OutOfMemoryError:
        return False


def test_under_a_limit_of_addresses_writes_are_refused(folder):
    """ulimit -v: items take half of them, and a change for whose record there is no memory fails."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (700 << 20, limits[1]))
    try:
        server = start(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    value = "v" * 20_000
    with server:
        client = redis.Redis(port=server.resp_port, socket_timeout=servers.LONGEST_SECONDS)
        stored = 0
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            while True:
                pipe = client.pipeline(transaction=False)
                for i in range(100):
                    pipe.set(f"key:{stored + i}", value)
                pipe.execute()
                stored += 100
        assert stored > 5000
        assert client.delete(*[f"key:{i}" for i in range(1000)]) == 1000
        # The records of the deletes go out of memory when they are written.
        assert servers.soon(lambda: sets(client, "last"))
        assert client.dbsize() > stored - 1000

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


def damage(path, at):
    """Flips a bit."""
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 4]))


def refusal(folder, *flags):
    """What a server says that does not start."""
    ended = subprocess.run([servers.isotherm_binary(), "--port", "0", "--memcached-port", "0",
                            "--appendonly", "yes", "--dir", folder, *flags],
                           capture_output=True, text=True, timeout=servers.LONGEST_SECONDS, check=False)
    assert ended.returncode == 1
    return ended.stdout + ended.stderr


def repair(folder):
    """What isotherm-check --repair says, and its exit status."""
    program = os.path.join(os.path.dirname(os.path.abspath(servers.isotherm_binary())), "isotherm-check")
    ran = subprocess.run([program, "--repair", folder], capture_output=True, text=True,
                         timeout=servers.LONGEST_SECONDS, check=False)
    return ran.returncode, ran.stdout


def files_in(folder):
    files = {}
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            with open(path, "rb") as file:
                files[name] = file.read()
    return files


def test_a_damaged_journal_is_refused_and_repaired_when_asked(folder):
    with start(folder, "--appendfsync", "always") as server:
        client = redis.Redis(port=server.resp_port)
        for i in range(100):
            client.set(f"key{i}", "value")
        status, text = repair(folder)
        assert status == 1 and "is locked by another program" in text
    status, text = repair(folder)
    assert status == 0 and "there is no damage, and nothing is changed" in text
    path = os.path.join(folder, "appendonly.aof.1")
    damage(path, 1000)
    before = files_in(folder)
    said = refusal(folder)
    assert re.search(r"appendonly\.aof\.1 is damaged at byte \d+", said)
    assert f"isotherm-check --repair {folder}/appendonly.aof says what can be kept" in said
    assert files_in(folder) == before
    status, text = repair(folder)
    assert status == 0
    # A header of 64 bytes, and blocks of 40 with a record of 56.
    assert f"{path} is damaged at byte 928\n" in text
    assert re.search(r"  appendonly\.aof\.1, from byte 928 on: \d+ bytes; \d\d records of them can be read", text)
    aside = f"{folder}/appendonly.aof.damaged-1"
    assert files_in(aside) == {"appendonly.aof.1": before["appendonly.aof.1"]}
    with start(folder) as server:
        client = redis.Redis(port=server.resp_port)
        kept = client.dbsize()
        assert 0 < kept < 100 and all(client.get(f"key{i}") == b"value" for i in range(kept))
        client.set("later", "value")
    with start(folder) as server:
        assert redis.Redis(port=server.resp_port).dbsize() == kept + 1


def test_the_base_of_a_damaged_journal_stays(folder):
    with start(folder, "--appendfsync", "always") as server:
        client = redis.Redis(port=server.resp_port)
        client.mset({f"key{i}": "value" for i in range(100)})
        client.save()
        for i in range(10):
            client.set(f"later{i}", "value")
    damage(os.path.join(folder, "appendonly.aof.2"), 20)
    assert "is damaged in its header; isotherm-check" in refusal(folder)
    assert repair(folder)[0] == 0
    with start(folder) as server:
        assert redis.Redis(port=server.resp_port).dbsize() == 100
    # Without it nothing is left.
    damage(os.path.join(folder, "appendonly.aof.2.base"), 200)
    before = files_in(folder)
    status, text = repair(folder)
    assert status == 1 and "the journal is nothing without this file" in text
    assert files_in(folder) == before


def test_a_folder_that_is_removed_refuses_writes_and_is_filled_anew_when_it_is_back(folder):
    with start(folder) as server:
        client = redis.Redis(port=server.resp_port)
        for i in range(100):
            client.set(f"key{i}", "value")
        shutil.rmtree(folder)

        def is_refused():
            try:
                client.set("unsafe", "value")
                return False
            except redis.exceptions.ResponseError as error:
                return "MISCONF" in str(error)

        assert servers.soon(is_refused)
        os.mkdir(folder)
        assert servers.soon(lambda: not is_refused())
        assert servers.soon(lambda: not os.path.exists(os.path.join(folder, "appendonly.aof.2"))
                            and os.path.exists(os.path.join(folder, "appendonly.aof.3")))
        client.set("later", "value")
        server.kill()
    with start(folder) as server:
        client = redis.Redis(port=server.resp_port)
        assert client.dbsize() == 102 and client.get("key99") == client.get("later") == b"value"


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

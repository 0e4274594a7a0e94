"""Snapshots: Redis reads ours, and we read Redis's; nothing that was saved is lost to a kill.

A snapshot that is made while clients write is of one moment: each client sets its two keys
together, and counts up its own keys in order, so what a snapshot has of it is what it had behind
one of its commands. More kills: ISOTHERM_KILLS=200.
"""

import contextlib
import os
import random
import re
import shutil
import subprocess
import tempfile
import threading

import pytest
import redis

import servers

FILE = "dump.rdb"
KILLS = int(os.environ.get("ISOTHERM_KILLS", "4"))


@pytest.fixture
def folder():
    path = tempfile.mkdtemp(prefix="isotherm-snapshot-")
    yield path
    shutil.rmtree(path)


def start(folder, *flags):
    return servers.Isotherm("--threads", "2", "--dir", folder, *flags)


def start_redis(folder):
    return servers.Redis("redis-server", "--dir", folder)


def draw_items(random):
    """Strings of all kinds that RDB keeps in a way of its own."""
    texts = ["", "0", "-1", "127", "-129", "32768", "2147483647", "-2147483648", "2147483648",
             "007", "x", "ab" * 5000, "\x00\xff" * 40, "y" * 63, "y" * 64, "y" * 16383,
             "y" * 16384, "".join(chr(random.randrange(1, 256)) for _ in range(1000))]
    return {f"key{i}": text.encode("latin-1") for i, text in enumerate(texts)}


def fill(client, items):
    for number, (key, value) in enumerate(items.items()):
        client.set(key, value, px=10_000_000 + number if number % 2 else None)
    other = redis.Redis(port=client.connection_pool.connection_kwargs["port"], db=9)
    other.set("other", "9")


def check(client, items):
    assert client.dbsize() == len(items)
    for number, (key, value) in enumerate(items.items()):
        assert client.get(key) == value, key
        left = client.pttl(key)
        assert left == -1 if number % 2 == 0 else 9_000_000 < left <= 10_000_000 + number, key
    other = redis.Redis(port=client.connection_pool.connection_kwargs["port"], db=9)
    assert other.get("other") == b"9"


def test_redis_reads_ours_and_we_read_its(folder):
    items = draw_items(random.Random(1))
    with start(folder) as server:
        client = redis.Redis(port=server.resp_port)
        fill(client, items)
        assert client.save()
    with start_redis(folder) as peer:
        client = redis.Redis(port=peer.resp_port)
        check(client, items)
        client.set("packed", "abc" * 1000)
        assert client.save()
    items["packed"] = b"abc" * 1000
    with start(folder) as server:
        client = redis.Redis(port=server.resp_port)
        check(client, items)
        # Once more, so that the file is ours again.
        assert client.save()
    with start_redis(folder) as peer:
        check(redis.Redis(port=peer.resp_port), items)


# With little memory, so that most of it lies in files alone.
def test_redis_reads_what_a_tree_has_and_an_empty_tree_reads_redis(folder):
    tree = ["--tree", f"{folder}/tree", "--maxmemory", "2mb"]
    items = draw_items(random.Random(1))
    items.update((f"large{i}", str(i).encode() * 5000) for i in range(300))
    with start(folder, *tree) as server:
        fill(redis.Redis(port=server.resp_port), items)
        assert redis.Redis(port=server.resp_port).save()
    status, text = look_at(os.path.join(folder, FILE))
    assert status == 0
    assert f"{len(items) + 1} keys, {len(items) // 2} with an expiry" in text
    with start_redis(folder) as peer:
        client = redis.Redis(port=peer.resp_port)
        check(client, items)
        client.set("packed", "abc" * 1000)
        assert client.save()
    items["packed"] = b"abc" * 1000
    shutil.rmtree(f"{folder}/tree")
    for _ in range(2):
        with start(folder, *tree) as server:
            check(redis.Redis(port=server.resp_port), items)
        # The second has the tree alone.
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(folder, FILE))


def test_other_types_of_redis_are_refused_by_name_and_left_alone(folder):
    with start_redis(folder) as peer:
        client = redis.Redis(port=peer.resp_port)
        client.set("string", "1")
        client.rpush("my list", "1", "2")
        client.save()
    path = os.path.join(folder, FILE)
    with open(path, "rb") as file:
        before = file.read()
    with pytest.raises(RuntimeError, match=r"has a list, .* under the key 'my list'"):
        start(folder)
    with open(path, "rb") as file:
        assert file.read() == before


def look_at(path):
    """What isotherm-check says, and its exit status."""
    program = os.path.join(os.path.dirname(os.path.abspath(servers.isotherm_binary())),
                           "isotherm-check")
    ran = subprocess.run([program, path], capture_output=True, text=True, check=False)
    return ran.returncode, ran.stdout


def test_isotherm_check_tells_how_it_is_used():
    for word in ("--help", "-h"):
        status, text = look_at(word)
        assert status == 0
        assert "Usage: isotherm-check [--repair] FILE|FOLDER" in text
    assert re.fullmatch(r"isotherm-check \d+\.\d+\.\d+\n", look_at("--version")[1])
    assert look_at("")[0] == 2


def test_isotherm_check_tells_what_files_have(folder):
    # By the policy `everysec` the journal would have a mark behind each second, too.
    with start(folder, "--appendonly", "yes", "--appendfsync", "always") as server:
        client = redis.Redis(port=server.resp_port)
        for i in range(100):
            client.set(f"key{i}", "value", px=10_000_000 if i < 40 else None)
        client.save()
        client.set("key7", "new")
    path = os.path.join(folder, FILE)
    status, text = look_at(path)
    assert status == 0
    assert "100 keys, 40 with an expiry, 500 bytes of values" in text
    status, text = look_at(folder)
    assert status == 0
    # The journal by its name, and by its files.
    journal = os.path.join(folder, "appendonly.aof")
    for ending in "", ".manifest", ".lock", ".2":
        assert look_at(journal + ending) == (0, text)
    # The journal was cut behind the snapshot, and has a mark at its end.
    assert "100 keys, 40 with an expiry, 500 bytes of values" in text
    assert "2 records, 1 keys that its base does not have; 0 bytes of a torn tail" in text
    for damaged, at in [(path, 200), (os.path.join(folder, "appendonly.aof.2"), 150)]:
        with open(damaged, "r+b") as file:
            file.seek(at)
            byte = file.read(1)
            file.seek(at)
            file.write(bytes([byte[0] ^ 1]))
    assert look_at(path)[0] == 1
    status, text = look_at(folder)
    assert status == 1
    assert "is damaged at byte" in text
    assert look_at(os.path.join(folder, "none"))[0] == 1


def test_a_file_that_is_cut_is_refused(folder):
    with start(folder) as server:
        client = redis.Redis(port=server.resp_port)
        for i in range(100):
            client.set(f"key{i}", "value")
        client.save()
    path = os.path.join(folder, FILE)
    os.truncate(path, os.path.getsize(path) - 100)
    with pytest.raises(RuntimeError, match="is cut"):
        start(folder)


class Writer(threading.Thread):
    """Sets its pair, then counts up one of its keys, until it is told to stop."""

    def __init__(self, number, port, rounds=0):
        super().__init__()
        self.number = number
        self.client = redis.Redis(port=port)
        self.stops = False
        self.rounds = rounds

    def run(self):
        try:
            while not self.stops:
                self.rounds += 1
                value = self.rounds
                self.client.mset({f"{self.number}:left": value, f"{self.number}:right": value})
                self.client.set(f"{self.number}:{value % 50}", value)
        except (redis.ConnectionError, redis.TimeoutError, OSError):
            pass


def check_writer(number, client):
    left = int(client.get(f"{number}:left") or 0)
    assert int(client.get(f"{number}:right") or 0) == left
    values = [int(client.get(f"{number}:{i}") or 0) for i in range(50)]
    if left == 0:
        return 0
    # Of the last round the second command may not have run.
    last = max(values)
    assert last in (left, left - 1)
    assert sorted(values) == list(range(last - 49, last + 1)), number
    return left


@pytest.mark.parametrize("has_tree", [False, True])
def test_a_snapshot_is_of_one_moment_while_clients_write(folder, has_tree):
    copies = []
    flags = ["--tree", f"{folder}/tree", "--maxmemory", "2mb"] if has_tree else []
    with start(folder, *flags) as server:
        client = redis.Redis(port=server.resp_port)
        writers = [Writer(i, server.resp_port) for i in range(3)]
        for writer in writers:
            writer.start()
        while min(writer.rounds for writer in writers) < 100:
            client.ping()
        for i in range(5):
            least = [writer.rounds - 1 for writer in writers]
            assert client.save()
            copy = tempfile.mkdtemp(prefix="copy-", dir=folder)
            shutil.copy(os.path.join(folder, FILE), copy)
            copies.append((copy, least, [writer.rounds for writer in writers]))
        for writer in writers:
            writer.stops = True
        for writer in writers:
            writer.join()
    for copy, least, most in copies:
        with start(copy) as server:
            client = redis.Redis(port=server.resp_port)
            for number in range(3):
                assert least[number] <= check_writer(number, client) <= most[number]


def test_a_kill_while_snapshots_are_written_leaves_a_whole_one(folder):
    pause = random.Random(5)
    saved = [0] * 3
    for _ in range(KILLS):
        server = start(folder)
        client = redis.Redis(port=server.resp_port)
        found = [check_writer(number, client) for number in range(3)]
        assert all(now >= then for now, then in zip(found, saved))
        writers = [Writer(i, server.resp_port, max(found[i] - 1, 0)) for i in range(3)]
        for writer in writers:
            writer.start()
        while any(writer.rounds < found[writer.number] + 60 for writer in writers):
            client.ping()
        saved = [writer.rounds - 1 for writer in writers]
        assert client.save()
        client.bgsave()
        writers[0].join(pause.uniform(0, 0.05))
        server.kill()
        for writer in writers:
            writer.join()


def test_shutdown_saves_or_does_not(folder):
    def end(server, *words):
        with pytest.raises(redis.ConnectionError):
            redis.Redis(port=server.resp_port).execute_command("SHUTDOWN", *words)
        assert server.process.wait(timeout=servers.LONGEST_SECONDS) == 0
        server.stopped = True
        shutil.rmtree(server.folder)

    def set_one(server, value):
        redis.Redis(port=server.resp_port).set("key", value)

    def get_one():
        with start(folder) as server:
            return redis.Redis(port=server.resp_port).get("key")

    server = start(folder)
    set_one(server, "1")
    end(server)
    assert get_one() is None
    server = start(folder)
    set_one(server, "2")
    end(server, "SAVE")
    assert get_one() == b"2"
    server = start(folder, "--save", "3600 1")
    set_one(server, "3")
    end(server, "NOSAVE")
    assert get_one() == b"2"
    server = start(folder, "--save", "3600 1")
    set_one(server, "4")
    end(server)
    assert get_one() == b"4"
    # And by a signal.
    with start(folder, "--save", "3600 1") as server:
        set_one(server, "5")
    assert get_one() == b"5"


def test_save_points_need_the_index_on_the_host():
    ran = subprocess.run([servers.isotherm_binary(), "--save", "60 1", "--device", "cuda"],
                         capture_output=True, text=True, check=False)
    assert ran.returncode != 0
    assert "--save: needs --device cpu" in ran.stderr

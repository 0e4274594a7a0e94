"""What was answered is there after a crash at any call of a file, the tree's and the journal's.

One run of a server records each call by which it changes a file (recorded_files.py); then servers
start on what crashes at some of these calls would have left, by a kill in the middle of a write or by
a loss of power, and are asked for everything (told_clients.py). More crashes: ISOTHERM_CRASHES=500.
"""

import contextlib
import os
import random
import shutil
import tempfile

import pytest
import redis

import recorded_files
import servers
from told_clients import Told

CRASHES = int(os.environ.get("ISOTHERM_CRASHES", "6"))
FLIPS = int(os.environ.get("ISOTHERM_FLIPS", "6"))
BROKEN = servers.isotherm_binary() + "-broken"
SECONDS = 0.6  # that the clients write, in each of two runs

pytestmark = pytest.mark.skipif(not os.path.exists(recorded_files.LIBRARY),
                                reason="no library that records calls")


def flags(folder, policy="always", appendonly="yes"):
    return ["--threads", "2", "--appendonly", appendonly, "--appendfsync", policy, "--dir", folder,
            "--tree", f"{folder}/tree", "--maxmemory", "8mb"]


class Recorded:
    """A server that is killed and goes on, each call recorded, and what its clients know."""

    def __init__(self, folder, policy, binary=None, runs=2, least_taken_in=1):
        self.folder = f"{folder}/data"
        self.record = f"{folder}/record"
        os.mkdir(self.folder)
        self.clients = []
        self.runs = []  # the clients of each, and where it began
        self.taken_in = 0
        for run in range(runs):
            server = servers.Isotherm(*flags(self.folder, policy), binary=binary,
                                      env=recorded_files.environment(self.folder, self.record))
            try:
                if run:
                    self.find_again(server)
                began = self.position()
                self.clients = [Told(i, server.resp_port, 10 * run + i, self.position,
                                     self.clients[i] if run else None) for i in range(2)]
                for client in self.clients:
                    client.start()
                admin = redis.Redis(port=server.resp_port)
                for _ in range(3):
                    self.clients[0].join(SECONDS / 3)
                    with contextlib.suppress(redis.ResponseError):  # one is under way
                        admin.bgrewriteaof()
                self.taken_in += self.await_taken_in(admin, least_taken_in)
            finally:
                server.kill()
            for client in self.clients:
                client.join()
                assert client.error is None, client.error
            self.runs.append((began if run else 0, self.clients))

    # However slow the disk is, there is something in the files of the tree when it ends.
    @staticmethod
    def await_taken_in(admin, least):
        def taken_in():
            with contextlib.suppress(redis.ResponseError):
                admin.bgrewriteaof()
            return admin.info("persistence")["tree_runs_taken_in"]

        servers.soon(lambda: taken_in() >= least)
        return taken_in()

    def position(self):
        return os.path.getsize(self.record) if os.path.exists(self.record) else 0

    # The next run goes on from what is there, which the kill has decided.
    def find_again(self, server):
        its = redis.Redis(port=server.resp_port)
        for client in self.clients:
            client.model = client.made_by(client.check(its, self.position()))

    def clients_at(self, position):
        return [clients for began, clients in self.runs if began <= position][-1]

    def crashes(self, count, ways, draw):
        """(what it was, the folder it left, the clients of then) of so many crashes, one of them at the end."""
        ends = sorted((draw.randrange(self.position()), draw.choice(ways)) for _ in range(count - 1))
        ends.append((self.position(), draw.choice(ways)))
        for crash, left, folders in recorded_files.states(self.record, ends, draw):
            now = tempfile.mkdtemp(prefix="left-", dir=os.path.dirname(self.folder))
            recorded_files.put(left, folders, self.folder, now)
            yield crash, now, self.clients_at(crash[0])
            shutil.rmtree(now)


@pytest.fixture(scope="module")
def always():
    path = tempfile.mkdtemp(prefix="isotherm-crashes-")
    yield Recorded(path, "always")
    shutil.rmtree(path)


@pytest.fixture
def folder():
    path = tempfile.mkdtemp(prefix="isotherm-crashes-")
    yield path
    shutil.rmtree(path)


def check(folder, clients, position):
    with servers.Isotherm(*flags(folder)) as server:
        its = redis.Redis(port=server.resp_port)
        for client in clients:
            client.check(its, position)


def first_loss(recorded, count, ways):
    """What the first crash has lost of so many; None: nothing."""
    draw = random.Random(count)
    for crash, left, clients in recorded.crashes(count, ways, draw):
        try:
            check(left, clients, crash[0])
        except (AssertionError, RuntimeError) as error:
            return f"{crash}: {error}"
    return None


# Of two writes a loss of power may tear the first and leave the second whole, which is no torn tail.
def test_what_is_synced_of_a_manifest_is_one_write(always):
    writes = {}
    syncs = 0
    for _, (call, path, _, _, _, _) in recorded_files.read_record(always.record):
        if "/MANIFEST-" not in path or call not in "WS":
            continue
        syncs += call == "S"
        writes[path] = writes.get(path, 0) + 1 if call == "W" else 0
        assert writes[path] <= 1
    assert syncs > 1


def test_nothing_answered_is_lost_by_a_crash_at_any_call(always):
    assert always.taken_in > 0
    assert first_loss(always, CRASHES, ["killed", "luckless", "lucky"]) is None


# What the machine has not lost is there after a kill.
def test_nothing_answered_is_lost_by_a_kill_where_syncs_come_later(folder):
    assert first_loss(Recorded(folder, "everysec"), CRASHES // 3, ["killed"]) is None


# A server that answers before it syncs, and one that cuts the journal behind what no file has yet.
@pytest.mark.skipif(not os.path.exists(BROKEN), reason="no build that breaks rules")
@pytest.mark.parametrize("rule, way", [("syncing", "luckless"), ("ingesting", "killed")])
def test_what_a_broken_rule_loses_is_noticed(folder, rule, way, monkeypatch):
    def is_noticed(attempt):
        its = f"{folder}/{attempt}"
        os.mkdir(its)
        with monkeypatch.context() as broken:
            broken.setenv("ISOTHERM_BREAK", rule)
            recorded = Recorded(its, "always", BROKEN, runs=1, least_taken_in=12)
        return first_loss(recorded, 40, [way]) is not None

    # What can be lost is what is changed at the moment when a run is taken in; on a slow disk that is seldom
    # anything.
    assert any(map(is_noticed, range(10)))


# A flipped bit of any file: the start is refused, or a key is, or it was in what is left out as a torn
# tail, or it changes nothing.
def test_a_flipped_bit_is_told_of_or_harmless(always, folder):
    recorded = always
    draw = random.Random(FLIPS)
    end = recorded.position()
    (_, left, folders), = recorded_files.states(recorded.record, [(end, "killed")], draw)
    paths = sorted(path for path in left if left[path].bytes and not is_aside(path))
    refused = 0
    for i in range(FLIPS):
        path = draw.choice(paths)
        bit = draw.randrange(8 * len(left[path].bytes))
        its = f"bit {bit} of {os.path.basename(path)}"
        left[path].bytes[bit // 8] ^= 1 << bit % 8
        now = tempfile.mkdtemp(prefix="left-", dir=folder)
        recorded_files.put(left, folders, recorded.folder, now)
        left[path].bytes[bit // 8] ^= 1 << bit % 8
        try:
            check_flipped(now, recorded.clients, end)
        except RuntimeError as error:
            refused += 1
            assert is_refusal(str(error)), f"{its}: {error}"
        except AssertionError as error:
            raise AssertionError(f"{its}: {error}") from error
        finally:
            shutil.rmtree(now)
    assert refused or FLIPS < 100


# Debian's RocksDB has assertions on: one ends the server for a bit of each file that says how its
# properties lie, which are looked at before their checksum is.
def is_refusal(error):
    if "ended with -6:" in error:
        return "data_block_hash_index.cc" in error and "Assertion" in error
    return "ended with 1:" in error and ("tree: " in error or "journal: " in error)


def is_aside(path):
    return os.path.basename(path).startswith(("LOG", "LOCK", "IDENTITY", "OPTIONS"))


def check_flipped(folder, clients, position):
    with servers.Isotherm(*flags(folder)) as server:
        its = redis.Redis(port=server.resp_port)
        torn = "torn tail" in server.output()
        for client in clients:
            client.check_keys(its, position) if torn else client.check(its, position)

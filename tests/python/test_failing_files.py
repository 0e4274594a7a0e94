"""Calls of files that fail while a server with a tree runs: it says so, and nothing that was answered
is lost.

Writes are refused with MISCONF while nothing can be kept, reads go on as far as they can, and all
goes on by itself when files can be written again. More faults: ISOTHERM_FAULTS=200.
"""

import errno
import os
import random
import re
import shutil
import tempfile
import threading

import pytest
import redis

import recorded_files
import servers
from servers import LONGEST_SECONDS
from test_crashes import flags

FAULTS = int(os.environ.get("ISOTHERM_FAULTS", "4"))

pytestmark = pytest.mark.skipif(not os.path.exists(recorded_files.LIBRARY),
                                reason="no library that has calls fail")


class Setting(threading.Thread):
    """Counts up keys by SET, and reads them, while calls of files fail."""

    KEYS = 200

    def __init__(self, number, port):
        super().__init__()
        self.number = number
        self.client = redis.Redis(port=port, socket_timeout=LONGEST_SECONDS)
        self.draw = random.Random(number)
        self.sent = {}
        self.answered = {}
        self.refused = 0
        self.stops = False
        self.error = None

    def run(self):
        try:
            while not self.stops:
                self.send()
        except Exception as error:  # the test's thread tells of it
            self.error = error

    def send(self):
        names = [f"{self.number}:{i}" for i in self.draw.sample(range(self.KEYS), 8)]
        pipeline = self.client.pipeline(transaction=False)
        for name in names:
            self.sent[name] = self.sent.get(name, 0) + 1
            pipeline.set(name, str(self.sent[name]).zfill(2000))
        for name, reply in zip(names, pipeline.execute(raise_on_error=False)):
            if reply is True:
                self.answered[name] = self.sent[name]
            else:
                assert str(reply).startswith("MISCONF"), reply
                self.refused += 1
        self.look(self.client, self.draw.sample(sorted(self.sent), min(4, len(self.sent))))

    def look(self, client, names, may_fail=True):
        for name in names:
            try:
                value = client.get(name)
            except redis.ResponseError as error:
                assert may_fail and str(error).startswith("MISCONF"), (name, error)
                continue
            assert self.answered.get(name, 0) <= int(value or 0) <= self.sent[name], name


class Failing:
    """A server in a folder of its own whose calls of files can be made to fail."""

    def __init__(self, folder, appendonly="yes"):
        self.data = f"{folder}/data"
        os.mkdir(self.data)
        self.is_durable = appendonly == "yes"
        self.faults = recorded_files.Faults(f"{folder}/faults")
        env = recorded_files.environment(self.data, faults=self.faults.path)
        self.server = servers.Isotherm(*flags(self.data, appendonly=appendonly), env=env)
        self.admin = redis.Redis(port=self.server.resp_port)
        self.clients = [Setting(i, self.server.resp_port) for i in range(2)]

    def __enter__(self):
        for client in self.clients:
            client.start()
        return self

    # It ends as by a crash, and what it leaves is asked for everything.
    def __exit__(self, kind, *_):
        for client in self.clients:
            client.stops = True
        for client in self.clients:
            client.join()
        log = self.server.output()
        ended = self.server.process.poll()
        self.server.kill()
        assert ended is None, f"ended with {ended}: {log}"
        if kind is not None:
            print(log)
            return
        for client in self.clients:
            assert client.error is None, client.error
        if not self.is_durable:
            return
        with servers.Isotherm(*flags(self.data)) as server:
            its = redis.Redis(port=server.resp_port)
            for client in self.clients:
                client.look(its, client.sent, may_fail=False)
            # And it takes in what is new, whatever the one before has left behind.
            its.set("later", 1)
            its.bgrewriteaof()
            await_until(lambda: not its.info("persistence")["aof_rewrite_in_progress"])
            its = its.info("persistence")
            assert its["tree_last_write_status"] == "ok" and its["tree_runs_taken_in"] > 0, its

    def heal(self):
        self.faults.clear()
        await_until(self.sets)

    def sets(self):
        try:
            return self.admin.set("healed", 1)
        except redis.ResponseError as error:
            assert str(error).startswith("MISCONF"), error
            return False

    def reads(self, name):
        try:
            return self.admin.get(name) is not None
        except redis.ResponseError as error:
            # A read beside a write that could not be saved is told of with the write's words.
            assert str(error).startswith("MISCONF"), error
            return False

    def cannot_read(self, *words, in_group=False):
        try:
            requests = self.admin.pipeline(transaction=in_group)
            requests.execute_command(*words)
            requests.execute()
        except redis.ResponseError as error:
            # A read beside a write that could not be saved is told of with the write's words.
            assert re.search("MISCONF .*(reading|with) the files of the tree", str(error)), error
            return True
        return False

    def last_segment(self):
        names = re.findall(r"appendonly\.aof\.(\d+)\b", " ".join(os.listdir(self.data)))
        return max(map(int, names), default=0)

    def met(self, count, before=None):
        if before is None:
            before = self.faults.met()
        await_until(lambda: self.faults.met() >= before + count or self.server.process.poll())


@pytest.fixture
def folder():
    path = tempfile.mkdtemp(prefix="isotherm-failing-")
    yield path
    shutil.rmtree(path)


def test_any_call_that_fails_loses_nothing(folder):
    draw = random.Random(FAULTS)
    with Failing(folder) as failing:
        for _ in range(FAULTS):
            within = draw.choice(["/tree/", "/tree/MANIFEST", "/appendonly", ""])
            error = draw.choice([errno.EIO, errno.ENOSPC])
            number = draw.choice([1, 3, 1_000_000])
            # Looked at first: the only one may have been met when `set` returns.
            before = failing.faults.met()
            failing.faults.set(draw.randrange(40), number, error, within)
            failing.met(min(number, 10), before)
            failing.heal()


# Whether what it was to say is there nobody knows; the files that it names have to be.
def test_a_start_finds_the_files_of_a_manifest_that_could_not_be_synced(folder):
    with Failing(folder) as failing:
        failing.faults.set(3, 1 << 40, errno.EIO, "/tree/MANIFEST")
        failing.met(1)


# No answer rather than one that lacks what cannot be read.
def test_files_that_cannot_be_read_are_told_of(folder):
    with Failing(folder) as failing:
        await_until(lambda: all(len(client.answered) > 150 for client in failing.clients))
        # More than memory and runs hold, so that some of them are in files alone.
        cold = [f"cold:{i}" for i in range(2000)]
        pipeline = failing.admin.pipeline(transaction=False)
        for key in cold:
            pipeline.set(key, "v" * 6000)
        assert all(pipeline.execute())
        # Those that RocksDB has, whose names begin with zeros, and not those that it takes in:
        # version 7.8 asserts where it cannot read one of these, and the server ends.
        failing.faults.set(0, 1 << 40, errno.EIO, "/tree/0", reads=True)
        for words in (["KEYS", "*"], ["DBSIZE"], ["SCAN", "0", "COUNT", "1000"], ["MGET", *cold]):
            await_until(lambda: failing.cannot_read(*words))
        await_until(lambda: failing.cannot_read("DBSIZE", in_group=True))
        failing.heal()
        assert failing.admin.dbsize() >= 300


# Without a journal, too, where what is in memory is all that there is.
@pytest.mark.parametrize("appendonly", ["yes", "no"])
def test_writes_are_refused_while_the_disk_of_the_tree_is_full(folder, appendonly):
    with Failing(folder, appendonly) as failing:
        await_until(lambda: all(len(client.answered) > 150 for client in failing.clients))
        failing.faults.set(0, 1 << 40, errno.ENOSPC, "/tree/")
        await_until(lambda: all(client.refused for client in failing.clients))
        with pytest.raises(redis.ResponseError, match="MISCONF .*tree.*No space left"):
            failing.admin.set("key", "value")
        await_until(lambda: failing.reads(next(iter(failing.clients[0].answered))))
        assert failing.admin.info("persistence")["tree_last_write_status"] == "err"
        # Writes are refused before it is logged.
        await_until(lambda: "No space left" in failing.server.output())
        failing.met(3)
        # What is tried again begins no segment of the journal.
        before = failing.last_segment()
        failing.met(3)
        assert failing.last_segment() == before
        failing.heal()
        await_until(lambda: failing.admin.info("persistence")["tree_last_write_status"] == "ok")


def await_until(condition):
    assert servers.soon(condition)

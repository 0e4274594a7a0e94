"""Tables and stores in a child of a fork: numbers and rows on the CPU are read if nobody was in a call;
all else is refused in words, whatever the parent's threads are at."""

import asyncio
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from conftest import FAKE_PART, HAS_GPU
from isotherm import Store, Table

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")

MADE = {
    "numbers": lambda: Table(),
    "rows": lambda: Table(value="f32[4]"),
    "evicted": lambda: Table(value="f32[4]", memory="32mb", evict="use"),
    "strings": lambda: Table("bytes", "u64"),
    "store": lambda: Store(),
}
if HAS_GPU:
    MADE |= {
        "numbers on a GPU": lambda: Table(device="cuda:0"),
        "rows on a GPU": lambda: Table(value="f32[4]", device="cuda:0"),
        "strings on a GPU": lambda: Table("bytes", "bytes", device="cuda:0"),
    }


def keys_of(thing, count):
    if isinstance(thing, Store) or thing.key_dtype is None:
        return [b"%d" % key for key in range(count)]
    return np.arange(count, dtype="u8")


def use(thing, count=100):
    keys = keys_of(thing, count)
    if isinstance(thing, Store):
        thing.put_many(keys, keys)
        return thing.get_many(keys) == keys
    thing.put(keys, keys if thing._kind()["value"] == "bytes" else 1)
    return bool(thing.contains(keys).all())


def is_read_in_children(thing):
    return isinstance(thing, Table) and thing.key_dtype is not None and not thing._gpus


def refused(call):
    """Whether it is refused since it is of another process."""
    try:
        call()
    except RuntimeError as error:
        return "before this process was forked" in str(error)
    return False


def in_a_child(work):
    """Forks; whether ``work`` was true in the child, which must end."""
    child = os.fork()
    if child == 0:
        done = False
        try:
            done = work()
        finally:
            os._exit(0 if done else 1)
    end = time.monotonic() + 120
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(0.002)
    os.kill(child, 9)
    os.waitpid(child, 0)
    raise AssertionError("the child hangs")


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_a_child_is_refused_in_words_and_can_make_its_own(make):
    thing = make()
    assert use(thing)
    keys = keys_of(thing, 5)
    calls = [lambda: use(thing), thing.stats]
    reads = [lambda: len(thing)]
    if isinstance(thing, Store):
        client = thing.asyncio()

        async def ask():
            return await client.get("0")

        assert asyncio.run(ask()) == b"0"
        calls += [lambda: thing.get("0"), thing.asyncio, client._submitter.poll, thing.clear]
    else:
        reads += [lambda: thing.get(keys), lambda: thing.contains(keys), lambda: list(thing.items())]
    if not is_read_in_children(thing):
        calls += reads
        reads = []
    right_answers = [repr(read()) for read in reads]

    def child():
        nonlocal thing
        right = all(refused(call) for call in calls) and use(Table())
        right = right and [repr(read()) for read in reads] == right_answers
        calls.clear()
        reads.clear()
        thing = None  # its end waits for nobody
        return right

    assert in_a_child(child)
    assert use(thing)


@pytest.mark.parametrize("name", ["numbers", "rows", "strings", "store"])
def test_a_fork_while_threads_are_in_calls(name):
    thing, stop = MADE[name](), threading.Event()

    def work():
        while not stop.is_set():
            use(thing, 3000)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            assert in_a_child(lambda: refused(lambda: use(thing, 3000)) and is_refused_or_right(thing))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert use(thing)


def is_refused_or_right(thing):
    """In the child of a fork while threads put 1 to some keys: those threads may have been between two calls."""
    there = []
    keys = keys_of(thing, 3000)
    contains = thing.contains_many if isinstance(thing, Store) else thing.contains
    if refused(lambda: there.extend(contains(keys))):
        return True
    return is_read_in_children(thing) and len(there) == 3000 and (all(there) or not any(there))


PROGRAM = """
import os, sys, threading
import numpy as np
from isotherm import Store, Table, _devices
if sys.argv[1]:
    assert _devices.load(sys.argv[1], "") == ""
gpus = [Table(device="cuda:0")] if sys.argv[1] else []
keys, table, store = np.arange(1_500_000, dtype="u8"), Table(value="f32[8]", device="cpu"), Store()
table.put(keys, 1)  # so many that a thread makes pages ahead
stop = threading.Event()
def work():
    while not stop.is_set():
        table.get(keys[:5000])
        store.put_many([b"a"] * 500, [b"b"] * 500)
thread = threading.Thread(target=work)
thread.start()
child = os.fork()
if child != 0:
    stop.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
    print("ended")
"""


def test_both_processes_end():
    """By their own end, which frees what is left, and not by os._exit."""
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM, FAKE_PART], timeout=120,
                           capture_output=True, text=True)
    assert ended.returncode == 0 and ended.stdout.strip() == "ended", ended.stderr

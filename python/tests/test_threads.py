"""Tables under threads and signals, and that nothing is leaked: references, arrays, memory, handles."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc

import numpy as np
import pytest

from isotherm import Store, Table, TableFullError, _core, dedup


def in_threads(work, count):
    failures = []

    def run(number):
        try:
            work(number)
        except BaseException as error:  # an assertion, too
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@pytest.mark.parametrize("make, count", [(lambda: Table(), 1_500_000),
                                         (lambda: Table(value="u64[2]"), 600_000)])
def test_a_signal_ends_a_long_call(make, count):
    """One that comes while rows are put: those before are there, others are not."""

    class Interrupted(Exception):
        pass

    def interrupt(*_):
        raise Interrupted

    keys = np.arange(count, dtype="u8")
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        for _ in range(20):  # a call may be faster than who interrupts it
            table = make()

            def send():
                while len(table) == 0:
                    time.sleep(0.001)
                os.kill(os.getpid(), signal.SIGUSR1)

            sender = threading.Thread(target=send)
            sender.start()
            with pytest.raises(Interrupted):
                table.put(keys, 1)
                sender.join()  # the signal is seen here at the latest
            sender.join()
            if len(table) < count:
                break
        put = len(table)
        assert put < count
        rows, found = table.get(keys)
        assert found[:put].all() and not found[put:].any() and (rows[:put] == 1).all()
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("value", ["u64", "f32[64]", "f64[8]"])
def test_sums_are_exact_and_rows_whole(value):
    table = Table(value=value)
    keys = np.arange(2000, dtype="u8")  # enough rows that the GIL is released
    one = np.ones((2000, *table.row_shape), table.value_dtype)
    table.put(keys, 0)

    def work(number):
        for _ in range(15):
            table.add(keys, one)
            rows, found = table.get(keys)
            assert found.all()
            if rows.ndim > 1:
                assert (rows == rows[:, :1]).all()

    in_threads(work, 4)
    assert (table[keys] == 60).all()


def test_batches_are_larger_than_memory_together():
    """48 MB of keys by way of a table of 4 MB."""
    batches = (np.random.default_rng(number % 7).integers(0, 60_000, 50_000, "u8")
               for number in range(120))
    seen = dedup.Seen(memory="4mb")
    tracemalloc.start()
    found = sum(len(seen.new(batch)) for batch in batches)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == len(seen) and 55_000 < found <= 60_000
    assert most < 3 << 20 and seen._table.memory_bytes <= 4 << 20
    with pytest.raises(TableFullError, match="keys found no room"):
        seen.new(np.arange(10**6, dtype="u8"))


def test_more_threads_than_handles():
    store, table = Store(), Table(value="f32[4]")
    keys = np.arange(500, dtype="u8")

    def work(number):
        mine = keys + np.uint64(number * 1000)
        table.put(mine, float(number))
        assert (table[mine] == number).all()
        names = [b"%d" % key for key in mine]
        store.put_many(names, names)
        assert store.get_many(names) == names

    in_threads(work, 300)
    assert len(table) == len(store) == 300 * 500


def test_the_gil_is_released():
    """A thread that waits for the GIL gets it during a call, though nobody is made to give it up."""
    table = Table()
    keys = np.arange(1_000_000, dtype="u8")
    go, ran = threading.Event(), []

    def run():
        go.wait()
        ran.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    old = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        go.set()
        calls_made = 0
        while not ran and calls_made < 200:
            table.put(keys, keys)
            calls_made += 1
        seen = bool(ran)
    finally:
        sys.setswitchinterval(old)
        thread.join()
    assert seen


def calls():
    table, rows = Table(), Table(value="f32[8]")
    strings, store, seen = Table(key="bytes", value="f32"), Store(), dedup.Seen()
    features = bytes(range(8)) + b"\n\x01a\n\x02bb"
    keys = np.arange(100, dtype="u8")
    matrix, out = np.ones((100, 8), "f4"), np.zeros((100, 8), "f4")
    names = [b"%d" % i for i in range(100)]

    def fail(verb, *arguments):
        try:
            verb(*arguments)
        except (KeyError, TypeError, ValueError):
            return
        raise AssertionError("it did not fail")

    def once():
        table.put(keys, keys)
        table.get(keys), table.get(5), table[keys], 5 in table, table.contains(keys)
        table.add(keys, 1), table.compare_and_swap(keys, keys, keys), table.get_or_put(keys, keys)
        rows.put(keys, matrix), rows.get(keys, out), rows.put_if_absent(keys, matrix)
        rows.get([1, 2]), rows.erase(keys), table.erase([7])
        fail(table.__getitem__, [7]), fail(table.put, keys, matrix), fail(rows.get, out)
        list(table.items()), table.stats(), repr(rows)
        seen.new(keys), seen.new(keys[:3].copy()), seen(keys), fail(seen.new, matrix)
        _core._feature_columns([features, None], [0, 1, 0], [1, -1])
        fail(_core._feature_columns, [features[:-1]], [0], [1])
        strings.put(names, 1.0), strings.get(names), strings.add(names, 1.0)
        store.put_many(names, names), store.get_many(names)
        store.put_many(names, store.get_many(names, arrow=True)), store.get_many(names, arrow=True)
        fail(store.get_many, [1]), store.pipeline().get("1").put("1", "2").execute()
        list(store.keys())

    return once, (keys, matrix, out, names, names[5], np.dtype("u8"), np.dtype("f4"))


def grows_in_each_window(once, rounds=50, windows=12):
    """Which lines took memory, where it grows in each of some windows of rounds, by an object a round or more.

    Python's and NumPy's free lists fill in the first windows. A leak shows in all of them.
    """
    smallest_object = 16
    tracemalloc.start()
    try:
        for _ in range(windows):
            gc.collect()
            first = tracemalloc.take_snapshot()
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(rounds):
                once()
            gc.collect()
            if tracemalloc.get_traced_memory()[0] - before < rounds * smallest_object:
                return []
        return [str(line) for line in tracemalloc.take_snapshot().compare_to(first, "lineno")[:5]]
    finally:
        tracemalloc.stop()


def test_nothing_is_leaked():
    once, objects = calls()
    for _ in range(20):
        once()
    gc.collect()
    references = [sys.getrefcount(thing) for thing in objects]
    assert not grows_in_each_window(once)
    after = [sys.getrefcount(thing) for thing in objects]
    # Dtypes are shared with all of NumPy, so a few may come and go; a leak would be hundreds.
    assert all(abs(a - b) < 50 for a, b in zip(after, references))


def test_a_leak_of_one_object_a_round_is_seen():
    leaked = []
    assert grows_in_each_window(lambda: leaked.append(object()))


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_memory_of_tables_and_calls_comes_back():
    keys = np.arange(100_000, dtype="u8")
    names = [b"%d" % i for i in range(20_000)]

    def once():
        for value in ("u64", "f32[16]"):
            table = Table(value=value)
            table.put(keys, 1)
            table.get(keys)
        store = Store()
        store.put_many(names, names)
        store.get_many(names, arrow=True)

    for _ in range(3):
        once()
    before = resident()
    for _ in range(12):
        once()
    assert resident() - before < 30 << 20  # a table takes 2.7 to 9 MB


LONG = b"v" * 3_000_000


def put_one(store):
    return store.put("key", LONG)


def replies(store, *requests):
    submitter = _core.Submitter(store._core)
    started = submitter.start(list(requests))
    while not started.done():
        submitter.poll()
    return started.results()


def start_put(store):
    return replies(store, (1, b"key", LONG, 0, 0, 0)) == [True]


def start_get(store):
    return replies(store, (0, b"key", None, 0, 0, 0)) == [LONG]


@pytest.mark.parametrize("call", [put_one, start_put, start_get])
def test_one_long_value_lets_other_threads_run(call):
    store = Store(memory="64mb", evict="allkeys-lru")
    store.put("key", LONG)
    waits, ran = threading.Lock(), threading.Event()
    waits.acquire()

    def run():
        with waits:
            ran.set()

    other = threading.Thread(target=run)
    other.start()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # nobody takes the GIL away
    try:
        waits.release()
        assert any(call(store) and ran.is_set() for _ in range(1000))
    finally:
        sys.setswitchinterval(before)
        other.join()


AT_THE_END = """
import sys, threading
import numpy as np
from isotherm import Table

rows = Table(value="f32[16]", device="cpu")
keys, values = np.arange(50_000, dtype="u8"), np.ones((50_000, 16), "f4")
running = threading.Barrier(4)

def work(*calls):
    calls[0]()
    running.wait()
    while True:
        for call in calls:
            call()

for calls in [(lambda: rows.put(keys, values), lambda: rows.get(keys)),
              (lambda: rows.add(keys, values), lambda: rows.contains(keys)),
              (lambda: rows.erase(keys[:9000]), lambda: rows.put(keys, values))]:
    threading.Thread(target=work, args=calls, daemon=True).start()
running.wait()
if sys.argv[1] == "raise":
    raise SystemExit(3)
"""


@pytest.mark.parametrize("how, status", [("end", 0), ("raise", 3)])
def test_the_interpreter_ends_while_daemon_threads_are_in_calls(how, status):
    for _ in range(3):
        ended = subprocess.run([sys.executable, "-c", AT_THE_END, how], timeout=120, capture_output=True)
        assert (ended.returncode, ended.stderr) == (status, b"")


IN_PYTHON_AT_THE_END = """
import threading, time
import numpy as np
from isotherm import Table

class Slow:
    def __array__(self, dtype=None, copy=None):
        asked.set()
        while True:
            time.sleep(0.001)

rows = Table(value="f32[16]", device="cpu")
asked = threading.Event()
threading.Thread(target=lambda: rows.get(Slow()), daemon=True).start()
asked.wait()
"""


def test_the_interpreter_ends_while_a_daemon_thread_is_in_python_called_from_a_call():
    ended = subprocess.run([sys.executable, "-c", IN_PYTHON_AT_THE_END], timeout=120, capture_output=True)
    assert (ended.returncode, ended.stderr) == (0, b"")

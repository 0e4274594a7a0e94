"""Figures of tables on this machine: ``python -m isotherm.bench [--keys N] [--rows N] [--runs N]
[--unique N]``.

Rows: one get of one key; gets of 2^16 keys a call in a table of 10 million, beside lookups in a
``dict`` in a loop and ``pandas.Index.get_indexer`` where pandas is installed; the same for rows of
64 and 128 floats beside indexing a dense array; and where there is a GPU, what tables there do
(isotherm/_gpu_bench.py), ``dedup.unique`` of N keys among it. Every reply is checked. Times are those of
the thread on its processor, the best of several runs, since others use the machine, too.
"""

import argparse
import os
import platform
import time

import numpy as np

from . import Table, __version__, _devices, _gpu_bench, gpu_count

BATCH = 1 << 16


def best(work, runs):
    """Seconds of the fastest run."""
    times = []
    for _ in range(runs):
        started = time.thread_time()
        work()
        times.append(time.thread_time() - started)
    return min(times)


def environment():
    with open("/proc/cpuinfo") as file:
        names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    return (f"isotherm {__version__}, Python {platform.python_version()}, NumPy {np.__version__}, "
            f"{names[0] if names else platform.machine()}, {os.cpu_count()} processors")


def row(name, figure, ratio="", goal=""):
    print(f"{name:<52} {figure:>14} {ratio:>10} {goal:>10}", flush=True)


def distinct_keys(count):
    """Distinct numbers that lie anywhere among all of 64 bits, in any order: a bijection of 1, 2, …"""
    keys = np.arange(1, count + 1, dtype="u8")
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
    return keys ^ (keys >> np.uint64(31))


def fill(table, keys, values):
    for start in range(0, len(keys), BATCH):
        table.put(keys[start:start + BATCH], values[start:start + BATCH])


def calls(random, keys, count):
    """Places of keys that each call asks for, and the keys."""
    places = [random.integers(0, len(keys), BATCH) for _ in range(count)]
    return places, [keys[place] for place in places]


def bench_single(table, keys, values, repeats):
    one = keys[7:8].copy()

    def get():
        for _ in range(repeats):
            table.get(one)

    got, found = table.get(one)
    assert found.all() and got[0] == values[7]
    seconds = best(get, 5) / repeats
    row("get of 1 key, an array of one", f"{seconds * 1e6:.2f} µs", "", "≤ 1 µs")

    def get_int(key=int(keys[7])):
        for _ in range(repeats):
            table[key]

    assert table[int(keys[7])] == values[7]
    row("table[key] of an int", f"{best(get_int, 5) / repeats * 1e6:.2f} µs")


def bench_words(random, count, runs):
    keys = distinct_keys(count)
    values = ~keys
    table = Table(device="cpu", expected=count)
    started = time.thread_time()
    fill(table, keys, values)
    row(f"put of {count:,} new keys, 2^16 a call",
        f"{count / (time.thread_time() - started) / 1e6:.1f} M/s")
    bench_single(table, keys, values, 20_000)
    places, asked = calls(random, keys, runs)
    out = np.empty(BATCH, "u8")
    for place, batch in zip(places, asked):
        _, found = table.get(batch, out)
        assert found.all() and np.array_equal(out, values[place])
    mine = min(best(lambda b=batch: table.get(b, out), 3) for batch in asked) / BATCH
    row(f"get of 2^16 of {count:,} keys", f"{1e-6 / mine:.1f} M/s")

    def look_up(dictionary, listed):
        for key in listed:
            dictionary[key]

    dictionary = dict(zip(keys.tolist(), values.tolist()))
    listed = asked[0].tolist()
    assert [dictionary[key] for key in listed] == values[places[0]].tolist()
    theirs = best(lambda: look_up(dictionary, listed), 3) / BATCH
    row("  over lookups in a dict in a loop", f"{1e-6 / theirs:.1f} M/s", f"{theirs / mine:.1f} ×",
        "≥ 20 ×")
    del dictionary, listed
    try:
        import pandas
    except ImportError:
        row("  over pandas.Index.get_indexer", "skipped", "", "no pandas")
        return
    index = pandas.Index(keys)
    assert np.array_equal(index.get_indexer(asked[0]), places[0])  # builds its hash table
    theirs = min(best(lambda b=batch: index.get_indexer(b), 3) for batch in asked) / BATCH
    row("  over pandas.Index.get_indexer", f"{1e-6 / theirs:.1f} M/s", f"{theirs / mine:.1f} ×",
        "≥ 3 ×")


def bench_rows(random, count, width, runs):
    keys = distinct_keys(count)
    dense = np.repeat(np.arange(count, dtype="f4")[:, None], width, axis=1)
    table = Table(value=f"f32[{width}]", device="cpu", expected=count)
    fill(table, keys, dense)
    places, asked = calls(random, keys, runs)
    out = np.empty((BATCH, width), "f4")
    for place, batch in zip(places, asked):
        _, found = table.get(batch, out)
        assert found.all() and np.array_equal(out, dense[place])
    mine = min(best(lambda b=batch: table.get(b, out), 3) for batch in asked) / BATCH
    theirs = min(best(lambda p=place: np.take(dense, p, axis=0, out=out), 3)
                 for place in places) / BATCH
    row(f"get of 2^16 of {count:,} rows of {width} floats", f"{1e-6 / mine:.1f} M/s")
    row("  over numpy.take of a dense array (its upper bound)", f"{1e-6 / theirs:.1f} M/s",
        f"{theirs / mine:.2f} ×")


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m isotherm.bench", description=__doc__)
    parser.add_argument("--keys", type=int, default=10_000_000, help="keys in the table")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of floats")
    parser.add_argument("--runs", type=int, default=20, help="calls that are timed")
    parser.add_argument("--gpu-keys", type=int, default=100_000_000, help="keys in the GPU's table")
    parser.add_argument("--unique", type=int, default=1 << 30, help="keys of dedup.unique; 0: not run")
    options = parser.parse_args(arguments)
    random = np.random.default_rng(1)
    print(environment())
    row("one thread", "", "ratio", "goal")
    bench_words(random, options.keys, options.runs)
    for width in (64, 128):
        bench_rows(random, options.rows, width, options.runs)
    if gpu_count() != 0:
        _gpu_bench.bench(row, distinct_keys(options.gpu_keys), options.unique, options.runs)
    else:
        row("GPU", "skipped", "", _devices.why_no_gpu())


if __name__ == "__main__":
    main()

"""The rows of ``isotherm.bench`` on a GPU: arrays that lie there, on the default stream.

Times are of the wall, over calls one behind the other and the wait for the last. What a call of the
package costs beside the C++ call is measured by the extension's own entry with the same addresses.
Every reply is checked.
"""

import sys
import time

import numpy as np

from . import DeviceArray, Table, dedup

CALLS = 20  # that are timed together


def timed(call, edge, runs):
    """Seconds of a call; ``edge`` is an array of the stream, whose copy waits for it."""
    best = float("inf")
    for _ in range(runs):
        edge.numpy()
        started = time.perf_counter()
        for _ in range(CALLS):
            call()
        edge.numpy()
        best = min(best, (time.perf_counter() - started) / CALLS)
    return best


def bench_words(row, keys, batch, runs):
    table = Table(device="cuda:0", expected=len(keys))
    for start in range(0, len(keys), batch):
        table.put(keys[start:start + batch], ~keys[start:start + batch])
    asked = np.resize(keys[::max(len(keys) // batch, 1)], batch)
    there, values = DeviceArray(asked), DeviceArray(~asked)
    out, mask = DeviceArray(np.zeros(batch, "u8")), DeviceArray(np.zeros(batch, "?"))
    pointers = [array._memory.pointer for array in (there, values, out, mask)]
    stream = there._memory.stream
    edge = DeviceArray(np.zeros(1, "u1"))

    def raw_get():
        table._run_on_gpu("get", 0, stream, batch, (pointers[0], 0, 0, pointers[2], pointers[3], 0, 0),
                           False)

    def raw_put():
        table._run_on_gpu("put", 0, stream, batch, (pointers[0], pointers[1], 0, 0, 0, 0, 0),
                           False)

    for name, call, raw in (("get", lambda: table.get(there, out), raw_get),
                            ("put", lambda: table.put(there, values), raw_put)):
        mine, theirs = timed(call, edge, runs), timed(raw, edge, runs)
        row(f"GPU: {name} of {batch:,} keys there", f"{1e-9 * batch / mine:.2f} G/s",
            f"{theirs / mine:.3f} ×", "≥ 0.95 ×")
    assert np.array_equal(out.numpy(), ~asked) and table.get(there)[1].numpy().all()
    one = asked[:1].copy()
    assert table.get(one)[0] == ~one
    gets = 50 * CALLS
    started = time.perf_counter()
    for _ in range(gets):
        table.get(one)
    seconds = (time.perf_counter() - started) / gets
    row("GPU: get of 1 key of the host", f"{seconds * 1e6:.2f} µs", "", "≤ 8 µs")


def bench_strings(row, keys, batch, runs):
    """Keys of 16 bytes and values of 64 that lie there."""
    table = Table("bytes", "bytes", device="cuda:0")
    names = np.stack([keys, ~keys], axis=1).view("u1")
    values = np.repeat(names, 4, axis=1)
    for start in range(0, len(keys), batch):
        table.put(DeviceArray(names[start:start + batch]), DeviceArray(values[start:start + batch]))
    picked = np.resize(np.arange(0, len(keys), max(len(keys) // batch, 1)), batch)
    rows = DeviceArray(names[picked])
    offsets, data = DeviceArray(np.arange(batch + 1) * 16), DeviceArray(names[picked].reshape(-1))
    out = DeviceArray(np.zeros(batch + 1, "i8")), DeviceArray(np.zeros(64 * batch, "u1"))
    mask = DeviceArray(np.zeros(batch, "?"))
    pointers = [array._memory.pointer for array in (offsets, data, mask, *out)]
    columns = (*pointers[:2], 0, 0, *pointers[2:])
    edge = DeviceArray(np.zeros(1, "u1"))
    mine = timed(lambda: table.get((offsets, data), out=out), edge, runs)
    assert np.array_equal(out[1].numpy().reshape(batch, 64), values[picked])
    theirs = timed(lambda: table._core.run_on_gpu("get", 0, 1, batch, columns, 64 * batch, True), edge,
                   runs)
    row(f"GPU: get of {batch:,} byte strings there", f"{1e-9 * batch / mine:.2f} G/s",
        f"{theirs / mine:.3f} ×")
    new = timed(lambda: table.get(rows), edge, runs)
    row("  without out=, which waits for the size", f"{1e-9 * batch / new:.2f} G/s",
        f"{theirs / new:.3f} ×")
    listed = names[picked]
    started = time.perf_counter()
    _, found = table.get(listed)
    assert found.all()
    row("  from a NumPy array of the host, to a list",
        f"{1e-9 * batch / (time.perf_counter() - started):.4f} G/s")


def bench_unique(row, count, part, sample):
    """Keys of the host, drawn among as many, so that a bit less than two thirds are distinct."""
    random = np.random.default_rng(3)
    some = random.integers(0, sample, sample, "u8")
    started = time.perf_counter()
    wanted = np.unique(some)
    theirs = (time.perf_counter() - started) * count / sample
    assert np.array_equal(np.sort(dedup.unique(some, device="cuda:0")), wanted)
    parts = [random.integers(0, count, min(part, count - at), "u8") for at in range(0, count, part)]
    started = time.perf_counter()
    distinct = sum(len(found) for found in dedup.unique(parts, expected=count * 2 // 3,
                                                        device="cuda:0"))
    mine = time.perf_counter() - started
    assert abs(distinct / count - 0.632) < 0.01 or count < 10_000
    row(f"GPU: dedup.unique of {count:,} keys of the host", f"{mine:.2f} s", f"{theirs / mine:.1f} ×",
        "≥ 50 ×")
    row(f"  (numpy.unique of {sample:,}, scaled)", f"{theirs:.1f} s")
    bench_cudf(row, parts, distinct, mine)


def bench_cudf(row, parts, distinct, mine):
    """cuDF's unique of the same keys, from arrays of the host to one of the host, as ours."""
    name = "  over cudf.Series.unique"
    try:
        import cudf
    except ImportError as error:
        row(name, "skipped", "", f"no cudf: {error}")
        return
    cudf.Series(parts[0][:1000]).unique().to_numpy()  # its first call takes longer
    started = time.perf_counter()
    try:
        found = cudf.Series(np.concatenate(parts)).unique().to_numpy()
    except MemoryError as error:
        row(name, "skipped", "", f"no memory: {error}")
        return
    theirs = time.perf_counter() - started
    assert len(found) == distinct
    row(name, f"{theirs:.2f} s", f"{theirs / mine:.2f} ×", "≥ 1 ×")


def bench_rows(row, keys, width, batch, runs):
    try:
        import torch
    except ImportError:
        torch = None
    if torch is None or not torch.cuda.is_available():
        row(f"GPU: rows of {width} floats over torch's embedding", "skipped", "", "no torch")
        return
    count = len(keys)
    dense = torch.arange(count, device="cuda", dtype=torch.float32)[:, None].repeat(1, width)
    ids = torch.from_numpy(keys.view("i8")).cuda()
    table = Table("i64", f"f32[{width}]", device="cuda:0", expected=count)
    for start in range(0, count, batch):
        table.put(ids[start:start + batch], dense[start:start + batch])
    places = torch.randint(0, count, (batch,), device="cuda")
    asked = ids[places]
    out = torch.empty(batch, width, device="cuda")

    def seconds(call):
        best = float("inf")
        for _ in range(runs):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(CALLS):
                call()
            end.record()
            end.synchronize()
            best = min(best, begin.elapsed_time(end) / 1e3 / CALLS)
        return best

    mine = seconds(lambda: table.get(asked, out))
    assert bool(table.get(asked, out)[1].all()) and torch.equal(out, dense[places])
    theirs = seconds(lambda: torch.nn.functional.embedding(places, dense))
    row(f"GPU: get of {batch:,} of {count:,} rows of {width} floats", f"{1e-9 * batch / mine:.2f} G/s",
        f"{theirs / mine:.2f} ×", "≥ 0.6 ×")
    row("  over torch.nn.functional.embedding of a dense tensor", f"{1e-9 * batch / theirs:.2f} G/s")


def bench_host_rows(row, keys, batch, runs):
    """Rows of 64 floats, of which the GPU has room for some half."""
    count = len(keys)
    table = Table(value="f32[64]", device="cuda:0", memory=(256 << 20) + 160 * count,
                  host_memory=(64 << 20) + 256 * count)
    asked = np.resize(keys[::max(count // batch, 1)], batch)
    for start in range(0, count, batch):
        some = keys[start:start + batch]
        table.put(some, np.repeat(some.astype("f4")[:, None], 64, axis=1))
    there, out = DeviceArray(asked), DeviceArray(np.zeros((batch, 64), "f4"))
    _, found = table.get(there, out)
    assert found.numpy().all() and (out.numpy() == asked.astype("f4")[:, None]).all()
    seconds = timed(lambda: table.get(there, out), DeviceArray(np.zeros(1, "u1")), runs)
    share = table.stats()["host_entries"] / count
    row(f"GPU: get of {batch:,} of {count:,} rows of 64 floats", f"{1e-9 * batch / seconds:.3f} G/s",
        f"{share:.0%}", "on the host")


def bench(row, keys, unique, runs, batch=1 << 20, part=1 << 26, sample=10_000_000):
    """``row`` prints a line; ``keys`` are distinct."""
    bench_words(row, keys, batch, runs)
    for width in (64, 128):
        bench_rows(row, keys[:4_000_000], width, batch, runs)
    bench_host_rows(row, keys[:4_000_000], batch, runs)
    bench_strings(row, keys[:4_000_000], batch, runs)
    if unique:
        bench_unique(row, unique, part, min(sample, unique))
    sys.stdout.flush()

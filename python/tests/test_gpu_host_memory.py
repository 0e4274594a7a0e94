"""Tables on GPUs that have host memory behind them."""

import numpy as np
import pytest
from conftest import IS_FAKE, needs_gpu

import isotherm
from isotherm import DeviceArray, Table

pytestmark = needs_gpu


def number_of(gpus):
    return len(gpus) if isinstance(gpus, list) else 1


@pytest.mark.parametrize("gpus", ["cuda:0", ["cuda:0", "cuda:1"]])
def test_walks_meet_what_lies_in_host_memory(tmp_path, gpus):
    """Also while bins move between the GPUs and the host, as calls in between let them."""
    if gpus != "cuda:0" and isotherm.gpu_count() < 2:
        pytest.skip("there is one GPU")
    count, memory, host = 6_000_000 * number_of(gpus), "128mb", "1gb"
    if IS_FAKE:
        count, memory, host = 3500 if gpus == "cuda:0" else 7000, 2300 << 10, "16mb"
    table = Table("i64", "i64", device=gpus, memory=memory, host_memory=host)
    keys = np.random.default_rng(5).permutation(np.arange(count))
    for part in np.array_split(keys, 8):
        table.put(part, part * 3)
    assert 0 < table.stats()["host_entries"] < count
    seen, hot = [], keys[:count // 10]
    for some, values in table.items(chunk=count // 20):
        seen.append(some)
        assert np.array_equal(values, some * 3)
        table.get(hot)  # so that what they lie in comes back
    assert np.array_equal(np.unique(np.concatenate(seen)), np.arange(count))
    table.save(tmp_path / "both")
    other = Table.load(tmp_path / "both", device="cpu")
    assert len(other) == count and np.array_equal(other[keys], keys * 3)


@pytest.mark.parametrize("gpus", ["cuda:0", ["cuda:0", "cuda:1"]])
@pytest.mark.parametrize("value", ["f32[64]", "u8[200]"])
def test_rows_lie_in_host_memory(tmp_path, gpus, value):
    if gpus != "cuda:0" and isotherm.gpu_count() < 2:
        pytest.skip("there is one GPU")
    count, host = 1_500_000 * number_of(gpus), f"{512 * number_of(gpus)}mb"
    memory = {"f32[64]": "320mb", "u8[200]": "256mb"}[value]
    if IS_FAKE:
        count, memory, host = 2500, "3100kb", "1mb"
    table = Table("i64", value, device=gpus, memory=memory, host_memory=host)
    dtype, row = table.value_dtype, table.row_shape
    keys = np.random.default_rng(7).permutation(np.arange(count)) - count // 2

    def rows_of(some, plus=0):
        wide = (np.asarray(some)[..., None] % 50 + np.arange(row[0]) + plus).astype(dtype)
        return np.ascontiguousarray(wide)

    for number, part in enumerate(np.array_split(keys, 4)):
        twice = np.concatenate([part[:9], part])
        rows = np.concatenate([rows_of(part[:9], 5), rows_of(part)])
        if number % 2 and value == "f32[64]":
            table.put(DeviceArray(twice), DeviceArray(rows))
        else:
            table.put(twice, rows)
    stats = table.stats()
    assert 0 < stats["host_entries"] < stats["entries"] == count
    assert stats["gpu_bytes"] <= stats["memory_bytes"] and 0 < stats["host_bytes"]
    assert np.array_equal(table[keys], rows_of(keys))
    seen = []
    for some, values in table.items(chunk=count // 5):
        seen.append(some)
        assert np.array_equal(values, rows_of(some))
    assert np.array_equal(np.sort(np.concatenate(seen)), np.sort(keys))
    some, absent = keys[::7].copy(), keys[:10] + count
    values, found = table.get_or_put(np.concatenate([some, absent]), np.zeros((len(some) + 10, *row), dtype))
    assert found[:-10].all() and not found[-10:].any() and np.array_equal(values[:-10], rows_of(some))
    assert not table.put_if_absent(some, rows_of(some, 1)).any()
    if value == "f32[64]":
        table.add(DeviceArray(some), DeviceArray(np.ones((len(some), *row), dtype)))
        table.add(absent, rows_of(absent))
    else:
        table.put(some, rows_of(some, 1))
        table.put(absent, rows_of(absent))
    assert np.array_equal(table[some], rows_of(some, 1))
    gone = keys[1::7].copy()
    assert table.erase(gone).all() and not table.contains(gone).any()
    table.save(tmp_path / "rows")
    for options in ({"device": "cpu"}, {"device": gpus, "memory": memory, "host_memory": host}):
        other = Table.load(tmp_path / "rows", **options)
        assert len(other) == len(table) and np.array_equal(other[some], rows_of(some, 1))
        assert np.array_equal(other[absent], rows_of(absent))
    assert other.stats()["host_entries"] > 0
    # Both memories end.
    more = np.arange(count * 4) + 2 * count
    stored = other.put(more, rows_of(more), on_full="mask")
    assert 0 < stored.sum() < len(more) and np.array_equal(other.contains(more), stored)
    assert np.array_equal(other[some], rows_of(some, 1))
    assert other.put(some, rows_of(some)) is None and np.array_equal(other[some], rows_of(some))

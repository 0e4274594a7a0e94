"""Tables that lie on several GPUs."""

import numpy as np
import pytest
from conftest import HAS_GPU, IS_FAKE, OnlyDlpack, OnlyInterface, needs_gpu

import isotherm
from isotherm import DeviceArray, DeviceStrings, Table

pytestmark = [needs_gpu, pytest.mark.skipif(HAS_GPU and isotherm.gpu_count() < 2,
                                            reason="there is one GPU")]
MANY = 200 if IS_FAKE else 100_000


def test_several_gpus_hold_one_table():
    table = Table(device=["cuda:0", "cuda:1"])
    keys = np.arange(MANY, dtype="u8")
    table.put(keys, keys * np.uint64(3))
    for gpu in ("cuda:0", "cuda:1"):
        there = DeviceArray(keys, gpu)
        values, found = table.get(there)
        assert values.device == gpu and found.numpy().all()
        assert np.array_equal(values.numpy(), keys * np.uint64(3))
    assert table.add(there, there, on_full="mask").numpy().all()
    assert table[5] == 20 and len(table) == MANY
    assert "on ['cuda:0', 'cuda:1']" in repr(table)
    seen = np.concatenate([part for part, _ in table.items(chunk=20)])
    assert np.array_equal(np.unique(seen), keys)
    with pytest.raises(ValueError, match="values: the array lies on cuda:1, and the keys on cuda:0"):
        table.put(DeviceArray(keys), DeviceArray(keys, "cuda:1"))
    for kind in (lambda array: array, OnlyDlpack, OnlyInterface):
        with pytest.raises(ValueError, match="keys: the array lies on cuda:1, and this table on cuda:0"):
            Table(device="cuda:0").get(kind(DeviceArray(keys, "cuda:1")))


@pytest.mark.parametrize("value", ["f32[4]", "f32[3]", "u8[40]"])
def test_several_gpus_hold_rows(value):
    table = Table("i64", value, device=["cuda:0", "cuda:1"], expected=MANY)
    keys = np.arange(MANY, dtype="i8") - 9
    rows = np.random.default_rng(1).integers(0, 50, (MANY, *table.row_shape)).astype(table.value_dtype)
    table.put(keys, rows)
    more = np.arange(MANY, dtype="i8") + MANY // 2
    added = np.ones_like(rows)
    was = dict(zip(keys.tolist(), rows))
    values, found = table.get_or_put(more, added)
    assert np.array_equal(found, more < MANY - 9)
    assert all(np.array_equal(row, was.get(key, added[0])) for key, row in zip(more.tolist(), values))
    for gpu in ("cuda:0", "cuda:1"):
        values, found = table.get(DeviceArray(keys, gpu))
        assert values.device == gpu and found.numpy().all()
        assert np.array_equal(values.numpy(), rows)
        table.put(DeviceArray(keys[:5], gpu), DeviceArray(rows[5:10], gpu))
        assert np.array_equal(table.get(keys[:5])[0], rows[5:10])
        table.put(keys[:5], rows[:5])
    if value != "u8[40]":
        table.add(keys[[3, 3]], added[:2])
        assert np.array_equal(table[3 - 9], rows[3] + 2)
        table.put(keys[3:4], rows[3:4])
    assert set(np.concatenate([part for part, _ in table.items(chunk=20)]).tolist()) == {*keys.tolist(), *more.tolist()}
    table.erase(more)
    assert len(table) == len({*keys.tolist()} - {*more.tolist()})


def test_several_gpus_hold_byte_strings():
    names = [b"key %d" % i + b"x" * (i % 7) for i in range(MANY)]
    texts = [b"v" * (i * 13 % 90) for i in range(MANY)]
    table = Table("bytes", "bytes", device=["cuda:0", "cuda:1"], host_memory=1 << (20 if IS_FAKE else 30))
    table.put(names[:MANY // 2], texts[:MANY // 2])
    wanted = dict(zip(names, texts))
    for gpu in ("cuda:1", "cuda:0"):
        keys = DeviceStrings(names + names[:3] + [b"missing"], gpu)
        new = DeviceStrings(texts + [b"last of three"] * 3 + [b""], gpu)
        assert table.put_if_absent(keys, new).numpy().sum() == (MANY // 2 + 1 if gpu == "cuda:1" else 0)
        values, found = table.get(keys)
        assert values.offsets.device == gpu and found.numpy().all()
        assert values.to_pylist() == texts + texts[:3] + [b""]
        assert table.put(keys, new, on_full="mask").numpy().all()
        assert table[names[:4]] == [b"last of three"] * 3 + texts[3:4]
        table.put(names[:3], texts[:3])
        rows, was_there = table.get_or_put(DeviceStrings([names[5], gpu.encode()], gpu),
                                           DeviceStrings([b"no", b"yes"], gpu))
        assert rows.to_pylist() == [texts[5], b"yes"] and was_there.numpy().tolist() == [True, False]
    wanted |= {b"missing": b"", b"cuda:0": b"yes", b"cuda:1": b"yes"}
    assert dict(pair for chunk in table.items(chunk=20) for pair in zip(*chunk)) == wanted
    assert len(table) == len(wanted) and "on ['cuda:0', 'cuda:1']" in repr(table)
    with pytest.raises(ValueError, match="the strings lie on cuda:0, and the keys on cuda:1"):
        table.put(DeviceStrings(names, "cuda:1"), DeviceStrings(texts, "cuda:0"))
    assert table.erase(keys).numpy().sum() == MANY + 1 and len(table) == 2


def test_several_gpus_hold_rows_under_byte_strings():
    table = Table("bytes", "f32[3]", device=["cuda:0", "cuda:1"], evict="allkeys-lru")
    names = [b"%d" % i for i in range(MANY)]
    rows = np.arange(MANY * 3, dtype="f4").reshape(MANY, 3)
    table.put(DeviceStrings(names, "cuda:1"), DeviceArray(rows, "cuda:1"))
    values, found = table.get(DeviceStrings(names[::-1], "cuda:0"))
    assert values.device == "cuda:0" and found.numpy().all()
    assert np.array_equal(values.numpy(), rows[::-1])
    table.add(names[:2] + names[:1], rows[1:4])
    assert np.array_equal(table[names[:2]], [rows[0] + rows[1] + rows[3], rows[1] + rows[2]])


@pytest.mark.parametrize("gpus", ["cuda:0", ["cuda:0", "cuda:1"]])
def test_too_little_memory_is_told_as_such(gpus):
    with pytest.raises(MemoryError, match=r"^memory=1048576: there is no room for such a table \(expected=0\)$"):
        Table(device=gpus, memory="1mb")
    with pytest.raises((MemoryError, ValueError), match="268435456 bytes or more|256 MiB or more"):
        Table("bytes", "bytes", device=gpus, memory="1mb")

"""Tables of byte strings on a GPU, with columns that lie there."""

import pickle
import resource
import sys

import numpy as np
import pytest
from arrow_stream import DeviceArrayOfStrings, DeviceChunks
from conftest import (
    IS_FAKE, OnlyDlpack, OnlyInterface, check_masks_of_a_full_table, needs_gpu)
from test_gpu import Queued

from isotherm import DeviceArray, DeviceStrings, Table, TableFullError, _core, _gpu_bytes_table

pytestmark = needs_gpu


def move(array):
    there = DeviceArray(array)
    return there, there._memory.pointer


def pair(strings, width, kind, shift=0):
    ends = np.cumsum([shift, *map(len, strings)]).astype(f"i{width}")
    data = np.frombuffer(b"#" * shift + b"".join(strings), "u1")
    return kind(DeviceArray(ends)), kind(DeviceArray(data))


def arrow(strings, format, kind=DeviceArrayOfStrings, chunks=1):
    parts = np.array_split(np.arange(len(strings)), chunks)
    return kind([[strings[i] for i in part] for part in parts], format, place=(2, 0), move=move)


KINDS = {
    "DeviceStrings": DeviceStrings,
    "offsets and bytes": lambda strings: pair(strings, 8, lambda array: array),
    "offsets of 32 bits": lambda strings: pair(strings, 4, OnlyDlpack),
    "offsets that begin later": lambda strings: pair(strings, 8, OnlyInterface, shift=5),
    "Arrow's large binary": lambda strings: arrow(strings, b"Z"),
    "Arrow's strings": lambda strings: arrow(strings, b"u"),
    "several arrays": lambda strings: arrow(strings, b"u", DeviceChunks, 4),
    "several large arrays": lambda strings: arrow(strings, b"Z", DeviceChunks, 3),
    "one large array": lambda strings: arrow(strings, b"Z", DeviceChunks),
}


@pytest.mark.parametrize("value", ["bytes", "u8[4]"])
@pytest.mark.parametrize("on_full", ["raise", "mask"])
def test_get_or_put_of_keys_that_are_gone_at_once(monkeypatch, value, on_full):
    def there(values):
        return (DeviceStrings(values) if value == "bytes" else
                DeviceArray(np.frombuffer(b"".join(values), "u1").reshape(-1, 4)))

    table = Table("bytes", value, device="cuda:0")
    table.put(DeviceStrings(["a", "b"]), there([b"old.", b"kept"]))
    read = "get_strings" if value == "bytes" else "get_rows"
    reads = getattr(_gpu_bytes_table._Call, read)

    def read_when_gone(*arguments):  # evicted, or erased by others
        monkeypatch.undo()
        table.erase(["a", "c"])
        return reads(*arguments)

    monkeypatch.setattr(_gpu_bytes_table._Call, read, read_when_gone)
    values, *masks = table.get_or_put(DeviceStrings(["a", "b", "c", "a"]),
                                      there([b"1...", b"2...", b"3...", b"4..."]), on_full)
    values = values.to_pylist() if value == "bytes" else [row.tobytes() for row in values.numpy()]
    assert values == [b"1...", b"kept", b"3...", b"1..."]
    assert [mask.numpy().tolist() for mask in masks] == (
        [[False, True, False, True], [False] * 4][:1 if on_full == "raise" else 2])
    assert len(table) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_every_kind(kind):
    make = KINDS[kind]
    table = Table("bytes", "bytes", device="cuda:0")
    keys = [b"k%d" % (number % 40) + b"x" * (number % 5) for number in range(50)]
    values = [b"v" * (number * 7 % 300) for number in range(50)]
    wanted = dict(zip(keys, values))
    assert table.put(make(keys), make(values)) is None
    assert len(table) == len(wanted) and table.get(keys)[0] == [wanted[key] for key in keys]
    asked = keys[::-1] + [b"missing", b""]
    got, found = table.get(make(asked))
    assert got.to_pylist() == [wanted.get(key) for key in asked] and len(got) == len(asked)
    assert found.numpy().tolist() == [key in wanted for key in asked]
    assert table.contains(make(asked)).numpy().tolist() == found.numpy().tolist()
    assert table[make(keys)].to_pylist() == [wanted[key] for key in keys]
    with pytest.raises(KeyError, match="missing"):
        table[make(asked)]
    assert table.erase(make([keys[3], keys[3], b"no"])).numpy().tolist() == [True, False, False]
    with pytest.raises(KeyError, match="no"):
        del table[make([keys[4], b"no"])]
    assert len(table) == len(wanted) - 2
    assert table.put_if_absent(make(keys[3:6]), make([b"new"] * 3)).numpy().tolist() == [
        True, True, False]
    rows, was_there = table.get_or_put(make([keys[4], b"fresh"]), make([b"other", b"first"]))
    assert rows.to_pylist() == [b"new", b"first"] and was_there.numpy().tolist() == [True, False]
    swapped = table.compare_and_swap(make([b"fresh", keys[4]]), make([b"first", b"wrong"]),
                                     make([b"second", b"third"]))
    assert swapped.numpy().tolist() == [True, False] and table["fresh"] == b"second"
    assert table.put(make([b"a"]), make([b"1"]), on_full="mask").numpy().tolist() == [True]


def test_strings_of_one_size():
    table = Table("bytes", "bytes", device="cuda:0")
    names = np.frombuffer(b"abcdefghi", "u1").reshape(3, 3)
    table.put(DeviceArray(names), arrow([b"123", b"456", b"789"], b"w:3"))
    assert table.get(["abc", "def", "ghi"])[0] == [b"123", b"456", b"789"]
    numbers = np.arange(6, dtype="i4").reshape(3, 2)
    table.put(OnlyDlpack(DeviceArray(numbers)), OnlyInterface(DeviceArray(names)))
    assert table[numbers[1].tobytes()] == b"def"
    joined = arrow([b"abc", b"def", b"ghi", b"xyz"], b"w:3", DeviceChunks, 3)
    assert table.get(joined)[0].to_pylist() == [b"123", b"456", b"789", None]


@pytest.mark.parametrize("value", ["f32[3]", "u64", "u8[5]"])
def test_rows_by_name(value):
    table = Table("bytes", value, device="cuda:0")
    dtype, row = table._value
    rows = np.arange(1, 5 * int(np.prod(row)) + 1, dtype=dtype).reshape(5, *row)
    names = [b"n%d" % number for number in range(5)]
    table.put(DeviceStrings(names), DeviceArray(rows))
    assert np.array_equal(table[names], rows)
    values, found = table.get(DeviceStrings([b"n4", b"no", b"n0"]))
    assert np.array_equal(values.numpy(), [rows[4], np.zeros_like(rows[0]), rows[0]])
    assert found.numpy().tolist() == [True, False, True]
    out = DeviceArray(np.full((2, *row), 77, dtype))
    assert table.get(DeviceStrings([b"n2", b"no"]), out=out)[0] is out
    assert np.array_equal(out.numpy(), [rows[2], np.full_like(rows[0], 77)])
    assert table.add(DeviceStrings([b"n1", b"n1"]), DeviceArray(rows[:2])) is None
    assert np.array_equal(table["n1"], rows[1] * 2 + rows[0])
    assert table.compare_and_swap(DeviceStrings([b"n3"]), DeviceArray(rows[3:4]),
                                  DeviceArray(rows[:1])).numpy().tolist() == [True]
    rows_now, was_there = table.get_or_put(DeviceStrings([b"n3", b"more"]), DeviceArray(rows[:2]))
    assert np.array_equal(rows_now.numpy(), [rows[0], rows[1]]) and was_there.numpy().tolist() == [
        True, False]
    assert np.array_equal(table[DeviceStrings([b"n0", b"more"])].numpy(), rows[:2])


def test_strings_by_number():
    table = Table("i64", "bytes", device="cuda:0")
    keys = np.array([[-1, 2], [2**62, 0]])
    table.put(DeviceArray(keys), DeviceStrings(["a", "bb", "", "cccc"]))
    assert table.get(keys)[0] == [b"a", b"bb", b"", b"cccc"]
    values, found = table.get(OnlyDlpack(DeviceArray(np.array([2, 5, -1]))))
    assert values.to_pylist() == [b"bb", None, b"a"]
    assert table.contains(DeviceArray(keys)).numpy().tolist() == [[True, True], [True, True]]
    with pytest.raises(KeyError) as missing:
        table[DeviceArray(np.array([2, -7]))]
    assert missing.value.args == (-7,)
    assert table.compare_and_swap(DeviceArray(np.array([2])), DeviceStrings(["bb"]),
                                  DeviceStrings(["x"])).numpy().all()
    with pytest.raises(TypeError, match="keys: wants dtype int64, not uint64"):
        table.get(DeviceArray(np.array([1], "u8")))


def test_out_is_a_pair_that_nothing_waits_for():
    table = Table("bytes", "bytes", device="cuda:0")
    table.put(["a", "b"], ["1", "22"])
    out = DeviceArray(np.full(4, -1)), DeviceArray(np.zeros(3, "u1"))
    given, found = table.get(DeviceStrings(["b", "x", "a"]), out=out)
    assert given is out and out[0].numpy().tolist() == [0, 2, 2, 3]
    assert out[1].numpy().tobytes() == b"221" and found.numpy().tolist() == [True, False, True]
    short = out[0], DeviceArray(np.zeros(1, "u1"))
    table.get(DeviceStrings(["b", "x", "a"]), out=short)
    assert out[0].numpy()[-1] == 3 and found.numpy().tolist() == [True, False, True]
    none = DeviceArray(np.full(1, 9)), DeviceArray(np.zeros(0, "u1"))
    table.get(DeviceStrings([]), out=none)
    assert none[0].numpy().tolist() == [0]
    with pytest.raises(ValueError, match=r"out: offsets: wants shape \(4,\), not \(1,\)"):
        table.get(DeviceStrings(["b", "x", "a"]), out=none)
    keys = DeviceStrings(["a"])
    with pytest.raises(ValueError, match="out: bytes: the array overlaps the keys"):
        table.get(keys, out=(DeviceArray(np.zeros(2, "i8")), keys.data))
    with pytest.raises(TypeError, match="out: wants a pair of offsets and bytes on cuda:0"):
        table.get(DeviceStrings(["a"]), out=none[0])


def test_one_long_value_makes_later_answers_no_larger():
    table, keys = Table("bytes", "bytes", device="cuda:0"), [str(i) for i in range(1024)]
    table.put(["long", "1"], [b"x" * (8 << 20), "a"])
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(open("/proc/self/statm").read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (4 << 30), before[1]))
    try:
        for there in (list, DeviceStrings):
            assert len(listed(table.get(there(["long"]))[0])[0]) == 8 << 20
            assert listed(table.get(there(keys))[0])[:3] == [None, b"a", None]
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def listed(strings):
    return strings if isinstance(strings, list) else strings.to_pylist()


def test_answers_of_unknown_size():
    """More than the table has guessed, and then less."""
    table = Table("bytes", "bytes", device="cuda:0")
    keys = DeviceStrings([b"%d" % number for number in range(30)])
    for size in (2000, 1, 700):
        table.put(keys, DeviceStrings([bytes([number]) * size for number in range(30)]))
        assert table.get(keys)[0].to_pylist() == [bytes([number]) * size for number in range(30)]


def test_arrows_device_interface_goes_out():
    table, copy = (Table("bytes", "bytes", device="cuda:0") for _ in range(2))
    table.put(["a", "b", "c"], ["1", "", "333"])
    values = table[DeviceStrings(["a", "b", "c"])]
    copy.put(DeviceStrings(["x", "y", "z"]), values)

    class Only:
        def __init__(self, column):
            self.__arrow_c_device_array__ = column.__arrow_c_device_array__

    class Stream:
        def __init__(self, column):
            self.__arrow_c_device_stream__ = column.__arrow_c_device_stream__

    for kind in (Only, Stream):
        copy.put(DeviceStrings(["x", "y", "z"]), kind(values))
        assert copy.get(["x", "y", "z"])[0] == [b"1", b"", b"333"]
    with_nulls, _ = table.get(DeviceStrings(["a", "no"]))
    with pytest.raises(ValueError, match="values: the Arrow array has nulls"):
        copy.put(DeviceStrings(["x", "y"]), Only(with_nulls))
    whole, _ = table.get(DeviceStrings(["a", "c"] * 9))  # their bits are looked at
    assert copy.put(DeviceStrings(["x"] * 18), Only(whole)) is None and copy["x"] == b"333"
    column = _core.ArrowInput(with_nulls, "keys", True)
    (rows, offset, nulls, buffers, event), = column.chunks()
    assert (rows, offset, nulls, len(buffers)) == (2, 0, -1, 3) and event != 0
    assert (column.format, column.device_type, column.device) == ("Z", 2, 0)


def test_calls_follow_the_streams_of_their_arrays():
    for turn in range(6):
        table = Table("bytes", "u64", device="cuda:0")
        numbers = np.arange(30, dtype="u8") + turn
        keys, values, out = Queued(numbers), Queued(numbers * 3), Queued(np.zeros(30))
        table.put(keys.array, values.array)
        table.get(DeviceArray(numbers), out=out.array)
        copy = np.empty(30, "u8")
        out.array._memory.read(copy)  # in its own stream
        assert np.array_equal(copy, numbers * 3)


@pytest.mark.parametrize("keys, error, words", [
    (lambda: arrow([b"a"], b"vu"), TypeError, "keys: string views"),
    (lambda: DeviceArrayOfStrings([[b"a"]], b"u", 1, place=(2, 0), move=move), ValueError,
     "keys: the Arrow array has nulls"),
    (lambda: (DeviceArray(np.zeros(2)), DeviceArray(np.zeros(2, "u1"))), TypeError,
     "keys: offsets: wants dtype int64, not float64"),
    (lambda: (DeviceArray(np.zeros(2, "i8")), DeviceArray(np.zeros(2))), TypeError,
     "keys: bytes: wants dtype uint8, not float64"),
    (lambda: (DeviceArray(np.zeros(2, "i8")), np.zeros(2, "u1")), TypeError, "both must lie"),
    (lambda: (DeviceArray(np.zeros((2, 2), "i8")), DeviceArray(np.zeros(2, "u1"))), ValueError,
     "keys: offsets: wants one dimension"),
    (lambda: (DeviceArray(np.zeros(0, "i8")), DeviceArray(np.zeros(2, "u1"))), ValueError, "one more"),
    (lambda: DeviceArray(np.array(1)), TypeError, "keys: wants rows of bytes"),
    (lambda: DeviceStrings(["k" * 70_000]), ValueError, "than the table or store allows"),
])
def test_wrong_columns(keys, error, words):
    table = Table("bytes", "bytes", device="cuda:0")
    with pytest.raises(error, match=words):
        table.put(keys(), DeviceStrings(["v"]))
    assert len(table) == 0


def test_wrong_values_and_empty_calls():
    table = Table("bytes", "bytes", device="cuda:0")
    keys = DeviceStrings(["a", "b"])
    for values, error, words in ((["1", "2"], TypeError, "values: wants byte strings on cuda:0"),
                                 (DeviceStrings(["1"]), ValueError, "values: there are 1 for 2 keys")):
        with pytest.raises(error, match=words):
            table.put(keys, values)
    rows = Table("bytes", "f32", device="cuda:0")
    with pytest.raises(TypeError, match="values: wants dtype float32, not float64"):
        rows.put(keys, DeviceArray(np.zeros(2)))
    with pytest.raises(TypeError, match="values: wants an array on cuda:0"):
        rows.put(keys, np.zeros(2, "f4"))
    none = DeviceStrings([])
    assert table.put(none, none) is None and table.get(none)[0].to_pylist() == []
    assert table.contains(none).numpy().tolist() == [] and table.erase(none).numpy().tolist() == []
    assert rows.get(none)[0].numpy().shape == (0,) and len(table) == 0
    assert "DeviceStrings, 2 on cuda:0" in repr(keys) and keys.device == "cuda:0"


@pytest.mark.skipif(not IS_FAKE, reason="a real one has larger slabs")
def test_a_table_that_is_full():
    empty = Table("bytes", "bytes", device="cuda:0").memory_bytes
    tables = [Table("bytes", "bytes", device="cuda:0", memory=empty + (1 << 20)) for _ in range(2)]
    rows = 300
    keys, values = (DeviceStrings([bytes([65 + at]) + b"%d" % number + b"-" * size
                                   for number in range(rows)]) for at, size in ((0, 0), (1, 9000)))
    with pytest.raises(TableFullError, match="of 300 keys found no room"):
        tables[0].put(keys, values)
    stored = tables[1].put(keys, values, on_full="mask").numpy()
    assert 0 < stored.sum() < rows
    assert np.array_equal(tables[1].contains(keys).numpy(), stored)
    names = [bytes([65]) + b"%d" % number for number in range(rows)]
    for there, back in ((DeviceStrings, lambda mask: mask.numpy()), (list, np.asarray)):
        got, refused = check_masks_of_a_full_table(
            tables[1], [name for name, its in zip(names, stored) if its], [b"%d" % n for n in range(200)],
            there, lambda its: there([b"=" * 9000] * len(its)), back)
        got = got if there is list else got.to_pylist()
        assert all((value is None) == its for value, its in zip(got, refused))


def test_items_and_files_of_byte_strings(tmp_path, random):
    table = Table("bytes", "f32[2]", device="cuda:0")
    names = [b"n%d" % number * (number % 30) for number in range(150)]
    rows = random.random((150, 2), "f4")
    table.put(names, rows)
    seen = {}
    for keys, values in table.items(chunk=60):
        seen |= dict(zip(keys, map(tuple, values)))
    assert seen == dict(zip(names, map(tuple, rows)))
    table.save(tmp_path / "names")
    for device in ("cpu", "cuda:0"):
        other = Table.load(tmp_path / "names", device=device)
        assert np.array_equal(other[names], table[names]) and len(other) == len(table)
    assert np.array_equal(pickle.loads(pickle.dumps(table))[names], table[names])


def test_references_come_back():
    table = Table("bytes", "bytes", device="cuda:0")
    keys, chunks = DeviceStrings(["a", "b"]), arrow([b"a", b"b"], b"u", DeviceChunks, 2)
    table.put(keys, keys)
    values = table[keys]

    def once():
        table.put(keys, values), table.get(keys), table.contains(chunks)
        capsules = values.__arrow_c_device_array__(), values.__arrow_c_device_stream__()
        assert len(capsules[0]) == 2

    once()
    things = [keys, values, keys.offsets, values.data, values.data._memory]
    before = [sys.getrefcount(thing) for thing in things]
    for _ in range(10):
        once()
    assert before == [sys.getrefcount(thing) for thing in things] and chunks.held == 0

"""What is particular to tables whose keys or values are byte strings."""

import numpy as np
import pytest

from isotherm import Table


@pytest.mark.parametrize("key, value, memory, evict", [
    ("bytes", "bytes", "1mb", "allkeys-lru"), ("bytes", "bytes", "1mb", "allkeys-random"),
    ("u64", "bytes", "1mb", "allkeys-lru"), ("bytes", "f32[64]", "4mb", "allkeys-lru")])
def test_get_or_put_ends_where_keys_are_evicted_in_the_call(key, value, memory, evict):
    table, count = Table(key, value, memory=memory, evict=evict), 20_000
    numbers = np.concatenate([np.arange(count), np.arange(count, dtype="u8")]).astype("u8")
    keys = numbers if key == "u64" else [b"%06d" % number for number in numbers]
    values = ([b"%0100d" % number for number in range(2 * count)] if value == "bytes" else
              np.repeat(np.arange(2 * count, dtype="f4"), 64).reshape(-1, 64))
    got, found = table.get_or_put(keys, values)
    assert 0 < len(table) < count and not found[:count].any()
    # A key has its first value, or, where that was evicted, its second.
    numbers = np.array([int(row) for row in got] if value == "bytes" else got[:, 0], int)
    expected = np.arange(2 * count)
    assert np.array_equal(numbers, np.where(found, expected - count, expected))


def test_get_or_put_of_keys_that_others_erase():
    table = Table("bytes", "bytes")
    table.put(["a", "b"], ["old", "there"])
    read = table._found

    def read_when_erased(*arguments):
        table._found = read
        table.erase("a")
        return read(*arguments)

    table._found = read_when_erased
    values, found = table.get_or_put(["a", "b", "c", "a"], ["1", "2", "3", "4"])
    assert values == [b"1", b"there", b"3", b"1"] and found.tolist() == [False, True, False, True]
    assert table.get(["a", "b", "c"])[0] == [b"1", b"there", b"3"]


@pytest.mark.parametrize("value, some", [("S4", [b"ab", b"", b"abcd"]), ("U3", ["ab", "", "äbc"]),
                                         ("S2", [b"a\0b"[:2], b"", b"xy"])])
def test_values_of_text_keep_their_size(tmp_path, value, some):
    table = Table("bytes", value)
    array = np.array(some, value)
    table.put([b"a", b"b", b"c"], array)
    table.put([b"d"], some[:1])
    assert table.put_if_absent([b"e", b"a"], array[1:]).tolist() == [True, False]
    assert np.array_equal(table[[b"a", b"b", b"c", b"d", b"e"]], np.append(array, array[[0, 1]]))
    assert table.compare_and_swap([b"a", b"b"], array[[0, 0]], array[[2, 2]]).tolist() == [True, False]
    values, found = table.get_or_put([b"a", b"f"], array[[1, 1]])
    assert np.array_equal(values, array[[2, 1]]) and found.tolist() == [True, False]
    table.save(tmp_path / "table")
    assert np.array_equal(Table.load(tmp_path / "table")[[b"a", b"d"]], array[[2, 0]])
    assert sum(len(keys) for keys, _ in table.items()) == 6


def test_only_strings_are_swapped_and_only_numbers_added():
    table = Table("bytes", "bytes")
    table.put("a", b"\0\0")
    for old, new in (([2], [3]), ([b"\0\0"], [3]), ([2], [b"x"]), ([bytearray(2)], [b"x"])):
        with pytest.raises(TypeError, match="wants bytes or str"):
            table.compare_and_swap(["a"], old, new)
    assert table["a"] == b"\0\0" and table.compare_and_swap("a", b"\0\0", "x")
    for dtype in ("f2", np.longdouble, "?", "c16"):
        for key in ("bytes", "u64"):
            with pytest.raises(TypeError, match="add: values of dtype .* cannot be added"):
                Table(key, dtype).add(["a"] if key == "bytes" else [1], [1])
    for dtype in np.dtype("u1"), np.dtype("i8"), np.dtype("f4"), np.dtype("f8"):
        table = Table("bytes", dtype)
        table.add(["a", "a"], np.array([1, 2], dtype))
        assert table["a"] == 3

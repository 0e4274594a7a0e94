"""Seen, unique and Join: lists as well as arrays, and keys of bytes."""

import numpy as np
import pytest

from isotherm.dedup import Join, Seen, unique


@pytest.mark.parametrize("key", ["u64", "i64"])
def test_lists_are_as_arrays(key):
    seen = Seen(key)
    assert seen([5, 5]).tolist() == [False, True]
    assert seen.new([5, 6, 6, 7]).tolist() == [6, 7] and seen.new((8,)).tolist() == [8]
    assert seen.new(np.int64(9)).tolist() == [9] and seen.new(range(9, 11)).tolist() == [10]
    with pytest.raises(TypeError):
        seen.new([11, 1.5])
    assert len(seen) == 6
    assert [part.tolist() for part in unique([[1, 2], np.array([2, 3], seen._table.key_dtype), [3]],
                                             key)] == [[1, 2], [3], []]
    assert unique([3, 1, 3], key).tolist() == [3, 1] and list(unique([], key)) == []
    assert len(unique([], key)) == 0 and unique(3, key).tolist() == [3]


def test_keys_and_values_of_bytes():
    seen = Seen("bytes")
    assert seen(["a", "a"]).tolist() == [False, True]
    assert seen.new([b"a", "b", "b"]) == [b"b"] and len(seen) == 2
    assert seen.new(np.array([b"b", b"c"])).tolist() == [b"c"]
    assert list(unique([["x", "y"], ["y", "z"]], "bytes")) == [[b"x", b"y"], [b"z"]]
    assert unique(["x", "y", "x"], "bytes") == [b"x", b"y"]
    join = Join("bytes", "bytes")
    join.build(["a", "b"], ["1", "2"])
    rows, values = join.inner(["b", "x", "a"])
    assert rows.tolist() == [0, 2] and values == [b"2", b"1"]
    assert join.left(["x", "a"])[0] == [None, b"1"]
    join = Join("f4", "bytes")
    join.build(["a"], [2])
    assert join.inner(["x", "a"])[1].tolist() == [2]


def test_one_array_of_any_kind():
    class Column:  # as pandas has it
        def __init__(self, array):
            self.array = array

        def __array__(self, dtype=None, copy=None):
            return self.array

        def __iter__(self):
            return iter(self.array)

        def __getitem__(self, mask):
            return Column(self.array[mask])

        def tolist(self):
            return self.array.tolist()

    class ArrowArray:  # which no mask chooses from
        def __init__(self, array):
            self.array = array

        def __array__(self, dtype=None, copy=None):
            return self.array

        def __arrow_c_array__(self, requested_schema=None):
            raise NotImplementedError

    keys = np.array([3, 1, 3], "u8")
    assert unique(Column(keys)).tolist() == [3, 1] and isinstance(Seen().new(Column(keys)), Column)
    assert unique(ArrowArray(keys)).tolist() == [3, 1]
    assert [part.tolist() for part in unique([Column(keys), Column(keys)])] == [[3, 1], []]
    assert unique("aba", key="bytes") == [b"aba"]


@pytest.mark.parametrize("value, rows", [("u64", [10, 20]), ("f32[2]", [[1, 2], [3, 4]])])
def test_rows_of_a_join_count_in_c_order(value, rows):
    join = Join(value)
    join.build([1, 2], rows)
    at, values = join.inner([[9, 1], [2, 7]])
    assert at.tolist() == [1, 2] and values.tolist() == rows
    at, values = join.inner(2)
    assert at.tolist() == [0] and values.tolist() == rows[1:]
    at, values = join.inner([[9], [7]])
    assert at.tolist() == [] and values.shape == (0, *np.shape(rows)[1:])

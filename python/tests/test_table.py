"""Tables beside a dict: every verb, every kind of value, keys of both kinds."""

import sys
import typing

import numpy as np
import pytest
from conftest import IS_FAKE, KINDS, PLACES, check_masks_of_a_full_table, draw_values, table_at

import isotherm
from isotherm import Table, TableFullError, _devices
from isotherm.table import Mask

VERBS = {"put", "erase", "put_if_absent", "get_or_put", "compare_and_swap", "add"}
# Of the calls with arrays on a GPU: words, rows, and what is computed from copies on the host.
ON_GPU = ["u64", "i64", "f64", "f32[128]", "u8[3]"]


@pytest.mark.parametrize("place, key, value", [
    (place, key, value) for place in PLACES for key in ("u64", "i64", "bytes") for value in KINDS
    if place == "cpu" or key == ("i64" if value == "i64" else "u64") and (place == "cuda:0"
                                                                          or value in ON_GPU)])
def test_random_verbs_equal_a_dict(random, place, key, value):
    table, model = table_at(place, key=key, value=value), {}
    verbs = sorted(VERBS)
    slow = IS_FAKE and place != "cpu"
    most = 60 if slow else 200
    for step in range(16 if slow else 30 if key == "bytes" else 60):
        numbers = random.integers(0, most * 3 // 2, random.integers(0, most))
        numbers = numbers.astype("u8" if key != "i64" else "i8")
        keys = numbers if key != "bytes" else [b"k%d" % number for number in numbers]
        listed = numbers.tolist() if key != "bytes" else keys
        values = draw_values(random, value, numbers.shape)
        before = [model.get(k) for k in listed]
        verb = random.choice(verbs)
        if verb == "put":
            assert table.put(keys, values) is None
            model.update(zip(listed, values))
        elif verb == "erase":
            assert table.erase(keys).tolist() == [model.pop(k, None) is not None for k in listed]
        elif verb == "put_if_absent":
            expected = []
            for k, v in zip(listed, values):
                expected.append(k not in model)
                model.setdefault(k, v)
            assert table.put_if_absent(keys, values).tolist() == expected
        elif verb == "get_or_put":
            there = [k in model or k in listed[:i] for i, k in enumerate(listed)]
            got, found = table.get_or_put(keys, values)
            assert found.tolist() == there
            for i, (k, v) in enumerate(zip(listed, values)):
                assert np.array_equal(got[i], model.setdefault(k, v))
        elif verb == "compare_and_swap":
            old = np.array([v if b is None or i % 3 == 0 else b
                            for i, (b, v) in enumerate(zip(before, values))],
                           values.dtype).reshape(values.shape)
            expected = []
            for k, o, v in zip(listed, old, values):
                expected.append(k in model and np.array_equal(model[k], o))
                if expected[-1]:
                    model[k] = v
            assert table.compare_and_swap(keys, old, values).tolist() == expected
        else:
            table.add(keys, values)
            for k, v in zip(listed, values):
                model[k] = model[k] + v if k in model else v
        got, found = table.get(keys)
        assert found.tolist() == [k in model for k in listed]
        for i, k in enumerate(listed):
            assert np.array_equal(got[i], model.get(k, np.zeros_like(values[i])))
        assert table.contains(keys).tolist() == found.tolist()
        assert len(table) == len(model)
    scanned = {}
    for keys, values in table.items(chunk=7):
        scanned.update(zip(keys.tolist() if key != "bytes" else keys, values))
    assert scanned.keys() == model.keys()
    assert all(np.array_equal(scanned[k], model[k]) for k in model)


def test_no_key_is_reserved(random):
    for key, extremes in (("u64", [0, 1, 2**63, 2**64 - 1]), ("i64", [0, -1, -2**63, 2**63 - 1])):
        for value in ("u64", "f32[2]"):
            table = Table(key=key, value=value)
            table.put(extremes, draw_values(random, value, (4,)))
            assert len(table) == 4 and table.contains(extremes).all()
            assert sorted(k for keys, _ in table.items() for k in keys.tolist()) == sorted(extremes)
            assert extremes[-1] in table and 5 not in table
            assert table.erase(extremes).all() and len(table) == 0
    # All of the 2^16 keys that end in each pattern, so that a mark anywhere among them would show.
    table = Table()
    for top in (0, 2**64 - 2**16):
        keys = np.arange(2**16, dtype="u8") + np.uint64(top)
        table.put(keys, ~keys)
        assert np.array_equal(table[keys], ~keys)


def test_shapes_follow_the_keys():
    table = Table(value="f32[2]")
    keys = np.arange(6, dtype="u8").reshape(2, 3)
    rows = np.arange(12, dtype="f4").reshape(2, 3, 2)
    table.put(keys, rows)
    values, found = table.get(keys)
    assert np.array_equal(values, rows) and found.shape == (2, 3) and found.all()
    values, found = table.get(4)
    assert values.tolist() == [8, 9] and found and found.shape == ()
    assert isinstance(Table(value="u64").get(1)[0], np.uint64)
    table[9] = [1, 2]
    assert table[[9, 9]].tolist() == [[1, 2], [1, 2]]
    assert table[np.uint64(9)].tolist() == table[np.int8(9)].tolist() == [1, 2]
    with pytest.raises(TypeError, match="wants integers"):
        table[np.float32(9)]


def test_the_first_missing_key_is_named():
    for value in ("u64", "u8[3]"):
        table = Table(key="i64", value=value)
        table.put([1, 2], 3)
        with pytest.raises(KeyError, match=r"^-7$"):
            table[[1, -7, 2, 8]]
        with pytest.raises(KeyError, match="^5$"):
            del table[[1, 5]]
        assert 1 not in table and 2 in table
        del table[2]
        assert len(table) == 0


def test_out_is_filled_and_misses_leave_it():
    table = Table(value="f32[2]")
    table.put([1, 3], [[1, 1], [3, 3]])
    out = np.full((3, 2), 9, "f4")
    values, found = table.get([1, 2, 3], out)
    assert values is out and out.tolist() == [[1, 1], [9, 9], [3, 3]]
    assert found.tolist() == [True, False, True]
    bytes_table = Table(key="bytes", value="u64")
    bytes_table.put(["a"], [5])
    out = np.full(2, 9, "u8")
    assert bytes_table.get(["a", "b"], out)[0] is out and out.tolist() == [5, 9]


def test_empty_calls_do_nothing():
    for table in (Table(), Table(value="f32[2]"), Table(key="bytes", value="f32[2]")):
        none = [] if "bytes" in repr(table) else np.array([], "u8")
        row = () if table._kind()["value"] == "u64" else (2,)
        values, found = table.get(none)
        assert values.shape == (0, *row) and found.shape == (0,)
        table.put(none, np.zeros((0, *row), "u8" if not row else "f4"))
        assert table.erase(none).shape == (0,) and table.contains(none).shape == (0,)
        table.put([], [])
        if isinstance(none, np.ndarray):
            table.put(np.zeros((0, 4), "u8"), [])
            assert table.get_or_put(np.zeros((0, 4), "u8"), [])[0].shape == (0, 4, *row)
        assert len(table) == 0 and list(table.items()) == []
        with pytest.raises(ValueError, match="values"):
            table.put(["a"] if "bytes" in repr(table) else [1], [])


def test_a_full_table_raises_or_says_which():
    for value in ("u64", "f32[16]"):
        table = Table(value=value, memory="4mb")
        keys = np.arange(400_000, dtype="u8")
        stored = table.put(keys, 1, on_full="mask")
        assert 0 < stored.sum() < len(keys) and len(table) == stored.sum()
        assert np.array_equal(table.contains(keys), stored)
        assert table.memory_bytes <= 4 << 20
        assert table.put(keys[stored], 2) is None  # those that are there can be written
        with pytest.raises(TableFullError, match="of 400000 keys found no room"):
            table.put(keys, 3)
        assert (table.get(keys[stored])[0] == 3).all()
        with pytest.raises(MemoryError):
            table.add(keys, 1)
        with pytest.raises(MemoryError):
            table.put_if_absent(keys, 1)
        for verb in (table.put, table.put_if_absent, table.get_or_put):
            with pytest.raises(ValueError, match="on_full"):
                verb(keys, 1, on_full="ignore")
        before = table[keys[:500][stored[:500]]]
        got, refused = check_masks_of_a_full_table(
            table, keys[:500][stored[:500]], keys[:1000] + 400_000, np.asarray,
            lambda its: np.full((len(its), *table.row_shape), 9, table.value_dtype))
        assert np.array_equal(got[:len(before)], before) and (got[refused] == 9).all()


def test_a_full_table_of_byte_strings_says_which():
    table = Table("bytes", "bytes", memory="8mb")
    names = [b"key-%06d" % i for i in range(40_000)]
    stored = table.put(names, [b"v" * 300] * len(names), on_full="mask")
    known = [name for name, its in zip(names[:500], stored) if its]
    got, refused = check_masks_of_a_full_table(table, known, [b"new-%06d" % i for i in range(1000)],
                                               list, lambda its: [b"w" * 300] * len(its))
    assert got[:len(known)] == [b"v" * 300] * len(known)
    assert all((value is None) == its for value, its in zip(got, refused))


def test_options_are_checked(monkeypatch):
    for arguments in ({"key": "u32"}, {"value": "f33"}, {"value": "O"}, {"value": "f32[0]"},
                      {"value": "u8[1048577]"}, {"memory": "much"}, {"memory": -1},
                      {"expected": -1}, {"evict": "allkeys-lru"}, {"value": ">f4"}):
        with pytest.raises(ValueError):
            Table(**arguments)
    monkeypatch.setattr(_devices, "why_no_gpu", lambda: "this package was built without a GPU part")
    for device in ("cuda:0", ["cuda:0", "cuda:1"]):
        with pytest.raises(RuntimeError, match="without a GPU part"):
            Table(device=device)
    assert Table(expected=1_000_000).memory_bytes > Table().memory_bytes
    assert repr(Table(value=np.dtype(("f4", (2,))))) == "<isotherm.Table u64 → f32[2], 0 entries on the CPU>"
    assert isotherm.Table(value=np.dtype([("a", "u8"), ("b", "f4")])).stats()["row_bytes"] == 12


def test_room_that_cannot_be_is_refused_at_once():
    for options in ({"expected": 2**40}, {"expected": 2**62}, {"expected": 2**70},
                    {"expected": 2**40, "value": "f32[128]", "memory": "999tb"},
                    {"expected": 2**40, "evict": "use"}):
        with pytest.raises(MemoryError, match="expected=.* takes .* bytes or more, and that is beyond the machine's"):
            Table(**options)
    for value, enough in (("u64", 30 << 20), ("f32[128]", 550 << 20)):
        with pytest.raises(MemoryError, match="takes .* bytes or more, and that is beyond memory=20"):
            Table(value=value, expected=10**6, memory=20 << 20)
        assert len(Table(value=value, expected=10**6, memory=enough)) == 0
    for memory in (1, 100_000, (1 << 20) - 1):
        with pytest.raises(MemoryError, match=f"memory={memory}: .* needs 1048576 bytes or more"):
            Table(memory=memory)
    with pytest.raises(MemoryError, match="needs 3145728 bytes or more"):
        Table(value="f32[2]", memory=(3 << 20) - 1)
    for make in (isotherm.Store, lambda memory: Table("bytes", "bytes", memory=memory)):
        with pytest.raises(MemoryError, match="memory=786431: a store needs 786432 bytes or more"):
            make(memory=(768 << 10) - 1)
        assert len(make(memory="768kb")) == 0
    smallest = Table(value="f32[2]", memory=3 << 20)
    smallest.put([1], [[2, 3]])
    assert smallest[1].tolist() == [2, 3]
    with pytest.raises(MemoryError, match="beyond memory=1048576"):
        Table("bytes", "u64", expected=10**9, memory="1mb")
    with pytest.raises(MemoryError, match="needs about 29048576 bytes"):
        Table(expected=10**6, memory=25_500_000)
    assert len(Table(memory=1 << 20)) == len(Table(expected=10**6, memory=29_048_576)) == 0
    for make in (Table, isotherm.Store):
        for memory in (2**64, "99999999999tb"):
            with pytest.raises(ValueError, match="memory must be from 0 to 2.64 - 1 bytes, but is"):
                make(memory=memory)
        for memory in (float("nan"), float("inf"), 1.5, [1], b"1gb"):
            with pytest.raises(TypeError, match="memory must be whole bytes or a size such as"):
                make(memory=memory)
        assert len(make(memory=1e9)) == 0
    with pytest.raises(ValueError, match="max_value_bytes must be at least 1"):
        isotherm.Store(max_value_bytes=0)
    with pytest.raises(ValueError, match="value must be a dtype, .* not None"):
        Table(value=None)
    assert len(Table("i64", "f32[64]", memory="16mb", evict="use", expected=2**62)) == 0
    assert len(Table("bytes", "u64", memory="16mb", evict="allkeys-lru", expected=2**62)) == 0
    with pytest.raises(TypeError):
        Table(expected=1.5)


def test_a_table_is_not_subclassed():
    with pytest.raises(TypeError, match="Sub: a Table cannot be subclassed"):
        class Sub(Table):
            pass


def test_records_and_dates_are_values():
    record = np.dtype([("clicks", "u4"), ("score", "f4")])
    table = Table(value=record)
    rows = np.array([(1, 0.5), (2, 1.5)], record)
    table.put([1, 2], rows)
    assert np.array_equal(table[[2, 1]], rows[::-1])
    with pytest.raises(TypeError, match="cannot be added"):
        table.add([1], rows[:1])
    days = Table(value="datetime64[D]")
    days.put([1], np.array(["2024-02-29"], "M8[D]"))
    assert days[1] == np.datetime64("2024-02-29")


def test_a_table_is_no_sequence():
    with pytest.raises(TypeError, match="items"):
        iter(Table())
    with pytest.raises(TypeError, match="contains"):
        [1, 2] in Table()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python tells of overloads from 3.11 on")
def test_types_say_what_each_on_full_returns():
    for verb, replies in (("put", 0), ("add", 0), ("put_if_absent", 1), ("get_or_put", 2)):
        kinds = {typing.get_args(typing.get_type_hints(its)["on_full"]): typing.get_type_hints(its)["return"]
                 for its in typing.get_overloads(getattr(Table, verb))}
        masked = kinds[("mask",)]
        if replies == 0:
            assert kinds[("raise",)] is type(None) and masked == Mask
        else:
            assert len(typing.get_args(masked)) == replies + 1
            plain = kinds[("raise",)]
            assert plain == Mask if replies == 1 else len(typing.get_args(plain)) == replies

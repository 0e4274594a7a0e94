"""Tables on a GPU: arrays that lie there, streams, what is refused, byte strings.

What the verbs do is in test_table.py, which runs on GPUs, too.
"""

import pickle
import sys
import threading

import numpy as np
import pytest
from conftest import IS_FAKE, check_masks_of_a_full_table, OnlyDlpack, OnlyInterface, needs_gpu

import isotherm
from isotherm import DeviceArray, Table, TableFullError, _core, _devices

pytestmark = needs_gpu
MANY = 300 if IS_FAKE else 100_000


class Interface:
    """CUDA's array interface with some of its fields changed."""

    def __init__(self, array, **changed):
        self.array = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__ | changed


def table_of_rows():
    table = Table(value="f32[4]", device="cuda:0")
    table.put([1, 2], np.arange(8, dtype="f4").reshape(2, 4))
    return table


def test_results_lie_on_the_gpu_and_go_on_from_there():
    table = table_of_rows()
    keys = DeviceArray(np.array([[2], [9], [1]], "u8"))
    values, found = table.get(keys)
    assert isinstance(values, DeviceArray) and values.device == found.device == "cuda:0"
    assert values.shape == (3, 1, 4) and values.dtype == "f4" and found.dtype == bool
    assert values.numpy().tolist() == [[[4, 5, 6, 7]], [[0] * 4], [[0, 1, 2, 3]]]
    assert found.numpy().tolist() == [[True], [False], [True]]
    assert len(values) == 3 and "float32 (3, 1, 4) on cuda:0" in repr(values)
    again, _ = table.get(OnlyDlpack(keys))
    table.put(OnlyInterface(keys), OnlyDlpack(again))
    assert table[[2, 9]].tolist() == [[4, 5, 6, 7], [0] * 4]
    stored = table.put(keys, again, on_full="mask")
    assert stored.numpy().all() and stored.shape == (3, 1)
    assert table.contains(keys).numpy().all()


def test_misses_leave_out_as_it_is():
    for value in ("f32[4]", "u64"):
        table = Table(value=value, device="cuda:0")
        dtype, row = table.value_dtype, table.row_shape
        table.put([2], np.full((1, *row), 7, dtype))
        for kind in (DeviceArray, lambda a: OnlyDlpack(DeviceArray(a)),
                     lambda a: OnlyInterface(DeviceArray(a))):
            out = kind(np.full((2, *row), 5, dtype))
            values, found = table.get(DeviceArray(np.array([2, 3], "u8")), out=out)
            array = getattr(out, "array", out)
            assert values is out and found.numpy().tolist() == [True, False]
            assert (array.numpy()[0] == 7).all() and (array.numpy()[1] == 5).all()


def test_what_lies_on_a_gpu_are_no_python_objects():
    for array in (np.array(["a"], object), np.zeros(1, [("name", "O")])):
        with pytest.raises(TypeError, match="no Python objects"):
            DeviceArray(array)


def test_empty_calls_do_nothing():
    table = table_of_rows()
    none = DeviceArray(np.zeros(0, "u8"))
    values, found = table.get(none)
    assert values.numpy().shape == (0, 4) and found.numpy().shape == (0,)
    table.put(none, DeviceArray(np.zeros((0, 4), "f4")))
    assert table.erase(OnlyDlpack(none)).shape == (0,) and len(table) == 2


@pytest.mark.parametrize("keys, error, words", [
    (lambda a: DeviceArray(np.array([1], "i8")), TypeError, "keys: wants dtype uint64, not int64"),
    (lambda a: Interface(a, strides=(16,)), ValueError, r"keys: .*without gaps, not strides \(16,\)"),
    (lambda a: Interface(a, data=(a.__cuda_array_interface__["data"][0] + 4, False)), ValueError,
     "keys: the array is not aligned to 8"),
])
def test_wrong_keys(keys, error, words):
    table, given = table_of_rows(), keys(DeviceArray(np.array([1, 2], "u8")))
    for verb in (table.get, table.contains, table.erase):
        with pytest.raises(error, match=words):
            verb(given)
    assert len(table) == 2


def test_wrong_values_and_out():
    table, keys = table_of_rows(), DeviceArray(np.array([1, 2], "u8"))
    rows = DeviceArray(np.zeros((2, 4), "f4"))
    pointer = rows.__cuda_array_interface__["data"][0]
    cases = [
        (DeviceArray(np.zeros((2, 4))), TypeError, "wants dtype float32, not float64"),
        (DeviceArray(np.zeros((2, 5), "f4")), ValueError, r"wants shape \(2, 4\), not \(2, 5\)"),
        (Interface(rows, strides=(32, 4)), ValueError, "wants an array in C order without gaps"),
        (Interface(rows, data=(pointer + 8, False)), ValueError, "the array is not aligned to 16"),
        (np.zeros((2, 4), "f4"), TypeError, "wants an array on cuda:0, where the keys lie, not ndarray"),
        (3.0, TypeError, "wants an array on cuda:0"),
    ]
    for values, error, words in cases:
        with pytest.raises(error, match="values: " + words):
            table.put(keys, values)
        with pytest.raises(error, match="out: " + words):
            table.get(keys, out=values)
    with pytest.raises(ValueError, match="memory that is no GPU's"):
        table.get(Interface(keys, data=(np.zeros(2, "u8").ctypes.data, False)))
    with pytest.raises(ValueError, match="out: the array is read-only"):
        table.get(keys, out=Interface(rows, data=(pointer, True)))
    with pytest.raises(ValueError, match="values: the array lies on cuda:0, and this table or the keys"):
        table.put([1, 2], rows)
    with pytest.raises(ValueError, match="lies on cuda:0, and this table or the keys of the call on the CPU"):
        Table().get(keys)
    words = Table(device="cuda:0")
    with pytest.raises(ValueError, match="out: the array overlaps the keys"):
        words.get(keys, out=keys)
    with pytest.raises(ValueError, match="on_full"):
        table.put(keys, rows, on_full="ignore")
    assert table[1].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", [DeviceArray, lambda a: OnlyDlpack(DeviceArray(a)),
                                  lambda a: OnlyInterface(DeviceArray(a))])
def test_what_the_gpu_cannot_compute_goes_by_way_of_the_host(kind):
    table = Table(value="i16[3]", device="cuda:0")
    keys, rows = kind(np.array([[1, 2]], "u8")), kind(np.array([[[1, 2, 3], [4, 5, 6]]], "i2"))
    assert table.put(keys, rows) is None and table.put(keys, rows, on_full="mask").numpy().all()
    out = kind(np.full((1, 3, 3), 9, "i2"))
    values, found = table.get(kind(np.array([[2, 7, 1]], "u8")), out=out)
    assert values is out and found.numpy().tolist() == [[True, False, True]]
    assert getattr(out, "array", out).numpy().tolist() == [[[4, 5, 6], [9, 9, 9], [1, 2, 3]]]
    table.add(keys, rows)
    assert table.compare_and_swap(keys, rows, rows).numpy().tolist() == [[False, False]]
    assert table[[1, 2]].tolist() == [[2, 4, 6], [8, 10, 12]]
    with pytest.raises(TypeError, match="values: wants dtype int16, not float32"):
        table.put(keys, kind(np.zeros((1, 2, 3), "f4")))
    with pytest.raises(TypeError, match="cannot be added"):
        Table(value=np.dtype(("f2", 3)), device="cuda:0").add(keys, kind(np.zeros((1, 2, 3), "f2")))
    none = table.get(kind(np.zeros(0, "u8")))[0]
    assert none.shape == (0, 3) and none.numpy().shape == (0, 3)
    with pytest.raises(KeyError) as missing:
        table[kind(np.array([1, 8, 9], "u8"))]
    assert missing.value.args == (8,)
    assert table[keys].numpy().tolist() == [[[2, 4, 6], [8, 10, 12]]]
    del table[keys]
    with pytest.raises(KeyError):
        del table[keys]
    assert len(table) == 0


@pytest.mark.parametrize("floats", [1536, 1 << 18])
def test_rows_may_be_long(floats):
    table = Table(value=f"f32[{floats}]", device="cuda:0")
    keys = np.array([3, 0, 2**64 - 1, 7, 3], "u8")
    rows = (np.arange(len(keys) * floats, dtype="f4") % 1009).reshape(len(keys), floats)
    table.put(keys, rows)
    rows[0] = rows[4]  # the later row of a key counts
    assert (table[keys] == rows).all()
    table.add(DeviceArray(keys[1:3]), DeviceArray(np.ones((2, floats), "f4")))
    rows[1:3] += 1
    table.erase(keys[3:4])
    got, found = (array.numpy() for array in table.get(DeviceArray(keys)))
    assert found.tolist() == [True, True, True, False, True]
    assert (got[found] == rows[found]).all()


def test_what_gpus_do_not_have_is_refused_with_words():
    with pytest.raises(ValueError, match="evict"):
        Table(device="cuda:0", evict="allkeys-lru")
    with pytest.raises(ValueError, match="host_memory is for tables on a GPU"):
        Table(host_memory="1mb", device="cpu")
    for device in ("gpu", "cuda:x", [], ["cuda:0", "cuda:0"], 0):
        with pytest.raises(ValueError, match="device"):
            Table(device=device)
    with pytest.raises(RuntimeError, match="there are"):
        Table(device="cuda:99")


def test_without_a_gpu_the_reason_is_said(monkeypatch):
    monkeypatch.undo()  # so that "auto" is what it is for users
    assert Table(expected=0)._gpus == [0] and Table(value="f32[1025]")._gpus == [0]
    assert Table("bytes", "bytes")._gpus == ()
    monkeypatch.setattr(_devices, "_reason", "there is no NVIDIA driver (libcuda.so.1)")
    assert isotherm.gpu_count() == 0 and Table()._gpus == []
    with pytest.raises(RuntimeError, match="'cuda:0': there is no NVIDIA driver"):
        Table(device="cuda:0")
    assert "there is no NVIDIA driver" in _core._load_gpu_part("nothing", "no_driver.so.9")
    assert "nothing" in _core._load_gpu_part("nothing", "")


class Queued:
    """An array that is filled by work that waits in a stream, as kernels of other libraries do.

    A get of another table that writes into it is such work.
    """

    def __init__(self, content, gpu=0):
        content = np.asarray(content, "u8")
        self.stream = _core._gpu_stream(gpu)
        source = Table(device=f"cuda:{gpu}")
        places = np.arange(len(content), dtype="u8")
        source.put(places, content)
        self.array = DeviceArray._made(content.shape, "u8", gpu, self.stream, True)
        asked = Interface(DeviceArray(places, f"cuda:{gpu}"), stream=self.stream)
        # All of it is kept: memory that is given back waits for its stream.
        self.kept = source, asked, source.get(asked, out=self.array)


def test_calls_follow_the_streams_of_their_arrays():
    for turn in range(5):
        table = Table(device="cuda:0")
        keys, values = np.arange(40, dtype="u8") + turn, np.arange(40, dtype="u8") * 3
        first, second = Queued(keys), Queued(values)
        table.put(first.array, second.array)  # in the keys' stream, behind that of the values
        got, found = table.get(OnlyInterface(first.array))
        assert got._memory.stream == first.stream
        # A consumer in another stream waits for the result's.
        other = _core._gpu_stream(0)
        copy = DeviceArray._made((40,), "u8", 0, other, True)
        shown = _core._read_dlpack(got.__dlpack__(stream=other))
        mirror = Table(device="cuda:0")
        mirror.put(Interface(copy, stream=other, data=(shown[0], False)), OnlyDlpack(got))
        assert np.array_equal(mirror[np.unique(values)], np.unique(values))
        assert np.array_equal(got.numpy(), values) and found.numpy().all()


@pytest.mark.parametrize("kind", [lambda array: array, OnlyDlpack, OnlyInterface])
def test_an_array_of_another_stream_is_filled_behind_it_and_read_behind_the_call(kind):
    table = Table(device="cuda:0")
    keys = np.arange(40, dtype="u8")
    table.put(keys, keys + 7)
    there = DeviceArray(keys)
    for turn in range(6):
        out = Queued(np.zeros(40))
        shown = kind(out.array)  # of DLPack nobody learns that it is read in its own stream
        kept = table.get(there, out=shown)
        assert np.array_equal(out.array.numpy(), keys + 7) and kept[0] is shown


@pytest.mark.parametrize("kind", [lambda array: array, OnlyDlpack, OnlyInterface])
def test_what_a_call_reads_may_be_written_anew_behind_it(kind):
    for turn in range(6):
        table = Table(device="cuda:0")
        keys, values = Queued(np.arange(40)), DeviceArray(np.arange(40, dtype="u8") * 3)
        table.put(keys.array, kind(values))
        values._memory.write(np.zeros(40, "u8"))  # in the default stream
        assert np.array_equal(table[np.arange(40, dtype="u8")], np.arange(40) * 3)


def test_a_full_table_raises_or_says_which():
    if not IS_FAKE:
        count, memory = 6_000_000, {"u64": "128mb", "f32[16]": "800mb"}
    else:
        count, memory = 6000, {"u64": "2mb", "f32[16]": "3mb"}
    for value in ("u64", "f32[16]"):
        table = Table(value=value, memory=memory[value], device="cuda:0")
        keys = np.arange(count, dtype="u8")
        rows = np.ones((count, *table.row_shape), table.value_dtype)
        there = DeviceArray(keys), DeviceArray(rows)
        with pytest.raises(TableFullError, match="keys found no room"):
            table.put(*there)
        assert 0 < len(table) < count
        stored = table.put(*there, on_full="mask").numpy()
        assert 0 < stored.sum() < count and np.array_equal(table.contains(keys), stored)
        assert table.put(keys, rows, on_full="mask")[stored].all()
        with pytest.raises(TableFullError):
            table.put(keys, rows)
        assert table.put(keys[stored], rows[stored]) is None
        with pytest.raises(TableFullError):
            table.get_or_put(*there)
        known, new = keys[:200][stored[:200]], keys + count
        row = (lambda its: np.full((len(its), *table.row_shape), 9, table.value_dtype))
        for kind, back in ((DeviceArray, lambda mask: mask.numpy()), (np.asarray, np.asarray)):
            got, refused = check_masks_of_a_full_table(
                table, known, new, kind, lambda its: kind(row(its)), back)
            got = back(got)
            assert (got[:len(known)] == 1).all() and (got[refused] == 9).all()
        table.erase(there[0])
        table.erase(new)
        assert len(table) == 0
        if value == "u64":
            with pytest.raises(TableFullError, match="keys found no room"):
                table._put_new(keys)


@pytest.mark.parametrize("value", ["u64", "f32[4]", "u8[3]"])
def test_files_go_from_device_to_device(tmp_path, value):
    keys = np.arange(MANY // 2, dtype="u8")
    tables = [Table(value=value, device=device) for device in ("cpu", "cuda:0")]
    rows = np.arange(keys.size * int(np.prod(tables[0].row_shape, dtype=int)))
    rows = rows.astype(tables[0].value_dtype).reshape(-1, *tables[0].row_shape)
    for number, table in enumerate(tables):
        table.put(keys, rows)
        path = tmp_path / str(number)
        table.save(path)
        for device in ("cpu", "cuda:0"):
            other = Table.load(path, device=device)
            assert np.array_equal(other[keys], rows) and len(other) == len(keys)
            assert other.stats()["device"] == device
    again = pickle.loads(pickle.dumps(tables[1]))
    assert again._gpus == [0] and np.array_equal(again[keys], rows)


def test_threads_share_a_table():
    table = Table(device="cuda:0")
    rows = Table(value="f32[8]", device="cuda:0")
    keys = np.arange(50 if IS_FAKE else 5000, dtype="u8")
    ones = np.ones((len(keys), 8), "f4")
    failures = []

    def work(number):
        try:
            there, added = DeviceArray(keys), DeviceArray(ones)
            for turn in range(4):
                table.add(keys, 1)
                table.add(there, DeviceArray(np.ones_like(keys)))
                rows.add(keys, ones)
                rows.add(there, added)
                values, found = rows.get(there)
                assert found.numpy().all()
                Table(value="f64", device="cuda:0").add([1, 1], [1.5, 2])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert (table[keys] == 24).all() and (rows[keys] == 24).all()


def test_additions_on_the_host_are_whole():
    """A get and a put, which no other write comes between."""
    table = Table(value="f64", device="cuda:0")
    keys = np.arange(20, dtype="u8")
    threads = [threading.Thread(target=lambda: [table.add(keys, 1) for _ in range(5)])
               for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (table[keys] == 20).all()


def test_references_come_back():
    table = table_of_rows()
    keys = DeviceArray(np.array([1, 2], "u8"))
    rows, found = table.get(keys)
    memory = rows._memory

    def once():
        table.get(keys, out=rows), table.put(OnlyDlpack(keys), OnlyDlpack(rows))
        table.get(OnlyInterface(keys)), table.contains(keys)
        capsule = rows.__dlpack__()
        assert _core._read_dlpack(capsule)[1:5] == (2, 32, 1, (2, 4))
        table.compare_and_swap(keys, rows, OnlyDlpack(rows)), table[keys]  # with copies on the host
        with pytest.raises(TypeError):
            table.put(keys, [1])

    once()
    before = [sys.getrefcount(thing) for thing in (keys, rows, memory, keys._memory)]
    for _ in range(20):
        once()
    after = [sys.getrefcount(thing) for thing in (keys, rows, memory, keys._memory)]
    assert before == after


def test_a_device_array_is_shown_and_not_copied():
    array = DeviceArray(np.arange(6, dtype="i2").reshape(2, 3))
    assert array.__dlpack_device__() == (2, 0)
    for options in ({"copy": True}, {"dl_device": (1, 0)}):
        with pytest.raises(BufferError):
            array.__dlpack__(**options)
    pointer, code, bits, lanes, shape, strides, kind, gpu, read_only = _core._read_dlpack(
        array.__dlpack__(stream=-1, max_version=(1, 0), dl_device=(2, 0), copy=False))
    assert (code, bits, lanes, shape, strides, kind, gpu) == (0, 16, 1, (2, 3), None, 2, 0)
    assert pointer == array.__cuda_array_interface__["data"][0] and not read_only
    with pytest.raises(TypeError, match="length"):
        len(DeviceArray(np.array(1)))
    with pytest.raises(TypeError, match="no capsule"):
        _core._read_dlpack(5)


def test_byte_strings():
    table = Table("bytes", "bytes", device="cuda:0")
    assert table.put(["a", "b", "a"], [b"1", b"22", bytes(5000)]) is None
    values, found = table.get(["b", "x", "a"])
    assert values == [b"22", None, bytes(5000)] and found.tolist() == [True, False, True]
    assert table["b"] == b"22" and "a" in table and "x" not in table and len(table) == 2
    with pytest.raises(KeyError, match="x"):
        table[["a", "x"]]
    assert table.contains(["a", "x"]).tolist() == [True, False]
    assert table.erase(["a", "a", "x"]).tolist() == [True, False, False] and len(table) == 1
    assert table.get([])[0] == [] and table.put([], []) is None
    with pytest.raises(ValueError, match="longer"):
        table.put(["k" * 70_000], ["v"])
    table.put(["a", "b"], [bytes(5000), "22"])
    assert dict(zip(*next(table.items()))) == {b"a": bytes(5000), b"b": b"22"}
    again = pickle.loads(pickle.dumps(table))
    assert again[["a", "b"]] == [bytes(5000), b"22"] and again._gpus == [0]
    rows = Table("bytes", "f32[3]", device="cuda:0")
    rows.put(["one", "two"], np.arange(6, dtype="f4").reshape(2, 3))
    out = np.full((2, 3), 9, "f4")
    rows.get(["two", "none"], out)
    assert out.tolist() == [[3, 4, 5], [9, 9, 9]]
    names = Table("u64", "bytes", device="cuda:0", evict="allkeys-lru")
    names.put(np.array([7, 2**64 - 1], "u8"), ["seven", "last"])
    assert names.get([2**64 - 1, 8])[0] == [b"last", None]
    with pytest.raises(ValueError):
        Table("bytes", "bytes", device="cuda:0", evict="volatile-ttl")


@pytest.mark.parametrize("value", ["i64[2]", "bytes"])
def test_byte_strings_have_the_verbs_of_the_cpu(random, value):
    tables = [Table("bytes", value, device=device) for device in ("cpu", "cuda:0")]

    def same(verb, *arguments):
        mine, theirs = ([np.asarray(part).tolist() for part in
                         (result if isinstance(result, tuple) else (result,))]
                        for result in (getattr(table, verb)(*arguments) for table in tables))
        assert mine == theirs, verb

    for step in range(24):
        keys = [b"k%d" % number for number in random.integers(0, 12, 10)]
        values = random.integers(0, 3, (2, 10, 2))
        if value == "bytes":
            values = [[b"v%d" % row[0] for row in half] for half in values]
        verb = ["put", "put_if_absent", "get_or_put", "compare_and_swap", "erase",
                "add" if value != "bytes" else "put"][step % 6]
        same(verb, keys, *{"erase": [], "compare_and_swap": values}.get(verb, values[:1]))
        same("get", keys)
    assert len(tables[0]) == len(tables[1])


class Cudf:
    """What the bench wants of cuDF, by NumPy."""

    def __init__(self, wrong):
        self.wrong = wrong

    def Series(self, array):
        self.array = array
        return self

    def unique(self):
        return self

    def to_numpy(self):
        return np.unique(self.array)[self.wrong:]


def test_the_bench_of_gpus_checks_its_replies(monkeypatch):
    from isotherm import _gpu_bench, bench

    monkeypatch.setattr(_gpu_bench, "CALLS", 1)
    monkeypatch.setitem(sys.modules, "cudf", None)
    rows = {}
    _gpu_bench.bench(lambda name, *rest: rows.update({name: rest}), bench.distinct_keys(200), 150, 1,
                     batch=100, part=60)
    names = list(rows)
    assert any("get of 1 key" in name for name in names) and "dedup.unique of 150" in names[-3]
    assert any("100 byte strings there" in name for name in names)
    assert rows["  over cudf.Series.unique"][0] == "skipped"
    keys = [np.arange(5, dtype="u8"), np.arange(9, dtype="u8")]
    monkeypatch.setitem(sys.modules, "cudf", Cudf(0))
    _gpu_bench.bench_cudf(lambda name, *rest: rows.update({name: rest}), keys, 9, 1.0)
    assert "×" in rows["  over cudf.Series.unique"][1]
    monkeypatch.setitem(sys.modules, "cudf", Cudf(1))
    with pytest.raises(AssertionError):
        _gpu_bench.bench_cudf(lambda *row: None, keys, 9, 1.0)


def test_dedup_on_a_gpu():
    batches = [np.array([3, 1, 3], "u8"), np.array([1, 2], "u8")]
    parts = isotherm.dedup.unique(batches, device="cuda:0")
    assert [part.tolist() for part in parts] == [[3, 1], [2]]
    random, distinct = np.random.default_rng(2), 250 if IS_FAKE else 5_000_000
    keys = random.integers(0, distinct, 2 * distinct, "i8") - distinct // 2
    seen = isotherm.dedup.Seen("i64", device=["cuda:0", "cuda:1"][:isotherm.gpu_count()])
    halves = [seen.new(half) for half in (keys[:distinct], keys[distinct:])]
    values, firsts = np.unique(keys, return_index=True)
    assert np.array_equal(np.concatenate(halves), keys[np.sort(firsts)])
    assert len(seen) == len(values) and seen(keys).all()
    join = isotherm.dedup.Join("f32", device="cuda:0")
    join.build(np.array([1, 2], "u8"), np.array([0.5, 1.5], "f4"))
    assert join.inner(np.array([2, 9], "u8"))[1].tolist() == [1.5]

"""What is taken as an array, without a copy, and what is refused with which words."""

import numpy as np
import pytest

from isotherm import Store, Table


class OnlyDlpack:
    """An array that has the protocol and nothing else, as one of another library."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device


@pytest.fixture
def table():
    table = Table(value="f32[2]")
    table.put([1, 2], [[1, 1], [2, 2]])
    return table


def test_dlpack_goes_in_and_is_filled(table):
    keys = OnlyDlpack(np.array([2, 1, 3], "u8"))
    out = np.zeros((3, 2), "f4")
    given = OnlyDlpack(out)
    values, found = table.get(keys, given)
    assert values is given and out.tolist() == [[2, 2], [1, 1], [0, 0]]
    table.put(keys, OnlyDlpack(np.full((3, 2), 7, "f4")))
    assert table[3].tolist() == [7, 7]
    with pytest.raises(ValueError, match="lies on cuda:1, and this table or the keys"):
        table.get(OnlyDlpack(np.array([1], "u8"), device=(2, 1)))


def test_tensors_of_pytorch(table):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    ids = torch.tensor([[1, 5]])
    table = Table(key="i64", value="f32[2]")
    table.put(ids, torch.ones(1, 2, 2))
    out = torch.zeros(1, 2, 2)
    assert table.get(ids, out)[0] is out and out.sum() == 4


def test_series_of_pandas(table):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame({"user": np.array([2, 1], "u8")})
    assert table[frame["user"]].tolist() == [[2, 2], [1, 1]]


@pytest.mark.parametrize("keys, error, words", [
    (np.array([1], "i8"), TypeError, "keys: wants dtype uint64, not int64"),
    (np.array([1.0]), TypeError, "keys: wants dtype uint64, not float64"),
    ([1.5], TypeError, "keys: wants integers of dtype uint64, not float64"),
    (["a"], TypeError, "keys: wants integers"),
    ([-1], OverflowError, "out of the range of uint64"),
    (-1, OverflowError, "negative|out of"),
    ([2**64], OverflowError, "out of the range of uint64"),
    (np.array([1], ">u8"), TypeError, "keys: wants dtype uint64, not >u8"),
    (np.arange(8, dtype="u8")[::2], ValueError, r"C order without gaps, not strides \(16,\)"),
    (np.arange(8, dtype="u8").reshape(2, 4).T, ValueError, "numpy.ascontiguousarray"),
    (np.frombuffer(bytes(9), "u1")[1:].view("u8"), ValueError, "not aligned"),
    (object(), TypeError, "keys: wants integers"),
])
def test_wrong_keys(table, keys, error, words):
    for verb in (table.get, table.contains, table.erase, lambda k: table.put(k, 0.0)):
        with pytest.raises(error, match=words):
            verb(keys)
    assert len(table) == 2


@pytest.mark.parametrize("values, error, words", [
    (np.zeros((2, 2)), TypeError, "values: wants dtype float32, not float64"),
    (np.zeros((2, 3), "f4"), ValueError, r"values: wants shape \(2, 2\), not \(2, 3\)"),
    (np.zeros(2, "f4"), ValueError, r"wants shape \(2, 2\), not \(2,\)"),
    (np.zeros((2, 4), "f4")[:, ::2], ValueError, "C order"),
    ([[1, 2, 3]], ValueError, r"wants shape \(2, 2\), not \(1, 3\)"),
    ([[1, 2]], ValueError, r"wants shape \(2, 2\), not \(1, 2\)"),
    ([1], ValueError, r"wants shape \(2, 2\), not \(1,\)"),
    ([10**400, 1], OverflowError, "values: a number is out of the range of float32"),
    ("text", TypeError, "values: wants numbers of dtype float32"),
    ([1j, 2], TypeError, "values: wants numbers of dtype float32, not complex128"),
])
def test_wrong_values(table, values, error, words):
    with pytest.raises(error, match=words):
        table.put([1, 2], values)
    assert table[1].tolist() == [1, 1]


def test_wrong_out(table):
    read_only = np.zeros((2, 2), "f4")
    read_only.flags.writeable = False
    for out, error, words in ((np.zeros((2, 2)), TypeError, "out: wants dtype float32"),
                              (np.zeros((3, 2), "f4"), ValueError, "out: wants shape"),
                              (read_only, ValueError, "read-only"),
                              ([0, 0], TypeError, "out: wants an array, not list")):
        with pytest.raises(error, match=words):
            table.get([1, 2], out)


@pytest.mark.parametrize("value", ["u64", "u64[1]", "u64[2]", "u8[3]"])
def test_out_that_overlaps_keys(value):
    table = Table(value=value)
    dtype, shape = (("u1", (3,)) if value == "u8[3]" else
                    ("u8", {"u64": (), "u64[1]": (1,), "u64[2]": (2,)}[value]))
    bytes_of_row = np.dtype(dtype).itemsize * int(np.prod(shape))
    table.put(np.arange(3000, dtype="u8"), np.ones((3000, *shape), dtype))
    memory = np.zeros(3000 * (8 + bytes_of_row), "u1")
    keys = memory[:24000].view("u8")
    keys[:] = np.arange(3000)
    for first in (0, 8, 24000 - 8):
        rows = memory[first:first + 3000 * bytes_of_row].view(dtype).reshape((3000, *shape))
        with pytest.raises(ValueError, match="out: the array overlaps the keys"):
            table.get(keys, rows)
    assert keys.tolist() == list(range(3000))
    beside = memory[24000:].view(dtype).reshape((3000, *shape))
    assert table.get(keys, beside)[1].all() and (beside == 1).all()


def test_out_of_a_byte_table_that_overlaps_keys():
    table = Table(key="bytes", value="u8[4]")
    keys = np.arange(5000, dtype="u4")
    table.put(keys, np.zeros((5000, 4), "u1"))
    with pytest.raises(ValueError, match="out: the array overlaps the keys"):
        table.get(keys, keys.view("u1").reshape(5000, 4))
    assert keys.tolist() == list(range(5000))


def test_numbers_are_repeated_and_never_cut():
    table = Table(value="u64")
    table.put([1, 2, 3], 7)
    assert table[[1, 2, 3]].tolist() == [7, 7, 7]
    table.put([1, 2], [2**64 - 1, 1])
    assert table[1] == 2**64 - 1
    for values, error in (([1.5, 2], TypeError), (-1, OverflowError), (2**64, OverflowError)):
        with pytest.raises(error):
            table.put([1, 2], values)
    table.put([1, 2], np.uint64(3))
    assert table[[1, 2]].tolist() == [3, 3]


def test_an_array_is_used_where_it_is():
    table = Table(value="f32[256]")
    keys = np.arange(4000, dtype="u8")
    table.put(keys, np.ones((4000, 256), "f4"))
    out = np.empty((4000, 256), "f4")
    import tracemalloc

    tracemalloc.start()
    table.get(keys, out)
    table.put(keys, out)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000  # masks; a copy of keys or rows would take more


@pytest.mark.parametrize("key", ["u64", "i64"])
def test_scalars_of_numpy_are_numbers_and_do_not_wrap(key):
    high = key == "u64"
    table, wrong = Table(key), np.int64(-1) if high else np.uint64(2**64 - 1)
    table.put([2**64 - 1 if high else -1], [7])
    for keys in (wrong, int(wrong), [wrong], [wrong, 1]):
        for verb in (table.get, table.contains, table.erase, lambda keys: table.put(keys, 1)):
            with pytest.raises(OverflowError, match="keys: an integer is out of the range"):
                verb(keys)
    assert len(table) == 1 and table.contains([np.int64(-1)] if not high else [np.uint64(2**64 - 1)]).all()


@pytest.mark.parametrize("value, given, error", [
    ("u8", np.int64(300), OverflowError), ("u8", [np.int64(300)], OverflowError),
    ("u64", [np.int64(-1)], OverflowError), ("i8", np.uint8(200), OverflowError),
    ("i8", [[np.uint8(200)]], OverflowError), ("f16", 70000, OverflowError), ("f32", [1e300], OverflowError),
    ("f32", np.float64(1e300), OverflowError), ("S3", [b"abcd"], ValueError), ("S3", [12345], TypeError),
    ("U3", ["abcdef"], ValueError), ("U3", np.str_("abcdef"), ValueError), ("S3", ["abc"], TypeError),
    ("M8[s]", [np.datetime64("2020-01-01T00:00:00.5")], ValueError), ("V2", [b"abc"], TypeError),
    ([("a", "u1"), ("b", "S2")], [(np.int64(300), b"a")], OverflowError),
    ([("a", "u1"), ("b", "S2")], [(1, b"abc")], ValueError),
    ([("a", "u1"), ("b", [("c", "i1", (2,))])], (1, ((np.int64(1), np.int64(200)),)), OverflowError)])
def test_no_value_is_cut(value, given, error):
    for key in ("u64", "bytes"):
        table = Table(key, value if isinstance(value, str) else np.dtype(value))
        with pytest.raises(error, match="^values: .*(out of the range of|cut|wants)"):
            table.put([1] if key == "u64" else ["a"], given)
        assert len(table) == 0


def test_what_fits_is_converted():
    for value, given in (("u8", np.int64(255)), ("S3", [b"abc"]), ("U3", ["abc"]), ("U3", [b"ab"]),
                         ("f32", [np.inf]), ("f32", 0.1), ("f16", np.float64(1)), ("V2", [b"ab"]),
                         ("M8[s]", [np.datetime64("2020-01-01T00:00:01.000")]),
                         ("M8[s]", [np.datetime64("NaT", "s")]), ("bool", True),
                         ("f64", [2**64]), ("f32", [2**100])):
        table = Table(value=value)
        table.put([1], given)
        expected = np.array(given).astype(table.value_dtype).reshape(1)
        assert table[[1]].tobytes() == expected.tobytes()
    table = Table(value=np.dtype([("a", "u1"), ("b", "f4", (2,)), ("c", [("d", "S2")])]))
    table.put([[1, 2]], [[(1, (2, 3), (b"x",)), (4, (5, 5), (b"yz",))]])
    table.put([3], table[1])
    table.put([4], [(6, 7, (b"z",))])
    expected = [(1, (2, 3), (b"x",)), (4, 5, (b"yz",)), (1, (2, 3), (b"x",)), (6, 7, (b"z",))]
    assert np.array_equal(table[[1, 2, 3, 4]], np.array(expected, table.value_dtype))


def test_a_mask_is_not_lost():
    masked = np.ma.array([1, 2], dtype="u8", mask=[True, False])
    numbers, strings = Table(), Table("bytes", "u64")
    for call in (lambda: numbers.put(masked, 1), lambda: numbers.put([1, 2], masked),
                 lambda: numbers.get(masked), lambda: numbers.erase(masked),
                 lambda: numbers.get([1, 2], out=masked), lambda: strings.put(["a", "b"], masked),
                 lambda: strings.put(masked, [1, 2]), lambda: strings.get(["a", "b"], out=masked),
                 lambda: Table("bytes", "bytes").put(masked, ["a", "b"]),
                 lambda: Store().put_many(["a", "b"], masked)):
        with pytest.raises(TypeError, match="(keys|values|out): wants an array without a mask"):
            call()
    assert len(numbers) == len(strings) == 0
    numbers.put(np.arange(2, dtype="u8").view(np.recarray), 5)  # any other subclass
    assert numbers.contains([0, 1]).all()


def test_wrong_arguments_are_named():
    table = Table()
    for call, error, words in (
            (lambda: table.put([1], [2], on_full=None), ValueError, "on_full must be 'raise' or 'mask'"),
            (lambda: table.get_or_put([1], [2], on_full=5), ValueError, "on_full must be"),
            (lambda: table.get(None), TypeError, "keys: wants integers of dtype uint64, not NoneType"),
            (lambda: table.put([1], None), TypeError, "values: wants integers of dtype uint64"),
            (lambda: table.get([1], arrow=True), TypeError, "arrow: only for values of bytes"),
            (lambda: Table("bytes", "bytes").get(None), TypeError, "keys: wants a list of bytes"),
            (lambda: Table("bytes", "bytes", evict=5), ValueError, "evict must be 'noeviction'"),
            (lambda: Store(evict=None), ValueError, "evict must be 'noeviction'"),
            (lambda: Store(max_value_bytes=2**64), ValueError, "max_value_bytes must be from 0"),
            (lambda: Store().get_many(None), TypeError, "keys: wants a list of bytes"),
            (lambda: Store().put_many(["a"], None), TypeError, "values: wants a list of bytes")):
        with pytest.raises(error, match=words):
            call()
    assert len(table) == 0


def test_what_no_array_can_be_made_of_is_named():
    class Other:
        dtype = "bfloat16"

        def __dlpack_device__(self):
            return 1, 0

        def __dlpack__(self, **options):
            raise RuntimeError("Unsupported dtype")

    class Nowhere(Other):
        def __dlpack_device__(self):
            raise ValueError("Unknown device type meta")

    table = Table(value="f32[2]")
    for given, why in ((Other(), "Unsupported dtype"), (Nowhere(), "Unknown device type meta")):
        words = rf"values: this \w+ of bfloat16 is no array that NumPy can take \({why}\); convert it first"
        with pytest.raises(TypeError, match=words):
            table.put([1], given)
    with pytest.raises(ValueError, match="keys: no array can be made of what was given: .*inhomogeneous"):
        table.get([[1], [2, 3]])
    with pytest.raises(TypeError, match="keys: wants integers of dtype uint64, not ndarray"):
        table.get([np.array(1, "u8"), np.array(2, "u8")])


class OnlyArray:
    """An array that has no other protocol; where it makes copies, as of files, it lends no memory."""

    def __init__(self, array, copies):
        self.array, self.copies = array, copies

    def __array__(self, dtype=None, copy=None):
        return self.array.copy() if self.copies else self.array


def test_out_is_never_a_copy():
    for table, keys in ((Table(), np.array([1], "u8")), (Table("bytes", "u64"), ["a"])):
        table.put(keys, OnlyArray(np.array([5], "u8"), True))
        with pytest.raises(TypeError, match="out: this OnlyArray lends no memory to be filled, but a copy"):
            table.get(keys, out=OnlyArray(np.zeros(1, "u8"), True))
        out = OnlyArray(np.zeros(1, "u8"), False)
        assert table.get(keys, out=out)[0] is out and out.array[0] == 5

"""The store of byte strings: columns, conditions, expiry, versions, eviction, pipelines, asyncio."""

import asyncio
import gc
import sys
import threading
import time

import numpy as np
import pytest
from arrow_stream import Chunks, DeviceArrayOfStrings, DeviceChunks

import isotherm
from isotherm import Store, Table, TableFullError


def test_columns_of_every_kind(random):
    strings = [bytes(random.integers(0, 256, n % 40, dtype="u1")) + b"%d" % n for n in range(3000)]
    values = [string * 3 for string in strings]
    store = Store()
    assert store.put_many(strings, values).all() and len(store) == 3000
    assert store.get_many(tuple(strings)) == values
    assert store.get_many(["no", strings[5]]) == [None, values[5]]
    column = store.get_many(strings, arrow=True)
    copy = Store()
    copy.put_many(strings, column)  # an Arrow array, by the C data interface both ways
    assert copy.get_many(strings) == values
    again = Store()
    again.put_many(strings, column)  # as often as wanted
    assert again.get_many(strings) == values and len(column) == len(strings)
    with pytest.raises(ValueError, match="nulls"):
        copy.put_many(["a", "b"], store.get_many([strings[0], "missing"], arrow=True))
    fixed = np.arange(20, dtype="u8").reshape(10, 2)
    copy.put_many(fixed, fixed * 2)
    assert np.array_equal(np.frombuffer(b"".join(copy.get_many(fixed)), "u8").reshape(10, 2), fixed * 2)
    texts = np.array([b"ab", b"c", b""])
    copy.put_many(texts, texts)
    assert copy.get_many([b"ab", b"c", b""]) == [b"ab", b"c", b""]
    assert copy.get_many(np.array(["ab", b"c"], object)) == [b"ab", b"c"]


def test_arrays_of_pyarrow():
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    store = Store()
    for kind in (arrow.binary(), arrow.large_binary(), arrow.utf8(), arrow.large_utf8()):
        keys = arrow.array(["k0", "k1", "k22", "k333"], kind)
        store.clear()
        store.put_many(keys.slice(1), arrow.array(["", "b", "cc"], kind))
        column = arrow.array(store.get_many(keys, arrow=True))
        column.validate(full=True)
        assert column.type == arrow.large_binary()
        assert column.to_pylist() == [None, b"", b"b", b"cc"]
    fixed = arrow.array([b"abc", b"def"], arrow.binary(3))
    store.put_many(fixed.slice(1), fixed.slice(1))
    assert store.get_many(["abc", "def"]) == [None, b"def"]
    assert arrow.array(store.get_many(arrow.array([], arrow.utf8()), arrow=True)).to_pylist() == []
    with pytest.raises(TypeError, match="binary or strings, not of format 'l'"):
        store.get_many(arrow.array([1, 2]))
    with pytest.raises(TypeError, match="format"):
        store.get_many(arrow.array(["a", "a"]).dictionary_encode())
    store.put_many(["a"], ["1"])
    assert store.get_many(arrow.chunked_array([["a"], ["b"]])) == [b"1", None]
    table = Table(key="bytes", value="f32[2]")
    table.put(arrow.array(["a", "b"]), np.ones((2, 2), "f4"))
    with pytest.raises(KeyError, match="c"):
        table[arrow.array(["a", "c"])]


@pytest.mark.parametrize("format", [b"u", b"z", b"vu"])
def test_streams_of_arrow(format):
    chunks = [[b"a", b"", b"a string of more than 12"], [], [b"b" * 12, b"c" * 13], [b"d"]]
    keys = Chunks(chunks, format)
    listed = sum(chunks, [])
    store = Store()
    store.put_many(keys, Chunks([listed], format))
    assert store.get_many(keys) == listed and keys.held == 0
    table = Table("bytes", "u64")
    table.put(keys, np.arange(6, dtype="u8"))
    assert table[Chunks([[b"d"], [b""]], format)].tolist() == [5, 1]
    assert store.get_many(Chunks([], format)) == []
    for wrong, error, words in ((Chunks(chunks, b"u", nulls=1), ValueError, "has nulls"),
                                (Chunks(chunks, b"u", fails=True), RuntimeError, "failed: no disk")):
        with pytest.raises(error, match=words):
            store.get_many(wrong)
        assert wrong.held == 0


@pytest.mark.parametrize("kind", [DeviceChunks, DeviceArrayOfStrings])
@pytest.mark.parametrize("format", [b"u", b"Z", b"vu"])
def test_the_device_interface_of_arrow_on_the_host(kind, format):
    """As whatever has it and nothing else: memory of the CPU, or what CUDA has pinned."""
    strings = [b"a", b"", b"a string of more than 12"]
    store, table = Store(), Table("bytes", "bytes")
    for place in ((1, -1), (3, 0)):
        keys = kind([strings], format, place=place)
        store.put_many(keys, kind([strings], format))
        assert store.get_many(keys) == strings
        table.put(keys, kind([strings[::-1]], format, place=place))
        assert table[keys] == strings[::-1]
    far = kind([strings], format, place=(2, 0))
    for call in (lambda: store.get_many(far), lambda: table.get(far)):
        with pytest.raises(ValueError, match="keys: the Arrow array lies on a device"):
            call()
    wrong = kind([strings], format, nulls=1)
    with pytest.raises(ValueError, match="keys: the Arrow array has nulls"):
        store.get_many(wrong)


class Once:
    """One of Arrow's interfaces of a column, and no other; it has no length."""

    def __init__(self, column, name):
        setattr(type(self), name, lambda self, *wanted, **named: getattr(column, name)(*wanted, **named))


@pytest.mark.parametrize("name", ["array", "stream", "device_array", "device_stream"])
def test_columns_of_replies_have_all_interfaces_of_arrow(name):
    store, copy = Store(), Table("bytes", "bytes")
    store.put_many(["a", "b", "c"], ["1", "", "333"])
    kind = type("Once", (Once,), {})
    column = kind(store.get_many(["a", "b", "c"], arrow=True), f"__arrow_c_{name}__")
    copy.put(["x", "y", "z"], column)
    values, found = copy.get(kind(store.get_many(["a"], arrow=True), f"__arrow_c_{name}__"))
    assert values == [None] and not found.any() and copy[["x", "y", "z"]] == [b"1", b"", b"333"]
    values, found = copy.get(["y", "none", "z"], arrow=True)
    assert found.tolist() == [True, False, True]
    with pytest.raises(KeyError, match="333"):
        copy[kind(store.get_many(["c"], arrow=True), f"__arrow_c_{name}__")]


def test_pyarrow_takes_every_interface():
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    store = Store()
    store.put_many(["a", "b"], ["1", "22"])
    column, wanted = store.get_many(["b", "x", "a"], arrow=True), [b"22", None, b"1"]
    assert arrow.array(column).to_pylist() == wanted == arrow.chunked_array(column).to_pylist()
    if hasattr(arrow.Array, "_import_from_c_device_capsule"):
        capsules = column.__arrow_c_device_array__()
        assert arrow.Array._import_from_c_device_capsule(*capsules).to_pylist() == wanted
    if hasattr(arrow.Array, "__arrow_c_device_array__"):
        kind = type("Once", (Once,), {})
        keys = kind(arrow.array(["a", "x"]), "__arrow_c_device_array__")
        assert store.get_many(keys) == [b"1", None]


def test_rows_with_objects_are_no_bytes():
    rows = np.array([("a", 1)], [("name", "O"), ("count", "i8")])
    store = Store()
    for column in (rows, rows[["name"]]):
        with pytest.raises(TypeError, match="without objects"):
            store.put_many(["a"], column)
        with pytest.raises(TypeError, match="without objects"):
            store.get_many(column)
    with pytest.raises(TypeError, match="wants dtype"):
        Table(value=[("name", "u8"), ("count", "i8")]).put([1], rows)
    for dtype in (rows.dtype, [("at", rows.dtype)], [("at", ">f4")]):
        for key in ("u64", "bytes"):
            with pytest.raises(ValueError, match="no fixed bytes"):
                Table(key, dtype)


def test_columns_of_pandas():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    store = Store()
    frame = pandas.DataFrame({"name": ["a", "b"], "raw": [b"1", b"2"]})
    store.put_many(frame["name"], frame["raw"])
    assert store.get_many(frame["name"]) == [b"1", b"2"]


@pytest.mark.parametrize("keys, error, words", [
    ("one", TypeError, "keys: wants a list"),
    ([1], TypeError, "keys: wants bytes or str, not <class 'int'>"),
    ([None], TypeError, "keys: wants bytes or str"),
    (np.array(["a"]), TypeError, "numpy.char.encode makes them of text, not dtype <U1"),
    (np.array(5), ValueError, "C order"),
    (np.arange(8, dtype="u8")[::2], ValueError, "C order"),
    ({"a"}, TypeError, "keys: wants a list"),
])
def test_wrong_columns(keys, error, words):
    store = Store()
    with pytest.raises(error, match=words):
        store.get_many(keys)
    with pytest.raises(error):
        store.put_many(keys, ["a"])
    with pytest.raises(ValueError, match="2 keys and 1 values"):
        store.put_many(["a", "b"], ["c"])
    assert len(store) == 0


def test_conditions_and_versions():
    store = Store()
    assert store.put("a", "1", if_absent=True) and not store.put("a", "2", if_absent=True)
    assert not store.put("b", "1", if_present=True)
    item = store.get_item("a")
    assert item.value == b"1" and item.expires_at is None
    assert store.put("a", "3", version=item.version)
    assert not store.put("a", "4", version=item.version)
    assert not store.erase("a", version=item.version)
    items = store.get_items(["a", "x"])
    assert items[1] is None
    versions = np.array([items[0].version, 1], "u8")
    assert store.put_many(["a", "x"], ["5", "6"], versions=versions).tolist() == [True, False]
    assert store.erase_many(["a", "x", "a"]).tolist() == [True, False, False]
    with pytest.raises(ValueError, match="versions"):
        store.put_many(["a"], ["b"], versions=[1])
    with pytest.raises(ValueError, match="if_absent"):
        store.put("a", "b", if_absent=True, if_present=True)
    store["k"] = "v"
    assert store["k"] == b"v" and "k" in store
    del store["k"]
    for use in (lambda: store["k"], lambda: store.__delitem__("k")):
        with pytest.raises(KeyError, match="k"):
            use()


def test_expiry():
    store = Store()
    before = time.time()
    store.put_many(["a", "b"], ["1", "2"], ttl=3600)
    soon = store.get_item("a").expires_at
    assert before - 0.002 <= soon - 3600 <= time.time() + 0.002
    store.put("a", "3", keep_ttl=True)
    assert store.get_item("a").expires_at == soon
    assert store.expire("a", None) and store.get_item("a").expires_at is None
    assert store.expire_many(["b", "x"], 7200).tolist() == [True, False]
    assert store.get_item("b").expires_at > soon + 3000
    store.put("c", "1", ttl=0.001)
    while store.get("c") is not None:
        pass
    with pytest.raises(ValueError, match="more than 0 seconds"):
        store.put("a", "1", ttl=0)
    with pytest.raises(TypeError, match="ttl: wants a number of seconds, not str"):
        store.put("a", "1", ttl="60")
    before = time.time()
    store.put("a", "1", ttl=np.float32(30))  # which NumPy would add as float32, by steps of 128 s
    assert before - 0.002 <= store.get_item("a").expires_at - 30 <= time.time() + 0.002
    for ttl in (1e17, float("inf")):
        with pytest.raises(ValueError, match="ttl: .* seconds are too many"):
            store.put_many(["a"], ["1"], ttl=ttl)


def test_only_integers_are_added():
    store = Store()
    for delta in (1.9, "3", None, np.float32(1)):
        for requests in (store, store.pipeline()):
            with pytest.raises(TypeError):
                requests.add("n", delta)
    assert "n" not in store and store.add("n", np.uint8(200)) == 200


def test_a_full_store_evicts_or_refuses():
    keys = [b"key-%06d" % i for i in range(40_000)]
    values = [b"v" * 300] * len(keys)
    full = Store(memory="8mb")
    stored = full.put_many(keys, values, on_full="mask")
    assert 0 < stored.sum() < len(keys)
    assert full.contains_many(keys).tolist() == stored.tolist()
    with pytest.raises(TableFullError, match="of 40000 keys found no room"):
        full.put_many(keys, values)
    for put in (full.put_many, Table(key="bytes", value="bytes").put):
        with pytest.raises(ValueError, match="on_full"):
            put(["new"], ["1"], on_full="ignore")
    assert "new" not in full
    evicting = Store(memory="8mb", evict="allkeys-lru")
    assert evicting.put_many(keys, values).all()
    assert 0 < len(evicting) < len(keys) and evicting.stats()["memory_bytes"] <= 10 << 20
    large = Store(memory="16mb", evict="allkeys-lru")  # a sixth of what one call stores
    assert large.put_many(keys[:2000], [b"x" * 50_000] * 2000).all()
    assert large.stats()["memory_bytes"] <= 20 << 20
    pipeline = large.pipeline()
    for key in keys[2000:3000]:
        pipeline.put(key, b"y" * 50_000)
    assert all(pipeline.execute()) and large.stats()["memory_bytes"] <= 20 << 20
    with pytest.raises(ValueError, match="allkeys-lru"):
        Store(evict="lru")
    with pytest.raises(ValueError, match="longer than the table or store allows .of a Store: max_value_bytes"):
        Store(max_value_bytes=10).put_many(["a"], ["x" * 11])


def test_pipelines():
    store = Store()
    pipe = store.pipeline()
    pipe.put("a", "1").add("a", 5).append("a", "0").prepend("a", "1").get("a").get_item("b")
    pipe.erase("a").erase("a").expire("a", 5)
    assert len(pipe) == 9
    assert pipe.execute() == [True, 6, 2, 3, b"160", None, True, False, False]
    assert pipe.execute() == []
    pipe.put("t", "text").add("t").get("t")
    with pytest.raises(ValueError, match="no decimal integer"):
        pipe.execute()
    replies = pipe.put("t", "text").add("t").add("n", 2**63 - 1).add("n").execute(raise_errors=False)
    assert [type(reply) for reply in replies] == [bool, ValueError, int, OverflowError]
    with pytest.raises(TypeError, match="key: wants bytes or str, not int"):
        pipe.get(5)
    with pytest.raises(TypeError, match="value: wants bytes or str, not NoneType"):
        pipe.put("a", None)
    with pytest.raises(OverflowError):
        store.add("n")
    with pytest.raises(OverflowError):
        store.add("n", 2**63)


def test_atomic_pipelines_are_seen_whole():
    store = Store()
    store.put_many(["x", "y"], ["0", "0"])
    torn, done = [], threading.Event()

    def write():
        for i in range(1, 1500):
            # What counts as true is enough.
            store.pipeline(atomic=np.True_).put("x", str(i)).put("y", str(i)).execute()
        done.set()

    def read():
        while not done.is_set():
            # The reader is a group, too: a plain batch may run between rows of others.
            x, y = store.pipeline(atomic=True).get("x").get("y").execute()
            if x != y:
                torn.append((x, y))

    threads = [threading.Thread(target=write), threading.Thread(target=read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torn == []


def test_ten_thousand_tasks_share_batches():
    store = Store()
    store.put_many([b"%d" % i for i in range(10_000)], [b"v%d" % i for i in range(10_000)])
    asynchronous = store.asyncio()

    async def task(i):
        value = await asynchronous.get(b"%d" % i)
        count = await asynchronous.add("count")
        await asynchronous.put(b"%d" % i, value + b"!")
        return value, count, await asynchronous.get(b"%d" % i)

    async def main():
        return await asyncio.gather(*(task(i) for i in range(10_000)))

    replies = asyncio.run(main())
    assert [value for value, _, _ in replies] == [b"v%d" % i for i in range(10_000)]
    assert sorted(count for _, count, _ in replies) == list(range(1, 10_001))
    assert all(last == first + b"!" for first, _, last in replies)
    assert asynchronous.batches < 40


def test_asyncio_gives_errors_and_cancellations_to_their_tasks():
    store = Store()

    async def main():
        asynchronous = store.asyncio()
        cancelled = asynchronous.get("a")
        first = asynchronous.put("t", "text")
        failing = asynchronous.add("t")
        last = asynchronous.get_item("t")
        cancelled.cancel()
        with pytest.raises(TypeError):
            asynchronous.get(5)
        replies = await asyncio.gather(first, failing, last, return_exceptions=True)
        assert cancelled.cancelled()
        return replies

    first, failing, last = asyncio.run(main())
    assert first is True and isinstance(failing, ValueError) and last.value == b"text"

    async def other(asynchronous):
        await asynchronous.get("a")

    asynchronous = store.asyncio()
    asyncio.run(other(asynchronous))
    with pytest.raises(RuntimeError, match="another event loop"):
        asyncio.run(other(asynchronous))


def test_asyncio_gives_what_cannot_be_started_to_its_task_alone():
    asynchronous = Store().asyncio()

    async def main():
        puts = [asynchronous.put(f"k{i}", str(i)) for i in range(100)]
        wrong = [asynchronous.get("\ud800"), asynchronous.add("n", 2**70)]
        gets = [asynchronous.get(f"k{i}") for i in range(100)]
        return await asyncio.gather(*puts, *wrong, *gets, return_exceptions=True)

    replies = asyncio.run(main())
    assert replies[:100] == [True] * 100
    assert isinstance(replies[100], UnicodeEncodeError) and isinstance(replies[101], OverflowError)
    assert replies[102:] == [str(i).encode() for i in range(100)]
    assert asynchronous.batches < 20


def test_asyncio_beside_groups_of_other_threads():
    store = Store()
    store.put_many(["x", "y"], ["0", "0"])
    stop = threading.Event()

    def groups():
        while not stop.is_set():
            store.pipeline(atomic=True).add("x").add("y").execute()

    thread = threading.Thread(target=groups)
    thread.start()

    async def main():
        asynchronous = store.asyncio()
        return sum([await asynchronous.add("mine") for _ in range(500)]
                   + [len(await asyncio.gather(*(asynchronous.get(k) for k in "xyxy")))
                      for _ in range(300)])

    assert asyncio.run(main()) == 500 * 501 // 2 + 1200
    stop.set()
    thread.join()


def test_keys_and_clear():
    for walk in (Store().keys, Table().keys, Table("bytes", "bytes").items):
        for chunk, error in ((1.5, TypeError), (0, ValueError), (-1, ValueError), (2**70, ValueError)):
            with pytest.raises(error, match="chunk must be|integer"):
                list(walk(chunk))
    store = Store()
    store.put_many([b"%d" % i for i in range(1000)], [b""] * 1000)
    seen = [key for chunk in store.keys(chunk=50) for key in chunk]
    assert sorted(seen) == sorted(b"%d" % i for i in range(1000))
    assert store.maintain() in (True, False)
    store.clear()
    assert len(store) == 0 and repr(store) == "<isotherm.Store, 0 entries>"


def test_a_byte_table_is_a_table():
    table = Table(key="bytes", value="bytes", memory="64mb", evict="allkeys-lru")
    assert isinstance(table, isotherm.Table)
    table.put(["a", b"b"], "same")
    assert table.get(["a", "x"]) [0] == [b"same", None]
    assert table["b"] == b"same" and table.get("b")[1]
    assert table.compare_and_swap(["a", "a"], ["same", "new"], ["new", "last"]).tolist() == [True, True]
    assert table["a"] == b"last"
    numbers = Table(key="u64", value="bytes")
    numbers[np.array([[1, 2]], "u8")] = [b"one", b"two"]
    assert numbers[2] == b"two" and [1 in numbers, 3 in numbers] == [True, False]
    with pytest.raises(KeyError, match="^9$"):
        numbers[[1, 9]]
    with pytest.raises(TypeError, match="cannot be added"):
        numbers.add([1], [b"x"])
    with pytest.raises(TypeError, match="fill no array"):
        numbers.get([1], out=np.zeros(1))
    with pytest.raises(ValueError, match="3 for 2 keys"):
        numbers.put([1, 2], ["a", "b", "c"])


def test_rows_of_another_size_are_no_rows():
    table = Table(key="bytes", value="f32")
    table._core.put_many(["a"], ["12345"], 0, 0, None)
    with pytest.raises(ValueError, match="another size"):
        table.get(["a"])


def test_features_of_rows_become_columns():
    """Of isotherm/feast.py, which Feast is not needed for: rows of 8 bytes and entries of Protobuf."""
    columns = isotherm._core._feature_columns
    long = bytes([0x0A, 0xAC, 0x02]) + b"x" * 300  # a length of two bytes
    rows = [(1_500_000).to_bytes(8, "little") + b"\n\x01a" + long, None,
            (-1).to_bytes(8, "little", signed=True) + b"\n\x01c"]
    one = b"\x1a\x08\x08\x01\x10\x80\xca\xb5\xee\x01"  # 1 s, 500,000,000 ns
    before = b"\x1a\x11\x08" + b"\xff" * 9 + b"\x01\x10\x98\x8c\xeb\xdc\x03"  # -1 s, 999,999,000 ns

    def column(values, statuses, times):
        content = values + b"\x12" + bytes([len(statuses)]) + bytes(statuses) + times
        size = bytes([len(content)]) if len(content) < 128 else bytes(
            [len(content) % 128 + 128, len(content) // 128])
        return b"\x12" + size + content

    times = before + one + b"\x1a\x00" + one
    assert columns(rows, [2, 0, 1, 0], [1, -1, 0]) == (
        column(b"\n\0" + long + b"\n\0" + long, [3, 1, 3, 1], times)
        + column(b"\n\0" * 4, [3] * 4, times)
        + column(b"\n\x01c\n\x01a\n\0\n\x01a", [1, 1, 3, 1], times), 5)
    assert columns([], [], []) == (b"", 0) and columns([], [], [0]) == (b"\x12\0", 0)
    with pytest.raises(IndexError):
        columns(rows, [3], [0])
    for row in (b"short", bytes(8) + b"\n\x05abc", bytes(8) + b"\n", bytes(8) + b"\x12\0",
                bytes(8) + b"\n" + b"\xff" * 9):
        with pytest.raises(ValueError, match="damaged"):
            columns([row], [0], [0])


def test_a_refused_request_keeps_nothing_of_what_it_was_given():
    store, value = Store(memory="1mb"), bytes(4 << 20)
    before = sys.getrefcount(value)
    gc.disable()
    try:
        for refused in (lambda: store.put("a", value), lambda: store.append("a", value),
                        lambda: store.pipeline().put("a", value).execute()):
            with pytest.raises(MemoryError):
                refused()
            assert sys.getrefcount(value) == before
    finally:
        gc.enable()

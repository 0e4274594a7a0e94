"""Tables of fixed values that evict, on the CPU and on GPUs, and walks with a predicate."""

import numpy as np
import pytest
from conftest import HAS_GPU, IS_FAKE, PLACES, ArraysOnGpu, needs_gpu, table_at

import isotherm
from isotherm import DeviceArray, Table

BOTH = ["cpu"] + (["cuda:0"] if HAS_GPU else [])


def size_at(place):
    """(memory cap, keys of a call, calls): more than the cap has room for."""
    if place == "cpu":
        return 16 << 20, 3000, 10
    return (3 << 20, 400, 10) if IS_FAKE else (256 << 20, 100_000, 40)


def rows_of(table, keys):
    keys = np.asarray(keys).reshape(-1, *[1] * len(table.row_shape))
    return np.broadcast_to(keys % 251, (len(keys), *table.row_shape)).astype(table.value_dtype)


def keys_of(table):
    return np.concatenate([keys for keys, _ in table.items(1000)])


@pytest.mark.parametrize("value", ["f32[256]", "u8[1030]", "u64"])
@pytest.mark.parametrize("place", PLACES)
def test_the_lowest_given_scores_go(place, value):
    memory, count, calls = size_at(place)
    there = table_at(place, value=value, memory=memory, evict="given")
    table = there.table if isinstance(there, ArraysOnGpu) else there
    if table.row_bytes < 100:
        count, calls = (60_000, 5) if place == "cpu" else (count * 3, calls)
    random, before = np.random.default_rng(1), np.zeros(0, "u8")
    score_of = (lambda keys: np.asarray(keys, "u8") * np.uint64(0x9E3779B97F4A7C15))
    gone = 0
    for keys in np.array_split(random.permutation(np.arange(count * calls, dtype="u8")), calls):
        scores = score_of(keys)
        if there is table:
            assert table.put(keys, rows_of(table, keys), scores=scores) is None
        else:
            table.put(DeviceArray(keys), DeviceArray(rows_of(table, keys)), scores=DeviceArray(scores))
        now = keys_of(table)
        assert len(np.unique(now)) == len(now) == len(table)
        stays = np.isin(before, now)
        gone += (~stays).sum() + (~np.isin(keys, now)).sum()
        if not stays.all():
            assert score_of(before[~stays]).max() < score_of(before[stays]).min()
        stats = table.stats()
        assert stats["evictions"] == gone and stats["memory_bytes"] <= memory
        before = now
    assert gone > 0
    assert len(table) * table.row_bytes > memory / 8 or table.row_bytes < 100
    values, found = there.get(np.arange(count * calls, dtype="u8"))
    assert found.sum() == len(table) and np.array_equal(values[found], rows_of(table, np.flatnonzero(found)))
    scores, found = there.scores(before)
    assert found.all() and np.array_equal(scores, np.minimum(score_of(before), np.uint64(2**64 - 2)))
    kept = before[np.argsort(scores)[-50:]]
    there.put(kept, rows_of(table, kept + np.uint64(1)))  # which keeps the scores
    assert np.array_equal(there.get(kept)[0], rows_of(table, kept + np.uint64(1)))
    assert np.array_equal(there.scores(kept)[0], np.sort(scores)[-50:])


@pytest.mark.parametrize("place", BOTH)
def test_the_longest_unused_go_and_a_full_table_refuses_nothing(place):
    memory, count, calls = size_at(place)
    table = Table("i64", "f32[64]", device=place, memory=memory, evict="use", expected=10**7)
    used, added, kept = np.arange(20), np.arange(20, 40), np.arange(40, 60)
    swapped = np.arange(60, 80)
    for keys in (used, added, kept, swapped):
        table.put(keys, np.ones((20, 64), "f4"))
    calls = calls * 2 if place == "cpu" else calls
    for call in range(1, calls):
        keys = np.arange(call * count, (call + 1) * count)
        assert table.put(keys, rows_of(table, keys), on_full="mask").all()
        assert table.contains(keys).all()
        assert table.get(used)[1].all() and table.get_or_put(kept, np.ones((20, 64), "f4"))[1].all()
        table.add(added, np.ones((20, 64), "f4"))
        assert table.compare_and_swap(swapped, np.full((20, 64), call, "f4"),
                                      np.full((20, 64), call + 1, "f4")).all()
        for _ in table.items():  # no use
            pass
        assert len(table) + table.stats()["evictions"] == (call + 1) * count - count + 80
        assert table.stats()["memory_bytes"] <= memory
    assert table.stats()["evictions"] > count
    assert (table[added] == calls).all() and (table[used] == 1).all()
    assert not table.contains(np.arange(count, count + 20)).any()
    before = len(table)
    assert table.erase(used).all() and len(table) == before - 20


@needs_gpu
@pytest.mark.parametrize("options", [
    {"device": ["cuda:0", "cuda:1"]}, {"device": "cuda:0", "host_memory": "1mb"}])
def test_several_gpus_and_host_memory(options):
    if not IS_FAKE:
        if isotherm.gpu_count() < len(options["device"]) and isinstance(options["device"], list):
            pytest.skip("there is one GPU")
        options = options | ({"host_memory": "64mb"} if "host_memory" in options else {})
    memory, count, calls = size_at("cuda:0")
    table = Table("u64", "f32[64]", memory=memory, evict="given", **options)
    calls = calls * 3 // 2
    for call in range(calls):
        keys = np.arange(call * count, (call + 1) * count, dtype="u8")
        table.put(keys, rows_of(table, keys), scores=keys)
        assert call % 4 or table.contains(keys).all()
    stats = table.stats()
    assert 0 < stats["evictions"] == calls * count - len(table)
    assert (stats["host_entries"] > 0) == ("host_memory" in options)
    for keys, values in table.items():
        assert np.array_equal(values, rows_of(table, keys))


def test_options_are_checked(monkeypatch):
    for evict in ("lru", "allkeys-lru"):
        with pytest.raises(ValueError, match="'use'.*'given'"):
            Table(evict=evict)
    with pytest.raises(ValueError, match="16 MiB"):
        Table(value="f32[4]", memory="15mb", evict="use")
    with pytest.raises(ValueError, match="16 MiB"):
        Table(value="f32[4]", memory="1mb", evict="use", device="cpu")
    for table in (Table(), Table(evict="use")):
        with pytest.raises(TypeError, match="evict='given'"):
            table.scores([1])
        with pytest.raises(TypeError, match="evict='given'"):
            table.put([1], 2, scores=[1])
    given = Table(evict="given")
    with pytest.raises(ValueError, match="scores"):
        given.put([1, 2], 2, scores=np.zeros(3, "u8"))
    with pytest.raises(TypeError, match="scores"):
        given.put(np.ones(2, "u8"), np.ones(2, "u8"), scores=np.zeros(2, "f4"))
    assert given.stats()["evictions"] == 0 and Table(evict="noeviction").put([1], 2) is None


@pytest.mark.parametrize("place", BOTH)
def test_files_of_a_table_that_evicts(tmp_path, place):
    table = Table("u64", "f32[4]", device=place, evict="use")
    table.put(np.arange(300, dtype="u8"), rows_of(table, np.arange(300)))
    table.save(tmp_path / "table")
    other = Table.load(tmp_path / "table", device=place, memory="16mb", evict="given")
    assert np.array_equal(other[np.arange(300, dtype="u8")], rows_of(table, np.arange(300)))


@pytest.mark.parametrize("options", [
    {"value": "u64"}, {"value": "f32[4]"}, {"value": "f32[4]", "evict": "use"}])
@pytest.mark.parametrize("place", BOTH)
def test_a_walk_gives_what_its_predicate_wants(place, options):
    table = Table(device=place, **options)
    keys = np.arange(900, dtype="u8")
    table.put(keys, rows_of(table, keys))
    seen, asked = [], []

    def where(keys, values):
        assert np.array_equal(values, rows_of(table, keys))
        asked.append(len(keys))
        return (keys % 7 == 0) & (values.reshape(len(values), -1)[:, 0] < 100)

    for some, values in table.items(64, where):
        assert len(some) and np.array_equal(values, rows_of(table, some))
        seen += some.tolist()
    assert sorted(seen) == [key for key in range(0, 900, 7) if key % 251 < 100]
    assert sum(asked) >= 900 and len(asked) > 1
    assert list(table.items(where=lambda keys, values: np.zeros(len(keys), bool))) == []
    assert sum(len(some) for some in table.keys(where=lambda keys, values: keys < 10)) == 10
    with pytest.raises(TypeError, match="array of bool"):
        list(table.items(where=lambda keys, values: keys))
    with pytest.raises(ValueError, match="shape"):
        list(table.items(where=lambda keys, values: np.zeros(1, bool)))


def test_a_walk_over_byte_strings_takes_a_predicate():
    table = Table("bytes", "bytes", device="cpu")
    table.put([b"a1", b"a2", b"b1"], [b"x", b"y", b"z"])
    found = dict(zip(*next(table.items(
        where=lambda keys, values: np.array([key.startswith(b"a") for key in keys])))))
    assert found == {b"a1": b"x", b"a2": b"y"}


@needs_gpu
def test_a_cap_without_room_for_rows_is_refused():
    with pytest.raises(ValueError, match="room for 128 rows"):
        Table(value="f32[262144]", device="cuda:0", memory="64mb", evict="use")

"""The online store for Feast, by Feast's own FeatureStore."""

import asyncio
import os
import threading
import time
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest

feast = pytest.importorskip("feast", reason="Feast is not installed")
pandas = pytest.importorskip("pandas", reason="pandas is not installed")

from feast import Entity, FeatureStore, FeatureView, Field, FileSource, RepoConfig  # noqa: E402
from feast.infra.online_stores.online_store import OnlineStore  # noqa: E402
from feast.types import (  # noqa: E402
    Array, Bool, Bytes, Float32, Float64, Int32, Int64, String, UnixTimestamp)

from isotherm.feast import IsothermOnlineStore  # noqa: E402

ENTITIES, FEATURES = 500, 90
NOW = datetime.now(timezone.utc).replace(microsecond=0)


@pytest.fixture
def make_store(tmp_path):
    made = []

    def make(online_store):
        folder = tmp_path / f"store{len(made)}"
        folder.mkdir()
        store = FeatureStore(config=RepoConfig(
            project="test", provider="local", registry=str(folder / "registry.db"),
            entity_key_serialization_version=3, online_store=online_store))
        user = Entity(name="user", join_keys=["user_id"])
        source = FileSource(path=str(folder / "none.parquet"), timestamp_field="event_timestamp")
        views = [FeatureView(
            name="scores", entities=[user], source=source, ttl=timedelta(days=1),
            schema=[Field(name="user_id", dtype=Int64)] + [Field(name=f"f{i}", dtype=Float32)
                                                          for i in range(FEATURES)]),
            FeatureView(
            name="names", entities=[user], source=source, ttl=timedelta(days=1),
            schema=[Field(name="user_id", dtype=Int64), Field(name="name", dtype=String)])]
        store.apply([user, *views])
        made.append((store, views))
        return store

    yield make
    for store, _ in made:
        store.teardown()


@pytest.fixture
def store(make_store):
    return make_store({"type": "isotherm.feast.IsothermOnlineStore", "name": f"t{os.getpid()}"})


def frame(rows=ENTITIES, at=NOW, factor=1):
    columns = {f"f{i}": (np.arange(rows) * 100 + i).astype("f4") * factor for i in range(FEATURES)}
    return pandas.DataFrame({"user_id": np.arange(rows), "event_timestamp": at} | columns)


def read(store, users, features=None):
    features = features or [f"scores:f{i}" for i in range(FEATURES)]
    return store.get_online_features(features=features,
                                     entity_rows=[{"user_id": int(u)} for u in users]).to_dict()


def test_features_come_back(store):
    store.write_to_online_store("scores", frame())
    got = read(store, [3, 9999, 7])
    assert got["user_id"] == [3, 9999, 7]
    for i in range(FEATURES):
        assert got[f"f{i}"] == [300 + i, None, 700 + i]
    assert read(store, [5], ["scores:f3", "names:name"]) == {"user_id": [5], "f3": [503],
                                                             "name": [None]}


def test_newer_rows_stay(store):
    store.write_to_online_store("scores", frame(2))
    store.write_to_online_store("scores", frame(2, NOW - timedelta(hours=1), 5))
    assert read(store, [1])["f0"] == [100]
    store.write_to_online_store("scores", frame(2, NOW + timedelta(seconds=1), 5))
    assert read(store, [1])["f0"] == [500]


def test_entities_expire(store):
    store.config.online_store.key_ttl_seconds = 0.05
    store.write_to_online_store("scores", frame(2))
    store.config.online_store.key_ttl_seconds = None
    store.write_to_online_store("scores", frame(1))
    deadline = time.monotonic() + 60
    while read(store, [1], ["scores:f0"])["f0"] != [None]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert read(store, [0, 1], ["scores:f0"])["f0"] == [0, None]


def test_a_view_that_is_deleted_is_gone(store):
    store.write_to_online_store("scores", frame(3))
    view = store.get_feature_view("scores")
    store.apply(objects=[], objects_to_delete=[view], partial=False)
    store.apply([view])
    assert read(store, [1], ["scores:f0"])["f0"] == [None]


def test_asyncio_and_threads(store):
    store.write_to_online_store("scores", frame(50))
    wrong = []

    def work(number):
        for _ in range(5):
            store.write_to_online_store("scores", frame(50))
            if read(store, [number])["f7"] != [number * 100 + 7]:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []

    async def ask():
        return await store.get_online_features_async(features=["scores:f1"],
                                                     entity_rows=[{"user_id": 2}])

    assert asyncio.run(ask()).to_dict()["f1"] == [201]


def test_equal_to_the_sqlite_store(store, make_store, tmp_path):
    """The same answers as Feast's own store; both times are printed (pytest -s)."""
    other = make_store({"type": "sqlite", "path": str(tmp_path / "online.db")})
    answers, took = [], []
    for each in (store, other):
        each.write_to_online_store("scores", frame())
        each.write_to_online_store("names", pandas.DataFrame(
            {"user_id": [1, 2], "event_timestamp": NOW, "name": ["Ada", "Grace"]}))
        config, view = each.config, each.get_feature_view("scores")
        keys = [_entity_key(user) for user in range(ENTITIES)]
        online = each._get_provider().online_store
        times = []
        for _ in range(7):
            started = time.perf_counter()
            online.online_read(config, view, keys, [f"f{i}" for i in range(FEATURES)])
            times.append(time.perf_counter() - started)
        took.append(sorted(times)[3])
        answers.append([read(each, range(0, ENTITIES, 7)), read(each, [1, 2, 3], ["names:name"])])
    assert answers[0] == answers[1]
    print(f"\nonline_read of {ENTITIES} entities × {FEATURES} features, p50: "
          f"{took[0] * 1e3:.1f} ms, SQLite {took[1] * 1e3:.1f} ms")


@pytest.mark.skipif(not hasattr(OnlineStore, "_read_features_per_fv"),
                    reason="this Feast reads one view at a time")
@pytest.mark.parametrize("full", [False, True])
def test_columns_equal_those_that_feast_makes(store, monkeypatch, full):
    store.write_to_online_store("scores", frame(20, NOW + timedelta(microseconds=7)))
    store.write_to_online_store("names", pandas.DataFrame(
        {"user_id": [1, 2, 400], "name": ["Ada", None, "x" * 300],
         "event_timestamp": [NOW, datetime(1969, 12, 31, 23, 59, 59, 5, timezone.utc), NOW]}))
    features = [f"scores:f{i}" for i in (7, 0, 89)] + ["names:name"]
    users = [3, 1, 3, 9999, 2, 400, 1]

    def ask():
        return store.get_online_features(
            features=features, entity_rows=[{"user_id": user} for user in users],
            full_feature_names=full)

    mine = ask()
    store.apply(store.get_feature_view("scores"))  # a response that nothing has cached
    monkeypatch.delattr(IsothermOnlineStore, "_read_features_per_fv")
    theirs = ask()
    assert mine.proto == theirs.proto
    assert mine.to_dict(include_event_timestamps=True) == theirs.to_dict(include_event_timestamps=True)
    assert mine.to_dict()["scores__f7" if full else "f7"][:4] == [307, 107, 307, None]


def test_values_of_every_type_and_keys_of_several_parts(make_store, tmp_path):
    """The answers of Feast's SQLite store: what its universal tests of online stores compare."""
    kinds = {"i32": (Int32, [1, -5]), "i64": (Int64, [2**60, 0]), "f32": (Float32, [0.5, -1.5]),
             "f64": (Float64, [1e300, 0.0]), "text": (String, ["", "Zoë"]),
             "raw": (Bytes, [b"\0\xff", b""]), "flag": (Bool, [True, False]),
             "when": (UnixTimestamp, [NOW, NOW]), "ints": (Array(Int64), [[1, 2], []]),
             "texts": (Array(String), [["a"], ["b", "c"]]),
             "floats": (Array(Float32), [[0.5], [1.5, 2.5]])}
    answers = []
    for online in ({"type": "isotherm.feast.IsothermOnlineStore", "name": f"k{os.getpid()}"},
                   {"type": "sqlite", "path": str(tmp_path / "online.db")}):
        each = make_store(online)
        entities = [Entity(name="shop", join_keys=["shop_id"]), Entity(name="item", join_keys=["item_id"])]
        view = FeatureView(
            name="kinds", entities=entities, ttl=timedelta(0),
            source=FileSource(path=str(tmp_path / "none.parquet"), timestamp_field="event_timestamp"),
            schema=[Field(name="shop_id", dtype=String), Field(name="item_id", dtype=Int64)]
            + [Field(name=name, dtype=dtype) for name, (dtype, _) in kinds.items()])
        each.apply([*entities, view])
        each.write_to_online_store("kinds", pandas.DataFrame(
            {"shop_id": ["a", "b"], "item_id": [1, 2], "event_timestamp": NOW}
            | {name: values for name, (_, values) in kinds.items()}))
        rows = [{"shop_id": shop, "item_id": item} for shop, item in (("b", 2), ("a", 2), ("a", 1))]
        answers.append(each.get_online_features(features=[f"kinds:{name}" for name in kinds],
                                                entity_rows=rows).to_dict())
    assert answers[0] == answers[1]
    assert answers[0]["i64"] == [0, None, 2**60] and answers[0]["texts"][2] == ["a"]


def test_rows_that_are_read_are_parsed_when_looked_at(store):
    store.write_to_online_store("scores", frame(3))
    online, view = store._get_provider().online_store, store.get_feature_view("scores")
    (time_of, row), missing = online.online_read(store.config, view,
                                                 [_entity_key(2), _entity_key(77)], ["f5", "f6", "no"])
    assert missing == (None, None) and time_of == NOW
    assert row["f5"].float_val == 205 and "f7" not in row and len(row) == 2
    assert dict(row) == row and set(row) == {"f5", "f6"} and "206" in repr(row)


def _entity_key(user):
    from feast.protos.feast.types.EntityKey_pb2 import EntityKey
    from feast.protos.feast.types.Value_pb2 import Value

    return EntityKey(join_keys=["user_id"], entity_values=[Value(int64_val=user)])

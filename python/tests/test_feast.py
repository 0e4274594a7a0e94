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
from feast.types import Float32, Int64, String  # noqa: E402

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


def _entity_key(user):
    from feast.protos.feast.types.EntityKey_pb2 import EntityKey
    from feast.protos.feast.types.Value_pb2 import Value

    return EntityKey(join_keys=["user_id"], entity_values=[Value(int64_val=user)])

#!/usr/bin/env python3
"""Reads of Feast's Redis store beside isotherm.feast, 500 entities × 90 features: the shape of Feast's issue 6856.

Needs feast, redis and the package isotherm, and redis-server on the path, which it starts on a port of the
loopback. Prints the median and the least wall time of so many runs, and the ratio of medians.
Every answer of one store is compared with that of the other.

Usage: feast_bench.py [runs]
"""

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta, timezone

import numpy as np
import pandas
from feast import Entity, FeatureStore, FeatureView, Field, FileSource, RepoConfig, ValueType
from feast.protos.feast.types.EntityKey_pb2 import EntityKey
from feast.protos.feast.types.Value_pb2 import Value
from feast.types import Float32, Int64

ENTITIES, FEATURES = 500, 90
NAMES = [f"f{i}" for i in range(FEATURES)]


def make_store(online_store, folder):
    os.mkdir(folder)
    store = FeatureStore(config=RepoConfig(
        project="bench", provider="local", registry=os.path.join(folder, "registry.db"),
        entity_key_serialization_version=3, online_store=online_store))
    user = Entity(name="user", join_keys=["user_id"], value_type=ValueType.INT64)
    source = FileSource(path=os.path.join(folder, "none.parquet"), timestamp_field="event_timestamp")
    store.apply([user, FeatureView(
        name="scores", entities=[user], source=source, ttl=timedelta(days=1),
        schema=[Field(name="user_id", dtype=Int64)] + [Field(name=n, dtype=Float32) for n in NAMES])])
    users = np.arange(ENTITIES)
    store.write_to_online_store("scores", pandas.DataFrame(
        {"user_id": users, "event_timestamp": datetime(2026, 1, 1, tzinfo=timezone.utc)}
        | {name: (users * 100 + i).astype("f4") for i, name in enumerate(NAMES)}))
    return store


def calls(store):
    """What is timed, by name; each returns what the stores have to agree on."""
    online, view = store._get_provider().online_store, store.get_feature_view("scores")
    keys = [EntityKey(join_keys=["user_id"], entity_values=[Value(int64_val=user)])
            for user in range(ENTITIES)]
    rows = [{"user_id": user} for user in range(ENTITIES)]

    def read():
        return online.online_read(store.config, view, keys, list(NAMES))  # Redis appends to it

    def get():
        return store.get_online_features(features=[f"scores:{n}" for n in NAMES], entity_rows=rows)

    return {"online_read": lambda: [time_of for time_of, _ in read()],
            "online_read, every value looked at": lambda: [dict(row) for _, row in read()],
            "get_online_features": lambda: len(get().proto.results),
            "get_online_features().to_dict()": lambda: get().to_dict()}


def measure(call, runs):
    answer, times = call(), []
    for _ in range(runs):
        started = time.perf_counter()
        call()
        times.append((time.perf_counter() - started) * 1e3)
    return answer, statistics.median(times), min(times)


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 25
    with tempfile.TemporaryDirectory() as folder:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = subprocess.Popen(
            ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder],
            stdout=subprocess.DEVNULL)
        try:
            while socket.socket().connect_ex(("127.0.0.1", port)) != 0:
                time.sleep(0.05)
            mine, redis = (calls(make_store(options, os.path.join(folder, options["type"])))
                           for options in ({"type": "isotherm.feast.IsothermOnlineStore"},
                                           {"type": "redis", "connection_string": f"127.0.0.1:{port}"}))
            for name in mine:
                (answer, median, least), (wanted, others, others_least) = (
                    measure(each[name], runs) for each in (mine, redis))
                assert answer == wanted, name
                print(f"{name}: {median:.1f} ms over Redis's {others:.1f}, {median / others:.3f} (least: "
                      f"{least:.1f} and {others_least:.1f})", flush=True)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()

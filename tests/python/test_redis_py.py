"""redis-py, unmodified, over RESP2 and RESP3."""

import time

import pytest
import redis


def test_strings(client):
    assert client.set("k", "v") is True
    assert client.get("k") == b"v"
    assert client.get("missing") is None
    assert client.set("k", "w", nx=True) is None
    assert client.set("k", "w", xx=True, get=True) == b"v"
    assert client.set("bin", bytes(range(256)))
    assert client.get("bin") == bytes(range(256))
    assert client.append("k", "!") == 2
    assert client.strlen("k") == 2
    assert client.getdel("k") == b"w!"
    assert client.exists("k") == 0


def test_counters(client):
    assert client.incr("n") == 1
    assert client.incrby("n", 41) == 42
    assert client.decr("n") == 41
    client.set("s", "abc")
    with pytest.raises(redis.ResponseError, match="value is not an integer or out of range"):
        client.incr("s")


def test_many_keys(client):
    pairs = {f"k{i}": f"v{i}" for i in range(500)}
    assert client.mset(pairs)
    assert client.mget(list(pairs)) == [value.encode() for value in pairs.values()]
    assert client.dbsize() == 500
    assert client.exists(*pairs) == 500
    assert {key.decode() for key in client.scan_iter(count=17)} == set(pairs)
    assert len(list(client.scan_iter(match="k1*", count=50))) == 111
    assert client.delete(*list(pairs)[:200]) == 200
    assert client.unlink(*list(pairs)[200:]) == 300
    assert client.dbsize() == 0


def test_expiry(client):
    client.set("k", "v", ex=1000)
    assert 900 <= client.ttl("k") <= 1000
    assert client.persist("k") is True
    assert client.ttl("k") == -1
    assert client.expire("k", 2000, nx=True) is True
    assert client.expire("k", 1000, gt=True) is False
    assert 1_900_000 < client.pttl("k") <= 2_000_000
    client.set("short", "v", px=20)
    time.sleep(0.1)
    assert client.get("short") is None
    assert client.ttl("short") == -2


def test_pipeline(client):
    with client.pipeline(transaction=False) as pipeline:
        for i in range(1000):
            pipeline.set(f"p{i}", i)
            pipeline.incr(f"p{i}")
            pipeline.get(f"p{i}")
        replies = pipeline.execute()
    assert replies == [reply for i in range(1000) for reply in (True, i + 1, b"%d" % (i + 1))]


def test_errors_in_a_pipeline_leave_the_rest(client):
    with client.pipeline(transaction=False) as pipeline:
        pipeline.set("a", "x").incr("a").execute_command("NOSUCH").get("a")
        replies = pipeline.execute(raise_on_error=False)
    assert replies[0] is True
    assert isinstance(replies[1], redis.ResponseError)
    assert isinstance(replies[2], redis.ResponseError)
    assert replies[3] == b"x"


def test_large_value(client):
    value = bytes(i % 251 for i in range(8 << 20))
    client.set("big", value)
    assert client.strlen("big") == len(value)
    assert client.get("big") == value


def test_databases(server, client):
    client.set("k", "zero")
    with redis.Redis(port=server.resp_port, db=1) as other:
        assert other.get("k") is None
        other.set("k", "one")
        assert client.get("k") == b"zero"
        other.flushdb()
        assert client.get("k") == b"zero"
    with redis.Redis(port=server.resp_port, db=16) as beyond:
        with pytest.raises(redis.ResponseError, match="DB index is out of range"):
            beyond.ping()


def test_connection(client):
    assert client.ping() is True
    assert client.echo("hello") == b"hello"
    assert client.client_setname("worker")
    assert client.client_getname() in ("worker", b"worker")
    assert client.client_id() > 0
    assert client.type("missing") == b"none"


def test_info_and_config(client):
    info = client.info()
    assert info["redis_version"].count(".") == 2
    assert info["connected_clients"] >= 1
    client.set("k", "v", ex=100)
    assert client.info("keyspace")["db0"]["keys"] == 1
    assert client.info("keyspace")["db0"]["expires"] == 1
    assert client.config_get("databases") == {"databases": "16"}
    assert client.command_count() > 40


def test_password(server, client):
    client.config_set("requirepass", "open sesame")
    try:
        def others(**options):
            return redis.Redis(port=server.resp_port, **options)

        for protocol in 2, 3:
            with others(password="open sesame", protocol=protocol, client_name="in") as admitted:
                assert admitted.set("k", "v")
                assert admitted.client_getname() in ("in", b"in")
            with others(protocol=protocol) as stranger:
                with pytest.raises(redis.AuthenticationError):
                    stranger.get("k")
            with others(password="open", protocol=protocol) as stranger:
                with pytest.raises(redis.AuthenticationError, match="WRONGPASS|invalid"):
                    stranger.get("k")
    finally:
        client.config_set("requirepass", "")


def test_many_connections(server):
    clients = [redis.Redis(port=server.resp_port) for _ in range(200)]
    for number, one in enumerate(clients):
        one.set(f"connection:{number}", number)
    for number, one in enumerate(reversed(clients)):
        assert one.get(f"connection:{number}") == b"%d" % number
    for one in clients:
        one.close()

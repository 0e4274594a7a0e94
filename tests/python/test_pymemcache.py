"""pymemcache, unmodified, on the memcached port."""

import pytest
from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheClientError, MemcacheServerError


@pytest.fixture
def memcache(server):
    client = Client(("127.0.0.1", server.memcached_port), default_noreply=False)
    client.flush_all()
    yield client
    client.close()


def test_storage(memcache):
    assert memcache.get("k") is None
    assert memcache.set("k", "v")
    assert memcache.get("k") == b"v"
    assert not memcache.add("k", "w")
    assert memcache.replace("k", "w")
    assert not memcache.replace("missing", "w")
    assert memcache.append("k", "!")
    assert memcache.prepend("k", "?")
    assert memcache.get("k") == b"?w!"
    assert memcache.delete("k")
    assert not memcache.delete("k")


def test_binary_values_and_flags(memcache):
    value = bytes(range(256))
    assert memcache.set("bin", value, flags=4294967295)
    assert memcache.raw_command("get bin", end_tokens="END\r\n").startswith(
        b"VALUE bin 4294967295 256\r\n" + value)


def test_cas(memcache):
    memcache.set("k", "one")
    value, unique = memcache.gets("k")
    assert value == b"one"
    assert memcache.cas("k", "two", unique) is True
    assert memcache.cas("k", "three", unique) is False
    assert memcache.cas("missing", "x", unique) is None
    assert memcache.get("k") == b"two"


def test_counters(memcache):
    assert memcache.incr("n", 1) is None
    memcache.set("n", "10")
    assert memcache.incr("n", 5) == 15
    assert memcache.decr("n", 100) == 0
    memcache.set("s", "abc")
    with pytest.raises(MemcacheClientError):
        memcache.incr("s", 1)


def test_many_keys(memcache):
    pairs = {f"key{i}": b"value%d" % i for i in range(300)}
    assert memcache.set_many(pairs) == []
    assert memcache.get_many([*pairs, "missing"]) == pairs
    assert len(memcache.gets_many(list(pairs))) == 300
    memcache.delete_many(list(pairs))
    assert memcache.get_many(list(pairs)) == {}


def test_expiry(memcache):
    memcache.set("gone", "v", expire=-1)
    assert memcache.get("gone") is None
    memcache.set("k", "v", expire=100)
    assert memcache.touch("k", 0)
    assert not memcache.touch("missing", 0)
    assert memcache.raw_command("gat 100 k", end_tokens="END\r\n") == b"VALUE k 0 1\r\nv\r\n"


def test_too_large(memcache):
    with pytest.raises(MemcacheServerError, match="too large"):
        memcache.set("big", b"x" * (2 << 20))
    assert memcache.set("big", b"x" * 1_000_000)
    assert memcache.get("big") == b"x" * 1_000_000


def test_noreply(memcache):
    for i in range(100):
        memcache.set(f"n{i}", str(i), noreply=True)
    assert memcache.get("n99") == b"99"
    memcache.flush_all(noreply=True)
    assert memcache.get("n99") is None


def test_admin(memcache):
    assert memcache.version().count(b".") >= 2
    stats = memcache.stats()
    assert stats[b"curr_connections"] >= 1
    assert b"cmd_get" in stats


def test_sees_what_redis_clients_store(memcache, plain):
    plain.set("shared", "from redis")
    assert memcache.get("shared") == b"from redis"
    memcache.set("shared", "from memcached")
    assert plain.get("shared") == b"from memcached"

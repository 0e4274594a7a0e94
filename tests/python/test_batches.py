"""Batches form across pipelined commands and across connections; INFO shows their sizes."""

import socket

import pytest
import redis

import servers
import wire

CONNECTIONS = 50
DEPTH = 20


def open_sockets(server, count):
    return [socket.create_connection(("127.0.0.1", server.resp_port), timeout=servers.LONGEST_SECONDS)
            for _ in range(count)]


def read_exactly(one, size):
    data = b""
    while len(data) < size:
        part = one.recv(size - len(data))
        assert part, "closed"
        data += part
    return data


def batch_info(client):
    return client.info("batches")


def test_pipelines_of_many_connections_share_batches():
    with servers.Isotherm("--threads", "1") as server:
        client = redis.Redis(port=server.resp_port, single_connection_client=True)
        sockets = open_sockets(server, CONNECTIONS)
        requests = wire.encode([b"SET", b"k", b"v"]) * DEPTH
        client.config_resetstat()
        for _ in range(3):
            # So all are ready when it goes on.
            with servers.standing_still(server):
                for one in sockets:
                    one.sendall(requests)
            for one in sockets:
                assert read_exactly(one, 5 * DEPTH) == b"+OK\r\n" * DEPTH
        info = batch_info(client)
        assert info["batch_connections_max"] >= CONNECTIONS // 2, info
        assert info["batch_size_max"] >= DEPTH * CONNECTIONS // 2, info
        assert info["batch_size_mean"] > DEPTH, info
        for one in sockets:
            one.close()
        client.close()


def test_one_pipeline_is_one_batch():
    with servers.Isotherm("--threads", "1") as server:
        client = redis.Redis(port=server.resp_port, single_connection_client=True)
        client.ping()
        client.config_resetstat()
        with client.pipeline(transaction=False) as pipeline:
            for i in range(100):
                pipeline.set(f"k{i}", "v")
            pipeline.execute()
        assert batch_info(client)["batch_size_max"] == 100
        client.config_resetstat()
        client.mget([f"k{i}" for i in range(100)])
        info = batch_info(client)
        assert info["batch_size_max"] == 100
        assert info["batches"] == 1
        client.close()


def test_a_memcached_get_of_100_keys_is_one_batch():
    with servers.Isotherm("--threads", "1") as server:
        client = redis.Redis(port=server.resp_port, single_connection_client=True)
        keys = [f"k{i}" for i in range(100)]
        client.mset({key: "v" for key in keys})
        client.config_resetstat()
        with socket.create_connection(("127.0.0.1", server.memcached_port), timeout=servers.LONGEST_SECONDS) as one:
            one.sendall(("get " + " ".join(keys) + "\r\n").encode())
            expected = "".join(f"VALUE {key} 0 1\r\nv\r\n" for key in keys) + "END\r\n"
            assert read_exactly(one, len(expected)) == expected.encode()
        info = batch_info(client)
        assert info["batch_size_max"] == 100
        assert info["batches"] == 1
        client.close()


@pytest.mark.parametrize("index", ["cuckoo", "set"])
def test_writes_behind_many_flushes_find_room(index):
    """Each flush leaves an index of a fixed size to be freed, and the next write makes another."""
    rounds = 100
    with servers.Isotherm("--threads", "1", "--index", index, "--maxmemory", "32mb",
                          "--maxmemory-policy", "allkeys-lru") as server:
        [resp] = open_sockets(server, 1)
        for flush in (b"FLUSHALL", b"FLUSHDB"):
            requests = [[b"SET", b"k", b"v"], [b"APPEND", b"k", b"w"], [flush]]
            resp.sendall(b"".join(map(wire.encode, requests)) * rounds)
            answers = b"+OK\r\n:2\r\n+OK\r\n" * rounds
            assert read_exactly(resp, len(answers)) == answers
        resp.close()
        with socket.create_connection(("127.0.0.1", server.memcached_port),
                                      timeout=servers.LONGEST_SECONDS) as memcached:
            memcached.sendall(b"set k 0 0 1\r\nv\r\nappend k 0 0 1\r\nw\r\nflush_all\r\n" * rounds)
            answers = b"STORED\r\nSTORED\r\nOK\r\n" * rounds
            assert read_exactly(memcached, len(answers)) == answers


@pytest.mark.parametrize("index", ["cuckoo", "set"])
def test_writes_behind_many_flushes_of_several_databases_find_room(index):
    rounds = 100
    with servers.Isotherm("--threads", "1", "--index", index, "--maxmemory", "64mb",
                          "--maxmemory-policy", "allkeys-lru") as server:
        [resp] = open_sockets(server, 1)
        requests = [[b"FLUSHALL"]]
        for database in (b"0", b"1", b"2", b"15"):
            requests += [[b"SELECT", database], [b"SET", b"k", b"v"]]
        resp.sendall(b"".join(map(wire.encode, requests)) * rounds)
        answers = b"+OK\r\n" * len(requests) * rounds
        assert read_exactly(resp, len(answers)) == answers
        resp.close()

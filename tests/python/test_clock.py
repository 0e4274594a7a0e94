"""The server's time is never behind what a client could have read before it sent."""

import time

import redis


def test_a_ttl_is_never_longer_than_what_was_asked_for(server):
    with redis.Redis(port=server.resp_port) as client:
        client.set("k", "v")
        for _ in range(300):
            client.pexpireat("k", int(time.time() * 1000) + 10_000)
            assert client.pttl("k") <= 10_000


def test_time_lies_between_the_clients_readings(server):
    with redis.Redis(port=server.resp_port) as client:
        for _ in range(100):
            before = time.time_ns() // 1000
            seconds, microseconds = client.time()
            after = time.time_ns() // 1000
            assert before <= seconds * 1_000_000 + microseconds <= after

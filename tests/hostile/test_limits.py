"""The limits on what a client may hold: refused values, and the disconnects they promise."""

import re
import time

import pytest

import servers
from attack import MIB, Client, Crowd, connect, get_request, port_of
from servers import LONGEST_SECONDS, soon
from wire import encode

OUTPUT = "client-output-buffer-limit"


@pytest.fixture(scope="module")
def server():
    with servers.Isotherm("--threads", "1") as isotherm:
        yield isotherm


@pytest.fixture
def admin(server):
    with Client(server.resp_port) as client:
        assert client.command("SET", "big", b"b" * (20 * MIB)) == b"+OK"
        assert client.command("SET", "cached", b"b" * (MIB - 100)) == b"+OK"
        yield client
        assert client.command("CONFIG", "SET", OUTPUT, "normal 0 0 0",
                              "client-query-buffer-limit", "1gb") == b"+OK"


def closed_soon(one, seconds=LONGEST_SECONDS, probe=b"\r\n"):
    """Whether the server closes the connection; reads nothing before."""
    one.settimeout(0.05)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            one.sendall(probe)
        except TimeoutError:
            pass
        except OSError:
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize("kind,request_bytes", [
    ("resp", encode([b"GET", b"big"])), ("memcached", get_request("memcached", [b"cached"] * 20))])
def test_hard_limit_on_output(server, admin, kind, request_bytes):
    assert admin.command("CONFIG", "SET", OUTPUT, "normal 8mb 0 0") == b"+OK"
    with connect(port_of(server, kind)) as one:
        one.sendall(request_bytes)
        # A reply of RESP passes the limit as a whole; one of memcached's waits for the client.
        if kind == "resp":
            assert closed_soon(one)
        else:
            assert not closed_soon(one, 0.3, b"get cached\r\n")
    assert admin.command("STRLEN", "big") == 20 * MIB


def test_soft_limit_on_output(server, admin):
    """Of 0 seconds: gone at the next look, unless the client has read meanwhile."""
    assert admin.command("CONFIG", "SET", OUTPUT, "normal 0 1mb 0") == b"+OK"
    with connect(server.resp_port) as one:
        one.sendall(encode([b"GET", b"big"]))
        assert closed_soon(one)


def test_clients_within_the_limits_stay(server, admin):
    assert admin.command("CONFIG", "SET", OUTPUT, "normal 64mb 32mb 60") == b"+OK"
    with Crowd(server.resp_port, 20) as crowd:
        crowd.send(encode([b"GET", b"big"]) * 100)
        time.sleep(0.3)
        assert crowd.closed() == 0


def test_limit_on_requests(server, admin):
    assert admin.command("CONFIG", "SET", "client-query-buffer-limit", "1mb") == b"+OK"
    endless = [b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % (3 * MIB) + b"v" * (2 * MIB),
               b"*1048576\r\n" + b"$1\r\nx\r\n" * 300_000]
    for data in endless:
        with connect(server.resp_port) as one:
            try:
                one.sendall(data)
            except OSError:
                pass
            assert closed_soon(one)
    # Many short requests at once are no long one.
    with connect(server.resp_port) as one:
        count = 3 * MIB // len(encode([b"PING"]))
        one.sendall(encode([b"PING"]) * count)
        left = count * len(b"+PONG\r\n")
        while left:
            left -= len(one.recv(min(left, 1 << 20)))


def test_all_clients_together():
    """Beyond the bound those go that hold most."""
    with servers.Isotherm("--threads", "1", "--maxmemory-clients", "20mb") as server:
        with Client(server.resp_port) as client, Crowd(server.resp_port, 20) as crowd:
            for i in range(100):
                client.command("SET", f"key:{i}", b"v" * 10_000)
            crowd.send(encode([b"PING"]))
            # More than a socket takes.
            crowd.send(get_request("resp", [b"key:%d" % i for i in range(100)] * 10))
            assert soon(lambda: client.info("evicted_clients") > 0)
            assert soon(lambda: client.info("used_memory_buffers") < 25 * MIB)
            # Those that the bound has room for stay.
            assert soon(lambda: crowd.closed() == client.info("evicted_clients"))
            assert 1 <= crowd.closed() < 20


def test_clients_that_may_not_be_evicted_stay():
    with servers.Isotherm("--threads", "1", "--maxmemory-clients", "8mb") as server:
        with Client(server.resp_port) as client, Crowd(server.resp_port, 10) as crowd:
            assert client.command("CLIENT", "NO-EVICT", "ON") == b"+OK"
            for i in range(100):
                client.command("SET", f"key:{i}", b"v" * 10_000)
            crowd.send(encode([b"CLIENT", b"NO-EVICT", b"ON"]))
            crowd.send(get_request("resp", [b"key:%d" % i for i in range(100)] * 10))
            assert soon(lambda: client.info("used_memory_buffers") > 8 * MIB)
            assert client.info("evicted_clients") == 0


def test_config_takes_and_shows_them(server, admin):
    get = lambda name: admin.command("CONFIG", "GET", name)[1]
    kept = get(OUTPUT)
    assert kept == b"normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"
    assert admin.command("CONFIG", "SET", OUTPUT, "normal 1MB 2Kb 3 replica 1 2 3") == b"+OK"
    assert get(OUTPUT) == b"normal 1048576 2048 3 slave 1 2 3 pubsub 33554432 8388608 60"
    failed = b"-ERR CONFIG SET failed (possibly related to argument '%s') - "
    for text, wrong in [
            ("normal 1 2", b"Wrong number of arguments in buffer limit configuration."),
            ("normal 1x 2 3", b"Error in hard, soft or soft_seconds setting in buffer limit configuration."),
            ("normal 1 2 -3", b"Error in hard, soft or soft_seconds setting in buffer limit configuration."),
            ("master 0 0 0", b"Invalid client class specified in buffer limit configuration.")]:
        assert admin.command("CONFIG", "SET", OUTPUT, text) == failed % OUTPUT.encode() + wrong
    assert admin.command("CONFIG", "SET", "client-query-buffer-limit", "100") == (
        failed % b"client-query-buffer-limit" +
        b"argument must be between 1048576 and 9223372036854775807 inclusive")
    assert admin.command("CONFIG", "SET", "maxmemory-clients", "-1") == (
        failed % b"maxmemory-clients" + b"argument must be a memory or percent value")
    assert admin.command("CONFIG", "SET", "maxmemory-clients", "101%") == (
        failed % b"maxmemory-clients" + b"percentage argument must be less or equal to 100")
    assert admin.command("CONFIG", "SET", "maxmemory-clients", "5%") == b"+OK"
    assert get("maxmemory-clients") == b"5%"
    assert admin.command("CONFIG", "SET", "maxmemory-clients", "0", OUTPUT, kept.decode()) == b"+OK"


# Of one request, so that nothing bounds it but this.
@pytest.mark.parametrize("request_bytes", [
    encode([b"MGET"] + [b"value"] * 40_000),
    encode([b"MULTI"]) + encode([b"MGET"] + [b"value"] * 200) * 200 + encode([b"EXEC"])],
    ids=["MGET", "EXEC"])
def test_a_reply_beyond_all_clients_memory_is_not_held(request_bytes):
    with servers.Isotherm("--threads", "1", "--maxmemory-clients", "20mb") as server:
        with Client(server.resp_port) as client:
            assert client.command("SET", "value", b"v" * 10_000) == b"+OK"
            before = server.resident_bytes()
            with connect(server.resp_port) as one:
                one.sendall(request_bytes)
                assert closed_soon(one)
            peak = int(re.search(r"VmHWM:\s+(\d+)", open(f"/proc/{server.pid}/status").read())[1])
            assert peak * 1024 - before < 60 * MIB
            assert client.command("PING") == b"+PONG"

"""Clients that send nonsense, lie about lengths or never read: the server goes on, within bounds."""

import random
import resource
import socket
import time

import pytest
import redis

import servers
import wire

MIB = 1 << 20


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=servers.LONGEST_SECONDS)


def send_and_drain(port, data, wait=0.02):
    """Sends as much as the server takes and reads what it says within a moment."""
    with connect(port) as one:
        try:
            one.sendall(data)
            one.settimeout(wait)
            while one.recv(65536):
                pass
        except OSError:
            pass


def resident_soon(server, client, limit):
    """The server's resident bytes once they are below the limit: what a busy machine let pile up,
    replies to clients that were gone, goes back to the system within seconds."""
    servers.soon(lambda: client.ping() and server.resident_bytes() < limit)
    return server.resident_bytes()


@pytest.fixture
def alive(server):
    """After the test the server still answers and has not grown."""
    with redis.Redis(port=server.resp_port) as client:
        client.ping()
        before = server.resident_bytes()
        yield client
        assert client.ping()
        client.flushall()
        limit = before + 100 * MIB
        assert resident_soon(server, client, limit) < limit


RESP_NONSENSE = [
    b"*1\r\n$-1\r\n", b"*-2147483649\r\n", b"*99999999999999999999999\r\n", b"*\r\n", b"*1\r\n$\r\n",
    b"*1\r\n$9999999999999999999999\r\n", b"*1\r\n$18446744073709551615\r\n",
    b"*1\r\n$4294967296\r\n", b"*1\r\n$536870913\r\nx", b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\n",
    b"*2147483647\r\n", b"*1048576\r\n" + b"$1\r\nx\r\n" * 1000, b"*1\r\n*1\r\n*1\r\n", b"\x00" * 1000,
    b"\xff" * 100_000, b"*" * 100_000, b"$" * 100_000, b"\r\n" * 50_000, b"'" * 70_000,
    b'"' + b"a" * 70_000, b"GET " + b"x" * 100_000, b"*2\r\n$3\r\nGET\r\n$1\r\n", b"*0\r\n" * 20_000,
    b"*-1\r\n" * 20_000, b"PING\r\n*1\r\n$4\r\nPING\r\n*x\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 500,
]
MEMCACHED_NONSENSE = [
    b"set k 0 0 -1\r\n", b"set k 0 0 2147483647\r\n", b"set k 0 0 9223372036854775807\r\n",
    b"set k 0 0 99999999999999999999999\r\n", b"set k 0 0 4294967297\r\nx\r\n",
    b"set k 0 0 1073741824\r\n" + b"x" * 100_000, b"get " + b"k" * 100_000, b"\x00" * 5000,
    b"\xff" * 5000, b"\x80" * 24, b"\x80\x01\x00\x04\xff\xff\xff\xff" + b"\xff" * 16,
    b"get " + b"k " * 50_000 + b"\r\n", b"set " + b"x" * 3000, b"\r\n" * 20_000,
    b"cas k 0 0 1\r\nx\r\n", b"incr k " + b"9" * 1000 + b"\r\n", b"set k 0 0 5\r\nabc",
    b"set k 0 0 1000000 noreply\r\nabc", b"gat " + b"9" * 3000,
]


@pytest.mark.parametrize("data", RESP_NONSENSE, ids=lambda data: repr(data[:30]))
def test_resp_nonsense(server, alive, data):
    for _ in range(3):
        send_and_drain(server.resp_port, data)
        assert alive.ping()


@pytest.mark.parametrize("data", MEMCACHED_NONSENSE, ids=lambda data: repr(data[:30]))
def test_memcached_nonsense(server, alive, data):
    for _ in range(3):
        send_and_drain(server.memcached_port, data)
        assert alive.ping()


def test_random_bytes(server, alive):
    chance = random.Random(1)
    for _ in range(200):
        data = bytes(chance.choice(b"*$\r\n0123456789-SETGETk \x00\xff") for _ in range(300))
        send_and_drain(server.resp_port, data, wait=0.005)
        send_and_drain(server.memcached_port, data, wait=0.005)
    assert alive.ping()


def test_announced_lengths_reserve_nothing(server, alive):
    """Many connections announce the largest value there is and send none of it."""
    before = server.resident_bytes()
    announce = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\n"
    sockets = [connect(server.resp_port) for _ in range(100)]
    for one in sockets:
        one.sendall(announce)
    time.sleep(0.3)
    assert alive.ping()
    assert server.resident_bytes() < before + 50 * MIB
    for one in sockets:
        one.close()


@pytest.mark.parametrize("name", ["resp", "memcached"])
def test_a_client_that_never_reads(server, alive, name):
    """Replies wait in bounded memory: the server stops reading from who does not read."""
    alive.set("big", b"x" * 100_000)
    before = server.resident_bytes()
    port = server.resp_port if name == "resp" else server.memcached_port
    request = wire.encode([b"GET", b"big"]) if name == "resp" else b"get big\r\n"
    with connect(port) as one:
        one.settimeout(0.5)
        sent = 0
        try:
            while sent < 100_000:
                one.sendall(request * 100)
                sent += 100
        except TimeoutError:
            pass
        time.sleep(0.3)
        # A turn whose replies nobody has seen yet takes 256 of them, 26 MB; asked for are 10 GB.
        assert server.resident_bytes() < before + 80 * MIB
        assert alive.ping()
    assert alive.get("big") == b"x" * 100_000


def test_a_slow_reader_gets_everything(server, alive):
    alive.set("big", b"y" * 50_000)
    count = 400
    with connect(server.resp_port) as one:
        one.sendall(wire.encode([b"GET", b"big"]) * count)
        expected = b"$50000\r\n" + b"y" * 50_000 + b"\r\n"
        left = count * len(expected)
        time.sleep(0.2)
        while left:
            data = one.recv(min(left, 1 << 16))
            assert data
            left -= len(data)


def test_clients_that_vanish(server, alive):
    """Connections reset in the middle of requests and of replies."""
    alive.set("big", b"z" * 1_000_000)
    linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
    for i in range(200):
        one = connect(server.resp_port)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        one.sendall([b"*3\r\n$3\r\nSET\r\n$1\r\n", wire.encode([b"GET", b"big"]) * 5,
                     b"*1\r\n$4\r\nPI"][i % 3])
        one.close()
    assert alive.ping()


def test_a_value_in_small_pieces_is_taken_in_linear_time(server, alive):
    """A megabyte in pieces of a few bytes is not looked at again and again."""
    size = 1 << 20
    with connect(server.resp_port) as one:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        one.sendall(b"*3\r\n$3\r\nSET\r\n$5\r\npiece\r\n$%d\r\n" % size)
        for at in range(0, size, 64):
            one.sendall(b"p" * min(64, size - at))
        one.sendall(b"\r\n")
        assert one.recv(100) == b"+OK\r\n"
    assert alive.strlen("piece") == size


def test_memory_goes_back_after_many_connections(server, alive):
    before = server.resident_bytes()
    for _ in range(3):
        sockets = [connect(server.resp_port) for _ in range(300)]
        for one in sockets:
            one.sendall(wire.encode([b"ECHO", b"e" * 20_000]))
        for one in sockets:
            one.recv(10)
            one.close()
    limit = before + 60 * MIB
    assert resident_soon(server, alive, limit) < limit


def test_ending_with_clients_connected():
    """SIGTERM ends the server cleanly while clients are in the middle of requests."""
    with servers.Isotherm("--threads", "2") as server:
        sockets = [connect(server.resp_port) for _ in range(20)]
        for one in sockets:
            one.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100\r\nhalf")
        server.stop()
        for one in sockets:
            one.close()
        with servers.Isotherm("--threads", "1") as other:
            assert redis.Redis(port=other.resp_port).ping()


def test_a_request_that_finds_no_memory_ends_its_client_alone():
    with servers.Isotherm("--threads", "1") as server, redis.Redis(port=server.resp_port) as other:
        other.set("k", "v")
        with open(f"/proc/{server.pid}/status", encoding="ascii") as status:
            line = next(line for line in status if line.startswith("VmSize"))
        limit = int(line.split()[1]) * 1024 + 64 * MIB
        resource.prlimit(server.pid, resource.RLIMIT_AS, (limit, limit))
        argument = b"$1048576\r\n" + b"x" * MIB + b"\r\n"
        with connect(server.resp_port) as one, pytest.raises(OSError):
            one.sendall(b"*1001\r\n$4\r\nMGET\r\n")
            for _ in range(400):
                one.sendall(argument)
        assert other.get("k") == b"v"

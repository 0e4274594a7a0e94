"""Clients that ask for more than they read: memory stays bounded and others are served."""

import itertools
import random
import threading
import time

import pytest

import servers
from attack import (KINDS, LONG, MIB, Bystander, Client, Crowd, connect, get_request, peak_resident,
                    pick, port_of)
from servers import LONGEST_SECONDS
from wire import encode

CAP = 64 * MIB
# What is promised of resident memory with the cap.
PROMISED = CAP * 115 // 100 + 200 * MIB
CLIENTS = pick(60, 1000)
# A machine that others use too makes single requests late.
# Among other tests a stall counts, not a delay.
SLACK_SECONDS = pick(10, 0.01)


@pytest.fixture
def capped():
    with servers.Isotherm("--threads", "2", "--maxmemory", str(CAP)) as server:
        yield server


def fill(server, count, size):
    with Client(server.resp_port) as client:
        for i in range(count):
            assert client.command("SET", f"key:{i}", bytes([i % 256]) * size) == b"+OK"
    return [b"key:%d" % i for i in range(count)]


# Values that are sent from where they lie, and values that are copied.
@pytest.mark.parametrize("count,size", [(10, MIB - 100), (100, 10_000)], ids=["large", "small"])
@pytest.mark.parametrize("kind", KINDS)
def test_memory_and_others(capped, kind, count, size):
    """Each pipelines 400 requests for megabytes and reads nothing."""
    keys = fill(capped, count, size)
    with Bystander(capped.resp_port) as bystander:
        quiet = bystander.watch(pick(0.2, 3))
        with Crowd(port_of(capped, kind), CLIENTS) as crowd:
            crowd.send(get_request(kind, keys) * 400)
            # The sockets of the kernel fill first.
            assert peak_resident(capped, pick(1, 10)) < PROMISED
            attacked = bystander.watch(pick(0.2, 3))
            assert capped.resident_bytes() < PROMISED
    assert attacked < 2 * quiet + SLACK_SECONDS


@pytest.mark.parametrize("kind", KINDS)
def test_values_that_are_replaced_while_they_are_sent(kind):
    """Each holds values that nobody else can see any more."""
    flags = ("--threads", "2", "--maxmemory", str(CAP), "--maxmemory-policy", "allkeys-lru")
    size = MIB - 100
    with servers.Isotherm(*flags) as server, Client(server.resp_port) as writer:
        with Crowd(port_of(server, kind), pick(30, 1000)) as crowd:
            request = get_request(kind, [b"key:%d" % i for i in range(8)]) * 4
            for one in crowd.sockets:
                for i in range(8):
                    assert writer.command("SET", f"key:{i}", b"v" * size) == b"+OK"
                one.send(request)
            assert peak_resident(server, 0.3) < PROMISED
        assert writer.command("SET", "last", b"v" * size) == b"+OK"
        assert writer.command("GET", "last") == b"v" * size


def test_large_replies_of_many_threads_at_once():
    """Each thread writes one that alone is nearly all that clients may hold. What it let go stays with
    it for a second."""
    threads, most = 16, 32 * MIB
    flags = ("--threads", str(threads), "--maxmemory-clients", str(most), "--maxmemory", str(CAP))
    with servers.Isotherm(*flags) as server:
        keys = fill(server, 100, 15_000)
        before = server.resident_bytes()
        with Crowd(server.resp_port, 3 * threads) as crowd:
            crowd.send(get_request("resp", keys * (most // 15_000 // 100)))
            assert peak_resident(server, 1) < before + 12 * most


class Model:
    """Random requests with the replies they must get, in order."""

    def __init__(self, kind, chance):
        self.kind = kind
        self.chance = chance
        self.values = {}
        self.numbers = itertools.count()

    def value(self):
        size = self.chance.choice([3, 3, 200, 5_000, 30_000, 33_000, 100_000, 900_000])
        return b"%08d" % next(self.numbers) + b"v" * size

    def request(self):
        keys = [b"k%d" % self.chance.randrange(12) for _ in range(self.chance.randrange(1, 6))]
        if self.chance.random() < 0.6:
            return get_request(self.kind, keys), self.found(keys)
        return self.change(keys[0], self.value())

    def found(self, keys):
        values = [(key, self.values.get(key)) for key in keys]
        if self.kind == "memcached":
            return b"".join(b"VALUE %s 0 %d\r\n%s\r\n" % (key, len(value), value)
                            for key, value in values if value is not None) + b"END\r\n"
        return b"*%d\r\n" % len(keys) + b"".join(bulk(value) for _, value in values)

    def change(self, key, value):
        old = self.values.get(key)
        self.values[key] = value
        if self.kind == "memcached":
            return b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value), b"STORED\r\n"
        if self.chance.random() < 0.5:
            return encode([b"GETSET", key, value]), bulk(old)
        if self.chance.random() < 0.2:
            del self.values[key]
            return encode([b"GETDEL", key]), bulk(old)
        return encode([b"SET", key, value]), b"+OK\r\n"


def bulk(value):
    return b"$-1\r\n" if value is None else b"$%d\r\n%s\r\n" % (len(value), value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_slow_reader_gets_every_reply_in_order(capped, kind):
    """What ran in vain, because the output was full, runs again, and nothing else does."""
    model = Model(kind, random.Random(7))
    pairs = [model.request() for _ in range(pick(250, 6000))]
    expected = b"".join(reply for _, reply in pairs)
    with connect(port_of(capped, kind)) as one:
        sender = threading.Thread(target=one.sendall, args=(b"".join(r for r, _ in pairs),))
        sender.start()
        got = bytearray()
        while len(got) < len(expected):
            data = one.recv(1 << 18)
            assert data, "closed early"
            got += data
            if len(got) % 7 == 0:
                time.sleep(0.002)
        sender.join()
        assert got == expected


def test_a_heavy_client_does_not_starve_the_others(capped):
    """Many that read large replies share the turns; each gets all of its own."""
    keys = fill(capped, 10, MIB - 100)
    request = get_request("resp", keys)
    reply_bytes = len(b"*10\r\n") + 10 * (len(b"$%d\r\n\r\n" % (MIB - 100)) + MIB - 100)
    count = pick(24, 64)
    sockets = [connect(capped.resp_port) for _ in range(count)]
    got = [0] * count
    for one in sockets:
        one.sendall(request * 3)

    def read_all(i):
        while got[i] < 3 * reply_bytes:
            got[i] += len(sockets[i].recv(1 << 20))

    threads = [threading.Thread(target=read_all, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=LONGEST_SECONDS)
    for one in sockets:
        one.close()
    assert got == [3 * reply_bytes] * count


@pytest.mark.parametrize("kind", KINDS)
def test_who_asks_for_little_is_answered_at_once(kind):
    """While others read megabytes as fast as they come. What counts is how much those get meanwhile,
    and one thread reads all sockets, so a machine that is busy changes nothing."""
    with servers.Isotherm("--threads", "1", "--maxmemory", str(CAP)) as server:
        keys = fill(server, 10, MIB - 100)
        small = Client(server.resp_port)
        assert small.command("SET", "small", "x") == b"+OK"
        with small, Crowd(port_of(server, kind), 49) as crowd:
            crowd.send(get_request(kind, keys) * 200)
            buffer = bytearray(MIB)
            turns = itertools.cycle(crowd.sockets)

            def read_some():
                try:
                    return next(turns).recv_into(buffer)
                except BlockingIOError:
                    return 0

            got = 0
            while got < 100 * MIB:
                got += read_some()
            amounts = []
            small.socket.setblocking(False)
            for _ in range(9):
                small.socket.sendall(encode([b"GET", b"small"]))
                others, answer = 0, b""
                while not answer:
                    others += read_some()
                    try:
                        answer = small.socket.recv(100)
                    except BlockingIOError:
                        pass
                assert answer == b"$1\r\nx\r\n"
                amounts.append(others)
            assert sum(amounts) < 400 * MIB, amounts


def test_left_out_replies_stay_left_out():
    """Requests that wait for the client are parsed again; what CLIENT REPLY said of them holds."""
    a, b, c = (name * 10_000 for name in (b"a", b"b", b"c"))
    with servers.Isotherm("--threads", "1") as server, Client(server.resp_port) as client:
        for value in (a, b, c):
            assert client.command("SET", value[:1], value) == b"+OK"
        get = lambda value: encode([b"GET", value[:1]])
        bulk = lambda value: b"$10000\r\n" + value + b"\r\n"
        rounds = 30
        with connect(server.resp_port) as one:
            one.sendall((get(a) * 20 + encode([b"CLIENT", b"REPLY", b"SKIP"]) + get(b) + get(c)) *
                        rounds)
            expected = (bulk(a) * 20 + bulk(c)) * rounds
            got = bytearray()
            while len(got) < len(expected):
                got += one.recv(1 << 20)
            assert got == expected

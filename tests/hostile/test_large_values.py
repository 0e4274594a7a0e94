"""Large values are received into the items they become: memory, accounting, and every way to refuse."""

import threading
import time

import pytest

import servers
from attack import MIB, Client, connect, peak_resident, pick
from wire import encode

OOM = b"-OOM command not allowed when used memory > 'maxmemory'."
# What is left of them, however long the next request is on its way.
SOME_OF_100_SECONDS = range(1, 101)


@pytest.fixture
def server():
    with servers.Isotherm("--threads", "1") as isotherm:
        yield isotherm


def high_water(server):
    with open(f"/proc/{server.pid}/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))


def test_peak_memory(server):
    """The value, the one it replaces, and little more."""
    size = pick(64, 512) * MIB
    value = b"v" * size
    with Client(server.resp_port) as client:
        before = server.resident_bytes()
        assert client.command("SET", "k", value) == b"+OK"
        assert high_water(server) < before + size + 32 * MIB
        assert client.command("SET", "k", value) == b"+OK"
        assert high_water(server) < before + 2 * size + 64 * MIB
        assert client.command("STRLEN", "k") == size


def send_in_pieces(one, stream, piece):
    for at in range(0, len(stream), piece):
        one.sendall(stream[at:at + piece])


# 65,536 bytes is where it begins; 20,000 are copied.
@pytest.mark.parametrize("size", [20_000, 65_535, 65_536, 100_000, 1_000_000])
def test_every_command_that_stores(server, size):
    """In pieces, so that values are received bit by bit, with requests before and behind."""
    values = [bytes([65 + i]) * size for i in range(8)]
    script = [
        ((b"SET", b"a", values[0]), b"+OK"),
        ((b"SET", b"a", values[1], b"NX"), None),
        ((b"SET", b"a", values[1], b"XX", b"GET"), values[0]),
        ((b"GET", b"a"), values[1]),
        ((b"SET", b"a", values[2], b"PX", b"100000"), b"+OK"),
        ((b"SET", b"a", values[3], b"KEEPTTL"), b"+OK"),
        ((b"EXISTS", b"a", b"b"), 1),
        ((b"SET", b"b", values[4], b"NONSENSE"), b"-ERR syntax error"),
        ((b"GETSET", b"a", values[5]), values[3]),
        ((b"TTL", b"a"), -1),
        ((b"SETNX", b"a", values[6]), 0),
        ((b"SETNX", b"b", values[6]), 1),
        ((b"SETEX", b"b", b"100", values[7]), b"+OK"),
        ((b"SETEX", b"b", b"-1", values[7]), b"-ERR invalid expire time in 'setex' command"),
        ((b"TTL", b"b"), SOME_OF_100_SECONDS),
        ((b"PERSIST", b"b"), 1),
        ((b"TTL", b"b"), -1),
        ((b"APPEND", b"b", b"tail"), size + 4),
        ((b"GET", b"b"), values[7] + b"tail"),
        ((b"EXPIRE", b"a", b"100"), 1),
        ((b"TTL", b"a"), SOME_OF_100_SECONDS),
        ((b"MGET", b"a", b"b"), [values[5], values[7] + b"tail"]),
        ((b"GETDEL", b"a"), values[5]),
        ((b"SET", b"a"), b"-ERR wrong number of arguments for 'set' command"),
        ((b"SELECT", b"3"), b"+OK"),
        ((b"SET", b"c", values[0]), b"+OK"),
        ((b"SELECT", b"0"), b"+OK"),
        ((b"EXISTS", b"c"), 0),
        ((b"FLUSHALL",), b"+OK"),
    ]
    stream = b"".join(encode(words) for words, _ in script)
    with Client(server.resp_port) as client:
        for piece in (16_384, 70_001):
            sender = threading.Thread(target=send_in_pieces, args=(client.socket, stream, piece))
            sender.start()
            for i, (words, expected) in enumerate(script):
                reply = client.reply()
                right = reply in expected if isinstance(expected, range) else reply == expected
                assert right, (i, words[0], reply if isinstance(reply, int) else None)
            sender.join()


@pytest.mark.parametrize("size", [20_000, 70_000, 900_000])
def test_memcached_commands_that_store(server, size):
    blocks = [bytes([97 + i]) * size for i in range(5)]
    script = [
        (b"set a 7 0 %d\r\n%s\r\n" % (size, blocks[0]), b"STORED\r\n"),
        (b"add a 0 0 %d\r\n%s\r\n" % (size, blocks[1]), b"NOT_STORED\r\n"),
        (b"replace a 9 100 %d\r\n%s\r\n" % (size, blocks[2]), b"STORED\r\n"),
        (b"get a\r\n", b"VALUE a 9 %d\r\n%s\r\nEND\r\n" % (size, blocks[2])),
        (b"cas a 0 0 %d 1\r\n%s\r\n" % (size, blocks[3]), b"EXISTS\r\n"),
        (b"set b 0 0 %d\r\n%sXX" % (size, blocks[4]), b"CLIENT_ERROR bad data chunk\r\n"),
        (b"get b\r\n", b"END\r\n"),
        (b"set b 0 0 %d noreply\r\n%s\r\n" % (size, blocks[4]), b""),
        (b"append b 0 0 %d\r\n%s\r\n" % (size, blocks[1]), b"STORED\r\n"),
        (b"get b\r\n", b"VALUE b 0 %d\r\n%s%s\r\nEND\r\n" % (2 * size, blocks[4], blocks[1])),
        (b"flush_all\r\n", b"OK\r\n"),
    ]
    stream = b"".join(sent for sent, _ in script)
    expected = b"".join(reply for _, reply in script)
    with connect(server.memcached_port) as one, one.makefile("rb") as file:
        for piece in (16_384, 70_001):
            sender = threading.Thread(target=send_in_pieces, args=(one, stream, piece))
            sender.start()
            assert file.read(len(expected)) == expected
            sender.join()


def test_what_has_arrived_is_counted_and_given_back(server):
    size = 40 * MIB
    with Client(server.resp_port) as client:
        before = client.info("used_memory")
        with connect(server.resp_port) as one:
            one.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % size)
            time.sleep(0.05)
            assert client.info("used_memory") < before + MIB
            one.sendall(b"v" * (size // 2))
            assert servers.soon(lambda: client.info("used_memory") >= before + size // 2)
            assert client.info("used_memory") - before < size // 2 + MIB
        assert servers.soon(lambda: client.info("used_memory") < before + MIB)


@pytest.mark.parametrize("policy", ["noeviction", "allkeys-lru"])
def test_values_beyond_the_cap_are_refused_without_being_held(policy):
    flags = ("--threads", "1", "--maxmemory", "32mb", "--maxmemory-policy", policy)
    with servers.Isotherm(*flags) as server, Client(server.resp_port) as client:
        assert client.command("SET", "other", b"o" * MIB) == b"+OK"
        before = server.resident_bytes()
        assert client.command("SET", "k", b"v" * (100 * MIB)) == OOM
        assert high_water(server) < before + 60 * MIB
        assert client.command("EXISTS", "k", "other") == 1
        assert client.command("SET", "k", b"v" * MIB) == b"+OK"


def test_many_values_on_their_way_do_not_take_the_cap():
    """Half-sent values of many clients leave room for the writes of others."""
    flags = ("--threads", "1", "--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru")
    with servers.Isotherm(*flags) as server, Client(server.resp_port) as client:
        half = [connect(server.resp_port) for _ in range(pick(4, 40))]
        for one in half:
            one.settimeout(0.2)
            try:
                one.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nh\r\n$%d\r\n" % (24 * MIB) + b"h" * 23 * MIB)
            except OSError:
                pass
        assert peak_resident(server, 0.2) < 64 * MIB * 115 // 100 + 200 * MIB
        for i in range(20):
            assert client.command("SET", f"key:{i}", b"v" * MIB) == b"+OK"
        assert client.command("GET", "key:19") == b"v" * MIB
        for one in half:
            one.close()

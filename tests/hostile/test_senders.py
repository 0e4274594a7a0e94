"""Clients that announce much, send slowly, or leave in the middle."""

import socket
import time

import pytest

import servers
from attack import KINDS, MIB, Bystander, Client, Crowd, connect, peak_resident, pick, port_of
from wire import encode


@pytest.fixture
def server():
    """With a cap, so that memory which is only announced would refuse the writes of others."""
    with servers.Isotherm("--threads", "2", "--maxmemory", "64mb") as isotherm:
        yield isotherm


@pytest.mark.parametrize("data", [
    b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\n",
    b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\n" + b"v" * 4000,
    b"*2\r\n$4\r\nECHO\r\n$536870912\r\n",
    b"*1\r\n$536870912\r\n",
    b"*2147483647\r\n$3\r\nDEL\r\n",
], ids=["value", "some of a value", "argument", "command", "array"])
def test_huge_headers(server, data):
    """Half a gigabyte announced by each, and none of it sent."""
    count = pick(150, 1000)
    with Client(server.resp_port) as client, Crowd(server.resp_port, count) as crowd:
        before = server.resident_bytes()
        half = len(data) // 2
        crowd.send(data[:half])
        time.sleep(0.05)
        crowd.send(data[half:])
        assert peak_resident(server, 0.2) < before + count * 16_000 + 10 * MIB
        assert client.command("SET", "other", b"o" * MIB) == b"+OK"
        assert client.info("used_memory_buffers") < count * 16_000 + MIB
        assert crowd.closed() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_slow_senders(server, kind):
    """Each sends a request a byte at a time; all are answered, and others do not wait."""
    request = encode([b"SET", b"slow", b"value"]) if kind == "resp" else b"set slow 0 0 5\r\nvalue\r\n"
    answer = b"+OK\r\n" if kind == "resp" else b"STORED\r\n"
    with Bystander(server.resp_port) as bystander, \
            Crowd(port_of(server, kind), pick(100, 1000)) as crowd:
        first = len(bystander.seconds)
        for i in range(len(request)):
            crowd.send(request[i:i + 1])
            # One may have been on its way before.
            done = len(bystander.seconds)
            assert servers.soon(lambda: len(bystander.seconds) > done + 1)
        for one in crowd.sockets:
            one.setblocking(True)
            assert one.recv(100) == answer
        times = sorted(bystander.seconds[first:])
        assert times and times[len(times) * 99 // 100] < pick(10, 0.25)


@pytest.mark.parametrize("kind", KINDS)
def test_half_open(server, kind):
    """Who has shut down its sending side still gets all replies, large ones, too."""
    with Client(server.resp_port) as client:
        client.command("SET", "large", b"l" * 800_000)
    request = encode([b"GET", b"large"]) if kind == "resp" else b"get large\r\n"
    reply = b"$800000\r\n%s\r\n" if kind == "resp" else b"VALUE large 0 800000\r\n%s\r\nEND\r\n"
    with connect(port_of(server, kind)) as one:
        one.sendall(request * 20)
        one.shutdown(socket.SHUT_WR)
        time.sleep(0.1)
        with one.makefile("rb") as file:
            assert file.read() == reply % (b"l" * 800_000) * 20


@pytest.mark.parametrize("kind", KINDS)
def test_vanishing(server, kind):
    """Resets in the middle of requests and of large replies leave nothing behind."""
    reset = b"\x01\x00\x00\x00\x00\x00\x00\x00"
    with Client(server.resp_port) as client:
        client.command("SET", "large", b"l" * 800_000)
        before = server.resident_bytes()
        for i in range(pick(60, 1000)):
            with connect(port_of(server, kind)) as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                one.sendall((encode([b"GET", b"large"]) * 20 if kind == "resp"
                             else b"get large\r\n" * 20) if i % 2 else
                            (b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$900000\r\n" if kind == "resp"
                             else b"set k 0 0 900000\r\n") + b"v" * 500_000)
        # A value that was half sent is counted nowhere.
        assert servers.soon(lambda: client.info("used_memory_buffers") <= MIB)
        assert servers.soon(lambda: server.resident_bytes() < before + 100 * MIB)
        assert client.command("GET", "large") == b"l" * 800_000
        assert client.command("EXISTS", "k") == 0


def test_million_element_arrays(server):
    """One whole, and many that never end."""
    count = 1 << 20
    with Client(server.resp_port) as client:
        words = b"$6\r\nEXISTS\r\n" + b"$1\r\nx\r\n" * (count - 1)
        client.socket.sendall(b"*%d\r\n" % count + words)
        assert client.reply() == 0
        client.socket.sendall(b"*%d\r\n" % count + b"$7\r\nNOTHING\r\n" + b"$1\r\nx\r\n" * (count - 1))
        assert client.reply().startswith(b"-ERR unknown command 'NOTHING', with args beginning with")
        with Crowd(server.resp_port, pick(8, 200)) as crowd:
            data = b"*%d\r\n" % count + b"$1\r\nx\r\n" * (count - 1)
            rest = [data] * len(crowd.sockets)
            for _ in range(100):
                for i, one in enumerate(crowd.sockets):
                    try:
                        rest[i] = rest[i][one.send(rest[i][:1 << 18]):]
                    except BlockingIOError:
                        pass
                    except ConnectionError:
                        rest[i] = b""
                if not any(rest):
                    break
            assert server.resident_bytes() < 64 * MIB * 115 // 100 + 200 * MIB
            assert client.command("SET", "other", b"o" * MIB) == b"+OK"

"""Pipelines of small requests about long values take no memory of many copies of them."""

import socket
import threading
import time

import pytest

import servers
import wire

BITS = 80_000_000
REQUESTS = 60
MOST_BYTES = 400 << 20


def ask(one, commands):
    one.sendall(b"".join(wire.encode(command) for command in commands))
    data = b""
    while data.count(b"\r\n") < len(commands):
        part = one.recv(1 << 16)
        assert part, "closed"
        data += part
    return data.splitlines()


class Peak:
    """The most memory that a server takes, looked at all the time."""

    def __init__(self, server):
        self.server = server
        self.bytes = 0
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def watch(self):
        while not self.stopped.is_set():
            self.bytes = max(self.bytes, self.server.resident_bytes())
            time.sleep(0.002)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.thread.join()


@pytest.mark.parametrize("commands, reply", [
    ([[b"SETBIT", b"k", b"%d" % (bit * 997), b"1"] for bit in range(REQUESTS)], b":0"),
    ([[b"COPY", b"k", b"other", b"REPLACE"]] * REQUESTS, b":1"),
], ids=["SETBIT", "COPY"])
def test_a_pipeline_about_a_long_value(commands, reply):
    with servers.Isotherm("--threads", "1") as server:
        with socket.create_connection(("127.0.0.1", server.resp_port), timeout=60) as one:
            ask(one, [[b"SETBIT", b"k", b"%d" % BITS, b"1"]])
            with Peak(server) as peak:
                assert ask(one, commands) == [reply] * REQUESTS
            assert peak.bytes < MOST_BYTES, peak.bytes

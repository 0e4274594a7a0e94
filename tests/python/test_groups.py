"""Commands of several keys take effect whole or not at all, also beside other threads.

Clients send deep pipelines at the same moments, so batches of two threads are under way together.
Where a group does not run alone each of these tests fails.
"""

import random
import socket
import threading

import pytest

import servers
import wire

CLIENTS = 4
DEPTH = 500
PIPELINES = 16
KEYS = 8
NAMES = [b"name0", b"name1", b"name2", b"name3"]


@pytest.fixture(name="server")
def running_server():
    with servers.Isotherm("--threads", "2") as server:
        yield server


def ask(one, commands, start=None):
    """All replies of a pipeline, as bytes; sent when all clients are at `start`."""
    end = b"$3\r\nend\r\n"
    request = b"".join(wire.encode(command) for command in [*commands, [b"ECHO", b"end"]])
    if start is not None:
        start.wait(timeout=servers.LONGEST_SECONDS)
    one.sendall(request)
    data = bytearray()
    while not data.endswith(end):
        part = one.recv(1 << 20)
        assert part, "closed"
        data += part
    return bytes(data[:-len(end)])


def on_threads(server, work):
    """Runs work(number, socket, barrier) on several threads; raises what they raise."""
    faults = []
    start = threading.Barrier(CLIENTS)

    def run(number):
        try:
            with socket.create_connection(("127.0.0.1", server.resp_port), timeout=servers.LONGEST_SECONDS) as one:
                work(number, one, start)
        except BaseException as fault:  # pylint: disable=broad-except
            faults.append(fault)
            start.abort()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]


def test_a_renamed_key_is_always_there_once(server):
    with socket.create_connection(("127.0.0.1", server.resp_port)) as one:
        # Long, so that storing it takes a while.
        ask(one, [[b"SET", NAMES[0], b"token" * 20_000]])

    def work(number, one, start):
        draw = random.Random(number)
        for _ in range(PIPELINES):
            commands = []
            for _ in range(DEPTH):
                commands += [[draw.choice([b"RENAME", b"RENAMENX"]), *draw.sample(NAMES, 2)],
                             [b"EXISTS", *NAMES]]
            replies = ask(one, commands, start).splitlines()
            assert len(replies) == 2 * DEPTH
            counts = set(replies[1::2])
            assert counts == {b":1"}, counts

    on_threads(server, work)


def test_keys_are_deleted_together(server):
    names = [b"key%d" % key for key in range(64)]

    def work(number, one, start):
        if number % 2 == 0:
            put = [b"MSET", *(word for name in names for word in (name, b"1"))]
            commands = [put, [b"DEL", *names]] * DEPTH
        else:
            commands = [[b"EXISTS", *names]] * DEPTH
        for _ in range(PIPELINES):
            counts = set(ask(one, commands, start).splitlines())
            assert number % 2 == 0 or counts <= {b":0", b":64"}, counts

    on_threads(server, work)


def test_msetnx_has_one_winner(server):
    wins = [0] * CLIENTS

    def work(number, one, start):
        own = b"%d" % number
        for step in range(PIPELINES):
            commands = []
            for i in range(DEPTH):
                keys = [b"%d-%d-%d" % (step, i, key) for key in range(KEYS)]
                # Half of the clients name the keys the other way round.
                named = keys if number % 2 else keys[::-1]
                commands += [[b"MSETNX", *(word for key in named for word in (key, own))],
                             [b"MGET", *keys]]
            replies = ask(one, commands, start).splitlines()
            assert len(replies) == DEPTH * (2 + 2 * KEYS)
            for i in range(0, len(replies), 2 + 2 * KEYS):
                found = set(replies[i + 3:i + 2 + 2 * KEYS:2])
                assert len(found) == 1, found
                assert replies[i] == b":0" or found == {own}, found
                wins[number] += replies[i] == b":1"

    on_threads(server, work)
    assert sum(wins) == PIPELINES * DEPTH, wins

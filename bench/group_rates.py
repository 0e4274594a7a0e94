#!/usr/bin/env python3
"""Requests a second that are groups with guards: COPY, RENAME, MSETNX, WATCH with EXEC.

Usage: group_rates.py [--server PROGRAM] [--seconds N] [--clients N] [-- FLAGS OF ISOTHERM...]

Each client is a process that sends pipelines of 32 requests, each on keys of its own, and compares every
reply. The reference is the same program with --device cpu and the same number of threads, in the same run;
the ratio is the rate with the flags by that of the reference.
"""

import argparse
import multiprocessing
import os
import pathlib
import platform
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "system"))
from server_process import encode, start_server, status_of  # noqa: E402

PIPELINE = 32
PIPELINES = 8


def key(client, number, kind):
    return b"%d:%d:%d" % (client, number, kind)


# Each gives, for a pair of keys, pipelines that follow one another: requests and what answers each.
def copy(a, b):
    return [(encode(b"COPY", a, b, b"REPLACE"), b":1\r\n")]


def rename(a, b):
    return [(encode(b"RENAME", a, b), b"+OK\r\n"), (encode(b"RENAME", b, a), b"+OK\r\n")]


def msetnx(a, b):
    return [(encode(b"MSETNX", a, b"1", b, b"1"), b":0\r\n")]


def watch_exec(a, _):
    words = encode(b"WATCH", a) + encode(b"MULTI") + encode(b"SET", a, b"2") + encode(b"EXEC")
    return [(words, b"+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n")]


KINDS = {"COPY": copy, "RENAME": rename, "MSETNX": msetnx, "WATCH, MULTI, SET, EXEC": watch_exec}


def pipelines(client, kind):
    made = []
    for first in range(0, PIPELINES * PIPELINE, PIPELINE):
        pairs = [KINDS[kind](key(client, i, 0), key(client, i, 1)) for i in range(first, first + PIPELINE)]
        for one in zip(*pairs):
            made.append((b"".join(sent for sent, _ in one), b"".join(answer for _, answer in one)))
    return made


def talk(stream, sent, expected):
    stream.sendall(sent)
    received = b""
    while len(received) < len(expected):
        part = stream.recv(1 << 20)
        if not part:
            raise RuntimeError("the server closed the connection")
        received += part
    if received != expected:
        raise RuntimeError(f"answered {received[:100]!r} where {expected[:100]!r} was expected")


def send(port, client, kind, seconds, results):
    stream = socket.create_connection(("127.0.0.1", port))
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for i in range(PIPELINES * PIPELINE):
        talk(stream, encode(b"SET", key(client, i, 0), b"value"), b"+OK\r\n")
    rounds = pipelines(client, kind)
    sent, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        for words, expected in rounds:
            talk(stream, words, expected)
        sent += len(rounds) * PIPELINE
    results.put(sent / (seconds + time.monotonic() - end))


def rate(server, options, kind):
    results = multiprocessing.Queue()
    clients = [multiprocessing.Process(target=send, args=(server.resp_port, i, kind, options.seconds, results))
               for i in range(options.clients)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    if any(client.exitcode != 0 for client in clients):
        raise RuntimeError(f"{kind}: a client failed")
    return sum(results.get() for _ in clients)


def test(options):
    threads = ["--threads", str(options.threads)]
    print(f"machine     {platform.machine()}, Linux {platform.release()}, {os.cpu_count()} cores")
    print("reference   the same program on the CPU")
    print(f"parameters  {' '.join(threads + options.flags)}; {options.clients} clients, pipelines of "
          f"{PIPELINE}, {options.seconds} s a figure\n")
    print(f"{'requests a second':<24} {'isotherm':>10} {'reference':>10} {'ratio':>7}")
    with start_server(options.server, *threads, *options.flags) as ours, \
            start_server(options.server, *threads) as reference:
        for kind in KINDS:
            figures = [rate(server, options, kind) for server in (ours, reference)]
            print(f"{kind:<24} {figures[0]:>10.0f} {figures[1]:>10.0f} {figures[0] / figures[1]:>7.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--server", default="build/release/isotherm-server")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("flags", nargs="*")
    return status_of(test, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())

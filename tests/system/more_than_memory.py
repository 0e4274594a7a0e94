#!/usr/bin/env python3
"""A store with a tree holds ten times as much as its memory: right answers, and level memory.

Clients fill it and go on at full speed: they read, set, delete and count up keys of their own, of which
each knows exactly what has to be there, large values among them, and one key that all count up. Beside
them a database is filled and flushed, again and again. Resident memory stays within 1.15 x maxmemory +
200 MB, and is in the second half of the time what it was in the first. At the end, and once more when the
server has started anew, every key is as its client knows it.

    more_than_memory.py [--server BINARY] [--maxmemory 3mb] [--times 10] [--rounds N | --minutes N] [-- FLAG…]

Exit status 0: all of that; 1: not; 2: the test could not run.
"""

import argparse
import random
import shutil
import sys
import tempfile
import threading
import time
import zlib

from server_process import (Client, Failure, PeakMemory, encode, parse_size, resident_bytes,
                            start_server, status_of)

MIB = 1 << 20
CLIENTS = 2
SIZE = 1000
LARGE = 1_000_000
AT_ONCE = 100


NOISE = random.Random(0).randbytes(2 * LARGE)  # which does not get smaller in files


def value_of(key, version, size):
    text = b"%s=%d;" % (key, version)
    at = zlib.crc32(text) % LARGE
    return text + NOISE[at : at + size - len(text)]


class Owner:
    """A client with keys of its own: their versions, 0 where there is none."""

    def __init__(self, number, port, keys, seed):
        self.number = number
        self.client = Client(port)
        self.random = random.Random(seed)
        self.versions = [0] * keys
        self.counted = 0
        self.pipelines = 0
        self.failure = None
        self.stops = False
        self.thread = None

    def begin(self, rounds):
        """So many, or, with None, until it is told to stop."""
        self.stops = False
        self.thread = threading.Thread(target=self.run, args=(rounds,))
        self.thread.start()

    # One in a thousand is large.
    def key(self, i):
        return b"%d:%08d" % (self.number, i)

    def size(self, i):
        return LARGE if i % 1000 == 999 else SIZE

    def expected(self, i):
        if self.versions[i] == 0:
            return None
        return value_of(self.key(i), self.versions[i], self.size(i))

    def run(self, rounds):
        try:
            if not any(self.versions):
                self.fill()
            done = 0
            while not self.stops and done != rounds:
                self.round()
                done += 1
        except Exception as failure:  # the main thread tells of it
            self.failure = failure

    def fill(self):
        for first in range(0, len(self.versions), AT_ONCE):
            self.do([("set", i) for i in range(first, min(first + AT_ONCE, len(self.versions)))])

    def round(self):
        kinds = self.random.choices(["get", "set", "delete", "count"], [60, 30, 8, 2], k=AT_ONCE)
        self.do([(kind, self.random.randrange(len(self.versions))) for kind in kinds])

    def do(self, steps):
        request, wanted = [], []
        for kind, i in steps:
            if kind == "get":
                request.append(encode("GET", self.key(i)))
                wanted.append(self.expected(i))
            elif kind == "set":
                self.versions[i] += 1
                request.append(encode("SET", self.key(i), self.expected(i)))
                wanted.append(b"OK")
            elif kind == "delete":
                request.append(encode("DEL", self.key(i)))
                wanted.append(int(self.versions[i] != 0))
                self.versions[i] = 0
            else:
                request.append(encode("INCR", "counter"))
                wanted.append(None)
                self.counted += 1
        sender = threading.Thread(target=self.client.send, args=(b"".join(request),))
        sender.start()
        for (kind, i), expected in zip(steps, wanted):
            reply = self.client.reply()
            if kind != "count" and reply != expected:
                raise Failure(f"{kind} {self.key(i)}: {str(reply)[:60]}, not {str(expected)[:60]}")
            if kind == "count" and not isinstance(reply, int):
                raise Failure(f"INCR: {reply}")
        sender.join()
        self.pipelines += 1

    def check(self, client):
        for first in range(0, len(self.versions), AT_ONCE):
            some = range(first, min(first + AT_ONCE, len(self.versions)))
            values = client.command("MGET", *[self.key(i) for i in some])
            for i, value in zip(some, values):
                if value != self.expected(i):
                    raise Failure(f"{self.key(i)} is {str(value)[:60]}, "
                                  f"not {str(self.expected(i))[:60]}")


def check_all(port, owners):
    client = Client(port)
    for owner in owners:
        owner.check(client)
    counted = sum(owner.counted for owner in owners)
    if int(client.command("GET", "counter") or 0) != counted:
        raise Failure(f"the counter is not {counted}")
    wanted = sum(sum(map(bool, owner.versions)) for owner in owners) + (counted != 0)
    if client.command("DBSIZE") != wanted:
        raise Failure(f"{client.command('DBSIZE')} keys, not {wanted}")
    client.close()


def fill_and_flush(port, owners):
    """Now and then, until they have ended; how often."""
    client = Client(port)
    client.command("SELECT", 1)
    flushes = 0
    last = 0
    while any(owner.thread.is_alive() for owner in owners):
        if sum(owner.pipelines for owner in owners) < last + 5:
            time.sleep(0.01)
            continue
        last = sum(owner.pipelines for owner in owners)
        for first in range(0, 500, AT_ONCE):
            client.send(b"".join(encode("SET", b"f%d" % i, value_of(b"f", i, SIZE))
                                 for i in range(first, first + AT_ONCE)))
            for _ in range(AT_ONCE):
                reply = client.line()
                if reply != b"+OK":
                    raise Failure(f"SET of what is flushed: {reply}")
        client.command("FLUSHDB")
        if client.command("DBSIZE") != 0 or client.command("GET", "f0") is not None:
            raise Failure("what was flushed is there")
        flushes += 1
    client.close()
    return flushes


def work(port, owners, options):
    for owner in owners:
        owner.begin(None if options.minutes is not None else options.rounds)
    timer = threading.Timer(60 * (options.minutes or 0), stop, [owners])
    if options.minutes is not None:
        timer.start()
    try:
        return fill_and_flush(port, owners)
    finally:
        timer.cancel()
        stop(owners)
        for owner in owners:
            owner.thread.join()


def stop(owners):
    for owner in owners:
        owner.stops = True


def one_half(server, owners, maxmemory, options):
    began = time.monotonic()
    flushes = work(server.resp_port, owners, options)
    for owner in owners:
        if owner.failure is not None:
            raise owner.failure
    check_all(server.resp_port, owners)
    client = Client(server.resp_port)
    resident = resident_bytes(server.pid)
    print(f"  {sum(len(owner.versions) for owner in owners)} keys, "
          f"{client.info('tree_disk_bytes') / MIB:.0f} MiB of files, {flushes} flushes, "
          f"{time.monotonic() - began:.0f} s, {resident / MIB:.0f} MiB resident, memory used "
          f"{client.info('used_memory') / maxmemory:.0%}", flush=True)
    if client.info("tree_keys_asked") == 0:
        raise Failure("nothing was read from the files")
    client.close()
    return resident


def run(options):
    maxmemory = parse_size(options.maxmemory)
    bound = 1.15 * maxmemory + 200 * 10**6
    keys = int(options.times * maxmemory / CLIENTS / (SIZE + LARGE / 1000))
    folder = tempfile.mkdtemp(prefix="isotherm-tree-")
    flags = ["--threads", "2", "--maxmemory", options.maxmemory, "--dir", folder, "--tree",
             f"{folder}/tree", "--appendonly", "yes", "--appendfsync", "everysec",
             *options.flags]
    try:
        with start_server(options.server, *flags) as server:
            peak = PeakMemory(server.pid)
            owners = [Owner(i, server.resp_port, keys, options.seed + i) for i in range(CLIENTS)]
            resident = [one_half(server, owners, maxmemory, options) for _ in range(2)]
            highest = peak.stop()
        print(f"  resident at most {highest / MIB:.0f} MiB, bound {bound / MIB:.0f} MiB", flush=True)
        if highest > bound:
            raise Failure(f"resident memory reached {highest / MIB:.0f} MiB")
        if resident[1] > 1.1 * resident[0] + 32 * MIB:
            raise Failure(f"resident memory grew from {resident[0]} to {resident[1]}")
        with start_server(options.server, *flags) as server:
            check_all(server.resp_port, owners)
    finally:
        shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="build/release/isotherm-server")
    parser.add_argument("--maxmemory", default="3mb")
    parser.add_argument("--times", type=float, default=10, help="as much data as memory")
    parser.add_argument("--rounds", type=int, default=10, help="pipelines of a client, twice")
    parser.add_argument("--minutes", type=float, help="instead of rounds, twice")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("flags", nargs="*", help="of the server, behind --")
    return status_of(run, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Resident memory stays within 1.15 x maxmemory + 200 MB whatever the load does.

Phases of one value size each, 10 bytes to 1 MB, up and down again, overrun the cap under eviction:
memory has to move from one size class to another, and from the index to the items, so the values
written last must fill half of it.
Then cycles of mixed sizes grow, shrink and empty the store, and last a server without eviction
is filled until it refuses, emptied, and filled again.

    memory_churn.py [--server BINARY] [--maxmemory 300mb] [--cycles N] [--rounds N]

Exit status 0: within the bound; 1: not; 2: the test could not run.
"""

import argparse
import random
import sys
import time

from server_process import (Client, Failure, PeakMemory, parse_size, resident_bytes, start_server,
                            status_of)
from servers import soon

SIZES = [10, 100, 1000, 10_000, 100_000, 1_000_000]
OVERHEAD = 100  # bytes of index, header and key that an item may take beside its value
MIB = 1 << 20


def value_of(key, size):
    return (key * (size // len(key) + 1))[:size]


class Load:
    """Writes through one connection in pipelines of about a quarter of a megabyte."""

    def __init__(self, port, seed):
        self.client = Client(port)
        self.random = random.Random(seed)
        self.refused = 0

    def write(self, pairs):
        batch, size, count = [], 0, 0
        for key, length in pairs:
            batch.append(b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n"
                         % (len(key), key, length, value_of(key, length)))
            size += length + 60
            count += 1
            if size > 1 << 18 or count == 2000:
                self._flush(batch, count)
                batch, size, count = [], 0, 0
        self._flush(batch, count)

    def _flush(self, batch, count):
        self.client.send(b"".join(batch))
        for _ in range(count):
            reply = self.client.line()
            if reply.startswith(b"-OOM "):
                self.refused += 1
            elif reply != b"+OK":
                raise Failure(f"SET answered {reply!r}")

    def delete(self, keys):
        for at in range(0, len(keys), 500):
            self.client.command("DEL", *keys[at : at + 500])

    def check(self, pairs, share):
        """Values present must be the ones written; at least `share` of them must be present."""
        found = 0
        for key, length in pairs:
            value = self.client.command("GET", key)
            if value is None:
                continue
            found += 1
            if value != value_of(key, length):
                raise Failure(f"{key!r} holds {len(value)} bytes that were not written")
        if found < share * len(pairs):
            raise Failure(f"only {found} of the last {len(pairs)} values are there")


def keys(prefix, count, size):
    return [(b"%s:%010d" % (prefix, i), size) for i in range(count)]


def one_size(server, load, maxmemory, size, round_number):
    """Overruns the cap with values of one size; they must come to fill half of it."""
    count = max(int(1.25 * maxmemory / (size + OVERHEAD)), 40)
    pairs = keys(b"%d.%d" % (round_number, size), count, size)
    began = time.monotonic()
    load.write(pairs)
    sample = [key for key, _ in load.random.sample(pairs, min(1000, count))]
    present = load.client.command("EXISTS", *sample) / len(sample)
    held = present * count * (size + OVERHEAD) / maxmemory
    index = load.client.info("used_memory_index") / maxmemory
    print(f"  {size:>8} bytes: {count} written in {time.monotonic() - began:.1f} s, {present:.0%} "
          f"are there, {resident_bytes(server.pid) / MIB:.0f} MiB resident, the index has "
          f"{index:.0%} of maxmemory", flush=True)
    if held < 0.5:
        raise Failure(f"values of {size} bytes fill {held:.0%} of maxmemory: "
                      "memory does not follow the sizes")
    load.check(pairs[-20:], 0.5)


def mixed_cycle(load, maxmemory, number):
    """Grows with sizes drawn over five decades, overwrites in other sizes, deletes, empties."""
    budget = 0.8 * maxmemory
    pairs = []
    while budget > 0:
        size = int(10 ** load.random.uniform(1, 5))
        pairs.append((b"m%d:%010d" % (number, len(pairs)), size))
        budget -= size + OVERHEAD
    load.write(pairs)
    pairs = [(key, int(10 ** load.random.uniform(1, 5))) for key, _ in pairs]
    load.write(pairs)
    load.check(load.random.sample(pairs, 50), 0)
    names = [key for key, _ in pairs]
    load.random.shuffle(names)
    load.delete(names[: len(names) * 9 // 10])
    if number % 2 == 1:
        load.client.command("FLUSHALL")
    print(f"  cycle {number}: {len(pairs)} keys of mixed sizes", flush=True)


def with_eviction(server, load, maxmemory, rounds, cycles):
    for number in range(rounds):
        sizes = SIZES if number % 2 == 0 else SIZES[::-1]
        for size in sizes:
            if size * 100 <= maxmemory:
                one_size(server, load, maxmemory, size, number)
    for number in range(cycles):
        mixed_cycle(load, maxmemory, number)
    load.client.command("FLUSHALL")
    time.sleep(2)
    print(f"  emptied: {resident_bytes(server.pid) / MIB:.0f} MiB resident", flush=True)


def without_eviction(_server, load, maxmemory, _rounds, _cycles):
    """Refuses writes at the cap, and takes as much again after it was emptied."""
    for size in (1000, 200):
        load.client.command("FLUSHALL")
        if not soon(lambda: load.client.info("used_memory") < maxmemory / 10):
            raise Failure("what was flushed still takes memory")
        load.refused = 0
        load.write(keys(b"f%d" % size, int(1.3 * maxmemory / (size + OVERHEAD * 0.6)), size))
        filled = load.client.command("DBSIZE") * (size + OVERHEAD) / maxmemory
        print(f"  filled with {size} bytes: {load.client.command('DBSIZE')} keys, "
              f"{load.refused} writes refused", flush=True)
        if load.refused == 0:
            raise Failure("no write was refused at the cap")
        if filled < 0.6:
            raise Failure(f"only {filled:.0%} of maxmemory could be filled")


def measure(options, policy, work):
    maxmemory = parse_size(options.maxmemory)
    bound = 1.15 * maxmemory + 200 * 10**6
    print(f"{policy}, maxmemory {options.maxmemory}", flush=True)
    with start_server(options.server, "--threads", "2", "--maxmemory", options.maxmemory,
                      "--maxmemory-policy", policy) as server:
        peak = PeakMemory(server.pid)
        load = Load(server.resp_port, options.seed)
        work(server, load, maxmemory, options.rounds, options.cycles)
        load.client.close()
        highest = peak.stop()
    print(f"  resident at most {highest / MIB:.0f} MiB, bound {bound / MIB:.0f} MiB", flush=True)
    if highest > bound:
        raise Failure(f"resident memory reached {highest / MIB:.0f} MiB")


def run(options):
    measure(options, "allkeys-lru", with_eviction)
    measure(options, "noeviction", without_eviction)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="build/release/isotherm-server")
    parser.add_argument("--maxmemory", default="300mb")
    parser.add_argument("--rounds", type=int, default=1, help="times through all value sizes")
    parser.add_argument("--cycles", type=int, default=2, help="cycles of mixed sizes")
    parser.add_argument("--seed", type=int, default=1)
    return status_of(run, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())

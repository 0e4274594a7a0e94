#!/usr/bin/env python3
"""Under eviction, values of every size fill maxmemory, and what was acknowledged stays.

One client stores values of one size after another, by RESP and by memcached's protocol: none is
refused, each is there right after its reply, and together they take nearly all of maxmemory, with
every policy. So it is after larger ones, with several clients, also where their values come at the
same time and together are longer than maxmemory, and while APPEND makes one value grow. Sizes that
shift upward at full speed are never refused, and where values are replaced at full speed, the
allocator keeps little of what they had. Beside a journal, also one that is written anew, items and
what it has in memory stay near maxmemory. A flushed database gives its memory back to the system
within seconds.

    large_values.py [--server BINARY] [--scale N] [--beside MIB] [-- FLAGS OF THE SERVER…]

Sizes and maxmemory are N tenths of those for 200 MB. With `--device cuda --gpu-values 50mb` values
that nobody reads also go to the memory of a GPU, so more than maxmemory may be held; what the
runtime of the GPU takes may be resident beside it.

Exit status 0: so it is; 1: not; 2: the test could not run.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import threading
import time

from server_process import (Client, Failure, PeakMemory, encode, resident_bytes, start_server,
                            status_of)
from servers import LONGEST_SECONDS, soon

MIB = 1 << 20
MAXMEMORY = 20 * MIB  # times the scale, as all sizes
CLIENTS = 8  # of the tests with several
# Sizes, and the share of maxmemory that their values take at least; of 100,000 and 200,000
# bytes the allocator makes 114,688 and 229,376.
SIZES = [(10_000, 0.85), (100_000, 0.82), (200_000, 0.82), (1_000_000, 0.75), (9_000_000, 0.4)]
LARGE_SIZES = [size for size in SIZES if size[0] >= 100_000]


class Resp:
    def __init__(self, server, expiring):
        self.client = Client(server.resp_port)
        self.expiring = expiring
        self.number = 0

    def store(self, key, value):
        self.number += 1
        expiry = (b"EX", b"%d" % (10_000 + self.number)) if self.expiring else ()
        return self.client.command("SET", key, value, *expiry) == b"OK"


class Memcached:
    def __init__(self, server, _expiring):
        self.client = Client(server.memcached_port)

    def store(self, key, value):
        self.client.send(b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value))
        return self.client.line() == b"STORED"


def started(options, policy):
    return start_server(options.server, "--threads", "2", "--maxmemory",
                        str(MAXMEMORY * options.scale), "--maxmemory-policy", policy,
                        *options.flags)


def store_all(server, protocol, policy, size, count, prefix=b"k"):
    """Stores so many values; the numbers of keys after each, and how many were gone at once."""
    writer, looker = protocol(server, policy.startswith("volatile")), Client(server.resp_port)
    value, held, gone = b"v" * size, [], 0
    for i in range(count):
        key = b"%s:%d:%d" % (prefix, size, i)
        if not writer.store(key, value):
            raise Failure(f"{policy}: a value of {size} bytes was refused")
        gone += looker.command("EXISTS", key) != 1
        held.append(looker.command("DBSIZE"))
    return held, gone


def one_size(options, policy, protocol, size, share):
    size *= options.scale
    maxmemory = MAXMEMORY * options.scale
    room = maxmemory // size
    with started(options, policy) as server:
        peak = PeakMemory(server.pid)
        held, gone = store_all(server, protocol, policy, size, 2 * room + 8)
        mean = sum(held[room + 2:]) / len(held[room + 2:]) * size / maxmemory
        highest = peak.stop()
    print(f"  {policy}, {protocol.__name__}, {size} bytes: {mean:.0%} of maxmemory, "
          f"{gone} gone at once, resident at most {highest / MIB:.0f} MiB", flush=True)
    if mean < share:
        raise Failure(f"values of {size} bytes take {mean:.0%} of maxmemory only")
    if gone > (len(held) // 50 if policy == "allkeys-random" else 0):
        raise Failure(f"{gone} values of {size} bytes were gone at once")
    if highest > 1.15 * maxmemory + 200 * 10**6 + options.beside * MIB:
        raise Failure(f"resident memory reached {highest / MIB:.0f} MiB")


def after_larger_ones(options):
    """Small room is found at once where large values were."""
    with started(options, "allkeys-lru") as server:
        store_all(server, Resp, "", 10_000_000 * options.scale, 6)
        _, gone = store_all(server, Resp, "", 1_000_000 * options.scale, 30)
    if gone:
        raise Failure(f"{gone} values were gone at once after larger ones")


def in_clients(work, meanwhile=lambda: time.sleep(0.005)):
    """Runs work(number) in a thread for each client, and the other again and again until they end."""
    errors = []

    def one(number):
        try:
            work(number)
        except Exception as error:  # reported by the main thread
            errors.append(error)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(CLIENTS)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        meanwhile()
    if errors:
        raise errors[0]


def memory_of(info, what):
    return int(re.search(rb"used_memory_%s:(\d+)" % what, info).group(1))


def item_bytes(client):
    return memory_of(client.command("INFO", "memory"), b"items")


def several_clients(options, size):
    size *= options.scale
    with started(options, "allkeys-lru") as server:
        results = []
        in_clients(lambda number: results.append(
            store_all(server, Resp, "", size, 40, b"%d" % number)))
        share = Client(server.resp_port).command("DBSIZE") * size / (MAXMEMORY * options.scale)
    gone = sum(result[1] for result in results)
    print(f"  8 clients, {size} bytes: {share:.0%} of maxmemory, {gone} gone at once", flush=True)
    if share < 0.75 or gone > 3:
        raise Failure("several clients do not fill the store together")


def at_once(options, maxmemory, size):
    """Values of several clients that come at the same time, and together take more than the cap: who
    finds no room yet waits, though clients may hold little."""
    with start_server(options.server, "--threads", "2", "--maxmemory", f"{maxmemory}mb",
                      "--maxmemory-clients", "1mb", "--maxmemory-policy", "allkeys-lru",
                      *options.flags) as server:
        peak = PeakMemory(server.pid)

        def work(number):
            writer = Resp(server, False)
            for i in range(4):
                if not writer.store(b"%d:%d" % (number, i), b"v" * size * MIB):
                    raise Failure("a value was refused beside others that came at the same time")

        in_clients(work)
        highest = peak.stop()
    print(f"  8 clients at once, {size} MiB: resident at most {highest / MIB:.0f} MiB of {maxmemory}",
          flush=True)
    # What the allocator keeps (net/resident_memory.h), and the program itself.
    if highest > 1.1 * maxmemory * MIB + (48 + options.beside) * MIB:
        raise Failure(f"resident memory reached {highest / MIB:.0f} MiB")


def replaced(options, maxmemory, count):
    """Values of 1 to 8 MiB that take each other's place at full speed: what was freed is given back to
    the system before it is a large part of a small maxmemory."""
    with start_server(options.server, "--threads", "4", "--maxmemory", f"{maxmemory}mb",
                      "--maxmemory-policy", "allkeys-lru", *options.flags) as server:
        before = resident_bytes(server.pid)
        peak = PeakMemory(server.pid)

        def work(number):
            writer = Resp(server, False)
            for i in range(count):
                size = (1 + (number + i) % 8) * MIB
                if not writer.store(b"%d" % (5 * number + i % 5), b"v" * size):
                    raise Failure("a value was refused where others are replaced")

        in_clients(work)
        highest = peak.stop() - before
    print(f"  values of 1 to 8 MiB replaced: resident at most {highest / MIB:.0f} MiB of {maxmemory}",
          flush=True)
    if highest > 1.4 * maxmemory * MIB + options.beside * MIB:
        raise Failure(f"resident memory reached {highest / MIB:.0f} MiB")


def beside_a_journal(options, size, count):
    """Values of 8 clients, while the journal is also written anew: items and what it has in memory
    stay within the cap, but for one value of each client."""
    maxmemory, highest = 50 * MIB, 0
    with tempfile.TemporaryDirectory() as folder, start_server(
            options.server, "--threads", "2", "--maxmemory", str(maxmemory), "--maxmemory-policy",
            "allkeys-lru", "--dir", folder, "--appendonly", "yes", *options.flags) as server:

        def work(number):
            writer = Resp(server, False)
            for i in range(count):
                if not writer.store(b"%d:%d" % (number, i), b"v" * size):
                    raise Failure("a value was refused beside a journal")

        looker = Client(server.resp_port)

        def look():
            nonlocal highest
            memory = looker.command("INFO", "memory")
            highest = max(highest, memory_of(memory, b"items") + memory_of(memory, b"buffers"))
            time.sleep(0.005)

        in_clients(work, look)
    print(f"  beside a journal, {size} bytes: items and buffers of at most {highest / MIB:.0f} MiB of "
          f"{maxmemory / MIB:.0f}", flush=True)
    # Beside a value of each client, what others that run at once take while a thread has no core.
    if highest > maxmemory * 17 / 16 + 10 * MIB + CLIENTS * size:
        raise Failure(f"items and buffers take {highest / MIB:.0f} MiB beside a journal")


def nothing_to_evict(options, policy):
    """Large values without expiry beside small ones with: the cap holds, and what was stored is there
    after a restart."""
    size, stored = 100_000, []
    with tempfile.TemporaryDirectory() as folder:
        flags = ("--threads", "2", "--maxmemory", str(MAXMEMORY), "--maxmemory-policy", policy,
                 "--dir", folder, "--appendonly", "yes", *options.flags)
        with start_server(options.server, *flags) as server:

            def work(number):
                client = Client(server.resp_port)
                for i in range(100):
                    key = b"%d:%d" % (number, i)
                    client.send(encode("SET", b"small" + key, "v", "EX", 1000) +
                                encode("SET", key, b"v" * size))
                    client.reply()  # refused, it may be
                    if client.reply() == b"OK":
                        stored.append(key)

            in_clients(work)
            used = item_bytes(Client(server.resp_port))
        with start_server(options.server, *flags) as server:
            gone = len(stored) - Client(server.resp_port).command("EXISTS", *stored)
    print(f"  {policy}, large values without expiry: {len(stored)} of {CLIENTS * 100} stored, "
          f"{used / MIB:.0f} MiB of {MAXMEMORY / MIB:.0f}", flush=True)
    if used > MAXMEMORY * 17 / 16 + 17 * MIB or gone or len(stored) * size < 0.6 * MAXMEMORY:
        raise Failure(f"{policy}: {used / MIB:.0f} MiB, {gone} gone after a restart")


def append(options):
    part = 100_000 * options.scale
    with started(options, "allkeys-lru") as server:
        store_all(server, Resp, "", part, 250)
        client = Client(server.resp_port)
        for parts in range(1, 91):
            length = client.command("APPEND", "growing", b"x" * part)
            if length != parts * part:
                raise Failure(f"APPEND answered {length} instead of {parts * part}")
        share = (client.command("DBSIZE") - 1 + 90) * part / (MAXMEMORY * options.scale)
    print(f"  APPEND up to {90 * part} bytes: {share:.0%} of maxmemory", flush=True)
    # Of a small maxmemory the old and the new value of one APPEND are a large part; buffers of a
    # device take some more.
    if share < (0.75 if options.scale >= 10 and not options.flags else 0.6):
        raise Failure("APPEND evicts more than it needs")


def shift(options, maxmemory, loads):
    """Values of one size and then of another, in pipelines of many clients."""
    with start_server(options.server, "--threads", "4", "--maxmemory", f"{maxmemory}mb",
                      "--maxmemory-policy", "allkeys-lru", *options.flags) as server:
        peak = PeakMemory(server.pid)
        for size, count in loads:
            done = subprocess.run(["redis-benchmark", "-p", str(server.resp_port), "-t", "set", "-q",
                                   "-n", str(count), "-r", "100000000", "-d", str(size),
                                   "-P", "64"], capture_output=True, text=True, check=False)
            if done.returncode != 0 or "rror" in done.stdout + done.stderr:
                raise Failure(f"values of {size} bytes: {(done.stdout + done.stderr)[-200:]}")
        highest = peak.stop()
    print(f"  sizes that shift from {loads[0][0]} to {loads[-1][0]}: resident at most "
          f"{highest / MIB:.0f} MiB of {maxmemory}", flush=True)
    # What writes may run over the cap by (16 MiB, docs/differences.md), values that have begun to
    # arrive, and the program itself.
    if highest > 1.15 * maxmemory * MIB + (48 + options.beside) * MIB:
        raise Failure(f"resident memory reached {highest / MIB:.0f} MiB")


def flush(options, count, seconds):
    """The memory of so many keys is the system's again within so many seconds."""
    with start_server(options.server, "--threads", "2", *options.flags) as server:
        before = resident_bytes(server.pid)
        client, at_once = Client(server.resp_port), 1000
        for first in range(0, count, at_once):
            pairs = [part for i in range(first, first + at_once) for part in (b"%d" % i, b"v" * 40)]
            client.command("MSET", *pairs)
        full = resident_bytes(server.pid)
        client.command("FLUSHDB")
        began = time.monotonic()
        bound = before + (full - before) / 20 + 32 * MIB
        if not soon(lambda: resident_bytes(server.pid) <= bound, seconds):
            raise Failure(f"{seconds} s after FLUSHDB of {count} keys "
                          f"{resident_bytes(server.pid) / MIB:.0f} MiB are resident")
        print(f"  FLUSHDB of {count} keys: {full / MIB:.0f} MiB went within "
              f"{time.monotonic() - began:.1f} s", flush=True)


def run(options):
    is_long = options.scale >= 10
    for size, share in SIZES:
        one_size(options, "allkeys-lru", Resp, size, share)
    one_size(options, "allkeys-lru", Memcached, 90_000 if is_long else 100_000, 0.82)
    for policy in ("allkeys-random", "volatile-lru", "volatile-ttl"):
        for size, share in LARGE_SIZES if is_long else LARGE_SIZES[:1]:
            one_size(options, policy, Resp, size, share if share > 0.5 else 0)
    after_larger_ones(options)
    for size in (100_000, 1_000_000) if is_long else (100_000,):
        several_clients(options, size)
    at_once(options, *((1000, 60) if is_long else (64, 12)))
    replaced(options, 64, 400 if is_long else 40)
    for size in (1_000_000, 100_000):
        beside_a_journal(options, size, (600 if is_long else 60) * 1_000_000 // size)
    append(options)
    shift(options, *((512, [(40, 3_000_000), (900, 800_000)]) if is_long else
                     (64, [(40, 400_000), (900, 150_000)])))
    shift(options, *((512, [(300_000, 6000), (4000, 400_000)]) if is_long else
                     (64, [(300_000, 700), (4000, 40_000)])))
    for policy in ("volatile-lru", "volatile-ttl"):
        nothing_to_evict(options, policy)
    # Among other tests it is whether it goes back at all.
    flush(options, *((20_000_000, 5) if is_long else (1_000_000, LONGEST_SECONDS)))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="build/release/isotherm-server")
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--beside", type=int, default=0, metavar="MIB")
    parser.add_argument("flags", nargs="*", metavar="FLAG", help="a flag of the server")
    return status_of(run, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())

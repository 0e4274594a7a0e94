#!/usr/bin/env python3
"""Hit rates of a cache at a cap: isotherm-server, Redis (LRU and LFU) and memcached on the same requests.

Usage: hit_rates.py [--server NAME=PROGRAM]... [--megabytes 64] [--sizes 1000 10000] [--requests 300000]
                    [--requests-of NAME]... [--no-peers]

A client looks up keys and stores what it did not find; the second half of the requests counts. There are
five times as many keys as fit, but for what is named below, and a key's value has a size of its own
between the two of --sizes. Each server has one thread and the cap; several programs of ours can be named,
to compare builds. Printed is the share of look-ups that hit, in per cent.

  zipf-0.8, zipf-0.99, zipf-1.2, uniform
            keys by Zipf's law, and all alike
  moving    Zipf .99, whose popular keys all change after each eighth of the requests
  one-time  Zipf .99, but each fourth request is for a key that never comes again
  latest    Zipf .99 by age, and a new key after each ten requests
  loop      Zipf .99, but every other request is for the next key of a loop a fifth larger than the cache
"""

import argparse
import contextlib
import itertools
import pathlib
import random
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "system"), str(ROOT / "tests" / "python")]
import servers  # noqa: E402
from replayed_cache import RespCache, hit_rate, name, zipf_ranks  # noqa: E402
from server_process import Client, start_server  # noqa: E402

GROUP = 32
BESIDE_A_VALUE = 70  # bytes that a key, its head and its place in the index take, about


def trace(kind, items, count):
    """The numbers of the keys, where `items` fit."""
    source = random.Random(1)
    keys = items * 5
    theta = {"uniform": 0.0}.get(kind, float(kind[5:]) if kind.startswith("zipf-") else 0.99)
    drawn = zipf_ranks(keys, theta, count, source)
    places = list(range(keys))
    source.shuffle(places)
    if kind == "latest":
        return [keys + i // 10 - rank for i, rank in enumerate(drawn)]
    if kind == "moving":
        return [places[(rank + i * 8 // count * (keys // 16)) % keys] for i, rank in enumerate(drawn)]
    found = [places[rank] for rank in drawn]
    if kind == "one-time":
        found[::4] = range(keys, keys + len(found[::4]))
    if kind == "loop":
        around = itertools.cycle(range(keys, keys + items * 6 // 5))
        found[::2] = itertools.islice(around, len(found[::2]))
    return found


def value_of(options):
    least, most = options.sizes
    values = b"v" * most
    return lambda key: values[: least + (key * 2654435761 >> 7) % (most - least + 1)]


class Memcached:
    def __init__(self, port, value_of):
        self.client = Client(port)
        self.value_of = value_of

    def lookup(self, keys):
        names = [name(key) for key in keys]
        self.client.send(b"get " + b" ".join(names) + b"\r\n")
        found = set()
        while (head := self.client.line()) != b"END":
            _, one, _, size = head.split()
            self.client.block(int(size))
            found.add(one)
        return [one in found for one in names]

    def store(self, keys):
        pairs = [(name(key), self.value_of(key)) for key in keys]
        self.client.send(b"".join(b"set %s 0 0 %d\r\n%s\r\n" % (one, len(value), value) for one, value in pairs))
        for _ in pairs:
            if (reply := self.client.line()) != b"STORED":
                raise RuntimeError(f"set was answered {reply!r}")


@contextlib.contextmanager
def resp(program, options, policy):
    with start_server(program, "--threads", "1", "--maxmemory", f"{options.megabytes}mb",
                      "--maxmemory-policy", policy) as server:
        yield RespCache(server.resp_port, value_of(options))


@contextlib.contextmanager
def memcached(options):
    with servers.Memcached(flags=["-m", str(options.megabytes)]) as server:
        yield Memcached(server.memcached_port, value_of(options))


def main():
    kinds = ["zipf-0.8", "zipf-0.99", "zipf-1.2", "moving", "one-time", "uniform", "latest", "loop"]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--server", action="append", metavar="NAME=PROGRAM")
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--sizes", type=int, nargs=2, default=[1000, 10000], metavar="BYTES")
    parser.add_argument("--requests", type=int, default=300_000)
    parser.add_argument("--requests-of", action="append", choices=kinds)
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()
    named = options.server or [f"isotherm={ROOT}/build/release/isotherm-server"]
    systems = [(name, lambda program=program: resp(program, options, "allkeys-lru"))
               for name, program in (one.split("=", 1) for one in named)]
    if not options.no_peers:
        systems += [("Redis LRU", lambda: resp("redis-server", options, "allkeys-lru")),
                    ("Redis LFU", lambda: resp("redis-server", options, "allkeys-lfu")),
                    ("memcached", lambda: memcached(options))]
    items = (options.megabytes << 20) // (sum(options.sizes) // 2 + BESIDE_A_VALUE)
    print(f"cap {options.megabytes} MB, values of {options.sizes[0]} to {options.sizes[1]} bytes, "
          f"{options.requests} requests, some {items} values fit")
    print(f"{'requests':12}" + "".join(f"{name:>12}" for name, _ in systems))
    for kind in options.requests_of or kinds:
        keys = trace(kind, items, options.requests)
        print(f"{kind:12}", end="", flush=True)
        for _, start in systems:
            with start() as cache:
                print(f"{100 * hit_rate(cache, keys, GROUP):12.1f}", end="", flush=True)
        print()


if __name__ == "__main__":
    main()

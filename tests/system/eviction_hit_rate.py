#!/usr/bin/env python3
"""The hit rate under allkeys-lru is hardly below that of exact LRU with as many items.

Replays a Zipf trace over more keys than fit: get, and on a miss set. The first half of the trace
warms up and is not counted. Exact LRU is then simulated on the same trace, with room for as many
items as the server held on average while it was measured. Requests go in groups (MGET, then the
SETs of what was missing), and the simulation takes the same groups. Of several sizes a key's value
has one, whatever its popularity.

    eviction_hit_rate.py [--server BINARY] [--maxmemory 64mb] [--theta 0.99] [--requests N]
                         [--sizes 200] [--points 3]

Exit status 0: at most so many points below; 1: more; 2: the test could not run.
"""

import argparse
import itertools
import random
import sys
import time
from collections import OrderedDict

from server_process import Client, Failure, ServerProcess, encode, parse_size, status_of

GROUP = 50


def zipf_trace(keys, theta, requests, seed):
    """Key numbers, the popular ones scattered over the key space."""
    source = random.Random(seed)
    weights = list(itertools.accumulate(1.0 / rank**theta for rank in range(1, keys + 1)))
    places = list(range(keys))
    source.shuffle(places)
    return source.choices(places, cum_weights=weights, k=requests)


def name(key):
    return b"key:%012d" % key


def groups(trace):
    for at in range(0, len(trace), GROUP):
        yield trace[at : at + GROUP]


class Server:
    """The cache under test; remembers how many keys it held."""

    def __init__(self, port, value_sizes):
        self.client = Client(port)
        self.values = [b"v" * size for size in value_sizes]
        self.sizes = []

    def lookup(self, group):
        values = self.client.command("MGET", *map(name, group))
        return [value is not None for value in values]

    def store(self, keys):
        self.client.send(b"".join(
            encode("SET", name(key), self.values[key % len(self.values)]) for key in keys))
        for _ in keys:
            reply = self.client.line()
            if reply != b"+OK":
                raise RuntimeError(f"SET answered {reply!r}")

    def sample(self):
        self.sizes.append(self.client.command("DBSIZE"))


class ExactLru:
    def __init__(self, room):
        self.room = room
        self.items = OrderedDict()

    def lookup(self, group):
        found = []
        for key in group:
            found.append(key in self.items)
            if found[-1]:
                self.items.move_to_end(key)
        return found

    def store(self, keys):
        for key in keys:
            self.items[key] = None
            self.items.move_to_end(key)
            if len(self.items) > self.room:
                self.items.popitem(last=False)

    def sample(self):
        pass


def replay(cache, trace, warm_up):
    hits = counted = 0
    for number, group in enumerate(groups(trace)):
        found = cache.lookup(group)
        missing = list(dict.fromkeys(key for key, hit in zip(group, found) if not hit))
        if missing:
            cache.store(missing)
        if number * GROUP >= warm_up:
            hits += sum(found)
            counted += len(group)
            if number % 200 == 0:
                cache.sample()
    return hits / counted


def compare(options, theta):
    trace = zipf_trace(options.keys, theta, options.requests, options.seed)
    warm_up = len(trace) // 2
    began = time.monotonic()
    with ServerProcess(options.server, "--threads", "2", "--maxmemory", options.maxmemory,
                       "--maxmemory-policy", "allkeys-lru") as process:
        server = Server(process.port, options.sizes)
        measured = replay(server, trace, warm_up)
        server.client.close()
    room = sum(server.sizes) // len(server.sizes)
    exact = replay(ExactLru(room), trace, warm_up)
    points = 100 * (measured - exact)
    print(f"theta {theta}, values of {options.sizes} bytes: hit rate {measured:.2%}, "
          f"exact LRU with {room} of {options.keys} keys {exact:.2%}, {points:+.2f} points, "
          f"{time.monotonic() - began:.0f} s", flush=True)
    if room > 0.9 * len(set(trace)):
        raise RuntimeError(f"{room} items fit: nothing had to be evicted")
    average = sum(options.sizes) / len(options.sizes)
    if room * (average + 16) < 0.4 * parse_size(options.maxmemory):
        raise Failure(f"only {room} items fit into {options.maxmemory}")
    if points < -options.points:
        raise Failure(f"more than {options.points} points below exact LRU")


def run(options):
    for theta in options.theta:
        compare(options, theta)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="build/release/isotherm-server")
    parser.add_argument("--maxmemory", default="64mb")
    parser.add_argument("--theta", type=float, nargs="+", default=[0.99])
    parser.add_argument("--sizes", type=int, nargs="+", default=[200])
    parser.add_argument("--points", type=float, default=3)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--requests", type=int, default=2_000_000)
    parser.add_argument("--seed", type=int, default=1)
    return status_of(run, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())

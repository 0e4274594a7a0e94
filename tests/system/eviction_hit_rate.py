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
import random
import sys
import time
from collections import OrderedDict

from replayed_cache import RespCache, hit_rate, zipf_ranks
from server_process import Failure, parse_size, start_server, status_of

GROUP = 50


def zipf_trace(options, theta):
    """Key numbers, the popular ones scattered over the key space."""
    source = random.Random(options.seed)
    places = list(range(options.keys))
    source.shuffle(places)
    return [places[rank] for rank in zipf_ranks(options.keys, theta, options.requests, source)]


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


def compare(options, theta):
    trace = zipf_trace(options, theta)
    values = [b"v" * size for size in options.sizes]
    held = []  # how many keys, while it is measured
    began = time.monotonic()
    with start_server(options.server, "--threads", "2", "--maxmemory", options.maxmemory,
                      "--maxmemory-policy", "allkeys-lru") as process:
        server = RespCache(process.resp_port, lambda key: values[key % len(values)])
        measured = hit_rate(server, trace, GROUP,
                            lambda: held.append(server.client.command("DBSIZE")))
        server.client.close()
    room = sum(held) // len(held)
    exact = hit_rate(ExactLru(room), trace, GROUP)
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

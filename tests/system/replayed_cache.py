"""Requests replayed against a cache: get, and on a miss set, in groups (MGET, then the SETs of what was missing)."""

import itertools

from server_process import Client, encode


def zipf_ranks(keys, theta, count, source):
    """So many ranks by Zipf's law, 0 the most popular; `source`: of random numbers."""
    weights = list(itertools.accumulate(1.0 / rank**theta for rank in range(1, keys + 1)))
    return source.choices(range(keys), cum_weights=weights, k=count)


def name(key):
    return b"key:%012d" % key


class RespCache:
    """A server that speaks RESP; `value_of` a key is what is stored."""

    def __init__(self, port, value_of):
        self.client = Client(port)
        self.value_of = value_of

    def lookup(self, keys):
        return [value is not None for value in self.client.command("MGET", *map(name, keys))]

    def store(self, keys):
        self.client.send(b"".join(encode("SET", name(key), self.value_of(key)) for key in keys))
        for _ in keys:
            if (reply := self.client.line()) != b"+OK":
                raise RuntimeError(f"SET was answered {reply!r}")


def hit_rate(cache, trace, at_once, look=lambda: None):
    """The share of look-ups that hit, of the second half of the trace; `look` is called now and then meanwhile."""
    hits = counted = 0
    for number, at in enumerate(range(0, len(trace), at_once)):
        group = trace[at : at + at_once]
        found = cache.lookup(group)
        missing = list(dict.fromkeys(key for key, hit in zip(group, found) if not hit))
        if missing:
            cache.store(missing)
        if at >= len(trace) // 2:
            hits += sum(found)
            counted += len(group)
            if number % 200 == 0:
                look()
    return hits / counted

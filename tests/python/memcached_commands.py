"""The requests that the memcached streams draw, a line each in TABLE.

Classes of replies: `hit` (stored, found, deleted …), `miss` (NOT_FOUND, NOT_STORED, END alone),
`exists` (cas met another write), `error` (ERROR and CLIENT_ERROR), `expired` (the key had just
expired), `noreply`. Those of the meta commands: memcached_meta.py.
"""

import random

import memcached_meta
from resp_commands import Command

KEYS = ([b"m%d" % i for i in range(16)]
        + [b"k" * 250, b"\xc3\xa4", b"a:b/c", b"\x01\x7f"])
BAD_KEYS = [b"k" * 251, b"k" * 300]
# None near 2^63: see forgives() in memcached_stream.py. The text scripts have those.
INTEGERS = [b"0", b"1", b"7", b"10", b"99", b"100", b"1000", b"4294967296", b"999999999",
            b"+3", b"00000001", b"99999999999999999999"]
DELTAS = [b"0", b"1", b"5", b"10", b"99", b"1000", b"4294967296", b"01"]
BAD_DELTAS = [b"-1", b"abc", b"1.5", b"18446744073709551616", b"1x"]
LARGEST = 30_000


class Draw:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.keys = []
        self.flags_drawn = set()
        self.noreply = False
        self.bad = False
        self.alone = True
        self.first_key = None

    def begin(self, alone, first_key=None):
        self.keys.clear()
        self.flags_drawn.clear()
        self.alone = alone
        self.first_key = first_key
        self.noreply = False
        self.bad = False

    def key(self):
        if self.first_key is not None:
            key, self.first_key = self.first_key, None
            self.keys.append(key)
            return key
        if self.random.random() < (0.05 if self.alone else 0.004):
            self.bad = True
            return self.random.choice(BAD_KEYS)
        key = self.random.choice(KEYS)
        self.keys.append(key)
        return key

    def some_keys(self):
        most = 100 if self.random.random() < 0.02 else 6
        keys = [self.key() for _ in range(self.random.randint(1, most))]
        if self.alone:
            return keys
        # A bad key in a get makes memcached forget replies of the same pipeline that wait.
        return [key for key in keys if key not in BAD_KEYS] or [KEYS[0]]

    def value(self):
        # memcached looks for the number of a blank value behind its end.
        value = self.any_value()
        return b"v" if value.isspace() else value

    def any_value(self):
        kind = self.random.random()
        if kind < 0.45:
            return self.random.choice(INTEGERS)
        if kind < 0.9:
            return b"v%d" % self.random.randrange(10_000)
        if kind < 0.99:
            return self.random.randbytes(self.random.randrange(200))
        return bytes([self.random.randrange(256)]) * self.random.randrange(LARGEST)

    def flags(self):
        if self.random.random() < 0.01:
            return self.random.choice([b"-1", b"abc", b"1.5"])
        return self.random.choice([b"0", b"0", b"1", b"65535", b"4294967295"])

    def expiry(self):
        roll = self.random.random()
        if roll < 0.05:
            return b"-1"
        if roll < 0.06:
            return self.random.choice([b"abc", b"1.5", b""])
        return self.random.choice([b"0", b"0", b"0", b"1000", b"2592000", b"2000000000"])

    def maybe_noreply(self):
        if self.random.random() < 0.1:
            self.noreply = True
            return [b"noreply"]
        return []


def line(*words):
    return b" ".join(words) + b"\r\n"


def storage(name, with_cas=False):
    def draw_request(draw):
        key, flags, expiry, value = draw.key(), draw.flags(), draw.expiry(), draw.value()
        unique = [draw.random.choice([b"1", b"0", b"999999999", b"abc"])] if with_cas else []
        # Data behind a refused line is read as lines, and memcached closes on one of 2 KB.
        words = (flags, expiry.removeprefix(b"-"), *unique)
        if draw.bad or not all(word.isdigit() for word in words):
            value = value[:1000]
        size = b"%d" % len(value)
        if draw.random.random() < 0.01:
            # Longer than it says; shorter data would swallow the requests behind it.
            value += draw.random.choice([b"x", b"\r\nnosuch", b"xy\r\n"])
        elif draw.random.random() < 0.005:
            value = value[:1000]
            size = draw.random.choice([b"-1", b"abc", b""])
        return line(name, key, flags, expiry, size, *unique, *draw.maybe_noreply()) + value + b"\r\n"
    return draw_request


def arithmetic(name):
    def draw_request(draw):
        delta = draw.random.choice(DELTAS if draw.random.random() < 0.95 else BAD_DELTAS)
        return line(name, draw.key(), delta, *draw.maybe_noreply())
    return draw_request


def touch(draw):
    return line(b"touch", draw.key(), draw.expiry(), *draw.maybe_noreply())


def memory_limit(draw):
    return line(b"cache_memlimit", draw.random.choice([b"64", b"64", b"7", b"2000000000", b"abc"]),
                *draw.maybe_noreply())


def slabs(draw):
    if draw.random.random() < 0.3:
        return line(b"slabs", b"automove", b"1", *draw.maybe_noreply())
    return line(b"slabs", *draw.random.choice([
        [b"reassign", b"1", b"1"], [b"reassign", b"1"], [b"reassign", b"a", b"1"],
        [b"automove"], [b"automove", b"abc"], [b"automove", b"3"], [b"nosuch", b"1"]]))


def flush_all(draw):
    """Behind one with a delay comes another, for memcached has items back that were flushed before."""
    words = draw.random.choice([[], [b"0"], [b"-1"], [b"1000"], [b"2000000000"], [b"1x"]])
    request = line(b"flush_all", *words, *draw.maybe_noreply())
    if words and words[0] in (b"1000", b"2000000000"):
        draw.flags_drawn.add(b"delay")
        request += line(b"flush_all", *([b"noreply"] if draw.noreply else []))
    return request


def stats(draw):
    """Those whose answers are the same whatever the server is."""
    kind = draw.random.choice([b"reset", b"sizes", b"track", b"detail", b"nosuch"])
    draw.flags_drawn.add(kind)
    if kind == b"track":
        return line(b"stats", b"sizes_enable") + line(b"stats", b"sizes_disable")
    if kind == b"detail":
        return line(b"stats", b"detail", *draw.random.choice([[b"off"], [b"x"], []]))
    return line(b"stats", kind)


def verbosity(draw):
    return line(b"verbosity", draw.random.choice([b"0", b"0", b"1", b"abc", b"-1"]),
                *draw.maybe_noreply())


def bad_line(draw):
    return line(*draw.random.choice([
        [b"nosuch"], [b"GET", b"m1"], [b"get"], [b""], [b"set", b"m1"], [b"incr", b"m1"],
        [b"delete"], [b"delete", b"m1", b"5"], [b"touch", b"m1"], [b"flush_all", b"abc"],
        [b"verbosity"], [b"gat", b"0"], [b"cas", b"m1", b"0", b"0", b"1"], [b"decr"], [b"gets"],
        [b"append", b"m1", b"0"], [b"x" * 1000]]))


def command(name, weight, arguments, classes):
    return Command(name.encode(), weight, arguments, frozenset(classes.split()))


TABLE = [
    command("get", 40, lambda d: line(b"get", *d.some_keys()), "hit miss error expired"),
    command("gets", 10, lambda d: line(b"gets", *d.some_keys()), "hit miss expired"),
    command("gat", 8, lambda d: line(b"gat", d.expiry(), *d.some_keys()), "hit miss error expired"),
    command("gats", 4, lambda d: line(b"gats", d.expiry(), *d.some_keys()), "hit miss error"),
    command("set", 40, storage(b"set"), "hit error expired noreply"),
    command("add", 15, storage(b"add"), "hit miss error expired noreply"),
    command("replace", 15, storage(b"replace"), "hit miss error expired noreply"),
    command("append", 12, storage(b"append"), "hit miss error expired noreply"),
    command("prepend", 12, storage(b"prepend"), "hit miss error expired noreply"),
    command("cas", 8, storage(b"cas", with_cas=True), "hit miss exists error expired noreply"),
    command("incr", 20, arithmetic(b"incr"), "hit miss error expired noreply"),
    command("decr", 20, arithmetic(b"decr"), "hit miss error expired noreply"),
    command("delete", 12, lambda d: line(b"delete", d.key(), *d.maybe_noreply()),
            "hit miss error expired noreply"),
    command("touch", 8, touch, "hit miss error expired noreply"),
    command("flush_all", 1, flush_all, "hit error noreply flag-delay"),
    command("cache_memlimit", 1, memory_limit, "hit error noreply"),
    command("slabs", 1, slabs, "hit error noreply"),
    command("stats", 1, stats, "hit error flag-reset flag-sizes flag-track flag-detail"),
    command("verbosity", 1, verbosity, "hit error noreply"),
    command("bad line", 3, bad_line, "error"),
    *(command(*entry) for entry in memcached_meta.TABLE),
]

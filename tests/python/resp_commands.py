"""The commands that the RESP streams draw, a line each in TABLE.

An entry names a command, its weight, a function that draws its arguments, and the classes of
replies that a run must have seen before it may pass: `hit`, `miss`, `error`, `arity` and `expired`
(a key that had just expired). A key space of two dozen keys makes commands meet.
"""

import dataclasses
import random
import time
import typing

import rdb_payloads

KEYS = ([b"k%d" % i for i in range(18)]
        + [b"", b"\x00", b"with space", b"line\r\nend", b"\xff\xfe", b"long" * 20])
INTEGERS = [b"0", b"1", b"-1", b"7", b"-20", b"100", b"9223372036854775807",
            b"-9223372036854775808", b"9223372036854775806", b"-9223372036854775807"]
NOT_INTEGERS = [b"", b"abc", b"1.5", b" 1", b"1 ", b"+1", b"01", b"-0", b"1e3", b"0x10",
                b"9223372036854775808", b"-9223372036854775809", b"99999999999999999999999"]
LARGEST = 60_000
# At the ends of what is kept, sent or encoded in one way.
EDGES = [0, 1, 43, 44, 45, 63, 64, 65, 127, 128, 129, 255, 256, 257, 4095, 4096, 4097, 8191, 8192, 8193, 16_384, 32_767,
         32_768, 32_769, 65_535, 65_536, 70_000]
# Two expiries drawn for one key are far apart, so their order never hangs on a millisecond.
SHORTEST_EXPIRY_S = 10_000
LONGEST_EXPIRY_S = 100_000_000


# None that is taken: a value of 512 MiB would be the answer.
BAD_OFFSETS = [b"", b"abc", b"-1", b"1.5", b"4294967296", b"9223372036854775807",
               b"-9223372036854775808", b"99999999999999999999", b" 1", b"#1"]
FLOATS = [b"1.5", b"-0.1", b"3e5", b"1e-9", b"5.0e3", b"0x10", b"1000000000000000000000", b"-0",
          b"0.30000000000000004", b"17179869184.25", b"+3", b"1.", b".5"]
NOT_FLOATS = [b"", b"abc", b" 1", b"1 ", b"nan", b"inf", b"-inf", b"1e5000", b"1e-5000", b"1.5x",
              b"1\x00", b"0x", b"--1", b"9" * 5200]


class Draw:
    """Draws arguments; remembers which keys the command names."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.keys = []

    def key(self):
        key = self.random.choice(KEYS)
        self.keys.append(key)
        return key

    def some_keys(self, most=6):
        return [self.key() for _ in range(self.random.randint(1, most))]

    def value(self):
        kind = self.random.random()
        if kind < 0.45:
            return self.random.choice(INTEGERS)
        if kind < 0.55:
            return self.random.choice(NOT_INTEGERS)
        if kind < 0.9:
            return b"v%d" % self.random.randrange(10_000)
        if kind < 0.98:
            return self.random.randbytes(self.random.randrange(200))
        size = self.random.choice(EDGES) if kind < 0.99 else self.random.randrange(LARGEST)
        return bytes([self.random.randrange(256)]) * size

    def integer(self):
        if self.random.random() < 0.1:
            return self.random.choice(NOT_INTEGERS)
        if self.random.random() < 0.3:
            return self.random.choice(INTEGERS)
        return b"%d" % self.random.randint(-1000, 1000)

    def maybe(self, probability, arguments):
        return arguments if self.random.random() < probability else []

    def word(self, *words):
        word = self.random.choice(words)
        return word if self.random.random() < 0.7 else word.lower()

    def bad_expiry(self):
        return self.random.choice([b"0", b"-1", b"abc", b"", b"1.5", b"9223372036854775807",
                                   b"99999999999999999999", b"9223372036854776"])

    def seconds(self):
        if self.random.random() < 0.1:
            return self.bad_expiry()
        return b"%d" % self.random.randint(SHORTEST_EXPIRY_S, LONGEST_EXPIRY_S)

    def milliseconds(self):
        if self.random.random() < 0.1:
            return self.bad_expiry()
        return b"%d" % (self.random.randint(SHORTEST_EXPIRY_S, LONGEST_EXPIRY_S) * 1000
                        + self.random.randrange(1000))

    def at_seconds(self):
        if self.random.random() < 0.15:
            return self.random.choice([b"1", self.bad_expiry()])
        return b"%d" % (time.time() + self.random.randint(SHORTEST_EXPIRY_S, LONGEST_EXPIRY_S))

    def at_milliseconds(self):
        if self.random.random() < 0.15:
            return self.random.choice([b"1", self.bad_expiry()])
        return b"%d" % ((time.time() + self.random.randint(SHORTEST_EXPIRY_S, LONGEST_EXPIRY_S))
                        * 1000)

    def expiry_option(self):
        name = self.word(b"EX", b"PX", b"EXAT", b"PXAT")
        amount = {b"EX": self.seconds, b"PX": self.milliseconds, b"EXAT": self.at_seconds,
                  b"PXAT": self.at_milliseconds}[name.upper()]()
        return [name, amount]

    def place(self):
        """A byte or bit of a value, from either end; seldom none."""
        if self.random.random() < 0.06:
            return self.random.choice(NOT_INTEGERS + INTEGERS)
        return b"%d" % self.random.choice([self.random.randint(-40, 40),
                                           self.random.randint(-3000, 3000)])

    def offset(self, most=400):
        if self.random.random() < 0.08:
            return self.random.choice(BAD_OFFSETS)
        return b"%d" % self.random.randrange(most)

    def junk(self):
        return self.random.choice([b"", b"junk", b"NX", b"EX", b"0", b"-1", b"\x00", b"a b"])


def set_arguments(draw):
    options = (draw.maybe(0.2, [draw.word(b"NX", b"XX")])
               + draw.maybe(0.2, [draw.word(b"GET")])
               + (draw.maybe(0.2, draw.expiry_option()) or draw.maybe(0.15, [draw.word(b"KEEPTTL")]))
               + draw.maybe(0.02, draw.expiry_option())
               + draw.maybe(0.02, [draw.junk()])
               + draw.maybe(0.02, [draw.word(b"NX", b"XX", b"KEEPTTL", b"GET")]))
    if draw.random.random() < 0.1:
        draw.random.shuffle(options)
    return [draw.key(), draw.value(), *options]


def expire_options(draw):
    return (draw.maybe(0.3, [draw.word(b"NX", b"XX", b"GT", b"LT")])
            + draw.maybe(0.05, [draw.word(b"NX", b"XX", b"GT", b"LT")])
            + draw.maybe(0.02, [draw.junk()]))


def expire_amount(draw, amount):
    if draw.random.random() < 0.1:
        return draw.random.choice([b"0", b"-1", b"-100000"])
    return amount()


def getex_arguments(draw):
    return [draw.key(), *(draw.maybe(0.5, draw.expiry_option())
                          or draw.maybe(0.4, [draw.word(b"PERSIST")])),
            *draw.maybe(0.03, [draw.junk()])]


def mset_arguments(draw):
    return [part for key in draw.some_keys() for part in (key, draw.value())]


def scan_arguments(draw):
    """Everything in one call: replies differ in order only."""
    if draw.random.random() < 0.03:
        return []
    options = (draw.maybe(0.5, [draw.word(b"MATCH"), draw.random.choice(
        [b"*", b"k*", b"k?", b"k[0-3]", b"nothing", b"", b"[^k]*", b"k1*", b"\\k1", b"*\x00*"])])
               + draw.maybe(0.2, [draw.word(b"TYPE"), draw.word(b"STRING", b"LIST", b"NOSUCH")]))
    cursor = b"0" if draw.random.random() < 0.9 else draw.random.choice(
        [b"abc", b"1.5", b" 0", b"99999999999999999999"])
    count = b"1000000" if draw.random.random() < 0.95 else draw.random.choice(
        [b"0", b"-1", b"abc", b"99999999999999999999"])
    return [cursor, draw.word(b"COUNT"), count, *options, *draw.maybe(0.03, [draw.junk()])]


def hello_arguments(draw):
    # HELLO alone changes nothing; the streams rely on a connection's protocol staying as it is.
    return draw.random.choice([[], [b"1"], [b"4"], [b"abc"], [b""], [b"9" * 30],
                               [b"1", b"SETNAME", b"x"]])


def float_arguments(draw):
    pool = NOT_FLOATS if draw.random.random() < 0.1 else FLOATS
    return [draw.key(), draw.random.choice(pool)]


def lcs_arguments(draw):
    options = [*draw.maybe(0.4, [draw.word(b"IDX")]), *draw.maybe(0.2, [draw.word(b"LEN")]),
               *draw.maybe(0.3, [draw.word(b"MINMATCHLEN"), draw.place()]),
               *draw.maybe(0.3, [draw.word(b"WITHMATCHLEN")]), *draw.maybe(0.03, [draw.junk()])]
    draw.random.shuffle(options)
    return [draw.key(), draw.key(), *options]


def bitcount_arguments(draw):
    return [draw.key(), *draw.maybe(0.7, [draw.place(), draw.place(), *draw.maybe(
        0.5, [draw.word(b"BIT", b"BYTE")]), *draw.maybe(0.03, [draw.junk()])])]


def bitpos_arguments(draw):
    bit = draw.random.choice([b"0", b"1"]) if draw.random.random() < 0.95 else draw.place()
    return [draw.key(), bit, *draw.maybe(0.7, [draw.place(), *draw.maybe(0.6, [
        draw.place(), *draw.maybe(0.5, [draw.word(b"BIT", b"BYTE")])])]),
        *draw.maybe(0.03, [draw.junk()])]


def field_type(draw):
    if draw.random.random() < 0.03:
        return draw.random.choice([b"u64", b"i65", b"i0", b"u0", b"x8", b"u", b"", b"U8", b"i8x"])
    return draw.random.choice([b"u", b"i"]) + b"%d" % draw.random.choice(
        [1, 2, 4, 7, 8, 9, 16, 31, 32, 33, 48, 62, 63])


def field_step(draw):
    offset = draw.offset()
    if draw.random.random() < 0.2:
        # Redis lets the product of a large one wrap (docs/differences.md).
        bad = draw.random.choice([b"", b"abc", b"-1", b"1.5", b" 1", b"#1"])
        offset = b"#" + (b"%d" % draw.random.randrange(9) if draw.random.random() < 0.9 else bad)
    where = [field_type(draw) if draw.random.random() < 0.9 else b"i64", offset]
    kind = draw.random.random()
    if kind < 0.3:
        return [draw.word(b"GET"), *where]
    if kind < 0.5:
        return [draw.word(b"OVERFLOW"), draw.word(b"WRAP", b"SAT", b"FAIL", b"FAIL", b"SAT")
                if draw.random.random() < 0.97 else draw.junk()]
    operand = draw.integer()
    # Redis takes a SET far below a signed field's range for one above it (docs/differences.md).
    if operand in (b"-9223372036854775807", b"-9223372036854775808"):
        return [draw.word(b"INCRBY"), *where, operand]
    return [draw.word(b"SET", b"INCRBY"), *where, operand]


def bitfield_arguments(draw):
    return [draw.key(), *(word for _ in range(draw.random.randrange(6)) for word in field_step(draw))]


def bitfield_ro_arguments(draw):
    return [draw.key(), *(word for _ in range(draw.random.randrange(4))
                          for word in [draw.word(b"GET"), field_type(draw), draw.offset()]),
            *draw.maybe(0.1, field_step(draw))]


def bitop_arguments(draw):
    if draw.random.random() < 0.25:
        return [draw.word(b"NOT"), *draw.some_keys(1), draw.key(), *draw.maybe(0.05, [draw.key()])]
    operation = draw.word(b"AND", b"OR", b"XOR") if draw.random.random() < 0.97 else draw.junk()
    return [operation, draw.key(), *draw.some_keys(4)]


def copy_arguments(draw):
    return [draw.key(), draw.key(), *draw.maybe(0.4, [draw.word(b"REPLACE")]),
            *draw.maybe(0.3, [draw.word(b"DB"), draw.random.choice(DATABASES)]),
            *draw.maybe(0.03, [draw.junk()])]


def restore_arguments(draw):
    time_to_live = draw.random.choice([b"0", b"0", b"0", draw.milliseconds()])
    options = (draw.maybe(0.5, [draw.word(b"REPLACE")])
               + draw.maybe(0.1, [draw.word(b"ABSTTL")])
               + draw.maybe(0.1, [draw.word(b"IDLETIME"), draw.integer()])
               + draw.maybe(0.1, [draw.word(b"FREQ"), draw.integer()])
               + draw.maybe(0.02, [draw.junk()]))
    return [draw.key(), time_to_live, rdb_payloads.draw(draw), *options]


def object_arguments(draw):
    word = draw.random.choice([b"REFCOUNT", b"FREQ", b"IDLETIME", b"NOSUCH"])
    return [word, draw.key(), *draw.maybe(0.05, [draw.junk()])]


@dataclasses.dataclass
class Command:
    name: bytes
    weight: int
    arguments: typing.Callable
    classes: frozenset
    # How two replies are compared where their bytes differ: see compare.py.
    compare: str = "exact"
    # False: its arguments are a subcommand's, and fewer of them would mean something else.
    spoil: bool = True


def command(name, weight, arguments, classes, compare="exact", spoil=True):
    return Command(name.encode(), weight, arguments, frozenset(classes.split()), compare, spoil)


READ = "hit miss arity expired"
DATABASES = [b"0", b"1", b"2", b"15", b"16", b"-1", b"abc", b"99999999999"]
TABLE = [
    command("PING", 4, lambda d: d.maybe(0.5, [d.value()]), "hit arity"),
    command("ECHO", 3, lambda d: [d.value()], "hit arity"),
    command("SELECT", 1, lambda d: [d.random.choice([b"0", b"0", b"1", b"2", b"15", b"16", b"-1",
                                                     b"abc", b"99999999999"])], "hit error arity"),
    command("HELLO", 1, hello_arguments, "hit error", "shape"),
    command("CLIENT", 1, lambda d: d.random.choice(
        [[b"SETNAME", b"name%d" % d.random.randrange(9)], [b"GETNAME"], [b"SETNAME", b"a b"],
         [b"setname", b""], [b"NOSUCH"], [b"GETNAME", b"x"]]), "hit error arity", spoil=False),
    command("CONFIG", 1, lambda d: d.random.choice(
        [[b"GET", b"databases"], [b"GET", b"nosuch*"], [b"get", b"maxmemory-policy"], [b"NOSUCH"],
         [b"GET"]]), "hit error arity", spoil=False),
    command("COMMAND", 1, lambda d: d.random.choice(
        [[b"INFO", b"nosuch"], [b"DOCS", b"nosuch"], [b"NOSUCH"], [b"COUNT", b"x"],
         [b"INFO", b"get", b"del", b"nosuch"]]), "hit error arity", spoil=False),
    command("GET", 40, lambda d: [d.key()], READ),
    command("SET", 50, set_arguments, "hit miss error arity expired"),
    command("MGET", 15, lambda d: d.some_keys(), "hit arity expired"),
    command("MSET", 10, mset_arguments, "hit arity expired"),
    command("DEL", 12, lambda d: d.some_keys(3), READ),
    command("UNLINK", 5, lambda d: d.some_keys(3), READ),
    command("EXISTS", 10, lambda d: d.some_keys(), READ),
    command("INCR", 15, lambda d: [d.key()], "hit error arity expired"),
    command("DECR", 10, lambda d: [d.key()], "hit error arity expired"),
    command("INCRBY", 15, lambda d: [d.key(), d.integer()], "hit error arity expired"),
    command("DECRBY", 8, lambda d: [d.key(), d.integer()], "hit error arity expired"),
    command("APPEND", 15, lambda d: [d.key(), d.value()[:300]], "hit arity expired"),
    command("STRLEN", 10, lambda d: [d.key()], READ),
    command("GETDEL", 10, lambda d: [d.key()], READ),
    command("GETSET", 5, lambda d: [d.key(), d.value()], READ),
    command("GETEX", 12, getex_arguments, READ + " error"),
    command("SETNX", 5, lambda d: [d.key(), d.value()], READ),
    command("SETEX", 8, lambda d: [d.key(), d.seconds(), d.value()], "hit error arity expired"),
    command("PSETEX", 6, lambda d: [d.key(), d.milliseconds(), d.value()],
            "hit error arity expired"),
    command("EXPIRE", 8, lambda d: [d.key(), expire_amount(d, d.seconds), *expire_options(d)],
            READ + " error"),
    command("PEXPIRE", 8,
            lambda d: [d.key(), expire_amount(d, d.milliseconds), *expire_options(d)],
            READ + " error"),
    command("EXPIREAT", 6, lambda d: [d.key(), d.at_seconds(), *expire_options(d)],
            READ + " error"),
    command("PEXPIREAT", 4, lambda d: [d.key(), d.at_milliseconds(), *expire_options(d)],
            READ + " error"),
    command("TTL", 10, lambda d: [d.key()], READ, "seconds"),
    command("PTTL", 10, lambda d: [d.key()], READ, "milliseconds"),
    command("EXPIRETIME", 6, lambda d: [d.key()], READ, "seconds"),
    command("PEXPIRETIME", 4, lambda d: [d.key()], READ, "milliseconds"),
    command("PERSIST", 8, lambda d: [d.key()], READ),
    command("TOUCH", 4, lambda d: d.some_keys(3), READ),
    command("TYPE", 8, lambda d: [d.key()], READ),
    command("INCRBYFLOAT", 10, float_arguments, "hit error arity expired"),
    command("SETRANGE", 8, lambda d: [d.key(), d.offset(), d.value()[:300]],
            READ + " error"),
    command("GETRANGE", 8, lambda d: [d.key(), d.place(), d.place()], "hit error arity expired"),
    command("SUBSTR", 3, lambda d: [d.key(), d.place(), d.place()], "hit error arity expired"),
    command("LCS", 4, lcs_arguments, READ + " error"),
    command("SETBIT", 8, lambda d: [d.key(), d.offset(), d.random.choice([b"0", b"1", b"1", b"2"])],
            READ + " error"),
    command("GETBIT", 6, lambda d: [d.key(), d.offset()], READ + " error"),
    command("BITCOUNT", 6, bitcount_arguments, READ + " error"),
    command("BITPOS", 6, bitpos_arguments, READ + " error"),
    command("BITFIELD", 12, bitfield_arguments, "hit error arity expired"),
    command("BITFIELD_RO", 4, bitfield_ro_arguments, "hit error arity expired"),
    command("BITOP", 8, bitop_arguments, READ + " error"),
    command("MSETNX", 5, mset_arguments, READ),
    command("RENAME", 8, lambda d: [d.key(), d.key()], "hit error arity expired"),
    command("RENAMENX", 5, lambda d: [d.key(), d.key()], READ + " error"),
    command("COPY", 8, copy_arguments, READ + " error"),
    command("MOVE", 3, lambda d: [d.key(), d.random.choice(DATABASES)], READ + " error"),
    command("DUMP", 6, lambda d: [d.key()], READ),
    command("RESTORE", 8, restore_arguments, "hit error arity expired"),
    # The time a key was idle is not known here (docs/differences.md).
    command("OBJECT", 5, object_arguments, READ + " error", "shape", spoil=False),
    command("DBSIZE", 3, lambda d: [], "hit miss arity", "expired count"),
    command("SCAN", 3, scan_arguments, "hit error arity", "unordered", spoil=False),
    command("KEYS", 1, lambda d: [d.random.choice([b"*", b"k*", b"k1?", b"nothing", b"[^k]*"])], "hit arity",
            "set"),
    # Which key is up to the server.
    command("RANDOMKEY", 1, lambda d: [], "hit miss arity", "shape"),
    command("FLUSHDB", 1, lambda d: d.maybe(0.3, [d.word(b"ASYNC", b"SYNC", b"NOSUCH")]),
            "hit error"),
    command("FLUSHALL", 1, lambda d: d.maybe(0.3, [d.word(b"ASYNC", b"SYNC", b"NOSUCH")]),
            "hit error"),
    command("INFO", 1, lambda d: [b"server"], "hit", "shape", spoil=False),
]
UNKNOWN = [[b"NOSUCH"], [b"nosuch", b"a", b"b c"], [b""], [b"GETT", b"k1"], [b"SE", b"k1", b"v"],
           [b"x" * 200, b"y" * 200], [b"no\r\nsuch", b"\x00z"]]

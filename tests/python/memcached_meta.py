"""The meta commands that the memcached stream draws, and what of their replies differs by nature.

Of an item that a classic command stored Isotherm does not know how it was used, so `h`, `l` and
`me` are drawn for keys that only `ms` and `ma` store.
"""

import base64
import re

META_KEYS = [b"M%d" % i for i in range(6)] + [b"M\x02\xff"]
# None is near another, lest a second's difference decide who wins.
EXPIRIES = [b"0", b"1000", b"100000", b"2000000000"]
RECACHES = [b"0", b"30", b"5000", b"200000", b"-1"]
BAD_FLAGS = [b"y", b"W", b"k k", b"Tx", b"N", b"Cx", b"Fx", b"Jx", b"Dx", b"Mxx", b"1"]

# cas numbers, seconds left and seconds since the last use.
NATURAL = re.compile(rb"(?m)^((?:HD|VA|EX|NF|NS|ME)(?: [^\r\n]*)?)\r$")
FIELD = re.compile(rb" (?:([ctl])\d+|(cas|exp|la|cls)=-?\d+)(?= |$)")


def without_natural(replies):
    return NATURAL.sub(lambda line: FIELD.sub(rb" \1\2", line[1]) + b"\r", replies)


def token(letter, draw):
    """A flag with what stands behind it."""
    choose = draw.random.choice
    return letter + {
        b"T": lambda: choose(EXPIRIES + [b"-1"]),
        b"N": lambda: choose(EXPIRIES),
        b"R": lambda: choose(RECACHES),
        b"O": lambda: b"%d" % draw.random.randrange(10 ** 9),
        b"C": lambda: choose([b"1", b"0", b"99999999999"]),
        b"F": lambda: choose([b"0", b"1", b"4294967295"]),
        b"J": lambda: choose([b"0", b"13", b"99"]),
        b"D": lambda: choose([b"0", b"1", b"95", b"1000"]),
    }.get(letter, lambda: b"")()


def flags_of(draw, letters, likely=0.25):
    """Some of the flags, in any order; one is wrong at times."""
    drawn = [bytes([letter]) for letter in letters if draw.random.random() < likely]
    draw.random.shuffle(drawn)
    draw.flags_drawn.update(drawn)
    words = [token(letter, draw) for letter in drawn]
    if draw.random.random() < 0.02:
        draw.bad = True
        words.insert(draw.random.randint(0, len(words)), draw.random.choice(BAD_FLAGS))
    return words


def key_of(draw, words, own=None):
    """A key for these flags, in base64 if they say so."""
    key = draw.key() if own is None else own
    if b"b" in words:
        key = base64.b64encode(key) if draw.random.random() < 0.97 else b"!!"
    return key


def own_key(draw):
    if draw.first_key is None and draw.random.random() < 0.5:
        key = draw.random.choice(META_KEYS)
        draw.keys.append(key)
        return key
    return None


def mode(draw, words, modes):
    if draw.random.random() < 0.5:
        drawn = draw.random.choice(modes)
        draw.flags_drawn.add(b"M" + drawn)
        words.append(b"M" + drawn)
    return words


def line(*words):
    return b" ".join(words) + b"\r\n"


def get(draw):
    own = own_key(draw)
    letters = b"bcfkOqstuvNRT" + (b"hl" if own is not None else b"")
    words = flags_of(draw, letters)
    return line(b"mg", key_of(draw, words, own), *words)


def store(draw):
    own = own_key(draw)
    words = mode(draw, flags_of(draw, b"bckOqCFIT", 0.2), [b"E", b"A", b"P", b"R", b"S"])
    value = draw.value()
    # Data behind a refused line is read as lines, and memcached closes on one of 2 KB.
    value = value[:1000]
    size = b"%d" % len(value)
    if draw.random.random() < 0.01:
        value += draw.random.choice([b"x", b"\r\nnosuch"])
    return line(b"ms", key_of(draw, words, own), size, *words) + value + b"\r\n"


def delete(draw):
    own = own_key(draw)
    words = flags_of(draw, b"bkOqCIT", 0.3)
    return line(b"md", key_of(draw, words, own), *words)


def arithmetic(draw):
    own = own_key(draw)
    words = mode(draw, flags_of(draw, b"bckOqtvCDJNT"), [b"I", b"D", b"+", b"-", b"x"])
    return line(b"ma", key_of(draw, words, own), *words)


def debug(draw):
    key = draw.random.choice(META_KEYS)
    words = [b"b"] if draw.random.random() < 0.3 else []
    draw.flags_drawn.update(words)
    draw.bad |= draw.random.random() < 0.05
    return line(b"me", *([] if draw.bad else [key_of(draw, words, key)]), *words)


def nothing(draw):
    return line(b"mn", *([b"x"] if draw.random.random() < 0.3 else []))


def classes(kinds, flags="", modes=""):
    """Kinds of replies, and every flag and mode that must have been drawn alone."""
    return " ".join([kinds, *(f"flag-{flag}" for flag in flags),
                     *(f"flag-M{letter}" for letter in modes)])


# name, weight, how it is drawn, classes
TABLE = [
    ("mg", 40, get, classes("hit miss error expired quiet won stale sent", "bcfhklOqstuvNRT")),
    ("ms", 30, store, classes("hit miss exists error expired quiet", "bckOqCFIT", "EAPRS")),
    ("md", 10, delete, classes("hit miss exists error expired quiet", "bkOqCIT")),
    ("ma", 20, arithmetic, classes("hit miss exists error expired quiet", "bckOqtvCDJNT", "ID+-x")),
    ("me", 5, debug, classes("hit miss error", "b")),
    ("mn", 2, nothing, "hit"),
]
NAMES = frozenset(entry[0].encode() for entry in TABLE)


def kinds_of(reply):
    """The classes that a reply stands for."""
    status = reply.split(b"\r\n", 1)[0].split(b" ")
    kind = {b"EN": "miss", b"NF": "miss", b"NS": "miss", b"EX": "exists", b"": "quiet"}
    kinds = [kind.get(status[0], "hit")]
    kinds += [name for flag, name in ((b"W", "won"), (b"X", "stale"), (b"Z", "sent"))
              if status[0] in (b"HD", b"VA") and flag in status[1:]]
    return kinds

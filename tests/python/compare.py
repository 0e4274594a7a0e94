"""Compares raw replies. Only where bytes differ are they parsed, and only what must differ between
two servers is let pass: time to live within a tolerance, the order of SCAN and KEYS, ids and versions.
"""

SECONDS_TOLERANCE = 2
MILLISECONDS_TOLERANCE = 2_000


class Incomplete(Exception):
    pass


class Reply:
    """One reply: its raw bytes, its type byte and its parsed value."""

    __slots__ = ("raw", "kind", "value")

    def __init__(self, raw, kind, value):
        self.raw = raw
        self.kind = kind
        self.value = value

    def is_nil(self):
        return self.raw in (b"$-1\r\n", b"*-1\r\n", b"_\r\n")

    def is_error(self):
        return self.kind == b"-"


def parse_reply(data, start):
    """The reply at `start` and where the next one begins."""
    end = data.find(b"\r\n", start)
    if end < 0:
        raise Incomplete
    kind = data[start:start + 1]
    head = data[start + 1:end]
    at = end + 2
    if kind in b"$=" and head != b"-1":
        stop = at + int(head)
        if len(data) < stop + 2:
            raise Incomplete
        return Reply(data[start:stop + 2], kind, data[at:stop]), stop + 2
    if kind in b"*%~>" and head != b"-1":
        count = int(head) * (2 if kind == b"%" else 1)
        items = []
        for _ in range(count):
            item, at = parse_reply(data, at)
            items.append(item)
        return Reply(data[start:at], kind, items), at
    if kind == b":":
        return Reply(data[start:at], kind, int(head)), at
    if kind not in b"+-$*_#,(":
        raise ValueError(f"no reply: {data[start:start + 80]!r}")
    return Reply(data[start:at], kind, head), at


def parse_replies(data):
    replies = []
    at = 0
    while at < len(data):
        reply, at = parse_reply(data, at)
        replies.append(reply)
    return replies


def near(one, other, tolerance):
    if one.kind != b":" or other.kind != b":":
        return False
    # -1 and -2 say something else than a time.
    if one.value < 0 or other.value < 0:
        return one.value == other.value
    return abs(one.value - other.value) <= tolerance


def same_shape(one, other):
    if one.is_error() or other.is_error():
        return one.raw == other.raw
    if isinstance(one.value, list) and isinstance(other.value, list):
        return one.kind == other.kind and len(one.value) == len(other.value)
    return one.kind == other.kind


def same_unordered(one, other):
    if not isinstance(one.value, list) or not isinstance(other.value, list):
        return False
    if len(one.value) != 2 or len(other.value) != 2:
        return False
    (cursor, keys), (other_cursor, other_keys) = one.value, other.value
    return cursor.raw == other_cursor.raw and (
        sorted(key.raw for key in keys.value) == sorted(key.raw for key in other_keys.value))


def same_set(one, other):
    if not isinstance(one.value, list) or not isinstance(other.value, list):
        return False
    return one.kind == other.kind and sorted(key.raw for key in one.value) == sorted(key.raw for key in other.value)


def same(one, other, compare, slack=0, apart=0.0):
    """True when two replies mean the same. `slack`: keys that may have expired and still count; `apart`: the
    most seconds between the moments at which the two servers run the same request."""
    if one.raw == other.raw:
        return True
    # The request that sets an expiry and the one that asks for it may both be apart.
    if compare == "seconds":
        return near(one, other, SECONDS_TOLERANCE + 2 * apart)
    if compare == "milliseconds":
        return near(one, other, MILLISECONDS_TOLERANCE + 2000 * apart)
    if compare == "unordered":
        return same_unordered(one, other)
    if compare == "set":
        return same_set(one, other)
    if compare == "shape":
        return same_shape(one, other)
    if compare == "expired count":
        return near(one, other, slack)
    return False

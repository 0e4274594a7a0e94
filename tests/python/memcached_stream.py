"""Random memcached requests to Isotherm and to memcached side by side.

A step is one pipeline ended by `version`, whose reply ends a run of bytes. The cas unique of a key
differs between servers and is cut out before bytes are compared; a cas that must succeed is sent
with each server's own. Some steps go by UDP (memcached_udp.py). Coverage comes from requests sent one by one, because replies in a pipeline
do not say which request they answer.
"""

import bisect
import itertools
import re
import time

import memcached_commands
import memcached_meta
import memcached_udp
import servers
import shrink
import wire
from coverage import Coverage
from resp_stream import Difference

# In a replay; memcached's clock ticks once a second.
EXPIRY_PAUSE_S = 2.2
# A key that is set behind those that are to expire, with as long to live.
LAST_TO_EXPIRE = b"last"
PIPELINES_PER_SINGLE = 3
COMMANDS_PER_EPOCH = 20_000
VERSION = re.compile(rb"(?:^|\r\n)VERSION [^\r\n]*\r\n$")
# What differs by nature in replies that a changed byte has given another form.
LOOSE = re.compile(rb" ([ctl])\d+")
REFUSED = b"CLIENT_ERROR bad command line format\r\n"
UNIQUE = re.compile(rb"(VALUE \S+ \d+ \d+) \d+\r\n")
ERRORS = (b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR")
MISSES = (b"NOT_FOUND", b"NOT_STORED", b"END")


def is_end(buffer):
    tail = bytes(buffer[-64:])
    return tail.endswith(b"\r\n") and b"VERSION " in tail and VERSION.search(tail) is not None


def forgives(raw):
    """memcached looks for a minus sign behind a stored number over 2^63, in whatever memory follows
    it, and may then call the number none. What comes after differs too, so a new epoch starts."""
    for ours, theirs in zip(*(without_uniques(one).split(b"\r\n") for one in raw)):
        if ours != theirs:
            return (theirs.startswith(b"CLIENT_ERROR cannot increment") and ours.isdigit()
                    and int(ours) > 2**63 - 2**33)
    return False


def have_one_reply_each(requests):
    """Not those of several values, see memcached_udp.py."""
    return not any(request.startswith((b"get ", b"gets ", b"gat ", b"gats "))
                   and request.count(b" ") > 1 + request.startswith(b"gat")
                   for request in requests)


def without_uniques(replies):
    return memcached_meta.without_natural(UNIQUE.sub(rb"\1\r\n", replies))


def join(requests):
    """What each server is sent; a request that is a tuple differs between them."""
    return tuple(b"".join(request[side] if isinstance(request, tuple) else request
                          for request in requests) for side in (0, 1))


class Connection(wire.Pair):
    def pipeline(self, requests):
        if isinstance(requests, bytes):
            requests = join([requests])
        replies = self.exchange([request + b"version\r\n" for request in requests], is_end)
        return [reply[:reply.rindex(b"VERSION ")] for reply in replies]


class MemcachedStream:
    def __init__(self, ports, udp_ports, seed, expiry_steps):
        self.ports = ports
        self.udp_ports = udp_ports
        self.draw = memcached_commands.Draw(seed)
        self.random = self.draw.random
        self.coverage = Coverage(memcached_commands.TABLE)
        for kind in ("malformed", "too large", "by UDP", "many by UDP", "prefixes"):
            self.coverage.other[kind] = 0
        del self.coverage.other["unknown command"]
        self.weights = list(itertools.accumulate(
            entry.weight for entry in memcached_commands.TABLE))
        self.commands = 0
        self.steps = 0
        self.expiry_steps = expiry_steps
        self.expired = set()
        self.old_uniques = {}
        self.history = []
        self.connections = [Connection(ports) for _ in range(3)]
        self.datagrams = memcached_udp.Datagrams(udp_ports)
        self.start_epoch()

    def start_epoch(self):
        self.connections[0].pipeline(b"flush_all\r\n")
        self.history.clear()
        self.expired.clear()
        self.old_uniques.clear()
        self.commands_at_epoch = self.commands

    def draw_request(self, alone=False, entry=None, first_key=None):
        entry = entry or memcached_commands.TABLE[bisect.bisect(
            self.weights, self.random.randrange(self.weights[-1]))]
        self.draw.begin(alone, first_key)
        return entry, entry.arguments(self.draw)

    def step(self):
        self.steps += 1
        if self.commands - self.commands_at_epoch > COMMANDS_PER_EPOCH:
            self.start_epoch()
        roll = self.random.random()
        if self.expiry_steps and self.commands > self.expiry_steps[0]:
            self.expiry_steps.pop(0)
            self.expire_step()
        elif roll < 0.01:
            self.malformed_step()
        elif roll < 0.1:
            self.cas_step()
        elif roll < 0.102:
            self.too_large_step()
        elif roll < 0.104:
            self.prefix_step()
        elif roll < 0.25:
            self.udp_step()
        elif self.steps % PIPELINES_PER_SINGLE == 0:
            self.single_step()
        else:
            self.pipeline_step()

    def exchange(self, requests):
        """Sends a list of requests as one pipeline; one may be a tuple, for each server its own."""
        self.history.append(requests)
        raw = self.random.choice(self.connections).pipeline(join(requests))
        if not self.same(raw):
            if not forgives(raw):
                self.fail("replies differ", requests, raw)
            self.start_epoch()
        return raw

    @staticmethod
    def same(raw):
        return raw[0] == raw[1] or without_uniques(raw[0]) == without_uniques(raw[1])

    @staticmethod
    def same_malformed(raw):
        """memcached drops replies that wait to be sent: all where a connection ends inside an item, and
        some right before that of a `get` that is refused for a long key."""
        ours, theirs = (LOOSE.sub(rb" \1", without_uniques(one)) for one in raw)
        ours, theirs = ours.split(REFUSED), theirs.split(REFUSED)
        return len(ours) >= len(theirs) and all(map(bytes.startswith, ours, theirs))

    def fail(self, message, requests, raw):
        raw = [without_uniques(one) for one in raw]
        at = next((i for i, (one, other) in enumerate(zip(*raw)) if one != other),
                  min(map(len, raw)))
        start = max(0, at - 200)
        raise Difference(f"{message}; the last request: {shrink.abbreviate(repr(requests[-1]))}\n"
                         f"  ours   …{raw[0][start:at + 200]!r}\n"
                         f"  theirs …{raw[1][start:at + 200]!r}", list(self.history))

    def draw_requests(self, count):
        """Those of one step."""
        requests = []
        fetched = set()
        for _ in range(count):
            entry, request = self.draw_request()
            if entry.name in (b"incr", b"decr", b"ma") and not fetched.isdisjoint(self.draw.keys):
                # memcached pads a shrunken number or not, and forgets that it was fetched or not, as its
                # reply to the get is out or not.
                continue
            if entry.name in (b"get", b"gets", b"gat", b"gats", b"mg", b"me"):
                fetched.update(self.draw.keys)
            requests.append(request)
        self.commands += len(requests)
        return requests

    def pipeline_step(self):
        self.exchange(self.draw_requests(self.random.randint(2, 60)))

    def udp_step(self):
        """A few requests in one datagram; those that are long for one go by TCP."""
        requests = self.draw_requests(self.random.randint(1, 4))
        if not memcached_udp.fits(requests):
            requests = requests[:1]
        if not memcached_udp.fits(requests):
            self.exchange(requests)
            return
        self.history.append(ByUdp(requests))
        raw, frames = self.datagrams.pipeline(requests)
        self.coverage.other["many by UDP" if len(requests) > 1 else "by UDP"] += 1
        if not self.same(raw):
            if not forgives(raw):
                self.fail("replies by UDP differ", requests, raw)
            self.start_epoch()
        elif raw[0] == raw[1] and have_one_reply_each(requests) and frames[0] != frames[1]:
            self.fail(f"datagrams differ: {frames}", requests, raw)

    def prefix_step(self):
        """What `stats detail` counts of requests whose keys have one prefix."""
        requests = [b"stats reset\r\n", b"stats detail on\r\n"]
        for _ in range(self.random.randint(1, 20)):
            request = self.draw_request()[1]
            # Of a get that is refused for a long key memcached counts the keys before it.
            if not self.draw.bad:
                requests.append(request)
        self.exchange(requests)
        self.exchange([b"stats detail dump\r\n", b"stats detail off\r\n", b"stats reset\r\n"])
        self.coverage.other["prefixes"] += 1

    def single_step(self):
        for _ in range(self.random.randint(1, 10)):
            self.single(self.random.choice(memcached_commands.TABLE))

    def single(self, entry, first_key=None):
        _, request = self.draw_request(alone=True, entry=entry, first_key=first_key)
        expired = not self.expired.isdisjoint(self.draw.keys)
        self.expired.difference_update(self.draw.keys)
        self.commands += 1
        noreply = self.draw.noreply
        flags = set(self.draw.flags_drawn)
        raw = self.exchange([request])
        self.count(entry.name, raw[1], noreply, expired)
        for flag in flags:
            self.coverage.count(entry.name, "flag-" + flag.decode())

    def count(self, name, reply, noreply, expired):
        if noreply and not reply:
            self.coverage.count(name, "noreply")
        elif reply.startswith(ERRORS):
            self.coverage.count(name, "error")
        elif name in memcached_meta.NAMES:
            for kind in memcached_meta.kinds_of(reply):
                self.coverage.count(name, kind)
        elif reply.startswith(MISSES):
            self.coverage.count(name, "miss")
        elif reply.startswith(b"EXISTS"):
            self.coverage.count(name, "exists")
        else:
            self.coverage.count(name, "hit")
        if expired:
            self.coverage.count(name, "expired")

    def cas_step(self):
        """gets, then a cas with each server's own unique, sometimes with an older one."""
        key = self.random.choice(memcached_commands.KEYS)
        raw = self.exchange([b"gets " + key + b"\r\n"])
        self.expired.discard(key)
        found = [re.match(rb"VALUE \S+ \d+ \d+ (\d+)\r\n", one) for one in raw]
        if not found[0]:
            return
        uniques = tuple(match[1] for match in found)
        if self.random.random() < 0.5:
            uniques = self.old_uniques.get(key, uniques)
        self.old_uniques[key] = tuple(match[1] for match in found)
        value = self.draw.value()
        request = tuple(b"cas %s 0 0 %d %s\r\n%s\r\n" % (key, len(value), unique, value)
                        for unique in uniques)
        self.commands += 2
        self.count(b"cas", self.exchange([request])[1], False, False)

    def expire_step(self):
        """Keys with a second to live; nothing touches any of them until it has passed."""
        keys = self.random.sample(memcached_commands.KEYS, 14)
        requests = [
            self.random.choice([b"set %s 3 1 1\r\n5\r\n", b"touch %s 1\r\n", b"gat 1 %s\r\n"]) % key
            for key in keys]
        self.commands += len(keys)
        self.exchange([*requests, b"set %s 3 1 1\r\n5\r\n" % LAST_TO_EXPIRE])
        if not servers.soon(self.have_expired):
            raise Difference("a key with a second to live does not expire", list(self.history))
        self.history.append(None)
        self.expired.update(keys)
        entries = [entry for entry in memcached_commands.TABLE if "expired" in entry.classes]
        self.random.shuffle(entries)
        for key, entry in zip(keys, itertools.cycle(entries)):
            self.single(entry, key)

    def have_expired(self):
        """Asked of the servers, for the clock of one that stood still meanwhile may not have ticked yet."""
        return self.connections[0].pipeline(b"get %s\r\n" % LAST_TO_EXPIRE) == [b"END\r\n"] * 2

    def too_large_step(self):
        size = self.random.choice([1048576, 1048577, 3_000_000])
        name = self.random.choice([b"set", b"add", b"replace", b"append", b"prepend"])
        key = self.random.choice(memcached_commands.KEYS)
        self.exchange([b"%s %s 0 0 %d\r\n%s\r\n" % (name, key, size, b"x" * size)])
        self.coverage.other["too large"] += 1

    def malformed_step(self):
        """Requests with a byte changed, on a connection that ends with them."""
        data = bytearray(b"".join(self.draw_request()[1] for _ in range(3))[:1500])
        # With one digit more, or another one, memcached would cut it to 32 bits.
        data = data.replace(b"2000000000", b"1000")
        for _ in range(self.random.randint(1, 3)):
            at = self.random.randrange(len(data))
            if self.random.random() < 0.3:
                del data[at]
            else:
                data[at] = self.random.choice(b"\r\n 0123456789-+Aaz\x7f\xff")
            if not data:
                data += b"\n"
        request = bytes(data)
        self.history.append(Malformed(request))
        raw = self.send_malformed(self.connections[0], request)
        if not self.same_malformed(raw):
            self.fail("malformed request", [request], raw)
        self.coverage.other["malformed"] += 1

    def send_malformed(self, connection, request):
        raw = wire.Pair(self.ports).finish(request)
        # What ended between enabling and disabling would leave `stats sizes` to show what servers have flushed.
        connection.pipeline(b"stats sizes_disable\r\n")
        return raw

    # ---- Replaying, see shrink.py ----

    @staticmethod
    def steps_of(history):
        """((number of the pipeline, whether it goes by UDP), request)."""
        return [((group, isinstance(requests, ByUdp)), request)
                for group, requests in enumerate(history)
                for request in (requests if isinstance(requests, list) else [requests])]

    def replay(self, steps):
        connection = Connection(self.ports)
        datagrams = memcached_udp.Datagrams(self.udp_ports)
        try:
            connection.pipeline(b"flush_all\r\n")
            index = -1
            for (_, by_udp), group in itertools.groupby(steps, key=lambda step: step[0]):
                requests = [request for _, request in group]
                index += len(requests)
                if by_udp:
                    raw, _ = datagrams.pipeline(requests)
                    same = self.same(raw)
                else:
                    same = self.same_again(connection, requests)
                if not same:
                    return index
        except wire.Closed:
            return len(steps) - 1
        finally:
            connection.close()
            datagrams.close()
        return None

    def same_again(self, connection, requests):
        if requests[0] is None:
            time.sleep(EXPIRY_PAUSE_S)
            return True
        if isinstance(requests[0], Malformed):
            return self.same_malformed(self.send_malformed(connection, requests[0]))
        return self.same(connection.pipeline(join(requests)))

    @staticmethod
    def describe(step):
        (group, by_udp), request = step
        return f"{'datagram' if by_udp else 'pipeline'} {group}: " + ("(pause)" if request is None else repr(request))

    def close(self):
        for connection in self.connections:
            connection.close()
        self.datagrams.close()


class ByUdp(list):
    """Requests that were sent in one datagram."""


class Malformed(bytes):
    """Bytes sent on a connection of their own."""

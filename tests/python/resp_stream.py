"""Random RESP requests to Isotherm and to Redis side by side.

A step is one pipeline on one of several connections (RESP2 and RESP3), ended by an ECHO of a number
that no value holds, so replies are compared as whole runs of bytes. Some steps let keys expire (a
short PX, then a pause, then reads) and some send requests with a broken byte on a connection of
their own.
"""

import bisect
import itertools
import time

import compare
import resp_commands
import wire
from coverage import Coverage

# Replies are parsed for coverage in every pipeline until all classes were seen, then in some.
SAMPLE = 16
EXPIRY_MS = 15
EXPIRY_PAUSE_S = 0.06
# Every so often everything is emptied, so that what leads to a difference stays short.
COMMANDS_PER_EPOCH = 20_000
# These go in steps, and what they show has another order.
NOT_IN_TRANSACTIONS = (b"SCAN", b"KEYS", b"RANDOMKEY")
# RESP2 or RESP3, for each connection.
PROTOCOLS = (2, 2, 3, 3)


class Difference(Exception):
    def __init__(self, message, history):
        super().__init__(message)
        self.history = history


class Request:
    """One command of a pipeline: its arguments and the entry of the table it was drawn from."""

    __slots__ = ("arguments", "entry", "expired", "inline")

    def __init__(self, arguments, entry=None, expired=False, inline=False):
        self.arguments = arguments
        self.entry = entry
        self.expired = expired
        self.inline = inline

    def encode(self):
        if self.inline:
            return b" ".join(self.arguments) + b"\r\n"
        return wire.encode(self.arguments)


def same_reply(request, one, other):
    kind = request.entry.compare if request.entry else "exact"
    return compare.same(one, other, kind, len(resp_commands.KEYS), wire.Pair.most_seconds)


class Connection(wire.Pair):
    def __init__(self, ports, number, protocol):
        super().__init__(ports)
        self.number = number
        self.protocol = protocol
        self.markers = itertools.count()
        self.database = 0
        self.run([[b"HELLO", b"%d" % protocol]])

    def run(self, commands):
        return self.pipeline(b"".join(wire.encode(command) for command in commands))

    def pipeline(self, data):
        marker = b"end of pipeline %d" % next(self.markers)
        tail = b"$%d\r\n%s\r\n" % (len(marker), marker)
        replies = self.exchange(data + wire.encode([b"ECHO", marker]),
                                lambda buffer: buffer.endswith(tail))
        return [reply[:-len(tail)] for reply in replies]


class RespStream:
    def __init__(self, ports, seed):
        self.ports = ports
        self.draw = resp_commands.Draw(seed)
        self.random = self.draw.random
        self.coverage = Coverage(resp_commands.TABLE)
        for kind in ("inline", "malformed", "large pipeline", "SCAN in steps", "transaction",
                     "transaction that is not run"):
            self.coverage.other[kind] = 0
        self.weights = list(itertools.accumulate(entry.weight for entry in resp_commands.TABLE))
        self.commands = 0
        self.steps = 0
        self.expired = set()
        self.history = []
        self.connections = [Connection(ports, number, protocol)
                            for number, protocol in enumerate(PROTOCOLS)]
        self.start_epoch()

    def start_epoch(self):
        self.connections[0].run([[b"FLUSHALL"]])
        for connection in self.connections:
            connection.run([[b"SELECT", b"0"]])
            connection.database = 0
        self.history.clear()
        self.expired.clear()
        self.commands_at_epoch = self.commands

    # ---- Drawing ----

    def draw_request(self):
        roll = self.random.random()
        if roll < 0.004:
            self.coverage.other["unknown command"] += 1
            return Request(self.random.choice(resp_commands.UNKNOWN))
        entry = resp_commands.TABLE[bisect.bisect(
            self.weights, self.random.randrange(self.weights[-1]))]
        self.draw.keys.clear()
        arguments = entry.arguments(self.draw)
        if roll < 0.02 and entry.spoil:
            self.spoil_arity(arguments)
        expired = any(key in self.expired for key in self.draw.keys)
        self.expired.difference_update(self.draw.keys)
        name = entry.name
        if roll > 0.8:
            name = name.lower() if roll > 0.9 else name.capitalize()
        inline = roll > 0.98 and self.can_be_inline(arguments)
        self.coverage.other["inline"] += inline
        return Request([name, *arguments], entry, expired, inline)

    def spoil_arity(self, arguments):
        if arguments and self.random.random() < 0.6:
            del arguments[self.random.randrange(len(arguments)):]
        else:
            arguments.extend(self.draw.junk() for _ in range(self.random.randint(1, 3)))

    @staticmethod
    def can_be_inline(arguments):
        return all(argument and all(33 <= byte < 127 and byte not in b"\"'\\" for byte in argument)
                   for argument in arguments) and sum(map(len, arguments)) < 1000

    def depth(self):
        roll = self.random.random()
        if roll < 0.2:
            return 1
        if roll < 0.97:
            return self.random.randint(2, 60)
        self.coverage.other["large pipeline"] += 1
        return self.random.randint(200, 600)

    # ---- Steps ----

    def step(self):
        self.steps += 1
        if self.commands - self.commands_at_epoch > COMMANDS_PER_EPOCH:
            self.start_epoch()
        roll = self.random.random()
        if self.steps % 40 == 0:
            self.expire_step()
        elif roll < 0.01:
            self.malformed_step()
        elif roll < 0.02:
            self.scan_step()
        elif roll < 0.08:
            self.transaction_step()
        else:
            self.pipeline_step(self.random.choice(self.connections),
                               [self.draw_request() for _ in range(self.depth())])

    def draw_in_transaction(self):
        """What is compared byte for byte, and goes in no steps."""
        while True:
            request = self.draw_request()
            if request.entry is None:
                return request
            if request.entry.compare == "exact" and request.entry.name not in NOT_IN_TRANSACTIONS:
                return Request(request.arguments)

    def transaction_step(self):
        """A transaction, often of watched keys of which another connection may change some."""
        connection, other = self.random.sample(self.connections, 2)
        if self.random.random() < 0.6:
            keys = self.random.sample(resp_commands.KEYS, self.random.randint(1, 6))
            self.pipeline_step(connection, [Request([b"WATCH", *keys])])
            if self.random.random() < 0.7:
                by = self.random.choice([connection, other])
                self.pipeline_step(by, [self.draw_in_transaction()])
        requests = [Request([b"MULTI"])]
        for _ in range(self.random.choice([0, 1, 2, 5, 20])):
            requests.append(self.draw_in_transaction())
        end = self.random.choice([b"EXEC"] * 8 + [b"DISCARD"])
        requests.append(Request([end]))
        self.coverage.other["transaction that is not run"] += end != b"EXEC"
        self.coverage.other["transaction"] += 1
        self.pipeline_step(connection, requests)

    def pipeline_step(self, connection, requests):
        self.history.append((connection.number, requests))
        self.commands += len(requests)
        raw = connection.pipeline(b"".join(request.encode() for request in requests))
        if raw[0] != raw[1]:
            self.compare(requests, raw)
        elif not self.coverage.complete() or self.steps % SAMPLE == 0:
            for request, reply in zip(requests, compare.parse_replies(raw[0])):
                self.count(request, reply)

    def compare(self, requests, raw):
        ours, theirs = (compare.parse_replies(one) for one in raw)
        for index, request in enumerate(requests):
            if index >= min(len(ours), len(theirs)):
                self.fail(index, requests, "a reply is missing", raw)
            if not same_reply(request, ours[index], theirs[index]):
                self.fail(index, requests, "replies differ", (ours[index].raw, theirs[index].raw))
            self.count(request, theirs[index])
        if len(ours) != len(theirs):
            self.fail(len(requests) - 1, requests, "surplus replies", raw)

    def fail(self, index, requests, message, raw):
        text = (f"{message}: {requests[index].arguments!r}\n"
                f"  ours   {raw[0][:1000]!r}\n  theirs {raw[1][:1000]!r}")
        raise Difference(text, list(self.history))

    def count(self, request, reply):
        if request.entry is None:
            return
        name = request.entry.name
        if reply.is_error():
            arity = reply.value.startswith(b"ERR wrong number of arguments")
            self.coverage.count(name, "arity" if arity else "error")
        elif reply.is_nil() or reply.raw in (b":0\r\n", b":-2\r\n", b"+none\r\n"):
            self.coverage.count(name, "miss")
        else:
            self.coverage.count(name, "hit")
        if request.expired:
            self.coverage.count(name, "expired")

    def expire_step(self):
        """Some keys get a moment to live; all commands meet them only when it has passed."""
        connection = self.random.choice(self.connections)
        requests = []
        for key in self.random.sample(resp_commands.KEYS, self.random.randint(4, 20)):
            short = b"%d" % self.random.randint(1, EXPIRY_MS)
            requests.append(Request(self.random.choice([
                [b"SET", key, self.draw.value(), b"PX", short],
                [b"PSETEX", key, short, self.draw.value()],
                [b"GETEX", key, b"PX", short],
                [b"PEXPIRE", key, short]])))
            self.expired.add(key)
        # What these reply was drawn above; a reply may depend on what has not expired yet.
        self.pipeline_step(connection, requests)
        time.sleep(EXPIRY_PAUSE_S)
        self.history.append((connection.number, None))

    def scan_step(self):
        """A whole SCAN in small steps on both servers."""
        connection = self.random.choice(self.connections)
        count = b"%d" % self.random.choice([1, 3, 10])
        found = [self.scan(one, count) for one in connection.wires]
        if found[0] != found[1]:
            only = [sorted(found[i] - found[1 - i]) for i in (0, 1)]
            raise Difference(f"SCAN COUNT {count.decode()}: only ours {only[0]!r}, "
                             f"only theirs {only[1]!r}", list(self.history))
        self.coverage.other["SCAN in steps"] += 1

    @staticmethod
    def scan(one, count):
        found = set()
        cursor = b"0"
        while True:
            one.send(wire.encode([b"SCAN", cursor, b"COUNT", count]))
            reply = compare.parse_reply(one.read_until(RespStream.is_reply), 0)[0]
            cursor = reply.value[0].value
            found.update(key.value for key in reply.value[1].value)
            if cursor == b"0":
                return found

    @staticmethod
    def is_reply(buffer):
        try:
            return bool(buffer) and bool(compare.parse_reply(bytes(buffer), 0))
        except compare.Incomplete:
            return False

    def malformed_step(self):
        """Requests with a byte changed, on a connection that ends with them."""
        requests = [self.draw_request() for _ in range(self.random.randint(1, 5))]
        # Cut off its arguments, it lists all commands there are, and those of Redis are more.
        requests = [one for one in requests if one.arguments[0].lower() != b"command"] or [
            Request([b"PING"])]
        data = bytearray(b"".join(request.encode() for request in requests)[:3000])
        for _ in range(self.random.randint(1, 3)):
            at = self.random.randrange(len(data))
            if self.random.random() < 0.3:
                del data[at]
            else:
                # A zero byte hides a line's end from Redis, which is nobody's wish.
                data[at] = self.random.choice(b"*$\r\n 0123456789-+:'\"\\xAz\x7f\xff")
            if not data:
                data += b"*"
        request = bytes(data)
        raw = wire.Pair(self.ports).finish(request)
        if raw[0] != raw[1] and not self.same_malformed(raw):
            raise Difference(f"malformed request {request!r}\n  ours   {raw[0][:1000]!r}\n"
                             f"  theirs {raw[1][:1000]!r}", list(self.history))
        self.coverage.other["malformed"] += 1
        # It may have written in database 0 on both sides alike; a shrunken history needs it too.
        self.history.append((None, request))
        self.commands += len(requests)

    @staticmethod
    def same_malformed(raw):
        """The requests around the broken one may be such whose replies differ in time or order."""
        try:
            ours, theirs = (compare.parse_replies(one) for one in raw)
        except (compare.Incomplete, ValueError):
            return False
        kinds = ("milliseconds", "unordered", "set", "shape")
        return len(ours) == len(theirs) and all(
            any(compare.same(one, other, kind, apart=wire.Pair.most_seconds) for kind in kinds)
            for one, other in zip(ours, theirs))

    # ---- Replaying, see shrink.py ----

    @staticmethod
    def steps_of(history):
        """(number of the pipeline, connection, what): a Request, None for a pause, or bytes that
        had a connection of their own."""
        return [(group, number, what) for group, (number, requests) in enumerate(history)
                for what in (requests if isinstance(requests, list) else [requests])]

    def replay(self, steps):
        connections = {}
        try:
            self.replay_on(connections, 0).run([[b"FLUSHALL"]])
            start = 0
            for (_, number), group in itertools.groupby(steps, key=lambda step: step[:2]):
                requests = [what for _, _, what in group]
                found = self.first_difference(connections, number, requests)
                if found is not None:
                    return start + found
                start += len(requests)
        except wire.Closed:
            return len(steps) - 1
        finally:
            for connection in connections.values():
                connection.close()
        return None

    def first_difference(self, connections, number, requests):
        if number is None:
            wire.Pair(self.ports).finish(requests[0])
            return None
        if requests[0] is None:
            time.sleep(EXPIRY_PAUSE_S)
            return None
        connection = self.replay_on(connections, number)
        raw = connection.pipeline(b"".join(request.encode() for request in requests))
        if raw[0] == raw[1]:
            return None
        ours, theirs = (compare.parse_replies(one) for one in raw)
        for index, (request, one, other) in enumerate(zip(requests, ours, theirs)):
            if not same_reply(request, one, other):
                return index
        return None if len(ours) == len(theirs) else len(requests) - 1

    def replay_on(self, connections, number):
        if number not in connections:
            connections[number] = Connection(self.ports, number, PROTOCOLS[number])
        return connections[number]

    @staticmethod
    def describe(step):
        group, number, what = step
        if number is None:
            return f"(a connection of its own) {what!r}"
        if what is None:
            return "(pause)"
        return f"pipeline {group} @{number} {what.arguments!r}"

    def close(self):
        for connection in self.connections:
            connection.close()

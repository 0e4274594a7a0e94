#!/usr/bin/env python3
"""Everything at once to one server, each reply against a model; then kills, if there are to be some.

Each client has keys of its own and a model of them. It sends pipelines of all kinds of commands,
with values from nothing to megabytes, and counts up a key that all share. Beside them one client
walks over all keys, one turns maxmemory up and down, and one sends half a request, or does not read
what it asked for, and leaves. With --kills the server is killed while they go on, and started again:
what was answered is there, and of what was not, a beginning.

    mixed_load.py [--server BINARY] [--seconds N] [--clients N] [--kills N] [--largest BYTES]
                  [--caps LOW HIGH] [-- FLAGS OF THE SERVER]

Exit status 0: every reply was right; 1: one was not; 2: the test could not run.
"""

import argparse
import multiprocessing
import os
import random
import sys
import threading
import time

from server_process import Client, Failure, encode, parse_size, start_server, status_of

KEYS = 400  # of each client
FIXED = 2000  # keys that nobody changes
PIPELINE_BYTES = 4 << 20


def text_of(key, count, size):
    unit = b"%s/%d." % (key, count)
    return (unit * (size // len(unit) + 1))[:size]


def short(what):
    text = repr(what)
    return text if len(text) < 200 else f"{text[:120]}… ({len(text)})"


class Request:
    """Its bytes, the replies to them, and the values that keys have behind it (None: none)."""

    def __init__(self, words, reply, changes=None, wire=None, before=()):
        self.wire = wire or encode(*words)
        self.replies = [*before, reply]
        self.changes = changes or {}
        self.name = short(words)


class Model:
    """What one client has stored, and the requests that it draws."""

    KINDS = {"set": 20, "get": 30, "mget": 4, "delete": 5, "append": 4, "setrange": 2, "look": 6,
             "setnx": 3, "getset": 3, "getdel": 2, "mset": 2, "execute": 2, "expire": 2, "copy": 2}

    def __init__(self, name, seed, largest):
        self.name = name
        self.random = random.Random(seed)
        self.largest = largest
        self.values = {}
        self.count = 0

    def key(self):
        return b"%s:%d" % (self.name, int(KEYS * self.random.random() ** 2))

    def text(self, key):
        self.count += 1
        kind = self.random.random()
        most = 120 if kind < 0.6 else 4000 if kind < 0.9 else 60_000 if kind < 0.99 else self.largest
        return text_of(key, self.count, self.random.randrange(min(most, self.largest)))

    def draw(self):
        key = self.key()
        kind = self.random.choices([*self.KINDS], [*self.KINDS.values()])[0]
        request = getattr(self, kind)(key, self.values.get(key))
        for name, value in request.changes.items():
            if value is None:
                self.values.pop(name, None)
            else:
                self.values[name] = value
        return request

    def set(self, key, _):
        new = self.text(key)
        return Request(["SET", key, new], b"OK", {key: new})

    def get(self, key, old):
        return Request(["GET", key], old)

    def mget(self, _key, _old):
        keys = [self.key() for _ in range(60)]
        return Request(["MGET", *keys], [self.values.get(one) for one in keys])

    def delete(self, key, old):
        return Request(["DEL", key], int(old is not None), {key: None})

    def append(self, key, old):
        more = text_of(key, self.count, 50)
        new = (old or b"") + more
        return Request(["APPEND", key, more], len(new), {key: new})

    def setrange(self, key, old):
        at = self.random.randrange(200)
        new = (old or b"").ljust(at + 5, b"\0")
        new = new[:at] + b"range" + new[at + 5 :]
        return Request(["SETRANGE", key, at, "range"], len(new), {key: new})

    def look(self, key, old):
        return self.random.choice([
            Request(["GETRANGE", key, 3, 40], (old or b"")[3:41]),
            Request(["STRLEN", key], len(old or b"")),
            Request(["EXISTS", key], int(old is not None)),
        ])

    def setnx(self, key, old):
        new = self.text(key)
        return Request(["SETNX", key, new], int(old is None), {key: new} if old is None else {})

    def getset(self, key, old):
        new = self.text(key)
        return Request(["SET", key, new, "GET"], old, {key: new})

    def getdel(self, key, old):
        return Request(["GETDEL", key], old, {key: None})

    def mset(self, _key, _old):
        new = {key: self.text(key) for key in sorted({self.key() for _ in range(20)})}
        return Request(["MSET", *(word for pair in new.items() for word in pair)], b"OK", new)

    def execute(self, key, old):
        other = self.key()
        new = self.text(other)
        calls = [["GET", key], ["SET", other, new], ["GET", key]]
        wire = b"".join(encode(*call) for call in [["MULTI"], *calls, ["EXEC"]])
        replies = [old, b"OK", new if other == key else old]
        return Request(["EXEC", key, other], replies, {other: new}, wire,
                       [b"OK"] + [b"QUEUED"] * len(calls))

    def expire(self, key, old):
        return Request(["EXPIRE", key, 100_000], int(old is not None))

    def copy(self, key, old):
        other = self.key()
        if other == key or old is None:
            return self.get(key, old)
        if self.random.random() < 0.5:
            return Request(["COPY", key, other, "REPLACE"], 1, {other: old})
        return Request(["RENAME", key, other], b"OK", {key: None, other: old})

    def pipeline(self):
        requests, total = [], 0
        for _ in range(self.random.choice([1, 1, 5, 50, 300])):
            requests.append(self.draw())
            total += len(requests[-1].wire)
            if total > PIPELINE_BYTES:
                break
        return requests


class Talker:
    """One client: what it stores, and whether it was answered as it should be."""

    def __init__(self, number, options):
        self.model = Model(b"c%d" % number, options.seed * 1000 + number, options.largest)
        self.requests = 0
        self.counted = 0  # answered
        self.asked = 0
        # What each key may have where the server was killed before it answered.
        self.unsure = {}
        self.failure = None
        self.lost = None  # the connection, and how

    def run(self, port, seconds):
        self.lost = None
        try:
            client = Client(port)
            self.verify(client)
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                self.talk(client)
            client.close()
        except Failure as failure:
            self.failure = f"{self.model.name.decode()}: {failure}"
        except (OSError, ValueError) as error:
            self.lost = error

    def talk(self, client):
        known = dict(self.model.values)
        requests = self.model.pipeline()
        for request in requests:
            for key, value in request.changes.items():
                self.unsure.setdefault(key, [known.get(key)]).append(value)
        self.asked += 1
        wire = b"".join(request.wire for request in requests) + encode("INCR", "all")
        sender = threading.Thread(target=send, args=(client, wire))
        sender.start()
        for request in requests:
            for reply in request.replies:
                self.expect(request.name, client.reply(), reply)
            for key in request.changes:
                self.unsure[key].pop(0)
            self.requests += 1
        sender.join()
        if not isinstance(client.reply(), int):
            raise Failure("INCR of what all count")
        self.counted += 1
        self.unsure.clear()

    def expect(self, name, reply, expected):
        if isinstance(reply, RuntimeError) or reply != expected:
            raise Failure(f"{name} answered {short(reply)}, not {short(expected)}")

    def verify(self, client):
        """After a start: each key has what was answered, or something that came later."""
        for number in range(KEYS):
            key = b"%s:%d" % (self.model.name, number)
            value = client.command("GET", key)
            if value not in self.unsure.get(key, [self.model.values.get(key)]):
                raise Failure(f"{key} has {short(value)} after a start, not one of "
                              f"{short(self.unsure.get(key, [self.model.values.get(key)]))}")
            if value is None:
                self.model.values.pop(key, None)
            else:
                self.model.values[key] = value
        self.unsure.clear()


def send(client, wire):
    try:
        client.send(wire)
    except OSError:
        pass  # whoever reads learns of it


def talk(talker, port, seconds, results):
    talker.run(port, seconds)
    results.put(talker)


class Beside:
    """Threads beside the talkers, until they are stopped or the server is gone."""

    def __init__(self, port, options):
        self.port = port
        self.options = options
        self.done = threading.Event()
        self.failures = []
        self.walks = 0
        works = [self.walk, self.be_rude] + ([self.turn_caps] if options.caps else [])
        self.threads = [threading.Thread(target=self.work, args=(work,)) for work in works]
        for thread in self.threads:
            thread.start()

    def work(self, work):
        try:
            client = Client(self.port)
            while not self.done.is_set():
                work(client)
        except Failure as failure:
            self.failures.append(str(failure))
        except (OSError, ValueError):
            pass

    def stop(self):
        self.done.set()
        for thread in self.threads:
            thread.join()

    def walk(self, client):
        cursor, seen = b"0", set()
        while True:
            cursor, keys = client.command("SCAN", cursor, "COUNT", 1000)
            seen.update(key for key in keys if key.startswith(b"fixed"))
            if cursor == b"0":
                break
            if self.done.is_set():
                return
        if len(seen) != FIXED:
            raise Failure(f"SCAN has shown {len(seen)} of {FIXED} keys that are there")
        least, most = FIXED, FIXED + self.options.clients * KEYS + 2
        if not least <= (keys := client.command("DBSIZE")) <= most:
            raise Failure(f"DBSIZE is {keys}, not between {least} and {most}")
        number = random.randrange(FIXED)
        if client.command("GET", f"fixed{number}") != text_of(b"fixed", number, number):
            raise Failure(f"GET fixed{number} is wrong")
        self.walks += 1

    def be_rude(self, _client):
        rude = Client(self.port)
        if random.random() < 0.5:
            rude.send(encode("SET", "rude", b"x" * 100_000)[: random.randrange(100_000)])
        else:
            send(rude, encode("MGET", *(f"fixed{number}" for number in range(FIXED))) * 10)
        self.done.wait(0.1)
        rude.close()

    def turn_caps(self, client):
        client.command("CONFIG", "SET", "maxmemory", random.choice(self.options.caps))
        self.done.wait(0.3)


def talk_to(server, talkers, options, kills):
    """Until the time is over, or with `kills` until the server is killed; the talkers as they are then."""
    results = multiprocessing.Queue()
    seconds = 600 if kills else options.seconds
    processes = [multiprocessing.Process(target=talk, args=(one, server.resp_port, seconds, results))
                 for one in talkers]
    for process in processes:
        process.start()
    beside = Beside(server.resp_port, options)
    ended_by_itself = False
    if kills:
        time.sleep(random.uniform(0.5, options.seconds))
        ended_by_itself = server.process.poll() is not None
        server.kill()
    ended = [results.get() for _ in processes]
    for process in processes:
        process.join()
    beside.stop()
    failures = [one.failure for one in ended if one.failure] + beside.failures
    if ended_by_itself:
        failures.append("the server has ended before it was killed")
    if not kills:
        failures += [f"a connection was lost: {one.lost}" for one in ended if one.lost]
    if failures:
        raise Failure("; ".join(failures[:3]))
    return sorted(ended, key=lambda one: one.model.name), beside.walks


def fill(client):
    for number in range(FIXED):
        client.command("SET", f"fixed{number}", text_of(b"fixed", number, number))


def test(options):
    random.seed(options.seed)
    talkers = [Talker(number, options) for number in range(options.clients)]
    walks = 0
    for kill in range(options.kills + 1):
        with start_server(options.server, *options.flags) as server:
            client = Client(server.resp_port)
            if kill == 0:
                fill(client)
            counted = int(client.command("GET", "all") or 0)
            if not sum(one.counted for one in talkers) <= counted <= sum(one.asked for one in talkers):
                raise Failure(f"all counted to {counted}")
            talkers, more = talk_to(server, talkers, options, kill < options.kills)
            walks += more
            if kill == options.kills:
                last = Client(server.resp_port)
                for talker in talkers:
                    talker.verify(last)
                if int(last.command("GET", "all")) < sum(one.counted for one in talkers):
                    raise Failure("the count of all has lost some")
    print(f"{sum(one.requests for one in talkers)} requests, {walks} walks, {options.kills} kills: passed")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--server", default=f"{here}/../../build/release/isotherm-server")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--largest", type=parse_size, default=2 << 20)
    parser.add_argument("--caps", nargs=2)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    arguments = sys.argv[1:]
    at = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:at])
    options.flags = arguments[at + 1 :]
    print(f"seed {options.seed}")
    return status_of(test, options)


if __name__ == "__main__":
    sys.exit(main())

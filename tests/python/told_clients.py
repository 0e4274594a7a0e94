"""Clients that know what each of their commands has made of their database, and what of it was answered.

Each has a database to itself, so what is in it is exactly what some first part of its commands has
made: at least those that were answered, at most those that were sent (`Told.check`).
"""

import random
import threading

import redis

KEYS = 300
LARGE = 3000
FAR_MS = 10_000_000


class Told(threading.Thread):
    """Sends pipelines until it is cut off, or `wanted` commands were answered."""

    def __init__(self, database, port, seed, position=lambda: 0, before=None):
        super().__init__()
        self.database = database
        self.port = port
        self.draw = random.Random(seed)
        self.position = position
        self.model = dict(before.final()) if before else {}
        self.first = dict(self.model)
        self.commands = []  # what each made of the database: keys and values, None: gone
        self.sent = []      # (position, commands) before a pipeline was sent
        self.answered = [(0, 0)]
        self.stops = False
        self.error = None

    def run(self):
        client = redis.Redis(port=self.port, db=self.database)
        try:
            while not self.stops:
                self.send(client)
        except (redis.ConnectionError, redis.TimeoutError, OSError):
            pass
        except Exception as error:  # the test's thread tells of it
            self.error = error

    def send(self, client):
        pipeline = client.pipeline(transaction=False)
        for _ in range(self.draw.randint(1, 6)):
            self.add(pipeline)
        self.sent.append((self.position(), len(self.commands)))
        pipeline.execute()
        self.answered.append((self.position(), len(self.commands)))

    def make(self, changes):
        if changes is None:
            self.model.clear()
        for key, value in (changes or {}).items():
            self.model[key] = value
        self.commands.append(changes)

    def add(self, pipeline):
        draw = self.draw
        key = f"key{draw.randrange(KEYS)}"
        number = str(len(self.commands))
        kind = draw.uniform(0, 100)
        old = self.model.get(key)
        if kind < 0.3:
            pipeline.flushdb()
            self.make(None)
        elif kind < 20:
            pipeline.delete(key)
            self.make({key: None})
        elif kind < 35:
            other = f"key{draw.randrange(KEYS)}"
            pipeline.mset({key: number, other: number})
            self.make({key: number, other: number})
        elif kind < 50:
            value = number * (LARGE // len(number))
            pipeline.set(key, value)
            self.make({key: value})
        elif kind < 60 and (old is None or len(old) < 2 * LARGE):
            pipeline.append(key, number)
            self.make({key: (old or "") + number})
        elif kind < 68 and old is not None and len(old) < 2 * LARGE:
            # Mostly of a long value, of which a journal has the part alone.
            key = max((f"key{draw.randrange(KEYS)}" for _ in range(8)), key=self.length)
            old = self.model.get(key) or ""
            at = draw.randrange(len(old) + 9)
            pipeline.setrange(key, at, number)
            self.make({key: old[:at].ljust(at, "\0") + number + old[at + len(number):]})
        elif kind < 75:
            pipeline.getdel(key)
            self.make({key: None})
        elif kind < 85:
            pipeline.set(key, number, px=FAR_MS)
            self.make({key: number})
        else:
            pipeline.set(key, number)
            self.make({key: number})

    def length(self, key):
        return len(self.model.get(key) or "")

    def final(self):
        return {key: value for key, value in self.model.items() if value is not None}

    def bounds(self, position):
        """How many of the commands have to be there, and how many may, after a crash at `position`."""
        least = max(count for at, count in self.answered if at <= position)
        most = max((count for at, count in self.sent if at <= position), default=0)
        return least, max(least, most)

    def made_by(self, commands):
        """What these have made."""
        model = dict(self.first)
        for changes in commands:
            if changes is None:
                model.clear()
            model.update(changes or {})
        return {key: value for key, value in model.items() if value is not None}

    def content(self, client):
        """What is there; by the keys that are listed, and by all that there may be."""
        client.select(self.database)
        names = [f"key{i}" for i in range(KEYS)]
        values = client.mget(names)
        there = {name: value.decode() for name, value in zip(names, values) if value is not None}
        assert {name.decode() for name in client.keys("*")} == set(there)
        assert client.dbsize() == len(there)
        return there

    def readable(self, client):
        """What is there of the keys that can be read: a value or None of each."""
        client.select(self.database)
        there = {}
        for i in range(KEYS):
            try:
                value = client.get(f"key{i}")
                there[f"key{i}"] = value.decode() if value is not None else None
            except redis.ResponseError as error:
                assert "MISCONF" in str(error)
        return there

    def check(self, client, position):
        """Nothing that was answered is lost, and nothing is there that was not so at some time. Which
        of the commands are there."""
        least, most = self.bounds(position)
        there, names = self.look(client, most)
        for commands in self.possible(least, most):
            model = self.made_by(commands)
            if all(model.get(name) == there.get(name) for name in names):
                return commands
        raise AssertionError(self.difference(there, least, most))

    def check_keys(self, client, position):
        """Every key is as it was at some time."""
        there, names = self.look(client, self.bounds(position)[1])
        for name in names:
            was = {changes.get(name) for changes in filter(None, self.commands)}
            assert there.get(name) in was | {None, self.first.get(name)}, name

    def look(self, client, most):
        """What is there, and of which keys that is known."""
        try:
            there = self.content(client)
            return there, self.first.keys() | set().union(*filter(None, self.commands[:most]), there)
        except redis.ResponseError as error:
            assert "MISCONF" in str(error)
            there = self.readable(client)
            return there, there.keys()

    def possible(self, least, most):
        """Those that were answered, and some of the pipeline that was under way. A command that waits
        for what files have does not keep back those behind it but on its own keys."""
        under_way = self.commands[least:most]
        for mask in range((1 << len(under_way)) - 1, -1, -1):
            some = [changes for i, changes in enumerate(under_way) if mask >> i & 1]
            left = [(i, changes) for i, changes in enumerate(under_way) if not mask >> i & 1]
            if not any(mask >> j & 1 and depends(under_way[j], changes)
                       for i, changes in left for j in range(i + 1, len(under_way))):
                yield self.commands[:least] + some

    def difference(self, there, least, most):
        wanted = self.made_by(self.commands[:least])
        wrong = [f"{key}: {str(wanted.get(key))[:20]}, not {str(there.get(key))[:20]}"
                 for key in sorted(wanted.keys() | there.keys()) if wanted.get(key) != there.get(key)]
        return f"database {self.database}, commands {least} to {most}: {wrong}"


def depends(later, earlier):
    """Whether two commands keep their order: None is one that flushes."""
    return later is None or earlier is None or bool(later.keys() & earlier.keys())

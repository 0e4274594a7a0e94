"""What hostile clients have in common: many sockets, and a bystander who must be served meanwhile."""

import os
import resource
import socket
import threading
import time

from servers import LONGEST_SECONDS, soon
from wire import encode

LONG = os.environ.get("ISOTHERM_TEST_LONG") == "1"
MIB = 1 << 20
KINDS = ["resp", "memcached"]


def pick(quick, full):
    """A size: of `make test`, or of `make test-long`."""
    return full if LONG else quick


def port_of(server, kind):
    return server.resp_port if kind == "resp" else server.memcached_port


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=LONGEST_SECONDS)


def get_request(kind, keys):
    if kind == "resp":
        return encode([b"MGET", *keys])
    return b"get " + b" ".join(keys) + b"\r\n"


def allow_descriptors(wanted):
    """Raises the limit as far as it goes; how many sockets this process may have then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if allowed > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return max(soft, allowed) - 100


class Crowd:
    """Sockets that send and do not read, closed at the end."""

    def __init__(self, port, count):
        allow_descriptors(count + 200)
        self.sockets = [connect(port) for _ in range(count)]
        for one in self.sockets:
            one.setblocking(False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in self.sockets:
            one.close()

    def send(self, data):
        """To each as much as it takes."""
        for one in self.sockets:
            try:
                one.send(data)
            except (BlockingIOError, ConnectionError):
                pass

    def closed(self):
        """How many the server has closed."""
        count = 0
        for one in self.sockets:
            try:
                while one.recv(1 << 20):
                    pass
                count += 1
            except BlockingIOError:
                pass
            except ConnectionError:
                count += 1
        return count


class Client:
    """One that reads its replies."""

    def __init__(self, port):
        self.socket = connect(port)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.file.close()
        self.socket.close()

    def command(self, *words):
        self.socket.sendall(encode([w if isinstance(w, bytes) else str(w).encode() for w in words]))
        return self.reply()

    def reply(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError(f"closed behind {line!r}")
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        return int(rest) if kind == b":" else line[:-2]

    def info(self, field):
        for line in self.command("INFO").split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name == field.encode():
                return int(value)
        raise KeyError(field)


class Bystander(threading.Thread):
    """Writes and reads small values until it is stopped, and times each request."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.client = Client(port)
        self.seconds = []
        self.wrong = None
        self.done = threading.Event()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.join()
        self.client.close()
        assert self.wrong is None, self.wrong

    def run(self):
        turn = 0
        while not self.done.is_set() and self.wrong is None:
            turn += 1
            for words, expected in ((("SET", "bystander", turn), b"+OK"),
                                    (("GET", "bystander"), b"%d" % turn)):
                begin = time.monotonic()
                try:
                    reply = self.client.command(*words)
                except (OSError, ValueError) as error:
                    reply = repr(error)
                self.seconds.append(time.monotonic() - begin)
                if reply != expected:
                    self.wrong = f"{words}: {reply!r}"
            time.sleep(0.0005)

    def watch(self, seconds):
        """The 99th percentile of the next seconds, or longer where these bring few replies."""
        first = len(self.seconds)
        time.sleep(seconds)
        soon(lambda: len(self.seconds) >= first + 20)
        times = sorted(self.seconds[first:])
        assert times, "the bystander got no reply at all"
        return times[len(times) * 99 // 100]


def peak_resident(server, seconds):
    """The most resident bytes within the next seconds."""
    deadline = time.monotonic() + seconds
    peak = 0
    while time.monotonic() < deadline:
        peak = max(peak, server.resident_bytes())
        time.sleep(0.01)
    return peak

"""A server started for a test, a small RESP client, and what /proc says about memory."""

import os
import pathlib
import re
import socket
import sys
import threading

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import servers  # noqa: E402


class Failure(Exception):
    """The server did what it must not."""


def status_of(test, options):
    """Runs a test; the exit status that says how it went."""
    try:
        test(options)
    except Failure as failure:
        print(f"FAILED: {failure}")
        return 1
    except (OSError, RuntimeError) as error:
        print(f"could not run: {error}", file=sys.stderr)
        return 2
    return 0


def start_server(binary, *flags):
    """A server (servers.py) of Isotherm, or of Redis, which has no threads, by the program's name.

    It runs in a folder of its own, so flags name files by absolute paths.
    """
    if "redis-server" not in os.path.basename(binary):
        return servers.Isotherm(*flags, binary=binary)
    kept = list(flags)
    if "--threads" in kept:
        at = kept.index("--threads")
        del kept[at : at + 2]
    return servers.Redis(binary, *kept)


class Client:
    """RESP2 over one connection; pipelines are sent whole while replies are read."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=servers.LONGEST_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.at = 0

    def close(self):
        self.socket.close()

    def _more(self):
        data = self.socket.recv(1 << 20)
        if not data:
            raise ConnectionError("the server closed the connection")
        self.buffer = self.buffer[self.at :] + data
        self.at = 0

    def info(self, field):
        """A number of INFO."""
        for text in self.command("INFO").split(b"\r\n"):
            name, _, value = text.partition(b":")
            if name == field.encode():
                return int(value)
        raise RuntimeError(f"INFO has no {field}")

    def line(self):
        while True:
            end = self.buffer.find(b"\r\n", self.at)
            if end >= 0:
                text = self.buffer[self.at : end]
                self.at = end + 2
                return text
            self._more()

    def block(self, size):
        parts = []
        need = size + 2
        while len(self.buffer) - self.at < need:
            parts.append(self.buffer[self.at :])
            need -= len(parts[-1])
            self.buffer, self.at = b"", 0
            self._more()
        parts.append(self.buffer[self.at : self.at + need])
        self.at += need
        return b"".join(parts)[:-2]

    def reply(self):
        head = self.line()
        kind, text = head[:1], head[1:]
        if kind == b"$":
            return None if text == b"-1" else self.block(int(text))
        if kind == b"*":
            return [self.reply() for _ in range(int(text))]
        if kind == b":":
            return int(text)
        if kind == b"-":
            return RuntimeError(text.decode())
        return text

    def send(self, data):
        self.socket.sendall(data)

    def command(self, *words):
        self.send(encode(*words))
        reply = self.reply()
        if isinstance(reply, RuntimeError):
            raise reply
        return reply


def encode(*words):
    out = [b"*%d\r\n" % len(words)]
    for word in words:
        word = word if isinstance(word, bytes) else str(word).encode()
        out.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(out)


def parse_size(text):
    number, unit = re.fullmatch(r"(\d+)(kb|mb|gb)?", text).groups()
    return int(number) << {None: 0, "kb": 10, "mb": 20, "gb": 30}[unit]


def resident_bytes(pid):
    """Resident memory with huge pages of hugetlbfs, which VmRSS leaves out."""
    total = 0
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
        for line in status:
            if line.startswith(("VmRSS:", "HugetlbPages:")):
                total += int(line.split()[1]) << 10
    return total


class PeakMemory:
    """Samples a process's resident memory until it is stopped."""

    def __init__(self, pid):
        self.pid = pid
        self.peak = 0
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.done.wait(0.02):
            try:
                self.peak = max(self.peak, resident_bytes(self.pid))
            except OSError:
                return

    def stop(self):
        self.done.set()
        self.thread.join()
        with open(f"/proc/{self.pid}/status", encoding="ascii", errors="replace") as status:
            high = [int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM:")]
        self.peak = max([self.peak, *high])
        return self.peak

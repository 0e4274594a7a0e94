"""A server started for a test, a small RESP client, and what /proc says about memory."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

LONGEST_SECONDS = 120  # that anything is waited for, on a machine that does much else, too


class Failure(Exception):
    """The server did what it must not."""


def soon(condition, seconds=LONGEST_SECONDS):
    """Whether the condition becomes true before long."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


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


class ServerProcess:
    """Starts `command` with free ports of its own choice; ends it by pid."""

    def __init__(self, binary, *flags):
        self.log = tempfile.NamedTemporaryFile(mode="w+", prefix="server-", suffix=".log")
        command = [binary, "--port", "0", "--memcached-port", "0", *flags]
        if "redis-server" in os.path.basename(binary):
            command = redis_command(binary, flags)
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT)
        self.port = self._wait_for_port(command)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def pid(self):
        return self.process.pid

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=LONGEST_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        status = self.process.returncode
        if status not in (0, -signal.SIGTERM):
            raise RuntimeError(f"the server ended with status {status}:\n{self._tail()}")

    def kill(self):
        """Kills it without a word, which `stop` then takes for an end as any other."""
        self.process.kill()
        self.process.wait()
        self.process.returncode = 0

    def _tail(self):
        with open(self.log.name, encoding="utf-8", errors="replace") as log:
            return log.read()[-4000:]

    def _wait_for_port(self, command):
        if "--port" in command and command[command.index("--port") + 1] != "0":
            wait_for_listener(int(command[command.index("--port") + 1]))
            return int(command[command.index("--port") + 1])
        listening = lambda: re.search(r"listening resp 127\.0\.0\.1:(\d+)", self._tail())
        soon(lambda: listening() or self.process.poll() is not None)
        if found := listening():
            return int(found.group(1))
        self.process.kill()
        raise RuntimeError(f"the server did not start:\n{self._tail()}")


def redis_command(binary, flags):
    """Debian's redis-server under the same test: it does not choose ports and has no threads."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    kept = list(flags)
    if "--threads" in kept:
        at = kept.index("--threads")
        del kept[at : at + 2]
    return [binary, "--port", str(port), "--bind", "127.0.0.1", "--save", "", *kept]


def memcached_client(server):
    """A connection to the server's memcached port; of its functions, `send` and `line`."""
    found = re.search(r"listening memcached 127\.0\.0\.1:(\d+)", server._tail())
    return Client(int(found.group(1)))


def wait_for_listener(port):
    def listens():
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return True
        except OSError:
            return False

    if not soon(listens):
        raise RuntimeError(f"nothing listens on port {port}")


class Client:
    """RESP2 over one connection; pipelines are sent whole while replies are read."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=120)
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

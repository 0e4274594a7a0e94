"""Servers for the tests: Isotherm and its peers, each on free ports of 127.0.0.1.

A server is a context manager; leaving it ends the process by its pid and fails if it had crashed.
"""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
START_SECONDS = 30


def isotherm_binary():
    """The program under test: $ISOTHERM_SERVER or the release build."""
    return os.environ.get("ISOTHERM_SERVER", str(REPOSITORY / "build/release/isotherm-server"))


def free_port():
    """One that is free for TCP and for UDP."""
    while True:
        with (socket.socket() as tcp,
              socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp):
            tcp.bind(("127.0.0.1", 0))
            port = tcp.getsockname()[1]
            try:
                udp.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class Server:
    """A process with a scratch folder, its output in a file."""

    resp_port = None
    memcached_port = None
    udp_port = None
    stopped = False

    def __init__(self, command, env=None):
        self.folder = tempfile.mkdtemp(prefix="isotherm-test-")
        self.log = os.path.join(self.folder, "log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT,
                                            cwd=self.folder, env=env)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def pid(self):
        return self.process.pid

    def output(self):
        with open(self.log, errors="replace") as log:
            return log.read()

    def await_ready(self, ready):
        deadline = time.monotonic() + START_SECONDS
        while not ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                output = self.output()
                ended = self.process.poll()
                self.process.kill()
                shutil.rmtree(self.folder, ignore_errors=True)
                raise RuntimeError(f"{self.process.args[0]} did not start, ended with {ended}:\n"
                                   + output)
            time.sleep(0.02)

    def resident_bytes(self):
        with open(f"/proc/{self.pid}/status") as status:
            return int(re.search(r"VmRSS:\s+(\d+) kB", status.read())[1]) * 1024

    def stop(self):
        """Ends the process; raises if it had already ended or did not end well."""
        if self.stopped:
            return
        self.stopped = True
        crashed = self.process.poll() is not None
        if not crashed:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                crashed = True
        output = self.output()
        shutil.rmtree(self.folder, ignore_errors=True)
        if crashed or self.process.returncode not in (0, -signal.SIGTERM):
            raise RuntimeError(f"{self.process.args[0]} ended with {self.process.returncode}:\n"
                               + output[-4000:])


def answers(port, request):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as probe:
            probe.sendall(request)
            return bool(probe.recv(1))
    except OSError:
        return False


class Isotherm(Server):
    def __init__(self, *flags, binary=None, env=None):
        program = os.path.abspath(binary or isotherm_binary())
        self.has_udp = "--memcached-udp-port" in flags
        super().__init__([program, "--port", "0", "--memcached-port", "0", *flags], env)
        self.await_ready(self._listening)

    def _listening(self):
        output = self.output()
        resp = re.search(r"listening resp 127\.0\.0\.1:(\d+)", output)
        memcached = re.search(r"listening memcached 127\.0\.0\.1:(\d+)", output)
        udp = re.search(r"listening memcached udp 127\.0\.0\.1:(\d+)", output)
        if not resp or not memcached or (self.has_udp and not udp):
            return False
        self.resp_port = int(resp[1])
        self.memcached_port = int(memcached[1])
        self.udp_port = int(udp[1]) if udp else None
        return True


class Redis(Server):
    def __init__(self, binary="redis-server", *flags):
        self.resp_port = free_port()
        super().__init__([binary, "--port", str(self.resp_port), "--bind", "127.0.0.1",
                          "--save", "", "--appendonly", "no", *flags])
        self.await_ready(lambda: answers(self.resp_port, b"PING\r\n"))


class Memcached(Server):
    def __init__(self, binary="memcached"):
        # Without its background threads: while one of them holds an item, decr does not pad it.
        self.memcached_port = self.udp_port = free_port()
        user = ["-u", "nobody"] if os.getuid() == 0 else []
        super().__init__([binary, *user, "-l", "127.0.0.1", "-p", str(self.memcached_port),
                          "-U", str(self.udp_port), "-m", "256", "-t", "1",
                          "-o", "no_lru_maintainer,no_lru_crawler,hash_algorithm=murmur3"])
        self.await_ready(lambda: answers(self.memcached_port, b"version\r\n"))

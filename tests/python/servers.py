"""Servers for the tests: Isotherm and its peers, each on free ports of 127.0.0.1.

A server is a context manager; leaving it ends the process by its pid and fails if it had crashed.
"""

import contextlib
import glob
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
LONGEST_SECONDS = 120  # that anything is waited for, on a machine that does much else, too


def isotherm_binary():
    """The program under test: $ISOTHERM_SERVER or the release build."""
    return os.environ.get("ISOTHERM_SERVER", str(REPOSITORY / "build/release/isotherm-server"))


def soon(condition, seconds=LONGEST_SECONDS):
    """Whether the condition becomes true before long: a busy machine takes its time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def free_port():
    """One that is free for TCP and for UDP, until somebody else takes it."""
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

    def __init__(self, command, env=None, **how):
        self.folder = tempfile.mkdtemp(prefix="isotherm-test-")
        self.log = os.path.join(self.folder, "log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT,
                                            cwd=self.folder, env=env, **how)

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
        if soon(lambda: self.process.poll() is not None or ready()) and self.process.poll() is None:
            return
        output = self.output()
        ended = self.process.poll()
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
        raise RuntimeError(f"{self.process.args[0]} did not start, ended with {ended}:\n" + output)

    def begin_on_free_port(self, command_of, request, pid_of):
        """Starts a peer that does not choose its port itself; that port. Somebody else may take it first."""
        for attempt in range(5):
            port = free_port()
            Server.__init__(self, command_of(port))
            try:
                self.await_ready(lambda: answers(port, request, pid_of % self.pid))
            except RuntimeError:
                if attempt == 4:
                    raise
            else:
                return port

    def resident_bytes(self):
        with open(f"/proc/{self.pid}/status") as status:
            return int(re.search(r"VmRSS:\s+(\d+) kB", status.read())[1]) * 1024

    def kill(self):
        """Ends the process as a crash does; there is nothing to stop then."""
        self.stopped = True
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder)

    def stop(self):
        """Ends the process; raises if it had already ended or did not end well."""
        if self.stopped:
            return
        self.stopped = True
        crashed = self.process.poll() is not None
        if not crashed:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=LONGEST_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                crashed = True
        output = self.output()
        shutil.rmtree(self.folder, ignore_errors=True)
        if crashed or self.process.returncode not in (0, -signal.SIGTERM):
            raise RuntimeError(f"{self.process.args[0]} ended with {self.process.returncode}:\n"
                               + output[-4000:])


def answers(port, request, wanted):
    """Whether what is answered there has the words; whoever has the port may be somebody else."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as probe:
            probe.sendall(request)
            data = b""
            while wanted not in data:
                part = probe.recv(1 << 16)
                if not part:
                    return False
                data += part
            return True
    except OSError:
        return False


@contextlib.contextmanager
def standing_still(server):
    """None of its threads runs meanwhile."""
    def states():
        for path in glob.glob(f"/proc/{server.pid}/task/*/status"):
            with open(path) as status:
                yield re.search(r"State:\s+(\w)", status.read())[1]

    os.kill(server.pid, signal.SIGSTOP)
    try:
        assert soon(lambda: set(states()) == {"T"})
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


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
        self.resp_port = self.begin_on_free_port(
            lambda port: [binary, "--port", str(port), "--bind", "127.0.0.1",
                          "--save", "", "--appendonly", "no", *flags],
            b"INFO server\r\n", b"process_id:%d\r\n")


class Memcached(Server):
    # Without its background threads: while one of them holds an item, decr does not pad it.
    FLAGS = ["-m", "256", "-o", "no_lru_maintainer,no_lru_crawler,hash_algorithm=murmur3"]

    def __init__(self, binary="memcached", flags=FLAGS):
        user = ["-u", "nobody"] if os.getuid() == 0 else []
        self.memcached_port = self.udp_port = self.begin_on_free_port(
            lambda port: [binary, *user, "-l", "127.0.0.1", "-p", str(port), "-U", str(port),
                          "-t", "1", *flags],
            b"stats\r\n", b"STAT pid %d\r\n")

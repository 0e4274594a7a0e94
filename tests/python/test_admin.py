"""What operators do while clients are at work: look at them, kill them, hold them, change options."""

import contextlib
import re
import socket
import subprocess
import threading
import time

import pytest
import redis

import servers
import wire
from servers import LONGEST_SECONDS, soon

WRITERS = 8


def request(*words):
    return wire.encode([word.encode() for word in words])


class Writer(threading.Thread):
    """A connection that counts a key of its own up until it is told to end or is closed."""

    def __init__(self, port, key):
        super().__init__(daemon=True)
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=LONGEST_SECONDS)
        self.key = key
        self.replies = 0
        self.closed = False
        self.ending = False

    def run(self):
        increment = request("INCR", self.key)
        while not self.ending:
            try:
                self.socket.sendall(increment)
                if not self.socket.recv(64):
                    break
            except OSError:
                break
            self.replies += 1
        self.closed = not self.ending
        self.socket.close()


@contextlib.contextmanager
def writers(port):
    running = [Writer(port, f"counter{i}") for i in range(WRITERS)]
    for writer in running:
        writer.start()
    try:
        yield running
    finally:
        for writer in running:
            writer.ending = True
        for writer in running:
            writer.join()


def counts(client):
    return client.mget(f"counter{i}" for i in range(WRITERS))


def test_reads_whose_answers_wait_count_once():
    with servers.Isotherm("--threads", "1") as server:
        client = redis.Redis(port=server.resp_port)
        client.set("long", b"v" * 20_000)
        pipeline = client.pipeline(transaction=False)
        for _ in range(40):
            pipeline.get("long")
            pipeline.get("none")
        assert len(pipeline.execute()) == 80
        stats = client.info("stats")
        assert (stats["keyspace_hits"], stats["keyspace_misses"]) == (40, 40)
        assert client.info("commandstats")["cmdstat_get"]["calls"] == 80


def test_kill_ends_clients_of_all_threads_for_good(server, plain):
    with writers(server.resp_port) as running:
        assert soon(lambda: all(writer.replies > 10 for writer in running))
        assert plain.execute_command("CLIENT", "KILL", "TYPE", "normal") == WRITERS
        # What was being run then may still end, of each at most one; nothing is run that comes later.
        before = counts(plain)
        assert soon(lambda: all(writer.closed for writer in running))
        assert all(int(now) - int(old) <= 1 for now, old in zip(counts(plain), before))
    assert soon(lambda: plain.info("clients")["connected_clients"] == 1)
    assert len(plain.client_list()) == 1


def test_pause_holds_writes_and_lets_them_go(server, plain):
    with writers(server.resp_port) as running:
        assert soon(lambda: all(writer.replies > 10 for writer in running))
        plain.client_pause(60_000, all=False)
        assert soon(lambda: plain.info("clients")["blocked_clients"] == WRITERS)
        assert sum(client["flags"] == "b" for client in plain.client_list()) == WRITERS
        before = counts(plain)
        assert soon(lambda: plain.get("counter0") is not None)
        time.sleep(0.25)  # some ticks of the loops
        assert counts(plain) == before
        plain.client_unpause()
        assert soon(lambda: all(int(now) > int(old) + 10
                                for now, old in zip(counts(plain), before)))
        assert soon(lambda: plain.info("clients")["blocked_clients"] == 0)


def test_pause_of_everything_ends_by_itself(server, plain):
    started = time.monotonic()
    plain.client_pause(300)
    assert plain.ping()
    assert 0.25 < time.monotonic() - started


def test_who_hangs_up_while_paused_is_gone(server, plain):
    plain.client_pause(60_000, all=False)
    with socket.create_connection(("127.0.0.1", server.resp_port)) as other:
        other.sendall(request("SET", "k", "v"))
        assert soon(lambda: plain.info("clients")["blocked_clients"] == 1)
    assert soon(lambda: plain.info("clients")["connected_clients"] == 1)
    plain.client_unpause()
    assert plain.get("k") is None


def test_replies_that_are_off_cost_nothing_to_wait_for(server, plain):
    with socket.create_connection(("127.0.0.1", server.resp_port), timeout=LONGEST_SECONDS) as one:
        requests = [("CLIENT", "REPLY", "OFF")]
        requests += [("INCR", "n") if i % 2 else ("NOSUCH",) for i in range(20_000)]
        requests += [("DBSIZE",), ("CLIENT", "REPLY", "ON"), ("GET", "n")]
        one.sendall(b"".join(request(*words) for words in requests))
        expected = b"+OK\r\n$5\r\n10000\r\n"
        received = b""
        while len(received) < len(expected):
            received += one.recv(4096)
        assert received == expected


def test_commands_are_counted_once_each(server, plain):
    plain.config_resetstat()
    with writers(server.resp_port) as running:
        assert soon(lambda: all(writer.replies > 100 for writer in running))
    sent = sum(int(count) for count in counts(plain))
    stats = plain.info("commandstats")
    assert stats["cmdstat_incr"]["calls"] == sent
    assert stats["cmdstat_incr"]["usec"] > 0
    total = plain.info("stats")["total_commands_processed"]
    assert total >= sum(command["calls"] for command in stats.values()) >= sent


def test_rates_are_those_of_the_moment(server, plain):
    def is_fast():
        pipeline = plain.pipeline(transaction=False)
        for _ in range(2000):
            pipeline.incr("counter")
        pipeline.execute()
        # Of one moment, for both are down again when nobody has asked for a while.
        stats = plain.info("stats")
        return stats["instantaneous_ops_per_sec"] > 800 and stats["instantaneous_input_kbps"] > 0

    assert soon(is_fast)
    # What is left are the questions of this test.
    assert soon(lambda: plain.info("stats")["instantaneous_ops_per_sec"] < 400)


def test_a_cap_that_shrinks_is_reached_while_clients_write():
    with servers.Isotherm("--threads", "2") as server, \
            redis.Redis(port=server.resp_port) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        value = b"x" * 1000
        with writers(server.resp_port) as running:
            for start in range(0, 60_000, 1000):
                client.mset({f"k{i}": value for i in range(start, start + 1000)})
            assert client.info("memory")["used_memory"] > 50 << 20
            client.config_set("maxmemory", "20mb")
            assert soon(lambda: client.info("memory")["used_memory"] <= 21 << 20)
            assert client.info("stats")["evicted_keys"] > 0
            assert not any(writer.closed for writer in running)
        assert client.dbsize() > 5000


def survivors(client, touches):
    """Of a thousand keys that are read again and again while others push in."""
    client.flushall()
    hot = [f"hot{i}" for i in range(1000)]
    value = b"x" * 1000
    client.mset({key: value for key in hot})
    client.execute_command("CLIENT", "NO-TOUCH", "off" if touches else "on")
    for start in range(0, 60_000, 1000):
        client.mset({f"cold{i}": value for i in range(start, start + 1000)})
        client.mget(hot)
    client.execute_command("CLIENT", "NO-TOUCH", "off")
    return client.exists(*hot)


def test_reads_without_touch_keep_nothing_in_memory():
    with servers.Isotherm("--threads", "1", "--maxmemory", "10mb", "--maxmemory-policy",
                          "allkeys-lru") as server, \
            redis.Redis(port=server.resp_port) as client:
        assert survivors(client, touches=True) > 900
        assert survivors(client, touches=False) < 100


def ended(one):
    try:
        return one.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False


def test_silent_clients_are_closed_and_others_are_not(server, plain):
    plain.config_set("timeout", 1)
    with socket.create_connection(("127.0.0.1", server.resp_port), timeout=LONGEST_SECONDS) as silent, \
            socket.create_connection(("127.0.0.1", server.memcached_port), timeout=LONGEST_SECONDS) as other:
        for one in (silent, other):
            one.setblocking(False)
        answered = time.monotonic()

        # Who asks is not silent, unless this process stands still for as long.
        def asks():
            nonlocal answered
            began = time.monotonic()
            try:
                plain.ping()
            except redis.ConnectionError:
                assert time.monotonic() - answered >= 1
            answered = began

        assert soon(lambda: asks() or ended(silent) and ended(other))
    with redis.Redis(port=server.resp_port) as new:
        new.config_set("timeout", 0)


def test_who_asked_while_the_server_stood_still_was_not_silent():
    with servers.Isotherm("--threads", "1", "--timeout", "1") as server, \
            socket.create_connection(("127.0.0.1", server.resp_port), timeout=LONGEST_SECONDS) as one:
        with servers.standing_still(server):
            one.sendall(request("PING"))
            time.sleep(1.2)
        assert one.recv(64) == b"+PONG\r\n"


def test_silence_is_probed():
    with servers.Isotherm("--tcp-keepalive", "777") as server, \
            redis.Redis(port=server.resp_port) as client:
        assert client.ping()
        assert client.config_get("tcp-keepalive") == {"tcp-keepalive": "777"}
        remote = client.connection_pool._available_connections[0]._sock.getsockname()[1]

        def timer():
            """Of the server's end: what it waits for (02: to probe) and for how long."""
            with open("/proc/net/tcp", encoding="ascii") as table:
                lines = [line.split() for line in table]
            ends = [line[5] for line in lines if line[1].endswith(f":{server.resp_port:04X}")
                    and line[2].endswith(f":{remote:04X}")]
            assert len(ends) == 1
            return ends[0].split(":")

        assert soon(lambda: timer()[0] == "02")
        assert 600 * 100 < int(timer()[1], 16) <= 777 * 100


@pytest.mark.parametrize("flag", [("--port", "-1"), ("--maxmemory", "1kb"), ("--timeout", "-1"),
                                  ("--maxmemory-policy", "none"), ("--threads", "0")])
def test_options_without_sense_are_refused(flag):
    said = subprocess.run([servers.isotherm_binary(), *flag], capture_output=True, text=True,
                          timeout=LONGEST_SECONDS, check=False)
    assert said.returncode == 64
    assert re.search(rf"isotherm-server: .*{flag[0]}", said.stderr)


def started_by(folder, line):
    """A server whose flags come behind those of `line`, a command of the shell."""
    script = folder / "script"
    script.write_text(f'#!/bin/sh\n{line.format(server=servers.isotherm_binary())} "$@"\n')
    script.chmod(0o700)
    return servers.Isotherm("--threads", "2", binary=script)


def test_few_open_files_leave_few_clients_and_the_log_says_why(tmp_path):
    with started_by(tmp_path, "ulimit -n 100\nexec {server}") as server, \
            redis.Redis(port=server.resp_port) as client:
        assert client.config_get("maxclients") == {"maxclients": "20"}
        assert ("maxclients lowered from 10000 to 20: that many clients need 10080 open files, "
                "and the limit is 100; raise it (ulimit -n), or lower maxclients") in server.output()


def test_a_configuration_file_is_read_and_stays_as_it_is(tmp_path):
    file = tmp_path / "redis.conf"
    file.write_text("threads 1\nmaxmemory 100mb\n")
    with started_by(tmp_path, f"exec {{server}} {file}") as server, \
            redis.Redis(port=server.resp_port) as client:
        assert client.config_get("maxmemory") == {"maxmemory": str(100 << 20)}
        assert client.config_get("threads") == {"threads": "2"}  # of the command line
        assert client.info("server")["config_file"] == str(file)
        with pytest.raises(redis.ResponseError, match="Rewriting config file: .*only read"):
            client.config_rewrite()
    assert file.read_text() == "threads 1\nmaxmemory 100mb\n"

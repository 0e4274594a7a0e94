"""Signals and limits of a process that are no reason to end, and an end that cannot write what is in memory."""

import contextlib
import os
import resource
import shutil
import signal

import pytest
import redis

import servers


@pytest.fixture
def server(tmp_path):
    with servers.Isotherm("--threads", "2", "--dir", str(tmp_path)) as started:
        yield started


def test_a_terminal_that_goes_away_ends_nothing(server):
    os.kill(server.pid, signal.SIGHUP)
    assert redis.Redis(port=server.resp_port).ping()


def test_a_closed_output_is_no_file_of_the_store(tmp_path):
    """Descriptor 1 is the first that is free then."""
    port = servers.free_port()
    command = [servers.isotherm_binary(), "--port", str(port), "--memcached-port", "off",
               "--tree", str(tmp_path / "tree")]
    with servers.Server(command, preexec_fn=lambda: os.close(1)) as server:
        assert servers.soon(lambda: servers.answers(port, b"PING\r\n", b"+PONG\r\n"))
        assert os.readlink(f"/proc/{server.pid}/fd/1") == "/dev/null"
    assert "listening" not in (tmp_path / "tree" / "LOG").read_text()


def test_a_file_at_its_limit_of_size_is_an_error(server):
    client = redis.Redis(port=server.resp_port)
    client.set("key", "v" * (2 << 20))
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
    with pytest.raises(redis.ResponseError):
        client.save()
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE,
                     (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert client.save()


@pytest.mark.parametrize("flags", ["", "--appendonly yes", "--tree {}", "--tree {} --appendonly yes"])
def test_threads_that_wake_without_memory_end_nothing(tmp_path, flags):
    """Of what sleeps since the start nobody has needed memory before."""
    its = flags.format(tmp_path / "tree").split()
    with servers.Isotherm("--threads", "2", "--dir", str(tmp_path), *its) as server:
        infinite = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(server.pid, resource.RLIMIT_AS, (1 << 20, resource.RLIM_INFINITY))
        for command in "SET key value", "SAVE", "BGREWRITEAOF", "GET absent":
            # Each by a connection of its own: threads take turns.
            with contextlib.suppress(redis.RedisError):
                redis.Redis(port=server.resp_port).execute_command(command)
        resource.prlimit(server.pid, resource.RLIMIT_AS, infinite)
        client = redis.Redis(port=server.resp_port)
        assert client.set("key", "value")
        assert client.save()


def test_no_end_loses_what_a_tree_has_not_written(tmp_path):
    """A signal and SHUTDOWN leave the server alive, each time; SHUTDOWN NOSAVE ends it."""
    with servers.Isotherm("--threads", "2", "--tree", str(tmp_path / "tree")) as server:
        client = redis.Redis(port=server.resp_port)
        client.set("key", os.urandom(2 << 20))
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
        for refused in 1, 2:
            server.process.terminate()
            assert servers.soon(lambda: server.output().count("so the server goes on") == refused)
        assert "the last changes cannot be written (tree: " in server.output()
        with pytest.raises(redis.ResponseError, match="Errors trying to SHUTDOWN"):
            client.execute_command("SHUTDOWN")
        assert "ending, as a client has asked: SHUTDOWN" in server.output()
        assert server.output().count("ending on signal") == 2
        assert client.strlen("key") == 2 << 20
        with pytest.raises(redis.ConnectionError):
            client.execute_command("SHUTDOWN", "NOSAVE")
        assert server.process.wait(timeout=servers.LONGEST_SECONDS) == 0
        server.stopped = True
        assert "what was not saved is lost" in server.output()


def test_an_end_that_was_refused_works_when_files_can_be_written(tmp_path):
    flags = "--threads", "2", "--tree", str(tmp_path / "tree")
    with servers.Isotherm(*flags) as server:
        redis.Redis(port=server.resp_port).set("key", os.urandom(2 << 20))
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
        server.process.terminate()
        assert servers.soon(lambda: "so the server goes on" in server.output())
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE,
                         (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    with servers.Isotherm(*flags) as server:
        assert redis.Redis(port=server.resp_port).strlen("key") == 2 << 20

"""Signals that are no reason to end, and an end that cannot write what is in memory."""

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


def test_a_file_at_its_limit_of_size_is_an_error(server):
    client = redis.Redis(port=server.resp_port)
    client.set("key", "v" * (2 << 20))
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
    with pytest.raises(redis.ResponseError):
        client.save()
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE,
                     (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert client.save()


def test_the_end_tells_of_a_tree_that_cannot_be_written(tmp_path):
    with servers.Isotherm("--threads", "2", "--tree", str(tmp_path / "tree")) as server:
        redis.Redis(port=server.resp_port).set("key", os.urandom(2 << 20))
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
        server.process.terminate()
        assert server.process.wait(timeout=servers.LONGEST_SECONDS) == 1
        server.stopped = True
        assert "what was not saved is lost" in server.output()
        shutil.rmtree(server.folder)

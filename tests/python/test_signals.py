"""Signals that are no reason to end, and what ends with an error."""

import os
import resource
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

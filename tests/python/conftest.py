"""Fixtures of the client tests: one server a module, and a fresh state for each test."""

import pytest
import redis

import servers


@pytest.fixture(scope="module")
def server():
    with servers.Isotherm("--threads", "2") as isotherm:
        yield isotherm


@pytest.fixture(params=[2, 3], ids=["RESP2", "RESP3"])
def client(request, server):
    with redis.Redis(port=server.resp_port, protocol=request.param) as connected:
        connected.flushall()
        yield connected


@pytest.fixture
def plain(server):
    """A connection for tests to which the protocol's version means nothing."""
    with redis.Redis(port=server.resp_port) as connected:
        connected.flushall()
        yield connected

"""redis-cli and redis-benchmark of Debian, unmodified, and the server's own command line."""

import os
import socket
import subprocess

import pytest
import redis

import servers


def redis_cli(server, *arguments, text=None):
    result = subprocess.run(["redis-cli", "-p", str(server.resp_port), *arguments], input=text,
                            capture_output=True, text=True, timeout=servers.LONGEST_SECONDS, check=True)
    return result.stdout


def test_commands(server, plain):
    assert redis_cli(server, "PING") == "PONG\n"
    assert redis_cli(server, "SET", "k", "v") == "OK\n"
    assert redis_cli(server, "GET", "k") == "v\n"
    assert redis_cli(server, "-3", "GET", "k") == "v\n"
    assert redis_cli(server, "-n", "3", "GET", "k") == "\n"
    assert redis_cli(server, "NOSUCH").startswith("ERR unknown command 'NOSUCH'")


def test_session_from_standard_input(server, plain):
    lines = "SET a 1\nINCR a\nAPPEND a x\nGET a\nDEL a\n"
    assert redis_cli(server, text=lines) == "OK\n2\n2\n2x\n1\n"


def test_scan(server, plain):
    plain.mset({f"key:{i}": i for i in range(1000)})
    found = redis_cli(server, "--scan").split()
    assert sorted(found) == sorted(f"key:{i}" for i in range(1000))
    assert len(redis_cli(server, "--scan", "--pattern", "key:99*").split()) == 11


def test_mass_insertion(server, plain):
    lines = "".join(f"SET mass:{i} {i}\r\n" for i in range(10_000))
    assert "errors: 0, replies: 10000" in redis_cli(server, "--pipe", text=lines)
    assert plain.dbsize() == 10_000


def test_info(server, plain):
    plain.set("k", "v")
    info = redis_cli(server, "info")
    assert "redis_version:" in info
    assert "db0:keys=1," in info


def test_help_works_from_the_command_table(server):
    docs = redis_cli(server, "COMMAND", "DOCS", "get", "set")
    assert "summary" in docs
    assert "since" in docs
    # With a terminal redis-cli loads COMMAND DOCS at start and shows it for `help`.
    shown = subprocess.run(["script", "-qec", f"redis-cli -p {server.resp_port}", "/dev/null"],
                           input="help get\nexit\n", capture_output=True, text=True, timeout=servers.LONGEST_SECONDS,
                           check=False, env={**os.environ, "TERM": "dumb"}).stdout
    assert "GET" in shown
    assert "since:" in shown


@pytest.mark.parametrize("depth", ["1", "16"])
def test_benchmark(server, plain, depth):
    result = subprocess.run(
        ["redis-benchmark", "-p", str(server.resp_port), "-t", "set,get,incr,mset", "-n", "5000",
         "-P", depth, "-c", "20", "-q", "-r", "1000"],
        capture_output=True, text=True, timeout=120, check=True)
    for name in ("SET", "GET", "INCR", "MSET (10 keys)"):
        assert f"{name}: " in result.stdout
    assert "Error" not in result.stdout + result.stderr
    assert plain.dbsize() > 0


@pytest.mark.parametrize("flags", [
    ["--no-such-flag"], ["--port"], ["--port", "abc"], ["--port", "65536"], ["--port", "-2"],
    ["--threads", "-1"], ["--threads", "x"], ["--databases", "0"], ["--maxmemory", "lots"],
    ["--maxmemory-policy", "nosuch"], ["--loglevel", "loud"], ["--maxclients", "0"],
    ["--proto-max-bulk-len", "-1"], ["--bind", "not an address"], ["stray"]])
def test_wrong_flags(flags):
    result = subprocess.run([servers.isotherm_binary(), *flags], capture_output=True, text=True,
                            timeout=servers.LONGEST_SECONDS, check=False)
    assert result.returncode == 64
    assert result.stderr.strip()


def test_help_and_version():
    for flag in ("--help", "--version"):
        result = subprocess.run([servers.isotherm_binary(), flag], capture_output=True, text=True,
                                timeout=servers.LONGEST_SECONDS, check=False)
        assert result.returncode == 0
        assert result.stdout.strip()


def test_port_in_use_is_a_clear_error(server):
    result = subprocess.run([servers.isotherm_binary(), "--port", str(server.resp_port),
                             "--memcached-port", "0"],
                            capture_output=True, text=True, timeout=servers.LONGEST_SECONDS, check=False)
    assert result.returncode not in (0, 64)
    assert str(server.resp_port) in result.stdout + result.stderr


def test_options_are_shown_by_config_get():
    with servers.Isotherm("--threads", "1", "--maxmemory", "100mb", "--maxmemory-policy",
                          "allkeys-lru", "--databases", "4", "--maxclients", "100") as server:
        with redis.Redis(port=server.resp_port) as client:
            assert client.config_get("maxmemory") == {"maxmemory": str(100 << 20)}
            assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "allkeys-lru"}
            assert client.config_get("databases") == {"databases": "4"}
            assert client.config_get("maxclients") == {"maxclients": "100"}
            assert len(client.config_get("*")) >= 8


def greeting(port, request=b""):
    """The first bytes that a new connection is sent; none if it is ended before."""
    with socket.create_connection(("127.0.0.1", port), timeout=servers.LONGEST_SECONDS) as client:
        try:
            client.sendall(request)
            return client.recv(100)
        except ConnectionError:
            return b""


def test_too_many_clients():
    with servers.Isotherm("--threads", "2", "--maxclients", "5") as server:
        clients = [redis.Redis(port=server.resp_port, single_connection_client=True)
                   for _ in range(5)]
        assert all(client.ping() for client in clients)
        assert greeting(server.resp_port) == b"-ERR max number of clients reached\r\n"
        assert all(client.ping() for client in clients)
        clients.pop().close()
        # The server learns of the end of a connection when its thread comes to it.
        assert servers.soon(lambda: greeting(server.resp_port, b"PING\r\n") == b"+PONG\r\n")
        for client in clients:
            client.close()

"""More connections than anybody needs: idle ones, and more than there are descriptors for."""

import resource
import time

import pytest

import servers
from attack import KINDS, MIB, Client, Crowd, allow_descriptors, connect, peak_resident, pick, port_of
from wire import encode


@pytest.mark.parametrize("kind", KINDS)
def test_idle_connections_cost_little(kind):
    """Each has had a pipeline answered and holds on to its connection."""
    count = min(pick(1000, 9_900), allow_descriptors(10_000))
    request = encode([b"GET", b"nothing"]) if kind == "resp" else b"get nothing\r\n"
    answer = b"$-1\r\n" if kind == "resp" else b"END\r\n"

    def use(sockets):
        for one in sockets:
            one.setblocking(True)
            one.sendall(request * 200)
            left = 200 * len(answer)
            while left:
                left -= len(one.recv(left))

    with servers.Isotherm("--threads", "2", "--maxmemory", "64mb") as server:
        with Client(server.resp_port) as client, Crowd(port_of(server, kind), count) as crowd:
            # What the loops themselves need shows with the first of them.
            first = count // 4
            use(crowd.sockets[:first])
            time.sleep(0.1)
            limit = server.resident_bytes() + (count - first) * 8_000 + 4 * MIB
            use(crowd.sockets[first:])
            assert servers.soon(lambda: server.resident_bytes() < limit)
            assert client.info("used_memory_buffers") < 32 * MIB
            assert client.command("SET", "other", b"o" * MIB) == b"+OK"
            assert crowd.sockets[-1].send(request) and crowd.sockets[-1].recv(100) == answer


@pytest.mark.parametrize("kind", KINDS)
def test_descriptors_at_their_limit(kind):
    """Whom the server has no descriptor for is told so; the others are served, and later all are."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    try:
        server = servers.Isotherm("--threads", "2", "--maxclients", "100")
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (120, 120))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    request = encode([b"PING"]) if kind == "resp" else b"version\r\n"
    with server, Client(server.resp_port) as client:
        assert client.command("PING") == b"+PONG"
        with Crowd(port_of(server, kind), 140) as crowd:
            crowd.send(request)
            served = set()

            def look():
                for one in crowd.sockets:
                    try:
                        if one.recv(100).startswith((b"+PONG", b"VERSION")):
                            served.add(one)
                    except (BlockingIOError, ConnectionError):
                        pass

            assert servers.soon(lambda: look() or len(served) > 50)
            time.sleep(0.3)
            look()
            assert len(served) < 120
            assert client.command("SET", "k", "v") == b"+OK"

        def is_served():
            with connect(port_of(server, kind)) as one:
                try:
                    one.sendall(request)
                    return one.recv(100).startswith((b"+PONG", b"VERSION"))
                except ConnectionError:
                    return False

        assert servers.soon(is_served)
        assert peak_resident(server, 0.05) < 100 * MIB


@pytest.mark.parametrize("kind", KINDS)
def test_clients_beyond_maxclients_get_the_error(kind):
    error = {"resp": b"-ERR max number of clients reached\r\n",
             "memcached": b"ERROR Too many open connections\r\n"}[kind]
    with servers.Isotherm("--threads", "1", "--maxclients", "10") as server:
        port = port_of(server, kind)
        with Crowd(port, 10), connect(port) as one:
            assert one.recv(100) == error
            assert one.recv(100) == b""

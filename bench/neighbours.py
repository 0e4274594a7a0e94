#!/usr/bin/env python3
"""What 49 clients notice of others that make trouble: their p99 with and without these.

Usage: neighbours.py --beside cold|unread [--server PROGRAM] [--bench PROGRAM] [--rounds N]
                     [--seconds S] [--rate N] [--records N] [--threads N] [--device DEVICE]
                     [--gpu-values BYTES] [--clients N] [--json FILE]

  cold    one client reads values that lie in the memory of a GPU, one after the other, as fast as
          they come. The server has its index on the GPU (--device) and room there for values
          (--gpu-values); long values are stored first and left alone until they have gone there.
  unread  --clients clients, half of them of memcached, have each sent requests for 4,000 values of
          1 MB and never read a reply, on the host.

In each round isotherm-bench reads short values over 49 connections, at a fixed rate (open loop),
once alone and once beside the others; the rounds take turns in which of both is first. Printed is
p99 of the 49 in us, the median of the rounds, and of the rounds' ratios, which
docs/performance.md has goals for (cold 1.2, unread 2). A run beside which the others made no
trouble is an error: it would show nothing.
"""

import argparse
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "system"))
from server_process import Client, Failure, encode, start_server, status_of  # noqa: E402

SHORT = ["--key-size", "16", "--value-size", "32"]
LONG = ["--key-size", "24", "--value-size", "1000"]
MOST_SECONDS_TO_LEAVE = 120
VALUES_A_REQUEST = 10
UNREAD_REQUESTS = 400


def info(client, field):
    for line in client.command("INFO", "everything").decode().splitlines():
        if line.startswith(field + ":"):
            return int(line.partition(":")[2])
    raise Failure(f"INFO has no {field}")


def bench(options, port, *flags):
    return [options.bench, "--target", f"redis://127.0.0.1:{port}", "--no-floor", "--quiet",
            "--threads", "1", "--records", str(options.records), *flags]


def load(options, port, *flags):
    subprocess.run(bench(options, port, "--load-only", *flags), check=True,
                   stdout=subprocess.DEVNULL)


def wait_until_away(options, client):
    """The server moves what nobody reads, by itself."""
    deadline = time.monotonic() + MOST_SECONDS_TO_LEAVE
    while info(client, "gpu_values") < 0.9 * options.records:
        if time.monotonic() > deadline:
            raise Failure(f"{info(client, 'gpu_values')} of {options.records} values went away")
        time.sleep(0.2)


def p99_of_49(options, port):
    run = bench(options, port, "--no-load", "--connections", "49", "--rate", str(options.rate),
                "--mix", "read=100", "--distribution", "uniform", "--seconds",
                str(options.seconds), "--json", "-", *SHORT)
    result = json.loads(subprocess.run(run, check=True, capture_output=True).stdout)
    median = result["systems"][0]["median"]
    if median["hit_share"] < 1:
        raise Failure("the 49 miss")
    return median["p99_us"]


class Cold:
    """One client that reads values from the GPU."""

    def __init__(self, options):
        self.options = options
        self.flags = ("--device", options.device, "--gpu-values", options.gpu_values)
        self.goal = 1.2

    def prepare(self, server, client):
        load(self.options, server.resp_port, *LONG)
        wait_until_away(self.options, client)

    @contextlib.contextmanager
    def trouble(self, server, client):
        before = info(client, "gpu_values_fetched")
        one = subprocess.Popen(
            bench(self.options, server.resp_port, "--no-load", "--connections", "1", "--pipeline", "1",
                  "--mix", "read=100", "--distribution", "uniform", "--seconds",
                  str(self.options.seconds + 2), *LONG), stdout=subprocess.DEVNULL)
        time.sleep(0.5)
        try:
            yield
        finally:
            one.wait()
        if info(client, "gpu_values_fetched") == before:
            raise Failure("no value was fetched from the GPU")


class Unread:
    """Clients that ask for much and never read."""

    def __init__(self, options):
        self.options = options
        self.flags = ("--maxmemory", "256mb")
        self.goal = 2

    def prepare(self, _server, client):
        for i in range(VALUES_A_REQUEST):
            client.command("SET", f"large{i}", b"v" * (1 << 20))

    @contextlib.contextmanager
    def trouble(self, server, client):
        keys = [b"large%d" % i for i in range(VALUES_A_REQUEST)]
        resp = encode(b"MGET", *keys) * UNREAD_REQUESTS
        memcached = (b"get " + b" ".join(keys) + b"\r\n") * UNREAD_REQUESTS
        with contextlib.ExitStack() as stack:
            for i in range(self.options.clients):
                one = Client(server.memcached_port) if i % 2 else Client(server.resp_port)
                stack.callback(one.close)
                one.send(memcached if i % 2 else resp)
            time.sleep(1)
            yield
            if info(client, "connected_clients") < self.options.clients // 2:
                raise Failure("the clients that never read have gone")


def test(options):
    others = {"cold": Cold, "unread": Unread}[options.beside](options)
    with start_server(options.server, "--threads", str(options.threads),
                      *others.flags) as server:
        client = Client(server.resp_port)
        others.prepare(server, client)
        load(options, server.resp_port, *SHORT)
        alone, beside = [], []
        for number in range(options.rounds):
            if number % 2 == 0:
                alone.append(p99_of_49(options, server.resp_port))
            with others.trouble(server, client):
                beside.append(p99_of_49(options, server.resp_port))
            if number % 2 == 1:
                alone.append(p99_of_49(options, server.resp_port))
        client.close()
    result = {
        "beside": options.beside,
        "p99_alone_us": statistics.median(alone),
        "p99_beside_us": statistics.median(beside),
        "ratio": statistics.median(b / a for a, b in zip(alone, beside)),
        "rate": options.rate,
    }
    print(f"p99 of 49 clients at {options.rate}/s: alone {result['p99_alone_us']:.0f} us, beside "
          f"the others ({options.beside}) {result['p99_beside_us']:.0f} us, ratio "
          f"{result['ratio']:.2f} (goal {others.goal})")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=2) + "\n")


def main():
    build = ROOT / "build" / "release"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", default=str(build / "isotherm-server"))
    parser.add_argument("--bench", default=str(build / "isotherm-bench"))
    parser.add_argument("--beside", choices=["cold", "unread"], required=True)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rate", type=int, default=50_000)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--gpu-values", default="4gb")
    parser.add_argument("--json")
    return status_of(test, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Server CPU per request under redis-benchmark: isotherm-server and redis-server take turns.

Usage: redis_benchmark.py [--server PROGRAM] [--redis PROGRAM] [--rounds N] [--requests N]
                          [--threads N] [--json FILE] [-- FLAGS OF ISOTHERM...]

Each row is one load of redis-benchmark: 50 clients, 100,000 random keys of 16 bytes, values of 32
bytes. The figure is the server's CPU time, user and system, divided by the requests (of the MGET
row: one request asks for 100 keys), in µs; `kernel` is what of isotherm's the kernel has taken, by
the ticks of its clock. The servers take turns in every round, and the ratio is
the median of the rounds' ratios. Keys are loaded before, and one reply of each command is compared
with what it must be; redis-benchmark itself ends at the first error.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "system"))
from server_process import Client, start_server, status_of  # noqa: E402

KEYS = 100_000
VALUE = b"v" * 32
PLACEHOLDER = "__rand_int__"  # redis-benchmark writes 12 digits here
MGET_KEYS = 100

# name, requests of one run as a share of --requests, flags, command
ROWS = [
    ("GET", 0.2, [], ["GET", f"key:{PLACEHOLDER}"]),
    ("SET", 0.2, [], ["SET", f"key:{PLACEHOLDER}", VALUE.decode()]),
    ("GET, pipeline of 32", 1, ["-P", "32"], ["GET", f"key:{PLACEHOLDER}"]),
    ("SET, pipeline of 32", 1, ["-P", "32"], ["SET", f"key:{PLACEHOLDER}", VALUE.decode()]),
    ("MGET of 100", 0.05, [], ["MGET"] + [f"key:{PLACEHOLDER}"] * MGET_KEYS),
]


def cpu_seconds(pid):
    """All that it has taken, and what of it the kernel has."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, kernel = int(fields[11]), int(fields[12])
    return (user + kernel) / os.sysconf("SC_CLK_TCK"), kernel / os.sysconf("SC_CLK_TCK")


def key(number):
    return b"key:%012d" % number


def load(server):
    client = Client(server.resp_port)
    for first in range(0, KEYS, 1000):
        words = [word for i in range(first, first + 1000) for word in (key(i), VALUE)]
        client.command("MSET", *words)
    if client.command("GET", key(KEYS - 1)) != VALUE:
        raise RuntimeError("GET answers something else than was stored")
    if client.command("MGET", *map(key, range(MGET_KEYS))) != [VALUE] * MGET_KEYS:
        raise RuntimeError("MGET answers something else than was stored")
    client.close()


def run_row(server, row, requests):
    """µs of CPU that the server takes for a request, and what of it the kernel takes."""
    _, share, flags, command = row
    count = max(1, int(requests * share))
    before = cpu_seconds(server.pid)
    subprocess.run(
        ["redis-benchmark", "-h", "127.0.0.1", "-p", str(server.resp_port), "-c", "50", "-q",
         "-n", str(count), "-r", str(KEYS), *flags, *command],
        check=True, stdout=subprocess.DEVNULL)
    return [(b - a) / count * 1e6 for a, b in zip(before, cpu_seconds(server.pid))]


def check(server):
    """Nothing was lost or changed by the load."""
    client = Client(server.resp_port)
    if client.command("DBSIZE") != KEYS:
        raise RuntimeError("the load changed the number of keys")
    if client.command("MGET", *map(key, range(MGET_KEYS))) != [VALUE] * MGET_KEYS:
        raise RuntimeError("MGET answers something else than was stored")
    client.close()


def measure(options):
    flags = ["--threads", str(options.threads), *options.flags]
    figures = {row[0]: [] for row in ROWS}
    with start_server(options.server, *flags) as ours, start_server(options.redis) as redis:
        for server in (ours, redis):
            load(server)
        for _ in range(options.rounds):
            for row in ROWS:
                figures[row[0]].append(
                    [run_row(server, row, options.requests) for server in (ours, redis)])
        for server in (ours, redis):
            check(server)
    return figures


def print_environment(options):
    version = subprocess.run([options.redis, "--version"], check=True, capture_output=True, text=True)
    print(f"machine     {platform.machine()}, Linux {platform.release()}, {os.cpu_count()} cores")
    print(f"reference   {' '.join(version.stdout.split()[:3])}")
    print(f"parameters  --threads {options.threads} {' '.join(options.flags)}, {options.rounds} rounds, "
          f"{options.requests} requests with a pipeline\n")


def test(options):
    print_environment(options)
    rows = []
    print(f"{'server CPU, µs a request':<24} {'isotherm':>9} {'kernel':>9} {'redis':>9} {'ratio':>7}")
    for name, pairs in measure(options).items():
        if any(pair[1][0] == 0 for pair in pairs):
            raise SystemExit(f"{name}: redis-server took less CPU time than can be measured; "
                             "give more --requests")
        ours, redis = (statistics.median(pair[i][0] for pair in pairs) for i in (0, 1))
        kernel = statistics.median(pair[0][1] for pair in pairs)
        ratio = statistics.median(a[0] / b[0] for a, b in pairs)
        print(f"{name:<24} {ours:>9.2f} {kernel:>9.2f} {redis:>9.2f} {ratio:>7.3f}")
        rows.append({"row": name, "isotherm_us": ours, "kernel_us": kernel, "redis_us": redis,
                     "ratio": ratio})
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"redis_benchmark": rows}, indent=2) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--server", default="build/release/isotherm-server")
    parser.add_argument("--redis", default="redis-server")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=1, help="of isotherm-server")
    parser.add_argument("--json")
    parser.add_argument("flags", nargs="*")
    return status_of(test, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())

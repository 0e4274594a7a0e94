#!/usr/bin/env python3
"""What 49 clients notice of one whose values lie on the GPU: their p99 with and without it.

Usage: cold_neighbour.py [--server PROGRAM] [--bench PROGRAM] [--device DEVICE] [--rounds N]
                         [--seconds S] [--rate N] [--records N] [--threads N]
                         [--gpu-values BYTES] [--json FILE]

One isotherm-server with its index on the GPU and room there for values. Long values are stored
first and left alone until they have gone there; then short ones, which stay on the host. In each
round isotherm-bench reads the short ones over 49 connections, at a fixed rate (open loop), once
alone and once beside another isotherm-bench, which reads the long ones over one connection, one
after the other, as fast as they come. The rounds take turns in which of both is first. Printed is
p99 of the 49 in µs, the median of the rounds, and the ratio, which docs/performance.md has a goal
for (1.2). A run beside which the GPU had to fetch no value is an error: it would show nothing.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "system"))
from server_process import Client, Failure, ServerProcess, status_of  # noqa: E402

SHORT = ["--key-size", "16", "--value-size", "32"]
LONG = ["--key-size", "24", "--value-size", "1000"]
MOST_SECONDS_TO_LEAVE = 120


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


def measure_beside(options, port, client):
    before = info(client, "gpu_values_fetched")
    one = subprocess.Popen(
        bench(options, port, "--no-load", "--connections", "1", "--pipeline", "1", "--mix",
              "read=100", "--distribution", "uniform", "--seconds", str(options.seconds + 2),
              *LONG), stdout=subprocess.DEVNULL)
    time.sleep(0.5)
    try:
        p99 = p99_of_49(options, port)
    finally:
        one.wait()
    fetched = info(client, "gpu_values_fetched") - before
    if fetched == 0:
        raise Failure("no value was fetched from the GPU")
    return p99, fetched / (options.seconds + 2)


def test(options):
    with ServerProcess(options.server, "--device", options.device, "--threads",
                       str(options.threads), "--gpu-values", options.gpu_values) as server:
        client = Client(server.port)
        load(options, server.port, *LONG)
        wait_until_away(options, client)
        load(options, server.port, *SHORT)
        alone, beside, fetched = [], [], []
        for number in range(options.rounds):
            if number % 2 == 0:
                alone.append(p99_of_49(options, server.port))
            p99, rate = measure_beside(options, server.port, client)
            beside.append(p99)
            fetched.append(rate)
            if number % 2 == 1:
                alone.append(p99_of_49(options, server.port))
        client.close()
    result = {
        "p99_alone_us": statistics.median(alone),
        "p99_beside_us": statistics.median(beside),
        "ratio": statistics.median(b / a for a, b in zip(alone, beside)),
        "fetched_per_second": statistics.median(fetched),
        "rate": options.rate,
    }
    print(f"p99 of 49 clients at {options.rate}/s: alone {result['p99_alone_us']:.0f} us, beside "
          f"one that asks for {result['fetched_per_second']:.0f} values/s on the GPU "
          f"{result['p99_beside_us']:.0f} us, ratio {result['ratio']:.2f}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=2) + "\n")


def main():
    build = ROOT / "build" / "release"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", default=str(build / "isotherm-server"))
    parser.add_argument("--bench", default=str(build / "isotherm-bench"))
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

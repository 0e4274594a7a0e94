#!/usr/bin/env python3
"""How much slower others are answered while a snapshot is written: p99 of an open loop with and without.

Usage: snapshot_latency.py [--server PROGRAM] [--bench PROGRAM] [--records 20M] [--rate 100k]
                           [--threads N] [--seconds N] [--rounds N] [-- FLAGS OF ISOTHERM...]

A server gets so many items of 16 + 64 bytes. Then rounds of two runs of isotherm-bench, 95% reads and 5%
updates, uniform, at a rate that stays the same whatever the server does: one while nothing else happens,
one while BGSAVE follows on BGSAVE. Shown: p50, p99, p99.9 of both, the snapshots that were written, and the
ratio of the medians of p99, which is to be at most 1.5. The load and the server share the machine: give
each its own cores (`taskset`), or the ratio shows who waits for a core.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "system"))
from server_process import Client, start_server, status_of  # noqa: E402


def bench(options, port, *flags):
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        subprocess.run([options.bench, "--target", f"redis://127.0.0.1:{port}", "--records",
                        options.records, "--key-size", "16", "--value-size", "64", "--quiet",
                        "--json", out.name, *flags], check=True, stdout=subprocess.DEVNULL)
        return out.read().decode()


def figures(text):
    """The first object of the results that has a p99."""
    def find(node):
        if isinstance(node, dict) and "p99_us" in node:
            return node
        nodes = node.values() if isinstance(node, dict) else node if isinstance(node, list) else []
        return next(filter(None, map(find, nodes)), None)
    return find(json.loads(text))


class Saving(threading.Thread):
    """BGSAVE, again when it has ended, until it is told to stop."""

    def __init__(self, port):
        super().__init__()
        self.client, self.snapshots, self.stops = Client(port), 0, False

    def run(self):
        while not self.stops:
            self.client.command("BGSAVE")
            self.snapshots += 1
            while self.client.info("rdb_bgsave_in_progress"):
                time.sleep(0.02)


def measure(options):
    with tempfile.TemporaryDirectory() as folder, start_server(
            options.server, "--dir", folder, "--threads", str(options.threads),
            *options.flags) as server:
        bench(options, server.resp_port, "--load-only")
        seen = {"alone": [], "saving": []}
        for _ in range(options.rounds):
            for name, all_of_it in seen.items():
                saving = Saving(server.resp_port) if name == "saving" else None
                if saving:
                    saving.start()
                run = figures(bench(options, server.resp_port, "--no-load", "--rate", options.rate,
                                    "--mix", "read=95,update=5", "--distribution", "uniform",
                                    "--seconds", str(options.seconds)))
                if saving:
                    saving.stops = True
                    saving.join()
                all_of_it.append(run["p99_us"])
                print(f"{name:8}p50 {run['p50_us']:9.0f} us  p99 {run['p99_us']:9.0f} us  p99.9 "
                      f"{run['p99_9_us']:9.0f} us" + (f"  {saving.snapshots} snapshots" if saving else ""),
                      flush=True)
        ratio = statistics.median(seen["saving"]) / statistics.median(seen["alone"])
        print(f"p99 while saving over p99 alone: {ratio:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default=str(ROOT / "build/release/isotherm-server"))
    parser.add_argument("--bench", default=str(ROOT / "build/release/isotherm-bench"))
    parser.add_argument("--records", default="20M")
    parser.add_argument("--rate", default="100k")
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("flags", nargs="*")
    sys.exit(status_of(measure, parser.parse_args()))


if __name__ == "__main__":
    main()

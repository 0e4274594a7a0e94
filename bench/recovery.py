#!/usr/bin/env python3
"""How long a server that was killed takes to have all pairs of its journal again.

Usage: recovery.py [--server PROGRAM] [--bench PROGRAM] [--redis PROGRAM] [--records N] [--redis-records N]
                   [--threads N] [--rounds N] [--folder FOLDER] [-- FLAGS OF ISOTHERM...]

isotherm-bench puts so many pairs of 8 + 8 bytes into a server with a journal (`appendfsync no`, no automatic
rewrite), which is killed. Then it is started as often as there are rounds, and killed again: the time is from
the start of the program until DBSIZE answers with all of them. A tenth as many reads follow, each value of which
is checked. The reference is redis-server with its own journal of --redis-records pairs (0: none), once; the
ratio is that of pairs a second.
"""

import argparse
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "system"))
from server_process import Client, Failure, start_server, status_of  # noqa: E402

LONGEST_SECONDS = 600


def bench(options, server, records, *flags):
    subprocess.run([options.bench, "--target", f"redis://127.0.0.1:{server.resp_port}", "--records", str(records),
                    "--key-size", "8", "--value-size", "8", "--threads", str(max(1, options.threads // 2)),
                    "--connections", "32", "--pipeline", "256", "--no-floor", "--quiet", *flags],
                   check=True, stdout=subprocess.DEVNULL)


def has_all(server, records):
    client = Client(server.resp_port)
    try:
        return client.command("DBSIZE") == records
    except RuntimeError:  # Redis answers so while it reads its journal
        return False
    finally:
        client.close()


def restart(options, command, records):
    """Seconds until all is there again."""
    begin = time.monotonic()
    with start_server(*command) as server:
        while not has_all(server, records):
            if time.monotonic() - begin > LONGEST_SECONDS:
                raise Failure(f"not all pairs were there after {LONGEST_SECONDS} s")
            time.sleep(0.002)
        took = time.monotonic() - begin
        bench(options, server, records, "--no-load", "--verify", "--mix", "read=100", "--distribution", "uniform",
              "--requests", str(max(1, records // 10)), "--rounds", "1")
        server.kill()
    return took


def measure(options, program, records, rounds, flags):
    with tempfile.TemporaryDirectory(prefix="isotherm-recovery-", dir=options.folder) as folder:
        command = [program, "--dir", folder, "--appendonly", "yes", "--appendfsync", "no",
                   "--auto-aof-rewrite-percentage", "0", "--save", "", *flags]
        with start_server(*command) as server:
            bench(options, server, records, "--load-only")
            server.kill()
        size = sum(path.stat().st_size for path in pathlib.Path(folder).rglob("*") if path.is_file())
        return size, [restart(options, command, records) for _ in range(rounds)]


def show(name, records, size, times):
    rate = records / statistics.median(times)
    print(f"{name:<10} {records:>12,} pairs, {size / 2**20:,.0f} MiB: " +
          ", ".join(f"{took:.2f}" for took in times) + f" s; {rate / 1e6:.2f} M pairs/s", flush=True)
    return rate


def test(options):
    print(f"machine     {platform.machine()}, Linux {platform.release()}, {os.cpu_count()} cores; {options.folder}\n"
          f"parameters  --threads {options.threads} {' '.join(options.flags)}")
    flags = ["--threads", str(options.threads), *options.flags]
    ours = show("isotherm", options.records,
                *measure(options, options.server, options.records, options.rounds, flags))
    if options.redis_records != 0:
        theirs = show("redis", options.redis_records,
                      *measure(options, options.redis, options.redis_records, 1, []))
        print(f"ratio      {ours / theirs:.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--server", default=str(ROOT / "build/release/isotherm-server"))
    parser.add_argument("--bench", default=str(ROOT / "build/release/isotherm-bench"))
    parser.add_argument("--redis", default="redis-server")
    parser.add_argument("--records", type=int, default=100_000_000)
    parser.add_argument("--redis-records", type=int, default=2_000_000)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", default="/dev/shm")
    parser.add_argument("flags", nargs="*")
    return status_of(test, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())

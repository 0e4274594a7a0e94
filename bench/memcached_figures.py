#!/usr/bin/env python3
"""Server CPU per read beside memcached's, by UDP and by TCP: what docs/performance.md says of both.

Usage: memcached_figures.py [BUILD_DIRECTORY] [--rounds N] [--seconds S] [--server NAME=PROGRAM]...

Starts isotherm-server (or those named, to compare builds) and memcached, each with two threads, on
free ports of 127.0.0.1, and lets memcached_bench load them in turns.
"""

import argparse
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "python"))
import servers  # noqa: E402

LOADS = [
    ("UDP get, 50 clients, one request each", []),
    ("UDP get, 50 clients, 8 requests each, 4 at once", ["--window", "8", "--burst", "4"]),
    ("UDP get, 8 clients, 16 requests each, 8 at once",
     ["--clients", "8", "--window", "16", "--burst", "8"]),
    ("TCP mg, 50 clients, pipelines of 32", ["--tcp", "--mg", "--window", "32", "--burst", "32"]),
]


def start(program, port):
    if program is None:
        return servers.Server(["memcached", *(["-u", "nobody"] if os.getuid() == 0 else []),
                               "-l", "127.0.0.1", "-p", str(port), "-U", str(port), "-m", "256",
                               "-t", "2"])
    return servers.Server([str(pathlib.Path(program).resolve()), "--port", "off", "--threads", "2",
                           "--memcached-port", str(port), "--memcached-udp-port", str(port)])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default=str(ROOT / "build/release"))
    parser.add_argument("--rounds", default="5")
    parser.add_argument("--seconds", default="1")
    parser.add_argument("--server", action="append", default=[])
    arguments = parser.parse_args()
    named = arguments.server or [f"isotherm={arguments.build}/isotherm-server"]
    programs = [tuple(one.split("=", 1)) for one in named] + [("memcached", None)]
    started = []
    try:
        for name, program in programs:
            port = servers.free_port()
            server = start(program, port)
            started.append(server)
            server.await_ready(lambda port=port: servers.answers(port, b"version\r\n", b"VERSION"))
            server.address = f"{name}={port}:{server.pid}"
        for title, flags in LOADS:
            print(title, flush=True)
            subprocess.run([f"{arguments.build}/memcached_bench", "--rounds", arguments.rounds,
                            "--seconds", arguments.seconds, *flags,
                            *(server.address for server in started)], check=True)
    finally:
        for server in started:
            server.stop()


if __name__ == "__main__":
    main()

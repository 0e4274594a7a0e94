#!/usr/bin/env python3
"""Reads of memcached's clients beside memcached, by UDP, by TCP and in packets: what docs/performance.md says of them.

Usage: memcached_figures.py [BUILD_DIRECTORY] [--packets] [--rounds N] [--seconds S] [--server NAME=PROGRAM]...
                            [--server-flags FLAGS] [--load FLAGS]...

Starts isotherm-server (or those named, to compare builds) and memcached, where it is installed, each with two
threads, on free ports of 127.0.0.1, and lets memcached_bench load them in turns. With --packets the items of
isotherm-server live on a GPU, and its port of packets is measured beside its port of UDP. --server-flags has
further flags of isotherm-server, in one word; with --packets those in the place of "--device cuda --gpu-items 64mb".
--load has the flags of memcached_bench for a load in the place of those here.
"""

import argparse
import os
import pathlib
import shlex
import shutil
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
PACKET_LOADS = [
    ("packets get, 50 clients, one request each", []),
    ("packets get, 16 clients, 64 requests each, 16 at once",
     ["--clients", "16", "--threads", "2", "--window", "64", "--burst", "16"]),
]


def start(program, port, flags):
    if program is None:
        return servers.Server(["memcached", *(["-u", "nobody"] if os.getuid() == 0 else []),
                               "-l", "127.0.0.1", "-p", str(port), "-U", str(port), "-m", "256",
                               "-t", "2"])
    return servers.Server([str(pathlib.Path(program).resolve()), "--port", "off", "--threads", "2",
                           "--memcached-port", str(port), "--memcached-udp-port", str(port), *flags])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default=str(ROOT / "build/release"))
    parser.add_argument("--packets", action="store_true")
    parser.add_argument("--rounds", default="5")
    parser.add_argument("--seconds", default="1")
    parser.add_argument("--server", action="append", default=[])
    parser.add_argument("--server-flags")
    parser.add_argument("--load", action="append", default=[])
    arguments = parser.parse_args()
    if arguments.server_flags is None:
        arguments.server_flags = "--device cuda --gpu-items 64mb" if arguments.packets else ""
    loads = [(flags, shlex.split(flags)) for flags in arguments.load]
    named = arguments.server or [f"isotherm={arguments.build}/isotherm-server"]
    programs = [tuple(one.split("=", 1)) for one in named]
    if shutil.which("memcached"):
        programs.append(("memcached", None))
    started = []
    addresses = []
    try:
        for name, program in programs:
            port = servers.free_port()
            packets = servers.free_port() if arguments.packets and program else None
            flags = shlex.split(arguments.server_flags)
            if packets:
                flags += ["--memcached-packets-address", "127.0.0.1", "--memcached-packets-port", str(packets)]
            server = start(program, port, flags)
            started.append(server)
            server.await_ready(lambda port=port: servers.answers(port, b"version\r\n", b"VERSION"))
            address = f"{port}:{server.pid}"
            if packets:
                addresses += [f"{name}={address}:{packets}", f"{name}-udp={address}"]
            else:
                addresses.append(f"{name}={address}")
        for title, flags in loads or (PACKET_LOADS if arguments.packets else LOADS):
            print(title, flush=True)
            subprocess.run([f"{arguments.build}/memcached_bench", "--rounds", arguments.rounds,
                            "--seconds", arguments.seconds, *flags, *addresses], check=True)
    finally:
        for server in started:
            server.stop()


if __name__ == "__main__":
    main()

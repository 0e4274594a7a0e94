#!/usr/bin/env python3
"""A snapshot that is written while others write has one moment, and the next server has that.

Usage: snapshot_moment.py [--server PROGRAM] [--keys N] [-- FLAGS OF ISOTHERM...]

One client goes over all keys in order, again and again, each time with a new value, while SAVE runs. So
at any moment the keys up to one have the newer value, and those behind it the older. The server is then
killed, and another one started on the folder: it must have all keys, as they were at one such moment.
Shown: how long SAVE took, how long the next start, and the median and the longest of the client's MSETs
of 100 keys before the snapshot and beside it.
"""

import argparse
import pathlib
import statistics
import sys
import tempfile
import threading
import time

from server_process import Client, Failure, start_server, status_of

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
AT_ONCE = 100
BYTES = 100


def key(number):
    return b"key:%08d" % number


def write_all(client, keys, letter, took):
    for first in range(0, keys, AT_ONCE):
        words = [word for i in range(first, min(first + AT_ONCE, keys))
                 for word in (key(i), letter * BYTES)]
        began = time.monotonic()
        client.command("MSET", *words)
        took.append(time.monotonic() - began)


def letters_of(client, keys):
    """The letter that each key's value is made of."""
    letters = bytearray()
    for first in range(0, keys, AT_ONCE):
        for value in client.command("MGET", *map(key, range(first, min(first + AT_ONCE, keys)))):
            if value is None or len(value) != BYTES or len(set(value)) != 1:
                raise Failure(f"key {len(letters)} has {value!r}")
            letters.append(value[0])
    return bytes(letters)


def save_beside_writes(server, keys):
    client = Client(server.resp_port)
    alone, beside, saved = [], [], []
    write_all(client, keys, b"a", alone)
    write_all(client, keys, b"b", alone)

    def save():
        began = time.monotonic()
        saved.append((Client(server.resp_port).command("SAVE"), time.monotonic() - began))

    saving = threading.Thread(target=save)
    saving.start()
    letter = ord("b")
    while saving.is_alive():
        letter = letter % 250 + 1
        write_all(client, keys, bytes([letter]), beside)
    answer, seconds = saved[0]
    if answer != b"OK":
        raise Failure(f"SAVE answers {answer!r}")
    shown = [f"{statistics.median(them) * 1e3:.2f} / {max(them) * 1e3:.1f} ms" for them in (alone, beside)]
    print(f"SAVE of {keys} keys took {seconds:.2f} s; an MSET, median / longest: {shown[0]} before it, "
          f"{shown[1]} beside it")


def check_moment(server, keys):
    letters = letters_of(Client(server.resp_port), keys)
    newer = len(letters) - len(letters.lstrip(letters[:1]))
    behind = set(letters[newer:])
    older = (letters[0] - 2) % 250 + 1
    if behind and behind != {older}:
        raise Failure(f"no moment: {newer} keys have {letters[:1]!r}, those behind {behind}")
    print(f"one moment: {newer} keys had the newer value")


def test(options):
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--dir", folder, *options.flags]
        with start_server(options.server, *flags) as server:
            save_beside_writes(server, options.keys)
            server.kill()
        began = time.monotonic()
        with start_server(options.server, *flags) as server:
            print(f"the next start took {time.monotonic() - began:.2f} s")
            check_moment(server, options.keys)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default=str(ROOT / "build/release/isotherm-server"))
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("flags", nargs="*")
    sys.exit(status_of(test, parser.parse_args()))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Differential test: random requests to Isotherm, Redis and memcached, replies compared as bytes.

  differential.py [--server PATH] [--flags=FLAGS] [--commands N] [--seed S] [--device cuda] [--peers-only]

The streams are in resp_stream.py and memcached_stream.py, what they draw in resp_commands.py and
memcached_commands.py. The run fails at the first difference (after shrinking what led to it) and,
at the end, when a command or a class of replies was never drawn. --flags gives Isotherm more of its
own, in one word: --flags="--router budget". --peers-only puts a second Redis
and a second memcached in Isotherm's place: the test of the test. A short run, of fewer than 100,000
commands, need not draw everything and pauses once.
"""

import argparse
import contextlib
import random
import sys
import time

import servers
import shrink
import wire
from memcached_stream import MemcachedStream
from resp_stream import Difference, RespStream

MEMCACHED_SHARE = 0.25
PROGRESS_SECONDS = 30
SHORT = 100_000
PAUSES = 6


def run_stream(name, stream, commands, all_drawn):
    started = last = time.monotonic()
    while stream.commands < commands:
        stream.step()
        if time.monotonic() - last > PROGRESS_SECONDS:
            last = time.monotonic()
            print(f"{name}: {stream.commands} of {commands} commands", flush=True)
    stream.close()
    gaps = stream.coverage.missing()
    took = time.monotonic() - started
    print(f"{name}: {stream.commands} commands in {took:.1f} s, no difference; "
          f"{stream.coverage.summary()}", flush=True)
    if gaps and all_drawn:
        print(f"{name}: never drawn: {', '.join(gaps)}", file=sys.stderr)
    return not (gaps and all_drawn)


def checked(name, stream, commands, all_drawn):
    try:
        return run_stream(name, stream, commands, all_drawn)
    except wire.Closed as closed:
        difference = Difference(str(closed), stream.history)
        print(shrink.report(name, stream, difference), file=sys.stderr)
        return False
    except Difference as difference:
        print(shrink.report(name, stream, difference), file=sys.stderr)
        return False


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", default=servers.isotherm_binary())
    parser.add_argument("--threads", default="2")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--flags", default="")
    parser.add_argument("--commands", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", choices=["resp", "memcached"])
    parser.add_argument("--peers-only", action="store_true")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(2**32)
    print(f"differential.py --seed {seed} --commands {arguments.commands}", flush=True)
    with contextlib.ExitStack() as stack:
        redis = stack.enter_context(servers.Redis())
        memcached = stack.enter_context(servers.Memcached())
        if arguments.peers_only:
            resp_port = stack.enter_context(servers.Redis()).resp_port
            ours = stack.enter_context(servers.Memcached())
        else:
            # Else the CPU answers, since the stream is thin.
            on_gpu = arguments.device != "cpu" and "--gpu-items" not in arguments.flags
            schedule = ("--gpu-schedule", "greedy") if on_gpu else ()
            flags = ("--threads", arguments.threads, "--device", arguments.device, *schedule,
                     "--memcached-udp-port", "0", *arguments.flags.split())
            ours = stack.enter_context(servers.Isotherm(*flags, binary=arguments.server))
            resp_port = ours.resp_port
        share = int(arguments.commands * MEMCACHED_SHARE)
        short = arguments.commands < SHORT
        right = True
        if arguments.only != "memcached":
            stream = RespStream((resp_port, redis.resp_port), seed)
            right &= checked("resp", stream, arguments.commands - share, not short)
        if arguments.only != "resp":
            # A pause is two seconds, so there are few.
            pauses = [share // 2] if short else [share * part // (PAUSES + 1)
                                                 for part in range(1, PAUSES + 1)]
            stream = MemcachedStream((ours.memcached_port, memcached.memcached_port),
                                     (ours.udp_port, memcached.udp_port), seed, pauses)
            right &= checked("memcached", stream, share, not short)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())

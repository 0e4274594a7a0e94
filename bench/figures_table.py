#!/usr/bin/env python3
"""Prints the performance table from the outputs of figures.sh and writes it as JSON.

Usage: figures_table.py DIRECTORY JSON_FILE

A row names its goal and where its figure is found: in the JSON of an isotherm-bench run, or in a
line that a benchmark program printed. A figure that is not there is shown as not measured.
"""

import json
import pathlib
import re
import sys

CPU = "server_cpu_us_per_request"


def ratio(name, protocol, peer, figure=CPU):
    """The median ratio isotherm / peer of one figure of a socket row."""

    def extract(directory):
        report = read_report(directory, name)
        for pair in report["ratios"]:
            if pair["subject"] == f"isotherm ({protocol})" and pair["peer"] == peer:
                return pair["median"][figure]
        return None

    return extract


def printed(name, pattern):
    """The first group of a pattern in what a program printed."""

    def extract(directory):
        found = re.search(pattern, (directory / f"{name}.txt").read_text())
        return float(found.group(1)) if found else None

    return extract


def memory(name, figure):
    """Bytes a record of the one system that a memory row loaded."""

    def extract(directory):
        return read_report(directory, name)["systems"][0]["load"][figure]

    return extract


def redis_benchmark(row):
    """The median ratio isotherm / redis of one row of redis_benchmark.py."""

    def extract(directory):
        for one in read_report(directory, "redis_benchmark")["redis_benchmark"]:
            if one["row"] == row:
                return one["ratio"]
        return None

    return extract


def read_report(directory, name):
    return json.loads((directory / f"{name}.json").read_text())


def socket_rows(title, row, redis_goal, memcached_goal):
    return [
        (f"{title}: server CPU per key / redis", ratio(row, "redis", "redis"), "<=", redis_goal),
        (f"{title}: server CPU per key / memcached", ratio(row, "memcached", "memcached"), "<=",
         memcached_goal),
    ]


def growth_rows(what):
    step = rf"{re.escape(what)}: longest step ([\d.]+) us of CPU"
    return [
        (f"growth to 50 M {what}, longest step, us of CPU", printed("growth_bench", step), "<=",
         1000),
        ("the same without steps that met a page fault",
         printed("growth_bench", rf"{re.escape(what)}: longest step .*?, ([\d.]+) without"), "<=", 1000),
        ("the same of a loop of fixed work, 30 us by itself",
         printed("growth_bench", rf"{re.escape(what)}: longest loop of fixed work ([\d.]+)"), None, None),
    ]


# (what, where, direction, goal); a goal of None is a figure for comparison.
ROWS = [
    *socket_rows("GET, 50 clients", "get", 1.0, 1.0),
    *socket_rows("SET, 50 clients", "set", 1.0, 1.0),
    *socket_rows("GET, pipeline of 32", "get_pipeline_32", 0.35, 0.5),
    *socket_rows("SET, pipeline of 32", "set_pipeline_32", 0.35, 0.5),
    *socket_rows("MGET / get of 100", "mget_100", 0.15, 0.3),
    *(
        (f"redis-benchmark, {row}: server CPU / redis", redis_benchmark(row), "<=", goal)
        for row, goal in [("GET", 1.0), ("SET", 1.0), ("GET, pipeline of 32", 0.27),
                          ("SET, pipeline of 32", 0.33), ("MGET of 100", 0.13)]
    ),
    ("u64 GET batches, 64 M entries, 1 thread / random line reads",
     printed("fixed_bench", r"get, 1 thread: [\d.]+ M/s, ([\d.]+) of random"), ">=", 0.70),
    ("u64 95/5 Zipf .99, 2 threads / 1 thread",
     printed("fixed_bench", r"2 threads ([\d.]+) times"), ">=", 1.8),
    ("16+32 B GET batches, 20 M items, 1 thread / flat_hash_map",
     printed("items_bench", r"get, 1 thread: .* ratio ([\d.]+)"), ">=", 3.0),
    *growth_rows("16+32 B items"),
    *growth_rows("u64 pairs"),
    ("bytes per item, in process, resident",
     printed("items_bench", r"memory: .*?, ([\d.]+) resident"), "<=", 100),
    ("bytes per item, in process, worst while the count doubles",
     printed("items_bench", r"worst from .*? items ([\d.]+)"), "<=", 100),
    ("bytes per item, isotherm-server, resident",
     memory("memory_isotherm", "bytes_per_record"), "<=", 100),
    ("bytes per item, isotherm-server, worst while the count doubles",
     memory("memory_isotherm", "worst_bytes_per_record"), None, None),
    ("bytes per item, redis", memory("memory_redis", "bytes_per_record"), None, None),
    ("bytes per item, redis, worst", memory("memory_redis", "worst_bytes_per_record"), None, None),
    ("bytes per item, memcached", memory("memory_memcached", "bytes_per_record"), None, None),
    ("bytes per item, memcached, worst",
     memory("memory_memcached", "worst_bytes_per_record"), None, None),
]


def measure(directory, what, extract, direction, goal):
    try:
        value = extract(directory)
    except (OSError, KeyError, IndexError, ValueError):
        value = None
    met = None
    if value is not None and goal is not None:
        met = value <= goal if direction == "<=" else value >= goal
    return {"figure": what, "measured": value, "direction": direction, "goal": goal, "met": met}


def table(rows):
    width = max(len(row["figure"]) for row in rows)
    lines = [f"{'figure':<{width}}  {'goal':>8}  {'measured':>9}  met"]
    for row in rows:
        goal = "" if row["goal"] is None else f"{row['direction']} {row['goal']:g}"
        measured = "-" if row["measured"] is None else f"{row['measured']:.3g}"
        if row["measured"] is not None and row["measured"] >= 100:
            measured = f"{row['measured']:.1f}"
        met = {True: "yes", False: "NO", None: ""}[row["met"]]
        lines.append(f"{row['figure']:<{width}}  {goal:>8}  {measured:>9}  {met}")
    return "\n".join(lines)


def environment(directory):
    for file in sorted(directory.glob("*.json")):
        return json.loads(file.read_text()).get("environment", {})
    return {}


def main():
    if len(sys.argv) != 3:
        print("usage: figures_table.py DIRECTORY JSON_FILE", file=sys.stderr)
        return 64
    directory = pathlib.Path(sys.argv[1])
    rows = [measure(directory, *row) for row in ROWS]
    for name, value in environment(directory).items():
        print(f"{name:<24} {value}")
    print()
    print(table(rows))
    result = {"environment": environment(directory), "figures": rows}
    pathlib.Path(sys.argv[2]).write_text(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

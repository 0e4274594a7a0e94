#!/usr/bin/env python3
"""Runs clang-tidy on the sources of src/, unit tests left out, as many at once as there are processors.

Usage: run_tidy.py [BUILD_FOLDER]           an eighth of the sources, in turn
       run_tidy.py [BUILD_FOLDER] --all     all of them
       run_tidy.py [BUILD_FOLDER] file…     these, each by itself
The turn goes by the number of commits, so eight changes one after the other see every source, but for one
whose share another source's growth has changed meanwhile.
BUILD_FOLDER (build/tidy) is one configured with preset tidy, whose compile commands are those of single
files.

A source takes clang-tidy some eight seconds, nearly all of them for the headers that it includes. So the
sources of a folder that are compiled alike are put one behind the other in one file, which takes hardly
longer than one of them. They are copied rather than included: some checks look at the main file alone.
Shares take about the same time, by the size of what is in them.
"""
import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def commands(build):
    """The sources of src/ with the flags that each is compiled with, and the object that it becomes."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = Path(entry["file"])
        if not source.is_relative_to(ROOT / "src") or source.name.endswith("_test.cc"):
            continue
        words = shlex.split(entry["command"])
        at = words.index("-o")
        yield source, words[1:at], words[at + 1]


# Small folders go together as where they are compiled (cmake/IsothermTargets.cmake); the largest is halved.
JOINED = {"command": "base", "items": "index", "hot": "index", "router": "index"}


def place_of(source):
    """The name of the sources that are looked at together with this one."""
    parts = source.relative_to(ROOT / "src").parts
    return "net_resp" if parts[:2] == ("net", "resp") else JOINED.get(parts[0], parts[0])


class Group:
    """Sources that are looked at as one."""

    def __init__(self, name, flags):
        self.name = name
        self.flags = flags
        self.sources = []

    def cost(self):
        """In steps so large that few changes move a group to another share. The headers come first, which
        take as long as 80 KB of sources."""
        return 2 + round(sum(source.stat().st_size for source in self.sources) / 40_000)

    def write(self, folder):
        self.path = folder / f"{self.name}.cc"
        self.begins = []  # the line before each source
        lines = []
        for source in self.sources:
            self.begins.append(len(lines))
            lines += source.read_text().splitlines()
        self.path.write_text("\n".join(lines) + "\n")

    def in_source(self, match):
        """A place in the written file as one of the source that it comes from."""
        line = int(match[1])
        index = max(i for i, begin in enumerate(self.begins) if begin < line)
        return f"{self.sources[index]}:{line - self.begins[index]}:"

    def run(self):
        done = subprocess.run(["clang-tidy-14", "--quiet", "--warnings-as-errors=*",
                               f"--config-file={ROOT / '.clang-tidy'}", self.path, "--", *self.flags],
                              capture_output=True, text=True)
        text = re.sub(re.escape(str(self.path)) + r":(\d+):", self.in_source, done.stdout)
        # The counts of warnings in system headers say nothing about this code.
        rest = re.sub(r"^\d+ warnings?( and \d+ errors?)? generated\.$\n?", "", done.stderr, flags=re.M)
        return done.returncode == 0, text + rest


def groups(build, wanted):
    made = {}
    for source, flags, target in commands(build):
        if wanted and source not in wanted:
            continue
        place = place_of(source)
        key = (source if wanted else place, target.split(".dir/")[0], *flags)
        group = made.setdefault(key, Group(f"{place}_{len(made)}", flags))
        group.sources.append(source)
    return sorted(made.values(), key=lambda group: -group.cost())


SHARES = 8


def share_of(its):
    """Those whose turn it is: the next share with the next commit."""
    shares = [[] for _ in range(SHARES)]
    for group in its:
        min(shares, key=lambda share: sum(one.cost() for one in share)).append(group)
    done = subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return shares[int(done.stdout or 0) % SHARES]


def main():
    build = Path(sys.argv[1] if len(sys.argv) > 1 else "build/tidy").resolve()
    names = sys.argv[2:]
    wanted = {Path(name).resolve() for name in names if name != "--all"}
    folder = build / "united"
    folder.mkdir(exist_ok=True)
    failed = counted = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        its = groups(build, wanted)
        if not names:
            its = share_of(its)
        for group in its:
            group.write(folder)
        for group, (passed, text) in zip(its, pool.map(Group.run, its)):
            counted += len(group.sources)
            failed += 0 if passed else 1
            if text.strip():
                print(text.strip())
    if failed or not counted:
        sys.exit(f"clang-tidy: FAILED, {failed} of {len(its)} groups")
    print(f"{counted} passed")


main()

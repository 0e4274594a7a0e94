#!/usr/bin/env python3
"""Counts the tests of GoogleTest anew in docs/checks.md, from the programs of three builds.

Usage: count_checks.py   (after `make test`, which leaves build/release, build/clang and build/tsan, and
                          cmake --build --preset release --target isotherm-unit-tests)

What there was "before" is read from the page itself.
"""
import collections
import re
import subprocess
import textwrap
from pathlib import Path

PAGE = Path("docs/checks.md")
PROGRAMS = ("isotherm-unit-tests", "isotherm-script-tests", "isotherm-bench-tests")


def names_of(folder):
    for program in PROGRAMS:
        path = Path("build", folder, program)
        if not path.exists():
            continue
        suite = ""
        for line in subprocess.run([path, "--gtest_list_tests"], capture_output=True, text=True,
                                   check=True).stdout.splitlines():
            if re.match(r"[^ ].*\.", line):
                suite = line.split()[0]
            elif line.startswith("  "):
                yield suite + line.split()[0]


def left_out():
    lines = [line.split("#")[0].strip() for line in Path("tests/tsan_except.txt").read_text().splitlines()]
    texts = [re.escape(line).replace(r"\*", ".*").replace(r"\?", ".") for line in lines if line]
    return re.compile("|".join(texts))


def count(names):
    return collections.Counter(name.split(".")[0] for name in names)


def read_before(text):
    before = {}
    for row in re.findall(r"^\| ([\w/]+) \| (\d+) \| (\d+) \| (\d+) \| \d+ \| \d+ \| \d+ \|$", text, re.M):
        before[row[0]] = tuple(map(int, row[1:]))
    paragraph = text[text.index("**As they were**"):text.index("**New**")]
    paragraph = " ".join(paragraph.split(":", 1)[1].split()).rstrip(".")
    for name, unit, rest in re.findall(r"([\w/]+) (\d+)(?: \((\d+, \d+)\))?", paragraph):
        asan, tsan = rest.split(", ") if rest else (unit, unit)
        before[name] = int(unit), int(asan), int(tsan)
    return before


def paragraph(head, counts):
    said = [f"{name} {unit}" + ("" if unit == asan == tsan else f" ({asan}, {tsan})")
            for name, (unit, asan, tsan) in sorted(counts.items())]
    return "\n".join(textwrap.wrap(head + ", ".join(said) + ".", 120, break_on_hyphens=False,
                                   break_long_words=False))


def total(counts):
    return [sum(column) for column in zip(*counts)] or [0, 0, 0]


def main():
    text = PAGE.read_text()
    before = read_before(text)
    except_ = left_out()
    builds = [count(names_of("release")), count(names_of("clang")),
              count(name for name in names_of("tsan") if not except_.fullmatch(name))]
    now = {suite: tuple(build[suite] for build in builds) for suite in set().union(*builds)}
    differ = {name: was for name, was in before.items() if now.get(name, (0, 0, 0)) != was}
    same = {name: was for name, was in before.items() if name not in differ}
    new = {name: its for name, its in now.items() if name not in before}
    rows = [(name, *was, *now.get(name, (0, 0, 0)))
            for name, was in sorted(differ.items(), key=lambda one: (one[0] not in now, one[0]))]
    kept, added = total(same.values()), total(new.values())
    rows.append((f"{len(same)} suites as they were", *kept, *kept))
    rows.append((f"{len(new)} new suites", 0, 0, 0, *added))
    rows.append(("**sum**", *total(before.values()), *total(now.values())))
    table = "".join("| " + " | ".join(map(str, row)) + " |\n" for row in rows)
    head = "| suites whose counts differ |"
    begin = text.index("\n", text.index("\n", text.index(head)) + 1) + 1
    end = text.index("\n\n", begin) + 1
    text = text[:begin] + table + text[end:]
    begin, end = text.index("**As they were**"), text.index("\n\n## Names that are gone")
    text = (text[:begin] +
            paragraph("**As they were** (tests; in brackets asan and tsan where they differ): ", same) +
            "\n\n" + paragraph("**New**: ", new) + text[end:])
    PAGE.write_text(text)


main()

#!/usr/bin/env python3
"""Checks the shape of the source tree; prints each violation and exits 1 if there is any.

  - A folder of src/ includes itself and the folders above it in LAYERS, and no other; its tests may
    include what TEST_SUPPORT names, too. Folders within one follow the order of NESTED likewise.
  - No header includes itself by way of others.
  - Includes in quotes are paths from src/ or include/ ("net/output.h", "isotherm/batch.h").
  - Public headers include public headers only.
  - A header opens with a comment that explains it, then `#pragma once`.
  - No file of code has MAX_LINES lines or more.
  - No type of a namespace has two headers of src/ and include/: a program with both takes the functions of
    either, and no compiler says so.
  - What docs/, README.md and comments name is there: files, and the names of code in docs/map.md's
    "where is".

Usage: check_layers.py [root of the repository]
"""

import pathlib
import re
import sys

LAYERS = ["base", "command", "items", "index", "hot", "router", "gpu", "executor", "batch",
          "durability", "tree", "engine", "db", "stackable", "net", "server"]
# "" is what lies in the folder itself.
NESTED = {"executor": ["", "values", "run", "host", "device", "upkeep"],
          "gpu": ["platform", "kernel", "batch", "express", "table", "transfer", "split", "rows",
                  "items", "sorted", "udp", "store"],
          "net": ["", "resp", "memcached", "udp", "packets", "loop"]}
TEST_SUPPORT = ["device_checks", "fake_device", "models"]  # folders of tests/
MAX_LINES = 500
MIN_ESSAY_WORDS = 8
CODE_FOLDERS = ["src", "include", "python", "bench", "tests", "examples", "tools"]
CPP = {".h", ".cuh", ".cc", ".cu"}
HEADERS = {".h", ".cuh"}
CODE = CPP | {".py", ".sh", ".go"}
QUOTED = re.compile(r"`([^`\n]+)`")
FILE_NAME = re.compile(r"[\w./-]*\w\.(?:h|cuh|cc|cu|py|sh|txt|toml|cmake)")
FILE_IN_COMMENT = re.compile(r"(?<![<\w./-])[\w-]+(?:/[\w-]+)+\.(?:h|cuh|cc|cu|py|sh)\b")
CODE_NAME = re.compile(r"[A-Za-z_]\w*(?:::\w+)*")
NAMESPACE = re.compile(r"namespace ([\w:]+) \{")
# At the beginning of a line: neither within another type nor declared alone.
TYPE = re.compile(r"(?:struct|class|enum class) (?:alignas\(\w+\) )?(\w+)(?: final)?(?: ?:(?!:)[^;]*)? \{")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def quoted_includes(text):
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1)


def nested_folder(parts):
    """Which of the folders within a layer a path lies in, given by its parts from the layer on."""
    return "/".join(parts[1:-1])


def check_source_includes(path, layer, text):
    """Violations of the order of folders in one file of src/<layer>/."""
    own = nested_folder(path.parts[1:])
    order = NESTED.get(layer, [""])
    if own not in order:
        yield f"{path}:1: {layer}/ has no folder {own}/ (NESTED in tools/check_layers.py)"
        return
    for number, name in quoted_includes(text):
        target = name.split("/")[0]
        if "/" not in name or ".." in name:
            yield f"{path}:{number}: include by path from src/, not \"{name}\""
        elif target == "isotherm":
            continue
        elif target in TEST_SUPPORT and path.name.endswith("_test.cc"):
            continue
        elif target not in LAYERS:
            yield f"{path}:{number}: \"{name}\" is in no folder of src/ that has a layer"
        elif LAYERS.index(target) > LAYERS.index(layer):
            yield f"{path}:{number}: {layer}/ may not include {target}/ (\"{name}\")"
        elif target == layer:
            nested = nested_folder(name.split("/"))
            if nested not in order:
                yield f"{path}:{number}: \"{name}\" is in no folder of {layer}/"
            elif order.index(nested) > order.index(own):
                yield f"{path}:{number}: {layer}/{own} may not include {layer}/{nested}"


def check_public_includes(path, text):
    for number, name in quoted_includes(text):
        if not name.startswith("isotherm/"):
            yield f"{path}:{number}: a public header may not include \"{name}\""


def check_essay(path, text):
    """Violations of "a header opens with its essay"."""
    lines = text.splitlines()
    essay = []
    for line in lines:
        if not line.startswith("//"):
            break
        essay.append(line.lstrip("/ "))
    if len(" ".join(essay).split()) < MIN_ESSAY_WORDS:
        yield f"{path}:1: a header opens with a comment that explains it"
    if "#pragma once" not in lines:
        yield f"{path}:1: a header needs #pragma once"


def check_file(root, file):
    path = file.relative_to(root)
    text = file.read_text(encoding="utf-8")
    count = text.count("\n")
    if count >= MAX_LINES:
        yield f"{path}:{count}: {count} lines; the limit is {MAX_LINES - 1}"
    if file.suffix in HEADERS:
        yield from check_essay(path, text)
    if path.parts[0] == "include":
        yield from check_public_includes(path, text)
    if path.parts[0] == "src" and file.suffix in CPP:
        if len(path.parts) < 3 or path.parts[1] not in LAYERS:
            yield f"{path}:1: belongs into a folder of src/ that has a layer"
        else:
            yield from check_source_includes(path, path.parts[1], text)


def find_cycle(name, includes, state, trail):
    """A list of headers that include each other in a circle from `name` on, or None."""
    state[name] = "open"
    trail.append(name)
    for target in includes.get(name, []):
        if state.get(target) == "open":
            return trail[trail.index(target):] + [target]
        if target in includes and target not in state:
            cycle = find_cycle(target, includes, state, trail)
            if cycle:
                return cycle
    trail.pop()
    state[name] = "done"
    return None


def check_cycles(root):
    includes = {str(file.relative_to(folder)): [name for _, name in quoted_includes(file.read_text())]
                for folder in (root / "src", root / "include")
                for file in sorted(folder.rglob("*")) if file.suffix in HEADERS}
    state = {}
    for name in includes:
        if name not in state:
            cycle = find_cycle(name, includes, state, [])
            if cycle:
                yield f"{cycle[0]}:1: includes itself: {' -> '.join(cycle)}"
                return


def check_names(root):
    """Names of files and code that documentation and comments give, and that are not there."""
    files = [file for folder in CODE_FOLDERS + ["cmake"] for file in (root / folder).rglob("*")]
    paths = {f"/{file.relative_to(root)}" for file in files}
    endings = {path[at:] for path in paths for at in range(len(path)) if path[at] == "/"}
    words = set()
    for file in files:
        if file.suffix not in CPP:
            continue
        text = file.read_text(encoding="utf-8")
        if file.relative_to(root).parts[0] in ("src", "include"):
            words.update(re.findall(r"\w+", text))
        for number, line in enumerate(text.splitlines(), 1):
            for name in FILE_IN_COMMENT.findall(line.partition("//")[2]):
                if f"/{name}" not in endings:
                    yield f"{file.relative_to(root)}:{number}: there is no file {name}"
    for page in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
        if not page.exists():
            continue
        section = ""
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            section = line if line.startswith("## ") else section
            for name in QUOTED.findall(line):
                where = f"{page.relative_to(root)}:{number}"
                if FILE_NAME.fullmatch(name):
                    ours = "/" in name or page.name == "map.md"
                    if ours and f"/{name}" not in endings and not (root / name).exists():
                        yield f"{where}: there is no file {name}"
                elif section == "## Where is" and CODE_NAME.fullmatch(name):
                    for word in name.split("::"):
                        if word not in words:
                            yield f"{where}: nothing is called {word}"


def check_types(root):
    """Types of the same name and namespace in more than one header."""
    places = {}
    for folder in ["include", "src"]:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in HEADERS:
                continue
            namespace = ""
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                begins = NAMESPACE.match(line)
                namespace = begins.group(1) if begins else namespace
                if match := TYPE.match(line):
                    where = f"{file.relative_to(root)}:{number}"
                    places.setdefault((namespace, match.group(1)), []).append(where)
    for (namespace, name), (first, *others) in places.items():
        for where in others:
            yield f"{where}: {namespace}::{name} is a type of {first}, too"


def check_tree(root):
    """All violations below `root`, in order of path."""
    violations = []
    for folder in CODE_FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            if file.is_file() and file.suffix in CODE:
                violations.extend(check_file(root, file))
    violations.extend(check_cycles(root))
    violations.extend(check_names(root))
    violations.extend(check_types(root))
    return violations


def main():
    default = pathlib.Path(__file__).resolve().parent.parent
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    violations = check_tree(root)
    for violation in violations:
        print(violation)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())

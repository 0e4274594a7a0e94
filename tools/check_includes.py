#!/usr/bin/env python3
"""Checks that C++ files include the headers whose names they use; prints what is missing, exits 1 if anything is.

Compilers do not say so here: the sources of a folder are compiled as one, behind headers that are read once for
all (cmake/IsothermPrecompile.cmake). A header counts where the file includes it, itself or by way of headers of
this repository; what a header of the library or of the system brings with it does not.

Usage: check_includes.py [root of the repository]
"""

import pathlib
import re
import sys

FOLDERS = ["src", "include", "tests", "bench", "examples"]
ROOTS = ["src", "include", "tests", "bench"]  # includes in quotes are paths from these
CPP = {".h", ".cuh", ".cc", ".cu"}
PRECOMPILED = "cmake/IsothermPrecompile.cmake"
# What each header is for, without what others have as well.
NAMES = {
    "algorithm": "all_of any_of clamp copy copy_n count count_if equal fill fill_n find find_if lower_bound max "
                 "max_element merge min min_element minmax none_of nth_element partition remove_if reverse rotate "
                 "shuffle sort stable_sort transform unique upper_bound",
    "array": "array to_array",
    "atomic": "atomic atomic_flag atomic_ref atomic_thread_fence memory_order memory_order_relaxed",
    "bit": "bit_cast bit_ceil bit_floor bit_width countl_zero countr_one countr_zero has_single_bit popcount rotl",
    "charconv": "chars_format from_chars to_chars",
    "chrono": "chrono",
    "cmath": "abs ceil exp floor isfinite isnan log log2 pow round sqrt",
    "condition_variable": "condition_variable condition_variable_any cv_status",
    "cstdio": "fflush fopen fprintf fputs fread fwrite printf snprintf",
    "cstdlib": "abort atoi exit getenv strtol strtoul strtoull system",
    "cstring": "memchr memcmp memcpy memmove memset strchr strcmp strlen strncmp strrchr strstr",
    "deque": "deque",
    "exception": "current_exception exception_ptr make_exception_ptr rethrow_exception terminate",
    "filesystem": "filesystem",
    "fstream": "fstream ifstream ofstream",
    "functional": "bind function greater hash less plus reference_wrapper",
    "future": "async future launch packaged_task promise shared_future",
    "gtest/gtest.h": "",
    "iostream": "cerr cin cout",
    "iomanip": "setfill setprecision setw",
    "limits": "numeric_limits",
    "list": "list",
    "map": "map multimap",
    "memory": "addressof allocator enable_shared_from_this make_shared make_unique shared_ptr unique_ptr weak_ptr",
    "mutex": "call_once lock_guard mutex once_flag recursive_mutex scoped_lock try_to_lock unique_lock",
    "new": "align_val_t bad_alloc launder nothrow",
    "numeric": "accumulate iota reduce",
    "optional": "nullopt optional",
    "queue": "priority_queue queue",
    "random": "bernoulli_distribution mt19937 mt19937_64 random_device uniform_int_distribution",
    "semaphore": "binary_semaphore counting_semaphore",
    "set": "multiset set",
    "shared_mutex": "shared_lock shared_mutex",
    "span": "as_bytes span",
    "sstream": "istringstream ostringstream stringstream",
    "stdexcept": "invalid_argument length_error logic_error out_of_range overflow_error range_error runtime_error",
    "stop_token": "stop_callback stop_source stop_token",
    "string": "getline stoi stol stoul stoull string to_string",
    "string_view": "string_view",
    "system_error": "errc error_code generic_category system_category system_error",
    "thread": "jthread thread this_thread",
    "tuple": "apply forward_as_tuple make_tuple tie tuple",
    "type_traits": "conditional_t decay_t is_same_v is_trivially_copyable_v remove_cvref_t type_identity_t",
    "unordered_map": "unordered_map unordered_multimap",
    "unordered_set": "unordered_set",
    "utility": "as_const exchange forward index_sequence make_pair move pair swap unreachable",
    "variant": "get_if holds_alternative monostate variant visit",
    "vector": "vector",
}
# Headers that promise to bring another with them, or whose types cannot be used without its names.
BRINGS = {"string": {"string_view"}, "thread": {"stop_token"}, "fstream": {"string"}, "iostream": {"ostream"},
          "condition_variable": {"mutex"}, "map": {"utility"}, "unordered_map": {"utility"},
          "vector": set(), "memory": {"utility"}, "algorithm": {"utility"}, "tuple": {"utility"},
          "filesystem": {"system_error"}, "future": {"thread"}}
HEADER_OF = {name: header for header, names in NAMES.items() for name in names.split()}
IGNORED = re.compile(r'//.*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|^\s*#\s*include.*', re.M)
STD_NAME = re.compile(r"\bstd::(\w+)")
TEST_MACRO = re.compile(r"\b(?:TEST(?:_F|_P)?|(?:EXPECT|ASSERT)_[A-Z]+)\(")
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:<([^>]+)>|"([^"]+)")', re.M)


class Sources:
    """The files of the repository, with what each of them names and includes."""

    def __init__(self, root):
        self.root = root
        self.read = {}

    def look_at(self, file):
        """(headers in angles, files of the repository that it includes, what it uses of whose header)."""
        if file not in self.read:
            text = file.read_text(encoding="utf-8")
            headers, files = set(), []
            for angled, quoted in INCLUDE.findall(text):
                if angled:
                    headers |= {angled} | BRINGS.get(angled, set())
                places = [file.parent / quoted, *(self.root / folder / quoted for folder in ROOTS)] if quoted else []
                files += [place for place in places if place.is_file()][:1]
            code = IGNORED.sub("", text)
            used = {name: HEADER_OF[name] for name in STD_NAME.findall(code) if name in HEADER_OF}
            if macro := TEST_MACRO.search(code):
                used[macro.group().rstrip("(")] = "gtest/gtest.h"
            self.read[file] = headers, files, used
        return self.read[file]

    def included(self, file):
        """The headers in angles that a file includes, by way of others of the repository too."""
        found, seen, left = set(), set(), [file]
        while left:
            at = left.pop()
            if at not in seen:
                seen.add(at)
                headers, files, _ = self.look_at(at)
                found |= headers
                left += files
        return found


def check_tree(root):
    """All that is missing below `root`, in order of path."""
    sources = Sources(root)
    missing = []
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in CPP or not file.is_file():
                continue
            used = sources.look_at(file)[2]
            included = sources.included(file)
            missing += [f"{file.relative_to(root)}: uses {name} and does not include <{header}>"
                        for name, header in sorted(used.items()) if header not in included]
    if (root / PRECOMPILED).exists():
        names = re.search(r"set\(ISOTHERM_PRECOMPILED ([^)]*)\)", (root / PRECOMPILED).read_text())
        missing += [f"{PRECOMPILED}: nothing says what <{header}> is for (NAMES in tools/check_includes.py)"
                    for header in re.findall(r"<([^>]+)>", names.group(1)) if header not in NAMES]
    return missing


def main():
    default = pathlib.Path(__file__).resolve().parent.parent
    missing = check_tree(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default)
    for line in missing:
        print(line)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())

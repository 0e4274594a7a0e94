#!/usr/bin/env bash
# Runs clang-tidy on the sources of src/, two at once. Needs a configured build folder.
#
# Usage: run_tidy.sh [BUILD_FOLDER] [file…]   (build/clang, all sources but unit tests)
set -euo pipefail
cd "$(dirname "$0")/.."

build=${1:-build/clang}
shift || true
if (($# > 0)); then
  sources=("$@")
else
  mapfile -t sources < <(find src -name '*.cc' ! -name '*_test.cc' | sort)
fi
# The counts of warnings in system headers say nothing about this code.
printf '%s\0' "${sources[@]}" |
  xargs -0 -r -P 2 -n 4 clang-tidy-14 --quiet --warnings-as-errors='*' -p "$build" 2>&1 |
  sed -E '/^[0-9]+ warnings?( and [0-9]+ errors?)? generated\.$/d; /^$/d'

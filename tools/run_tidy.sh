#!/usr/bin/env bash
# Runs clang-tidy on sources of src/, unit tests left out, as many at once as there are processors.
# Needs a configured build folder whose compile commands are those of single files (preset tidy).
#
# Usage: run_tidy.sh [BUILD_FOLDER]              what changed last, and a tenth of the rest in turn
#        run_tidy.sh [BUILD_FOLDER] --all
#        run_tidy.sh [BUILD_FOLDER] file…
# The turn goes by the number of commits, so ten changes one after the other see every file.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${1:-build/tidy}
shift || true
most_recent=20
shares=10

all_sources() { find src -name '*.cc' ! -name '*_test.cc' | sort; }
# The sources that changed last, newest first; more may be named than there still are.
recent_sources() {
  {
    git diff --name-only HEAD
    git log -n 40 --name-only --format= --no-merges
  } | grep -E '^src/.*\.cc$' | grep -v '_test\.cc$' | awk '!seen[$0]++' | xargs -r ls -d 2>/dev/null |
    head -n "$most_recent"
}

if [[ ${1:-} == --all ]]; then
  mapfile -t sources < <(all_sources)
elif (($# > 0)); then
  sources=("$@")
else
  turn=$(($(git rev-list --count HEAD) % shares))
  mapfile -t sources < <({
    recent_sources || true
    all_sources | awk -v turn="$turn" -v shares="$shares" 'NR % shares == turn'
  } | sort -u)
fi
# The counts of warnings in system headers say nothing about this code.
printf '%s\0' "${sources[@]}" |
  xargs -0 -r -P "$(nproc)" -n 4 clang-tidy-14 --quiet --warnings-as-errors='*' -p "$build" 2>&1 |
  sed -E '/^[0-9]+ warnings?( and [0-9]+ errors?)? generated\.$/d; /^$/d'
echo "${#sources[@]} passed"

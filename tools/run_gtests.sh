#!/usr/bin/env bash
# Runs GoogleTest programs, each in several processes that share its tests. Prints what failed, the
# slowest tests, and "N passed, M failed, K skipped" as the last line. One process runs many tests,
# since starting one for each test costs more than most tests do, above all under a sanitizer.
#
# Usage: run_gtests.sh [--only FILE | --except FILE] program…
# FILE has a pattern of GoogleTest's filter a line, of the tests to run or of those to leave out; "#"
# begins a comment. A pattern of what is left out that no test has any more is a failure.
set -euo pipefail

# The names of all tests of some programs, a line each.
names_of() {
  local program
  for program in "$@"; do "$program" --gtest_list_tests; done |
    awk '/^[^ ].*\./ { suite = $1 } /^  / { print suite $1 }'
}

filter=
case ${1:-} in
  --only | --except)
    patterns=$(sed 's/#.*//; s/[[:space:]]//g; /^$/d' "$2")
    filter=$(paste -sd: <<<"$patterns")
    if [[ $1 == --except ]]; then
      filter=-$filter
      names=$(names_of "${@:3}")
      while read -r pattern; do
        if ! grep -qx -- "$(sed 's/[.]/\\./g; s/[*]/.*/g; s/[?]/./g' <<<"$pattern")" <<<"$names"; then
          echo "$2: no test is called $pattern"
          exit 1
        fi
      done <<<"$patterns"
    fi
    shift 2
    ;;
esac
jobs=$(nproc)
# More parts than processors, so that a slow part does not leave the others idle.
parts=$((jobs * 6))
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

run_part() {
  local program=$1 part=$2 parts=$3 filter=$4 logs=$5 status=0
  local log
  log=$logs/$(basename "$program").$part
  GTEST_TOTAL_SHARDS=$parts GTEST_SHARD_INDEX=$part timeout 900 "$program" --gtest_color=no \
    ${filter:+"--gtest_filter=$filter"} >"$log" 2>&1 || status=$?
  if ((status != 0)); then
    # What failed, with its messages; a program that ended in the middle of a test, with that test.
    if grep -aq '^\[  PASSED  \]' "$log"; then
      awk '/^\[ RUN  /{text=""} {text=text $0 "\n"} /^\[  FAILED  \].*ms\)$/{printf "%s", text}' "$log"
    else
      tail -n 80 "$log"
      echo "$program ended with status $status in: $(grep -a '^\[ RUN ' "$log" | tail -n 1)"
      echo "[  ENDED  ]" >>"$log"
    fi
  fi
}
export -f run_part
for program in "$@"; do
  for ((part = 0; part < parts; ++part)); do
    printf '%s\0%s\0%s\0%s\0%s\0' "$program" "$part" "$parts" "$filter" "$logs"
  done
done | xargs -0 -r -n 5 -P "$jobs" bash -c 'set -euo pipefail; run_part "$@"' _

echo "What took longest:"
grep -ahE '^\[ +(OK|FAILED) +\] .*\([0-9]+ ms\)$' "$logs"/* |
  sed -E 's/^\[[^]]*\] (.*) \(([0-9]+) ms\)$/\2 ms \1/' | sort -rn | awk 'NR <= 20'
cat "$logs"/* | awk '
  /^\[       OK \]/ { ++passed }
  /^\[  FAILED  \].*ms\)$/ || /^\[  ENDED  \]/ { ++failed }
  /^\[  SKIPPED \].*ms\)$/ { ++skipped }
  END {
    printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
    exit failed > 0 || passed == 0
  }'

#!/usr/bin/env bash
# Measures what docs/performance.md says about servers and the CPU, in one go: `make bench`.
#
# Usage: figures.sh [BUILD_DIRECTORY]        default build/release
#
# Each row is one command below. Socket rows start the servers themselves, on free ports of
# 127.0.0.1, and let them take turns under the same load; in-process rows are programs of bench/.
# What they print goes to BUILD_DIRECTORY/../figures/, one file a row; figures_table.py then prints
# one table with goals and writes BUILD_DIRECTORY/../figures.json.
#
# FIGURES_SECONDS (3) is the length of a socket run, FIGURES_ROUNDS (5) how often the servers take
# turns, FIGURES_ITEMS (20M) the records of the memory row, FIGURES_ROWS a pattern of the rows to
# measure (e.g. 'get*'); others keep what an earlier call measured.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${1:-build/release}
out=$(dirname "$build")/figures
seconds=${FIGURES_SECONDS:-3}
rounds=${FIGURES_ROUNDS:-5}
items=${FIGURES_ITEMS:-20M}
rows=${FIGURES_ROWS:-*}
bench=$build/isotherm-bench
failures=0

command -v python3 >/dev/null || { echo "figures.sh: python3 is missing" >&2; exit 1; }
[ -x "$bench" ] || { echo "figures.sh: $bench is not built; run make bench" >&2; exit 1; }
mkdir -p "$out"

# The servers to measure; without an isotherm-server the peers are measured alone.
subject=()
if [ -x "$build/isotherm-server" ]; then
  subject=(--spawn-isotherm "$build/isotherm-server")
else
  echo "figures.sh: no $build/isotherm-server, so the peers are measured alone" >&2
fi

wanted() {
  # shellcheck disable=SC2053  # a pattern on purpose
  [[ $1 == $rows ]]
}

# run NAME COMMAND...: the output goes to a file of the row and to the terminal.
run() {
  local name=$1
  shift
  wanted "$name" || return 0
  echo "== $name: $*"
  if ! "$@" | tee "$out/$name.txt"; then
    echo "figures.sh: the row $name failed" >&2
    rm -f "$out/$name.txt" "$out/$name.json"
    failures=$((failures + 1))
  fi
  echo
}

# socket_row NAME FLAGS...: alternating rounds against redis and memcached.
socket_row() {
  local name=$1
  shift
  run "$name" "$bench" --quiet --json "$out/$name.json" "${subject[@]}" \
    --seconds "$seconds" --rounds "$rounds" --connections 50 --key-size 16 --value-size 32 \
    --records 1M --distribution uniform "$@"
}

# memory_row NAME FLAGS...: resident memory after storing the records, worst while they double.
memory_row() {
  local name=$1
  shift
  run "$name" "$bench" --quiet --json "$out/$name.json" --load-only --records "$items" \
    --key-size 16 --value-size 32 "$@"
}

# program_row NAME [ARGUMENTS...]: a program built from bench/NAME.cc. Its rows are read from the
# lines it prints, as the table in figures_table.py says.
program_row() {
  local name=$1
  shift
  if [ -x "$build/$name" ]; then
    run "$name" "$build/$name" "$@"
  else
    echo "figures.sh: $build/$name is not built; its rows are left out" >&2
  fi
}

both=(--spawn-redis --spawn-memcached)
socket_row get "${both[@]}" --floor --mix read=100
socket_row set "${both[@]}" --floor --mix update=100
socket_row get_pipeline_32 "${both[@]}" --floor --mix read=100 --pipeline 32
socket_row set_pipeline_32 "${both[@]}" --floor --mix update=100 --pipeline 32
socket_row mget_100 "${both[@]}" --floor --mix read=100 --batch 100
if [ ${#subject[@]} -gt 0 ]; then
  run redis_benchmark bench/redis_benchmark.py --server "$build/isotherm-server" --rounds "$rounds" \
    --json "$out/redis_benchmark.json"
  neighbours=(bench/neighbours.py --server "$build/isotherm-server" --bench "$bench" --rounds "$rounds"
    --seconds "$seconds")
  run unread_neighbours "${neighbours[@]}" --beside unread
  if nvidia-smi -L >/dev/null 2>&1; then
    run cold_neighbour "${neighbours[@]}" --beside cold
  fi
  memory_row memory_isotherm "${subject[@]}"
fi
memory_row memory_redis --spawn-redis
memory_row memory_memcached --spawn-memcached
program_row fixed_bench
program_row items_bench
program_row growth_bench

python3 bench/figures_table.py "$out" "$(dirname "$build")/figures.json"
[ "$failures" -eq 0 ] || exit 1

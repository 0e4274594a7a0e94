#!/usr/bin/env bash
# The checks of kernels and tables on a GPU at small sizes under all four tools of compute-sanitizer:
# memory that is not the program's, memory that nobody has written, lanes that do not meet where they
# must, and races in shared memory. The sizes are those at which the fake device runs the same checks.
# Says `skipped` where there is no GPU. Parts of it may be run by themselves.
#
# Usage: run_gpu_sanitize.sh [tools [programs [I/N]]]   lists are comma-separated, "all" for all of them;
#                                                       I/N: every N-th check, from number I on
#        run_gpu_sanitize.sh --fetch                    gets compute-sanitizer, where there is none
set -euo pipefail
cd "$(dirname "$0")/.."

# Rows of a batch, or what else a program's first argument says.
declare -A size=([device_table_test]=512 [split_table_test]=256 [device_queue_test]=25
  [device_item_test]=512 [device_sorted_test]=128 [index_kernels_test]="")
tools=${1:-all}
programs=${2:-all}
part=${3:-0/1}
if [[ $tools == all ]]; then tools=memcheck,initcheck,synccheck,racecheck; fi
if [[ $programs == all ]]; then
  programs=index_kernels_test,device_table_test,split_table_test,device_queue_test,device_item_test
  programs+=,device_sorted_test
fi

fetched=build/sanitizer
find_sanitizer() {
  local found
  for found in "$(command -v compute-sanitizer || true)" /usr/local/cuda/bin/compute-sanitizer \
    "$fetched/nvidia/cu13/bin/compute-sanitizer"; do
    if [[ -x $found ]]; then
      echo "$found"
      return
    fi
  done
  return 1
}
fetch_sanitizer() {
  python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$fetched" \
    nvidia-cuda-sanitizer-api==13.0.85 >&2
  # It looks for its libraries beside itself.
  (cd "$fetched/nvidia/cu13/bin" && for library in ../lib/*.so; do ln -sf "$library" .; done)
  chmod +x "$fetched/nvidia/cu13/bin/compute-sanitizer"
}

if [[ $tools == --fetch ]]; then
  find_sanitizer || { fetch_sanitizer && find_sanitizer; }
  exit
fi
if [[ ! -e /dev/nvidiactl ]]; then
  echo "skipped: no GPU"
  exit 0
fi
sanitizer=$(find_sanitizer || { fetch_sanitizer && find_sanitizer; })

passed=0
failed=0
mkdir -p build/logs
for program in ${programs//,/ }; do
  for tool in ${tools//,/ }; do
    log=build/logs/sanitize-$program-$tool.log
    started=$SECONDS
    # An argument that is empty means none.
    arguments=()
    if [[ -n ${size[$program]} ]]; then arguments=("${size[$program]}" "$part"); fi
    if "$sanitizer" --tool "$tool" --error-exitcode 66 --print-limit 20 \
      "build/cuda/$program" "${arguments[@]}" >"$log" 2>&1 &&
      grep -qE 'ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards' "$log"; then
      passed=$((passed + 1))
      result=passed
    else
      failed=$((failed + 1))
      result=FAILED
      grep -E 'FAILED|Error|=========' "$log" | head -n 40 || true
    fi
    echo "$program, $tool: $result, $((SECONDS - started)) s ($log)"
  done
done
echo "$passed passed, $failed failed"
((failed == 0))

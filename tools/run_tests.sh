#!/usr/bin/env bash
# All tests in stages; prints a table of times and, as the last line, "N passed, M failed".
#
# Usage: run_tests.sh [--long] [stage…]   (all stages; --long: more histories, longer fuzzing)
#        run_tests.sh --quick             (after an edit: what it changed in the release build, the
#                                          unit tests of the folders of src/ it is in, all scripts)
# Several run at the same time, begun in the order of the list as soon as what they need is there
# (`needs`) and there is room (`room_of`): most leave a processor idle towards their end, and some
# wait more than they compute.
# The output of each stage is in build/logs; that of a failed stage is printed, too, and the lines of
# it that name what failed once more behind the table.
#
# Each stage has an allowance of CPU seconds, on the machine that `make test` promises its 20 minutes
# for. What a stage takes beyond it is shown in the table: a new check earns its time.
set -euo pipefail
cd "$(dirname "$0")/.."

stages=(setup cuda clang format layers release python linearizability system package ctest
  tsan_build scripts asan tsan tidy fuzz)
declare -A allowance=([setup]=60 [format]=10 [layers]=5 [cuda]=165 [clang]=320 [release]=280
  [scripts]=60 [unit]=300 [asan]=320 [tsan_build]=190 [tsan]=205 [tidy]=35 [fuzz]=25 [ctest]=75 [python]=50
  [package]=50 [linearizability]=40 [system]=50 [quick]=120 [noise]=900)
export ISOTHERM_TEST_LONG=0
fuzz_seconds=10
histories=20
restarts=4
system_size=quick
tidy_all=
case ${1:-} in
  --long)
    ISOTHERM_TEST_LONG=1
    fuzz_seconds=600
    histories=1000
    restarts=200
    system_size=long
    tidy_all=--all
    stages+=(unit noise)
    shift
    ;;
  --quick)
    stages=(quick)
    shift
    ;;
esac
if (($# > 0)); then stages=("$@"); fi
jobs=$(nproc)
server=build/release/isotherm-server
# Where there is no GPU the programs of tests/cuda and bench/cuda could only say so: that their kernels
# compile is shown without making them. The libraries are made, for they are linked, but not optimised, unless
# `make build` has made them in full. `make test-gpu`, `make bench-gpu` and `make test-long` make all of it.
cuda_flags=()
if [[ ! -e /dev/nvidiactl && $ISOTHERM_TEST_LONG == 0 ]]; then
  cuda_flags=(-DISOTHERM_CUDA_TO_PTX=ON)
  if ! grep -qs 'ISOTHERM_CUDA_QUICK:.*=OFF' build/release/CMakeCache.txt; then
    cuda_flags+=(-DISOTHERM_CUDA_QUICK=ON)
  fi
fi

# build PRESET [flags of cmake]
build() {
  local said=build/logs/configure_$1.txt
  cmake --preset "$@" >"$said" 2>&1 || {
    cat "$said"
    return 1
  }
  # In a folder that had another compiler cmake forgets what else the preset says, but for a second call.
  if grep -q 'require your cache to be deleted' "$said"; then cmake --preset "$@" >/dev/null; fi
  cmake --build --preset "$1" -j "$jobs"
}
# The unit tests and scripts of a sanitizer's build, less those that a file names.
gtests() {
  local folder=$1
  shift
  local programs=("$folder"/isotherm-unit-tests "$folder"/isotherm-script-tests)
  if [[ -x $folder/isotherm-bench-tests ]]; then programs+=("$folder"/isotherm-bench-tests); fi
  tools/run_gtests.sh "$@" "${programs[@]}"
}

stage_setup() { tools/setup.sh test; }
stage_format() { tools/format.sh --check; }
stage_layers() { tools/check_layers.py && tools/check_includes.py; }
# Of the small benchmarks that no test runs a fifth is compiled each time, in turn by the number of commits.
stage_release() {
  local programs=(bench/*_bench.cc) targets=() turn i
  turn=$(git rev-list --count HEAD 2>/dev/null || echo 0)
  for ((i = turn % 5; i < ${#programs[@]}; i += 5)); do
    targets+=("$(basename "${programs[i]}" .cc)")
  done
  if [[ $ISOTHERM_TEST_LONG == 1 ]]; then
    targets=(isotherm-bench-programs isotherm-unit-tests isotherm-kernel-tests)
  fi
  build release "${cuda_flags[@]}"
  cmake --build --preset release -j "$jobs" --target "${targets[@]}"
}
stage_cuda() { tools/compile_cuda.sh "${cuda_flags[@]}" && tests/run_gpu.sh; }
stage_scripts() {
  tools/run_gtests.sh build/release/isotherm-script-tests build/release/isotherm-bench-tests
}
# Of `make test-long`: the address sanitizer's build runs all of them each time.
stage_unit() {
  tools/run_gtests.sh build/release/isotherm-unit-tests build/release/isotherm-kernel-tests
}

# What was changed since the last commit; where there is nothing, in it.
changed_files() {
  local files
  files=$(git status --porcelain --untracked-files=all | cut -c 4- | sed 's/.* -> //')
  [[ -n $files ]] || files=$(git diff --name-only HEAD~1)
  echo "$files"
}
# The tests of the folders of src/ in which something was changed. Where something else was changed
# that tests are made of, all.
changed_tests() {
  local files folder
  files=$(changed_files)
  if grep -qvE '^(src/|tests/scripts/|docs/|[^/]*\.md$)' <<<"$files"; then
    echo '*'
    return
  fi
  for folder in $(sed -nE 's#^(src/[^/]*)/.*#\1#p' <<<"$files" | sort -u); do
    grep -rhoE --include='*_test.cc' '^TEST(_F|_P)?\(\w+' "$folder" | sed -E 's/.*\((.*)/\1.*\n*\/\1.*/' | sort -u || true
  done
}
stage_quick() {
  local programs=(build/release/isotherm-unit-tests build/release/isotherm-script-tests)
  changed_tests >build/logs/changed_tests.txt
  local units=("${programs[0]}")
  if changed_files | grep -qE '^(src/gpu|tests/(device_checks|fake_device))/'; then
    units+=(build/release/isotherm-kernel-tests)
  fi
  cmake --preset release "${cuda_flags[@]}" >/dev/null
  cmake --build --preset release -j "$jobs" --target "${programs[1]##*/}" "${units[@]##*/}"
  if [[ -s build/logs/changed_tests.txt ]]; then
    tools/run_gtests.sh --only build/logs/changed_tests.txt "${units[@]}"
  fi
  tools/run_gtests.sh "${programs[1]}"
}
stage_ctest() { ctest --preset release -j "$jobs"; }
# One build serves three ends: clang compiles all, its sanitizers watch the tests, and the fuzzers.
stage_clang() {
  build clang
  if [[ $ISOTHERM_TEST_LONG == 1 ]]; then
    cmake --build --preset clang -j "$jobs" --target isotherm-only-compiled
  fi
}
# Of the variables of functions that have returned the sanitizer keeps the last 64 KiB of each size, for a
# lane's stack as for a thread's: what it keeps of thousands of lanes is memory to be zeroed.
asan_options=handle_sigill=1:strict_string_checks=1:max_uar_stack_size_log=16
stage_asan() {
  export ASAN_OPTIONS=$asan_options:detect_stack_use_after_return=1
  gtests build/clang --except tests/asan_frames.txt
  ASAN_OPTIONS=$asan_options:detect_stack_use_after_return=0 \
    tools/run_gtests.sh --only tests/asan_frames.txt build/clang/isotherm-unit-tests
  ctest --preset clang -j "$jobs"
}
stage_tsan_build() { build tsan; }
stage_tsan() {
  export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
  gtests build/tsan --except tests/tsan_except.txt && ctest --preset tsan -j "$jobs"
}
stage_tidy() {
  cmake --preset tidy >/dev/null && tools/run_tidy.py build/tidy ${tidy_all:+"$tidy_all"}
}

# Each fuzzer on its seeds and then on what it finds; inputs that fail are kept in build/clang.
fuzz_one() {
  local name=$1 seconds=$2 seeds=tests/fuzz/corpus/${1%_fuzz} found=build/fuzz-corpus/$1
  mkdir -p "$found" "$seeds"
  if ASAN_OPTIONS=handle_sigill=1 "build/clang/$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
    -print_final_stats=1 -artifact_prefix="build/clang/$name-" "$found" "$seeds"; then
    echo "$name: passed"
  else
    echo "$name: FAILED"
    return 1
  fi
}
stage_fuzz() {
  export -f fuzz_one
  local names
  names=$(find tests/fuzz -name '*_fuzz.cc' -printf '%f\n' 2>/dev/null | sed 's/\.cc$//' | sort)
  xargs -r -P "$jobs" -I{} bash -c 'fuzz_one "$@"' _ {} "$fuzz_seconds" <<<"$names" &&
    echo "$(wc -w <<<"$names") passed"
}

run_script() {
  if [[ -e $1 ]]; then bash "$@"; else echo "no $1"; fi
}
stage_python() { run_script tests/run_python.sh "$server"; }
# The Python package, whose extension links the library of the release build.
stage_package() { run_script tests/run_python_package.sh build/release; }
stage_linearizability() {
  run_script tests/linearizability/run.sh "$server" "$histories"
  run_script tests/linearizability/run_device.sh "$server-fake-device"
  # A server that skips compare-and-swap must be caught.
  run_script tests/linearizability/run_negative.sh "$server-broken"
  # A server that is killed in the middle of each burst; one that answers before it writes.
  run_script tests/linearizability/run_restart.sh "$server" "$restarts"
  run_script tests/linearizability/run_restart.sh "$server-broken" 3
}
stage_system() { run_script tests/system/run.sh "$server" "$system_size"; }
# Unit tests and scripts while threads and sockets are late.
stage_noise() { run_script tests/noise/run.sh build/release; }

# What a stage needs to have succeeded before, if it is part of this run.
needs() {
  case $1 in
    setup) ;;
    release) echo cuda ;; # in the same folder
    unit | scripts | ctest | python | package | linearizability | system | noise) echo release ;;
    asan | fuzz) echo clang ;;
    tsan) echo tsan_build ;;
    *) echo setup ;;
  esac
}
# How much of the machine a stage takes while it runs: half of it, or a quarter if it waits more than
# it computes.
all_room=4
room_of() {
  case $1 in
    setup | quick) echo 4 ;;
    format | layers | ctest | python | package | linearizability | system | fuzz | noise) echo 1 ;;
    *) echo 2 ;;
  esac
}

# Tests that passed and failed according to a log: the sums of all summaries of ctest and of
# run_gtests.sh, else the last line that says "N passed" (and "M failed").
count_tests() {
  awk '
    /tests passed, [0-9]+ tests failed out of/ {
      match($0, /[0-9]+ tests failed/); f = substr($0, RSTART) + 0
      match($0, /out of [0-9]+/); t = substr($0, RSTART + 7) + 0
      passed += t - f; failed += f; sums = 1
    }
    /^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ { passed += $1; failed += $3; sums = 1; next }
    !sums && /[0-9]+ (passed|failed)/ {
      p = f = 0
      if (match($0, /[0-9]+ passed/)) p = substr($0, RSTART) + 0
      if (match($0, /[0-9]+ failed/)) f = substr($0, RSTART) + 0
      passed = p; failed = f
    }
    END { print passed + 0, failed + 0 }' "$1"
}

# The lines of a log that say what failed, the last ten of them, cut to a line of a terminal each.
failures() {
  grep -aE '\*\*\*(Failed|Timeout|Exception|Not Run)|FAILED|Failure|(ERROR|WARNING|FATAL|SUMMARY): |error:|Error |timeout' "$1" |
    tail -n 10 | cut -c 1-160
}

# One stage, in a child shell. Leaves its output in STAGE.log, and its status and the seconds of wall
# and CPU time that it took in STAGE.end.
run_stage() {
  local stage=$1 started=$SECONDS status
  # A child shell once more, so that `set -e` holds inside the stage whatever is done with its status.
  set +e
  (set -e; "stage_$stage") >"build/logs/$stage.log" 2>&1
  status=$?
  # What the children have taken, user and system.
  times >"build/logs/$stage.end"
  awk -v status="$status" -v wall=$((SECONDS - started)) 'NR == 2 {
    gsub(/[ms]/, " "); printf "%d %d %d\n", status, wall, $1 * 60 + $2 + $3 * 60 + $4 }' \
    "build/logs/$stage.end" >"build/logs/$stage.times"
  mv "build/logs/$stage.times" "build/logs/$stage.end"
}

# Counts the tests of a stage that has ended, prints its log where it failed, and its line of the table.
report_stage() {
  local stage=$1 status wall cpu passed failed over
  local log=build/logs/$stage.log
  read -r status wall cpu <"build/logs/$stage.end"
  read -r passed failed < <(count_tests "$log")
  if [[ $status == 0 ]]; then
    result[$stage]=ok
    ((passed + failed > 0)) || passed=1
  else
    result[$stage]=FAILED
    ((failed > 0)) || failed=1
    tail -n 200 "$log"
  fi
  total_passed=$((total_passed + passed))
  total_failed=$((total_failed + failed))
  total_cpu=$((total_cpu + cpu))
  over=$((cpu - ${allowance[$stage]:-0}))
  table+=("$(printf '%-16s %6ds %6ds  %-7s %d passed, %d failed%s' "$stage" "$wall" "$cpu" \
    "${result[$stage]}" "$passed" "$failed" \
    "$( ((over <= 0)) || echo ", $over s of CPU over its allowance")")")
  echo "${table[-1]}"
}

skip_stage() {
  result[$1]=skipped
  table+=("$(printf '%-16s %7s %7s  %s' "$1" - - "skipped: $2 failed")")
  total_failed=$((total_failed + 1))
}

mkdir -p build/logs
declare -A result running
table=()
total_passed=0
total_failed=0
total_cpu=0
for stage in "${stages[@]}"; do
  if ! declare -F "stage_$stage" >/dev/null; then
    echo "run_tests.sh: no stage '$stage'" >&2
    exit 64
  fi
done

# Begins what can begin, in order, and takes it from `waiting`.
begin_stages() {
  local stage need left=()
  for stage in "${waiting[@]}"; do
    need=$(needs "$stage")
    if [[ -n $need && " ${stages[*]} " == *" $need "* && ${result[$need]:-} != ok ]]; then
      if [[ -z ${result[$need]:-} ]]; then left+=("$stage"); else skip_stage "$stage" "$need"; fi
    elif (($(room_of "$stage") > room)); then
      left+=("$stage")
    else
      echo "== $stage"
      (run_stage "$stage") &
      running[$!]=$stage
      room=$((room - $(room_of "$stage")))
    fi
  done
  waiting=("${left[@]}")
}

room=$all_room
waiting=("${stages[@]}")
begin_stages
while ((${#running[@]} > 0)); do
  wait -n -p ended "${!running[@]}" || true
  stage=${running[$ended]}
  unset "running[$ended]"
  room=$((room + $(room_of "$stage")))
  report_stage "$stage"
  begin_stages
done

echo
printf '%-16s %7s %7s\n' stage wall CPU
printf '%s\n' "${table[@]}"
printf '%-16s %6ds %6ds\n' total "$SECONDS" "$total_cpu"
for stage in "${stages[@]}"; do
  if [[ ${result[$stage]:-} == FAILED ]]; then
    echo "-- $stage (build/logs/$stage.log)"
    failures "build/logs/$stage.log" || true
  fi
done
echo "$total_passed passed, $total_failed failed"
((total_failed == 0))

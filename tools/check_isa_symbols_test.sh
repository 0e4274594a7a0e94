#!/usr/bin/env bash
# Shows that check_isa_symbols.sh passes clean objects and fails on a shared inline function.
#
# Usage: check_isa_symbols_test.sh COMPILER WORK_FOLDER
set -euo pipefail

compiler=${1:?compiler}
work=${2:?work folder}
check=$(dirname "$0")/check_isa_symbols.sh
rm -rf "$work"
mkdir -p "$work/good" "$work/bad"

cat >"$work/good/probe_avx2.cc" <<'SOURCE'
struct TileAvx2 {};
template <class Tile> __attribute__((noinline)) int probe(int x) { return x + 1; }
template int probe<TileAvx2>(int);
static __attribute__((noinline)) int local(int x) { return x + 2; }
int run_probe(int x) { return probe<TileAvx2>(x) + local(x); }
SOURCE
cat >"$work/bad/probe_avx512.cc" <<'SOURCE'
inline __attribute__((noinline)) int shared_by_all(int x) { return x + 1; }
int run_probe(int x) { return shared_by_all(x); }
SOURCE
"$compiler" -O2 -mavx2 -c "$work/good/probe_avx2.cc" -o "$work/good/probe_avx2.cc.o"
"$compiler" -O2 -mavx512f -c "$work/bad/probe_avx512.cc" -o "$work/bad/probe_avx512.cc.o"

"$check" "$work/good" || { echo "clean objects were refused"; exit 1; }
if output=$("$check" "$work/bad"); then
  echo "a shared inline function was not found"
  exit 1
fi
grep -q shared_by_all <<<"$output" || { echo "the function is not named: $output"; exit 1; }
rm -rf "$work"

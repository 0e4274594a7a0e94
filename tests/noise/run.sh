#!/usr/bin/env bash
# Unit tests and scripts of a build with the noise of noise.cc: run.sh [folder of the build] [rounds]
# The seeds of the rounds follow each other; the first is drawn unless $NOISE_SEED has it. With a seed
# threads draw the same again, but not in the same order.
set -euo pipefail
cd "$(dirname "$0")/../.."
build="$(realpath "${1:-build/release}")"
rounds="${2:-3}"
first="${NOISE_SEED:-$((RANDOM * 32768 + RANDOM + 1))}"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

# Only the programs themselves have the noise, not the shells that start them.
for program in isotherm-unit-tests isotherm-script-tests; do
  printf '#!/bin/sh\nLD_PRELOAD="%s" exec "%s" "$@"\n' "$build/isotherm-noise.so" "$build/$program" \
    >"$scratch/$program"
  chmod +x "$scratch/$program"
done

status=0
for ((seed = first; seed < first + rounds; ++seed)); do
  head -c 24 /dev/zero >"$scratch/counts"
  echo "== noise: NOISE_SEED=$seed"
  export NOISE_SEED=$seed NOISE_COUNTS=$scratch/counts
  programs=("$scratch/isotherm-unit-tests" "$scratch/isotherm-script-tests")
  tools/run_gtests.sh --except tests/noise/whole.txt "${programs[@]}" || status=1
  read -r delays wakes cuts < <(od -A n -t u8 -w24 "$scratch/counts")
  echo "noise: $delays delays, $wakes wakes for nothing, $cuts cuts"
  if ((delays == 0 || wakes == 0 || cuts == 0)); then
    echo "noise: FAILED: the library had no effect"
    status=1
  fi
  NOISE_CUTS=0 tools/run_gtests.sh --only tests/noise/whole.txt "${programs[@]}" || status=1
done
exit "$status"

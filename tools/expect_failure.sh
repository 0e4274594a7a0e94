#!/usr/bin/env bash
# Runs a test program that is built to be wrong; succeeds if the program fails or crashes.
# (ctest's WILL_FAIL would count a crash as a failure.)
set -euo pipefail
if [[ ! -x $1 ]]; then
  echo "there is no program $1"
  exit 2
fi
if "$@"; then
  echo "passed, but should have been caught: $*"
  exit 1
fi
echo "caught, as it should be"

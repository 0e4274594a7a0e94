#!/usr/bin/env bash
# A server without compare-and-swap must be caught: run_negative.sh SERVER-BINARY, which is one that
# breaks rules on demand (src/base/broken.h).
# The clients contend for few keys from both threads; one history that fails is enough.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
server="$(realpath "${1:?which server binary?}")"
export ISOTHERM_BREAK=swaps
. "$here/server.sh"

cd "$here"
go build -o "$scratch/linearizability" .
for profile in counters swaps counters swaps counters swaps; do
  start_server "$server"
  status=0
  TMPDIR="$scratch" "$scratch/linearizability" -resp "$resp_address" \
    -memcached "$memcached_address" -profile "$profile" -histories 30 -keys 4 -clients 16 \
    -fill 20000 >"$scratch/verdict" || status=$?
  stop_server
  tail -n 1 "$scratch/verdict"
  case "$status" in
    0 | 4) echo "profile $profile: not caught" ;; # 4: judging took too long, which proves nothing
    1) echo "caught"; exit 0 ;;
    *) echo "the run could not be made" >&2; exit 2 ;;
  esac
done
echo "a server without compare-and-swap passed" >&2
exit 1

#!/usr/bin/env bash
# Linearizability of one-key histories: run.sh [server-binary] [histories]
# Two sixths of the histories run without a memory cap, and one with each of two eviction policies. A half
# of the former, and all of one policy, have a router that makes keys hot and cold by chance. The last two
# sixths have an index of a fixed size of either kind, which is full before memory is.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
server="$(realpath "${1:-$here/../../build/release/isotherm-server}")"
histories="${2:-20}"
. "$here/server.sh"

cd "$here"
go vet ./...
go test -count=1 ./...
go build -o "$scratch/linearizability" .

# part HISTORIES CHECKER-FLAGS -- SERVER-FLAGS
part() {
  local count="$1" flags=()
  shift
  while [ "$1" != -- ]; do
    flags+=("$1")
    shift
  done
  shift
  [ "$count" -gt 0 ] || return 0
  echo "== $count histories, server flags: ${*:-none}"
  start_server "$server" "$@"
  "$scratch/linearizability" -resp "$resp_address" -memcached "$memcached_address" \
    -histories "$count" ${flags[@]+"${flags[@]}"}
  stop_server
}

sixth=$((histories / 6))
flapping=(--router chance --router-bins 64 --router-interval 1)
small=(--index-item-bytes 16384)
part $((histories - 5 * sixth)) --
part "$sixth" -- "${flapping[@]}"
part "$sixth" -evicting -- --maxmemory 64mb --maxmemory-policy allkeys-lru
part "$sixth" -evicting -- --maxmemory 64mb --maxmemory-policy allkeys-random "${flapping[@]}"
part "$sixth" -evicting -- --maxmemory 64mb --maxmemory-policy allkeys-lru --index set "${small[@]}"
part "$sixth" -evicting -- --maxmemory 64mb --maxmemory-policy allkeys-random --index cuckoo "${small[@]}"

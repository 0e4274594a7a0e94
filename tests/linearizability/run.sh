#!/usr/bin/env bash
# Linearizability of one-key histories: run.sh [server-binary] [histories]
# A half of the histories runs without a memory cap, a quarter with each of two eviction policies. Of
# each part a half has a router that makes keys hot and cold by chance.
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

# both HISTORIES CHECKER-FLAGS -- SERVER-FLAGS
both() {
  part $(($1 - $1 / 2)) "${@:2}"
  part $(($1 / 2)) "${@:2}" --router chance --router-bins 64 --router-interval 1
}

quarter=$((histories / 4))
both $((histories - 2 * quarter)) --
both "$quarter" -evicting -- --maxmemory 64mb --maxmemory-policy allkeys-lru
both "$quarter" -evicting -- --maxmemory 64mb --maxmemory-policy allkeys-random

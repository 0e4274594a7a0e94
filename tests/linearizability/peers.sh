#!/usr/bin/env bash
# The checker against Debian's redis-server and memcached, which must pass: peers.sh [histories]
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
histories="${1:-8}"
scratch="$(mktemp -d)"
pid=""
finish() {
  [ -z "$pid" ] || kill "$pid" 2>/dev/null || true
  rm -rf "$scratch"
}
trap finish EXIT

free_port() {
  python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])'
}

wait_for() {
  for _ in $(seq 100); do
    if (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then return 0; fi
    sleep 0.1
  done
  echo "nothing listens on port $1" >&2
  return 1
}

# peer PORT CHECKER-FLAGS -- COMMAND
peer() {
  local port="$1" flags=()
  shift
  while [ "$1" != -- ]; do
    flags+=("$1")
    shift
  done
  shift
  echo "== $*"
  "$@" >"$scratch/log" 2>&1 &
  pid=$!
  wait_for "$port"
  "$scratch/linearizability" "${flags[@]}" -histories "$histories"
  kill "$pid"
  wait "$pid" 2>/dev/null || true
  pid=""
}

cd "$here"
go build -o "$scratch/linearizability" .
port="$(free_port)"
redis=(redis-server --bind 127.0.0.1 --save "" --appendonly no --dir "$scratch")
memcached=(memcached -l 127.0.0.1 -U 0 -t 2)
[ "$(id -u)" != 0 ] || memcached+=(-u nobody)
peer "$port" -resp "127.0.0.1:$port" -- "${redis[@]}" --port "$port"
for policy in allkeys-lru allkeys-random; do
  port="$(free_port)"
  peer "$port" -resp "127.0.0.1:$port" -evicting -- \
    "${redis[@]}" --port "$port" --maxmemory 48mb --maxmemory-policy "$policy"
done
port="$(free_port)"
peer "$port" -memcached "127.0.0.1:$port" -- "${memcached[@]}" -p "$port" -m 1024
port="$(free_port)"
peer "$port" -memcached "127.0.0.1:$port" -evicting -- "${memcached[@]}" -p "$port" -m 64

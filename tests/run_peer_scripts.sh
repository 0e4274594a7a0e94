#!/usr/bin/env bash
# Proves that the text scripts expect, byte for byte, what Redis and memcached answer:
#   run_peer_scripts.sh [path of isotherm-script-tests]
# Both peers run on free ports of 127.0.0.1 with nothing on disk and are ended by their pid.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
runner="${1:-$here/../build/release/isotherm-script-tests}"
scratch="$(mktemp -d)"
pids=()

finish() {
  local pid
  for pid in ${pids[@]+"${pids[@]}"}; do
    kill -TERM "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  rm -rf "$scratch"
}
trap finish EXIT

free_port() {
  python3 -c 'import socket
with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    print(s.getsockname()[1])'
}

# answers PORT REQUEST: true when something comes back
answers() {
  python3 - "$1" "$2" <<'PYTHON' 2>/dev/null
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=1) as s:
    s.sendall(sys.argv[2].encode() + b"\r\n")
    sys.exit(0 if s.recv(1) else 1)
PYTHON
}

await() {
  for _ in $(seq 100); do
    if answers "$@"; then return 0; fi
    sleep 0.05
  done
  echo "a peer did not start" >&2
  return 1
}

resp_port="$(free_port)"
redis-server --port "$resp_port" --bind 127.0.0.1 --save '' --appendonly no \
  --dir "$scratch" >"$scratch/redis.log" 2>&1 &
pids+=($!)
await "$resp_port" PING

memcached_port="$(free_port)"
user=()
[ "$(id -u)" != 0 ] || user=(-u nobody)
memcached ${user[@]+"${user[@]}"} -l 127.0.0.1 -p "$memcached_port" -U "$memcached_port" -m 64 \
  >"$scratch/memcached.log" 2>&1 &
pids+=($!)
await "$memcached_port" version

"$runner" --gtest_brief=1 --peer "resp=127.0.0.1:$resp_port" "memcached=127.0.0.1:$memcached_port"

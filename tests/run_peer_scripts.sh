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

# answers PORT REQUEST WORDS: true when the words come back
answers() {
  python3 - "$@" <<'PYTHON' 2>/dev/null
import socket, sys
port, request, words = sys.argv[1:]
with socket.create_connection(("127.0.0.1", int(port)), timeout=5) as s:
    s.sendall(request.encode() + b"\r\n")
    data = b""
    while words.encode() not in data:
        part = s.recv(1 << 16)
        if not part:
            sys.exit(1)
        data += part
PYTHON
}

# start REQUEST WORDS COMMAND…: a peer on a free port, which takes the place of PORT in the command.
# It answers the words with its pid behind them: somebody else may take the port first, and then it
# gets another one.
start() {
  local request=$1 words=$2 pid
  shift 2
  for _ in 1 2 3 4 5; do
    port="$(free_port)"
    "${@//PORT/$port}" >"$scratch/peer.log" 2>&1 &
    pid=$!
    pids+=("$pid")
    for _ in $(seq 600); do
      if answers "$port" "$request" "$words$pid"; then return 0; fi
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.05
    done
  done
  echo "a peer did not start:" >&2
  cat "$scratch/peer.log" >&2
  return 1
}

start "INFO server" process_id: \
  redis-server --port PORT --bind 127.0.0.1 --save '' --appendonly no --dir "$scratch"
resp_port=$port
user=()
[ "$(id -u)" != 0 ] || user=(-u nobody)
start stats "STAT pid " \
  memcached ${user[@]+"${user[@]}"} -l 127.0.0.1 -p PORT -U PORT -m 64
memcached_port=$port

"$runner" --gtest_brief=1 --peer "resp=127.0.0.1:$resp_port" "memcached=127.0.0.1:$memcached_port"

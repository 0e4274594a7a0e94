# Starts and ends a server for a test; to be sourced. `start_server BINARY [flags]` sets server_pid,
# resp_address and memcached_address; `stop_server` ends it and fails if it did not end well.

server_pid=""

stop_server() {
  local pid="$server_pid" status=0
  [ -n "$pid" ] || return 0
  server_pid=""
  kill -TERM "$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || status=$?
  # 143: ended by the signal. Anything else is a crash or a sanitizer's complaint.
  if [ "$status" != 0 ] && [ "$status" != 143 ]; then
    echo "the server ended with status $status; its output ends:" >&2
    tail -n 40 "$scratch/server.log" >&2
    return 1
  fi
}

# The address on the line "listening NAME ADDRESS" of the server's output.
listening() {
  sed -n "s/.*listening $1 \([0-9.]*:[0-9]*\).*/\1/p" "$scratch/server.log" | head -n 1
}

start_server() {
  local binary="$1"
  shift
  : >"$scratch/server.log" # there before the first look at it
  "$binary" --port 0 --memcached-port 0 --threads 2 "$@" >"$scratch/server.log" 2>&1 &
  server_pid=$!
  for _ in $(seq 1200); do
    resp_address="$(listening resp)"
    memcached_address="$(listening memcached)"
    if [ -n "$resp_address" ] && [ -n "$memcached_address" ]; then
      return 0
    fi
    kill -0 "$server_pid" 2>/dev/null || break
    sleep 0.1
  done
  echo "the server did not start:" >&2
  cat "$scratch/server.log" >&2
  return 1
}

scratch="$(mktemp -d)"
trap 'stop_server; rm -rf "$scratch"' EXIT

#!/usr/bin/env bash
# A static server starts and answers: start.sh SERVER
set -euo pipefail
server=$1

if ldd "$server" >/dev/null 2>&1; then
  echo "$server needs shared libraries:"
  ldd "$server"
  exit 1
fi
log=$(mktemp)
"$server" --port 0 --memcached-port 0 --threads 2 >"$log" 2>&1 &
pid=$!
trap 'kill "$pid" 2>/dev/null || true; wait "$pid" || true; rm -f "$log"' EXIT

port_of() { sed -nE "s/.*listening $1 127\.0\.0\.1:([0-9]+).*/\1/p" "$log"; }
until grep -q ' ready' "$log"; do
  kill -0 "$pid" || { cat "$log"; exit 1; }
  sleep 0.05
done

# The first line that the server answers.
ask() {
  local answer
  exec 3<>"/dev/tcp/127.0.0.1/$1"
  printf "$2" >&3
  IFS= read -r -t 120 answer <&3
  exec 3>&-
  echo "${answer%$'\r'}"
}
[[ $(ask "$(port_of resp)" 'SET key value\r\n') == +OK ]]
[[ $(ask "$(port_of memcached)" 'get key\r\n') == 'VALUE key 0 5' ]]
kill -TERM "$pid"
wait "$pid"
trap 'rm -f "$log"' EXIT
echo "1 passed"

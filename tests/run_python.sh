#!/usr/bin/env bash
# The tests in Python: real clients, hostile clients, and random streams beside Redis and memcached.
#   run_python.sh [server binary] [commands of the differential test]
# Beside them goes a short stream to the server whose index is on a fake device, where it was built.
# The stream of `make test` is always the same, so that a red run has a cause in the change; a longer one is drawn anew.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
repository="$(dirname "$here")"
server="$(realpath "${1:-$repository/build/release/isotherm-server}")"
commands="${2:-160000}"
venv="$repository/build/venv"

if ! "$venv/bin/python" -c 'import pymemcache, pytest, redis' 2>/dev/null; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet redis pymemcache pytest
fi

export ISOTHERM_SERVER="$server" PYTHONDONTWRITEBYTECODE=1
cd "$here/python"
device_log="$(mktemp)"
trap 'rm -f "$device_log"' EXIT
device_stream=
if [[ -x $server-fake-device ]]; then
  "$venv/bin/python" differential.py --server "$server-fake-device" --device cuda --commands 20000 \
    --seed 1 >"$device_log" 2>&1 &
  device_stream=$!
fi

"$venv/bin/python" -m pytest -q -p no:cacheprovider . ../hostile
seed=()
if [[ $commands -le 200000 ]]; then seed=(--seed 1); fi
"$venv/bin/python" differential.py --server "$server" --commands "$commands" "${seed[@]}"

if [[ -n $device_stream ]]; then
  status=0
  wait "$device_stream" || status=$?
  cat "$device_log"
  exit "$status"
fi

#!/usr/bin/env bash
# Linearizability of histories with the index on a device: run_device.sh SERVER-BINARY [histories]
# Of a server on a fake device (its name ends in fake-device) the device is also lost in the middle
# of histories, after as many operations on it as are named below; each has a server of its own.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
server="$(realpath "${1:?which server binary?}")"
histories="${2:-4}"
. "$here/server.sh"

cd "$here"
go build -o "$scratch/linearizability" .

# The value of a field of INFO; `info FIELD [SECTION]`.
info() {
  exec 3<>"/dev/tcp/${resp_address/://}"
  printf 'INFO %s\r\nQUIT\r\n' "${2:-stats}" >&3
  tr -d '\r' <&3 | sed -n "s/^$1://p"
  exec 3>&-
}

server_flags=(--gpu-schedule greedy)

# part ON-GPU-AT-THE-END CHECKER-FLAGS
part() {
  local expected="$1" flags=("${@:2}")
  echo "== ${server_flags[*]} ${flags[*]} ${ISOTHERM_LOSE_DEVICE_AFTER:+device lost after $ISOTHERM_LOSE_DEVICE_AFTER}"
  start_server "$server" --device cuda "${server_flags[@]}"
  if [ "$(info index_on_gpu)" != 1 ]; then
    echo "the index is not on the device" >&2
    return 1
  fi
  # Few other keys: a fake device is slow.
  "$scratch/linearizability" -resp "$resp_address" -memcached "$memcached_address" \
    -keys 4 -fill 1000 "${flags[@]}"
  if [ "$(info index_on_gpu)" != "$expected" ]; then
    echo "the index is on the device: $(info index_on_gpu), expected $expected" >&2
    return 1
  fi
  if [[ ${server_flags[*]} == *adaptive* ]] && [ "$(info index_side_switches)" = 0 ]; then
    echo "the index has stayed on one side" >&2
    return 1
  fi
  stop_server
}

part 1 -histories "$histories"
# The index goes to the host and back, and writes wait while reads pass them.
for schedule in "adaptive --gpu-batch 4" "periodic --gpu-write-cycles 3"; do
  read -ra server_flags <<<"--gpu-schedule $schedule"
  part 1 -histories 1
done

# The least that a device may have; a fake one is slow with more.
gpu_items=256mb
case "$server" in *fake-device) gpu_items=64mb ;; esac

# Items live on the device, and their cache is too small for the other keys: what is asked for has
# been forgotten now and then.
items() {
  echo "== items on the device $*"
  start_server "$server" --device cuda --gpu-items "$gpu_items" --maxmemory "$cache"
  "$scratch/linearizability" -resp "$resp_address" -memcached "$memcached_address" \
    -keys 4 "$@"
  if [ "$(info tree_keys_asked persistence)" = 0 ]; then
    echo "the cache has forgotten nothing" >&2
    return 1
  fi
  stop_server
}
cache=8mb
items -histories 1 -fill 6000

# A number of memcached's `stats`.
stat() {
  exec 3<>"/dev/tcp/${memcached_address/://}"
  printf 'stats\r\nquit\r\n' >&3
  tr -d '\r' <&3 | sed -n "s/^STAT $1 //p"
  exec 3>&-
}

# The same beside clients whose requests come in frames, which the device answers where nobody has changed
# their keys.
start_packets() {
  start_server "$1" --device cuda --gpu-items "$gpu_items" --maxmemory "$cache" \
    --memcached-packets-address 127.0.0.1 --memcached-packets-port 0
}
packets() {
  echo "== gets in frames, items on the device $*"
  start_packets "$server"
  "$scratch/linearizability" -resp "$resp_address" -memcached "$memcached_address" \
    -packets "$(listening "memcached packets")" -keys 12 "$@"
  echo "$(stat packet_gets_by_gpu) gets in frames by the device, $(stat packet_gets_changed) of changed keys"
  if [ "$(stat packet_gets_by_gpu)" = 0 ] || [ "$(stat packet_gets_changed)" = 0 ]; then
    echo "the device has not answered, or nobody has changed what it answered" >&2
    return 1
  fi
  stop_server
}
cache=16mb # of which a part is for frames
packets -histories "$histories" -fill 1000

# Frames are answered without the device, too, when it is lost; what it alone had has vanished.
packets_lost() {
  echo "== gets in frames, device lost after $ISOTHERM_LOSE_DEVICE_AFTER"
  start_packets "$server"
  "$scratch/linearizability" -resp "$resp_address" -memcached "$memcached_address" -evicting \
    -packets "$(listening "memcached packets")" -keys 12 -histories 1 -fill 100 -profile mixed
  if [ "$(info gpu_items_lost persistence)" != 1 ]; then
    echo "the device was not lost" >&2
    return 1
  fi
  stop_server
}

# Where all that the device answers counts, whoever has changed it, a history must show it.
packets_negative() {
  local status=0
  start_packets "$1"
  TMPDIR="$scratch" "$scratch/linearizability" -resp "$resp_address" -memcached "$memcached_address" \
    -packets "$(listening "memcached packets")" -keys 12 -histories 20 -fill 1000 -profile mixed \
    >"$scratch/verdict" || status=$?
  stop_server
  tail -n 1 "$scratch/verdict"
  if [ "$status" != 1 ]; then
    echo "old answers of the device were not caught: status $status" >&2
    return 1
  fi
  echo "caught"
}
broken="${server%fake-device}broken-fake-device"
if [ -x "$broken" ]; then
  ISOTHERM_BREAK=newest packets_negative "$broken"
fi

server_flags=(--gpu-schedule greedy)
case "$server" in *fake-device)
  export ISOTHERM_LOSE_DEVICE_AFTER=1000
  packets_lost
  for lost in mixed:600 counters:300 swaps:1000; do
    export ISOTHERM_LOSE_DEVICE_AFTER="${lost#*:}"
    part 0 -histories 1 -profile "${lost%:*}" -allow-vacuous
  done
  ;;
esac

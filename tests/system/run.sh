#!/usr/bin/env bash
# Memory under churn, eviction against exact LRU and of large values, a tree with more than memory, snapshots
# while others write; long: everything at once, and kills, too: run.sh [server-binary] [quick|long]
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
server="$(realpath "${1:-$here/../../build/release/isotherm-server}")"
cd "$here"
export PYTHONDONTWRITEBYTECODE=1
# Of a store in memory, of one with a tree, and of items on a fake device.
snapshot_moments() {
  python3 snapshot_moment.py --server "$server" -- --threads 2
  tree="$(mktemp -d)"
  python3 snapshot_moment.py --server "$server" -- --threads 2 --tree "$tree" --maxmemory 16mb
  rm -rf "$tree"
  python3 snapshot_moment.py --server "$(dirname "$server")/isotherm-server-fake-device" -- \
    --threads 2 --device cuda --gpu-items 300mb --maxmemory 16mb
}
# Everything at once, and kills: of stores in memory, with a tree, and of each part that a device may have.
mixed_loads() {
  local fake folder
  fake="$(dirname "$server")/isotherm-server-fake-device"
  folder="$(mktemp -d)"
  mixed() {
    python3 mixed_load.py --largest 500kb "$@"
    rm -rf "$folder"/*
  }
  mixed --server "$server" --seconds 60
  mixed --server "$server" --kills 20 -- --appendonly yes --dir "$folder"
  mixed --server "$server" --kills 20 --caps 16mb 40mb -- --tree "$folder/tree" --maxmemory 16mb \
    --appendonly yes --dir "$folder"
  mixed --server "$fake" --seconds 60 -- --device cuda
  mixed --server "$fake" --seconds 60 -- --device cuda --gpu-values 300mb --maxmemory 100mb
  mixed --server "$fake" --kills 20 --caps 64mb 128mb -- --device cuda --gpu-items 300mb \
    --maxmemory 64mb --appendonly yes --dir "$folder"
  rm -rf "$folder"
}
case "${2:-quick}" in
  quick)
    python3 memory_churn.py --server "$server"
    python3 eviction_hit_rate.py --server "$server"
    python3 eviction_hit_rate.py --server "$server" --sizes 9000 60000 200000 900000 --keys 1000 \
      --requests 15000 --points 0.5
    python3 large_values.py --server "$server"
    python3 more_than_memory.py --server "$server" --times 5
    snapshot_moments
    ;;
  long)
    python3 memory_churn.py --server "$server" --maxmemory 1gb --rounds 4 --cycles 8
    python3 eviction_hit_rate.py --server "$server" --maxmemory 256mb --keys 4000000 \
      --requests 10000000 --theta 0.7 0.99 1.2
    python3 large_values.py --server "$server" --scale 10
    python3 more_than_memory.py --server "$server" --maxmemory 256mb --minutes 30
    mixed_loads
    ;;
  *)
    echo "quick or long, not $2" >&2
    exit 64
    ;;
esac

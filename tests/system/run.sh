#!/usr/bin/env bash
# Memory under churn, eviction against exact LRU and of large values, a tree with more than memory: run.sh [server-binary] [quick|long]
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
server="$(realpath "${1:-$here/../../build/release/isotherm-server}")"
cd "$here"
export PYTHONDONTWRITEBYTECODE=1
case "${2:-quick}" in
  quick)
    python3 memory_churn.py --server "$server"
    python3 eviction_hit_rate.py --server "$server"
    python3 large_values.py --server "$server"
    python3 more_than_memory.py --server "$server" --times 5
    ;;
  long)
    python3 memory_churn.py --server "$server" --maxmemory 1gb --rounds 4 --cycles 8
    python3 eviction_hit_rate.py --server "$server" --maxmemory 256mb --keys 4000000 \
      --requests 10000000 --theta 0.7 0.99 1.2
    python3 large_values.py --server "$server" --scale 10
    python3 more_than_memory.py --server "$server" --maxmemory 256mb --minutes 30
    ;;
  *)
    echo "quick or long, not $2" >&2
    exit 64
    ;;
esac

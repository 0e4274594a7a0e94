#!/usr/bin/env bash
# Linearizability of a server with a journal that is killed and started again during each history, also
# of one whose items are in the files of a tree:
# run_restart.sh [server-binary] [histories]
# Of a server that breaks rules on demand (its name ends in broken) replies come before what they show
# is on disk, or even written, and that must be caught.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
server="$(realpath "${1:-$here/../../build/release/isotherm-server}")"
histories="${2:-4}"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
export TMPDIR="$scratch"

cd "$here"
go build -o "$scratch/linearizability" .
case "$server" in
  *broken)
    for _ in 1 2 3; do
      status=0
      ISOTHERM_BREAK=syncing "$scratch/linearizability" -restart "$server" -histories "$histories" \
        >"$scratch/verdict" || status=$?
      tail -n 1 "$scratch/verdict"
      case "$status" in
        0 | 4) ;; # 4: judging took too long, which proves nothing
        1) echo "caught"; exit 0 ;;
        *) echo "the run could not be made" >&2; exit 2 ;;
      esac
    done
    echo "a server that answers before it writes passed" >&2
    exit 1
    ;;
  *)
    "$scratch/linearizability" -restart "$server" -histories "$histories"
    "$scratch/linearizability" -restart "$server --tree DIR/tree --maxmemory 2mb" \
      -histories "$(((histories + 1) / 2))"
    ;;
esac

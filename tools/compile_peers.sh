#!/usr/bin/env bash
# Builds the programs that compare tables on a GPU with those of others, into build/cuda: peer_table_bench
# (cuCollections, whose headers are fetched as a Python wheel into build/peers) and, where a checkout of
# HierarchicalKV is named, peer_rows_bench. Nothing else needs this. No GPU is needed.
#
# Usage: compile_peers.sh [--hkv FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."

hkv=
case ${1:-} in
  "") ;;
  --hkv)
    hkv=$(realpath "${2:?compile_peers.sh: --hkv needs the folder of a checkout}")/include
    if [[ ! -f $hkv/merlin_hashtable.cuh ]]; then
      echo "compile_peers.sh: no merlin_hashtable.cuh in $hkv" >&2
      exit 64
    fi
    ;;
  *)
    echo "compile_peers.sh [--hkv FOLDER]" >&2
    exit 64
    ;;
esac

# The last of these wheels that has cuCollections, with the CCCL that it was written for.
wheel=libraft-cu13==25.12.0
folder=build/peers/libraft
if [[ ! -f $folder/.complete ]]; then
  rm -rf build/peers
  mkdir -p build/peers
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    -d build/peers "$wheel"
  python3 - build/peers <<'END'
import pathlib, sys, zipfile
folder = pathlib.Path(sys.argv[1])
for wheel in folder.glob("*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        wanted = ("libraft/include/cuco/", "libraft/include/rapids/")
        archive.extractall(folder, [n for n in archive.namelist() if n.startswith(wanted)])
    wheel.unlink()
END
  touch "$folder/.complete"
fi
include=$(realpath "$folder/include")

targets=(peer_table_bench)
if [[ -n $hkv ]]; then targets+=(peer_rows_bench); fi
tools/setup_cuda.sh >/dev/null
cmake --preset release -DISOTHERM_CUDA=ON "-DISOTHERM_CUCO_INCLUDE=$include/rapids;$include" \
  "-DISOTHERM_HKV_INCLUDE=$hkv" >/dev/null
cmake --build --preset release --target "${targets[@]}"

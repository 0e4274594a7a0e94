#!/usr/bin/env bash
# Prints the path of nvcc, after fetching it as Python wheels into build/cuda-venv if there is none.
# A GPU is not needed to compile.
#
# Usage: setup_cuda.sh              fetches it
#        setup_cuda.sh --present    fails where there is none yet
set -euo pipefail
cd "$(dirname "$0")/.."

for nvcc in "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc; do
  if [[ -x $nvcc ]] && "$nvcc" --version | grep -qE 'release 1[3-9]\.'; then
    echo "$nvcc"
    exit 0
  fi
done

venv=build/cuda-venv
wheels=(nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88
  nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85)
find_nvcc() { find "$venv" -path '*/nvidia/*/bin/nvcc' -print -quit 2>/dev/null; }
if [[ ! -f $venv/.complete ]]; then
  if [[ ${1:-} == --present ]]; then exit 1; fi
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "${wheels[@]}" >&2
  touch "$venv/.complete"
fi
nvcc=$(find_nvcc)
if [[ -z $nvcc ]]; then
  echo "setup_cuda.sh: the wheels brought no nvcc" >&2
  exit 1
fi
chmod +x "$nvcc"
# The wheels keep their libraries where nvcc does not look by itself.
folder=$(realpath "$(dirname "$nvcc")/..")
if [[ ! -e $folder/lib64 ]]; then ln -s lib "$folder/lib64"; fi
realpath "$nvcc"

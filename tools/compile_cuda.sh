#!/usr/bin/env bash
# Builds the GPU's part with what it needs of the host's: the libraries, and each file of tests/cuda and
# bench/cuda with a `main` as a program of its own name in build/cuda (cmake/IsothermCuda.cmake). Fetches
# nvcc where there is none. No GPU is needed.
#
# Usage: compile_cuda.sh [flags of cmake]   (-DISOTHERM_CUDA_ARCHITECTURES=…: for other GPUs)
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup_cuda.sh >/dev/null
# What an earlier call compiled in another way is compiled anew.
cmake --preset release -DISOTHERM_CUDA=ON -DISOTHERM_CUDA_TO_PTX=OFF "$@" >/dev/null
cmake --build --preset release --target isotherm_gpu isotherm-gpu-programs
echo "$(find src tests bench -name '*.cu' ! -path '*/peers/*' | wc -l) passed"

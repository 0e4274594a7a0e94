#!/usr/bin/env bash
# Compiles every .cu file of src/, tests/ and bench/ for sm_90 and to PTX. Those of src/ make the
# library libisotherm_cuda.a; tests/cuda/*_test.cu and bench/cuda/*_bench.cu become programs of it
# and of the host's library (build/release/lib/libisotherm.a, which is built if need be) that need no
# CUDA library. What the server links lies beside them: server_gpu.o, libcudart_static.a. No GPU is
# needed.
#
# Usage: compile_cuda.sh             everything, into build/cuda
#        compile_cuda.sh --server    what the server links, if it is older than the sources
set -euo pipefail
cd "$(dirname "$0")/.."

out=build/cuda
server_source=src/device/gpu/cuda_root_table.cu
nvcc=$(tools/setup_cuda.sh)
objects=$out/objects
mkdir -p "$objects"

object_of() { echo "$objects/$(tr / _ <<<"${1%.cu}").o"; }

compile() {
  echo "nvcc $1"
  "$nvcc" -c -std=c++20 -O2 -gencode arch=compute_90,code=sm_90 \
    -gencode arch=compute_90,code=compute_90 -Werror all-warnings \
    -Xcompiler -mcx16,-Wall,-Wextra,-Werror -Iinclude -Isrc -Itests -Ibench "$1" \
    -o "$(object_of "$1")"
}

# The wheels keep their libraries where nvcc does not look by itself.
link() {
  local program=$1
  shift
  echo "link $program"
  "$nvcc" -arch=sm_90 --cudart static -L"$(dirname "$nvcc")/../lib" "$@" -o "$program"
}

# The whole of it appears at once, so that a build never links a half.
install_server_part() {
  local runtime
  for runtime in "$(dirname "$nvcc")"/../{lib,lib64,targets/x86_64-linux/lib}/libcudart_static.a; do
    [[ -f $runtime ]] || continue
    cp "$runtime" "$out/libcudart_static.a"
    cp "$(object_of "$server_source")" "$out/server_gpu.o"
    return
  done
  echo "compile_cuda.sh: no libcudart_static.a beside $nvcc" >&2
  return 1
}

if [[ ${1:-} == --server ]]; then
  if [[ -f $out/server_gpu.o ]] &&
    [[ -z $(find src include "$0" -type f -newer "$out/server_gpu.o" -print -quit) ]]; then
    exit 0
  fi
  compile "$server_source"
  install_server_part
  exit 0
fi

mapfile -t sources < <(find src tests bench -name '*.cu' | sort)
export objects nvcc
export -f object_of compile
printf '%s\0' "${sources[@]}" | xargs -0 -P 2 -I{} bash -c 'set -euo pipefail; compile "$1"' _ {}

library=()
shared=()
programs=()
for source in "${sources[@]}"; do
  case $source in
    src/*) library+=("$(object_of "$source")") ;;
    tests/cuda/*_test.cu | bench/cuda/*_bench.cu) programs+=("$source") ;;
    *) shared+=("$(object_of "$source")") ;;
  esac
done
install_server_part
rm -f "$out/libisotherm_cuda.a"
ar rcs "$out/libisotherm_cuda.a" "${library[@]}"
cmake --preset release >/dev/null
cmake --build --preset release --target isotherm
for source in "${programs[@]}"; do
  link "$out/$(basename "$source" .cu)" "$(object_of "$source")" "${shared[@]}" \
    "$out/libisotherm_cuda.a" build/release/lib/libisotherm.a
done
echo "$((${#sources[@]} + ${#programs[@]})) passed"

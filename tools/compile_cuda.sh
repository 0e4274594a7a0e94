#!/usr/bin/env bash
# Compiles every .cu file of src/, tests/ and bench/ for sm_90 and to PTX. Those of src/ make the
# library libisotherm_cuda.a. Each file of tests/cuda and bench/cuda with a `main` becomes a program of
# its own name, with that library and the host's (build/release/lib/libisotherm.a, which is built if
# need be); programs need no CUDA library. What the server links lies beside them: server_gpu.o,
# libcudart_static.a. No GPU is needed.
#
# Files that share headers and kernels are compiled as one, which takes a fifth of the time. Their
# programs are then one file under several names, which looks at the name that it was called by.
#
# Usage: compile_cuda.sh             everything, into build/cuda
#        compile_cuda.sh --server    what the server links, if it is older than the sources
set -euo pipefail
cd "$(dirname "$0")/.."

out=build/cuda
server_source=src/gpu/cuda_root_table.cu
nvcc=$(tools/setup_cuda.sh)
mkdir -p "$out/united" "$out/objects"

compile() {
  echo "nvcc $1"
  "$nvcc" -c -std=c++20 -O2 -gencode arch=compute_90,code=sm_90 \
    -gencode arch=compute_90,code=compute_90 -Werror all-warnings \
    -Xcompiler -mcx16,-Wall,-Wextra,-Werror -I. -Iinclude -Isrc -Itests -Ibench "$1" \
    -o "$out/objects/$(basename "$1" .cu).o"
}

# The whole of it appears at once, so that a build never links a half.
install_server_part() {
  local runtime
  for runtime in "$(dirname "$nvcc")"/../{lib,lib64,targets/x86_64-linux/lib}/libcudart_static.a; do
    [[ -f $runtime ]] || continue
    cp "$runtime" "$out/libcudart_static.a"
    cp "$out/objects/$(basename "$server_source" .cu).o" "$out/server_gpu.o"
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

programs_of() { grep -lE '^int main\(' "$@" | xargs -r -n 1 basename -s .cu; }

# Writes a file that includes the given ones, and a `main` that calls that of the program's name.
unite() {
  local united=$out/united/$1.cu file name
  shift
  {
    for file in "$@"; do
      name=$(basename "$file" .cu)
      printf '#define main %s_main\n#include "%s"\n#undef main\n' "$name" "$file"
    done
    printf '#include <cstring>\nint main(int argc, char** argv) {\n'
    printf '  const char* slash = std::strrchr(argv[0], %s);\n' "'/'"
    printf '  const char* name = slash == nullptr ? argv[0] : slash + 1;\n'
    for name in $(programs_of "$@"); do
      printf '  if (std::strcmp(name, "%s") == 0) return %s_main(argc, argv);\n' "$name" "$name"
    done
    printf '  return 64;\n}\n'
  } >"$united"
}

mapfile -t library < <(find src -name '*.cu' ! -path "$server_source" | sort)
mapfile -t benches < <(find bench/cuda -name '*.cu' | sort)
mapfile -t index_tests < <(find tests/cuda -name 'index_kernels*.cu' | sort)
mapfile -t tests < <(find tests/cuda -name '*.cu' ! -name 'index_kernels*' | sort)
for source in "${library[@]}"; do echo "#include \"$source\""; done >"$out/united/library.cu"
unite index_tests "${index_tests[@]}"
unite tests "${tests[@]}"
unite benches "${benches[@]}"

export out nvcc
export -f compile
printf '%s\0' "$out"/united/{tests,library,benches,index_tests}.cu "$server_source" |
  xargs -0 -P "$(nproc)" -I{} bash -c 'set -euo pipefail; compile "$1"' _ {}

install_server_part
rm -f "$out/libisotherm_cuda.a"
ar rcs "$out/libisotherm_cuda.a" "$out/objects/library.o" "$out/server_gpu.o"
cmake --preset release >/dev/null
cmake --build --preset release --target isotherm

# The wheels keep their libraries where nvcc does not look by itself.
link() {
  local united=$1 name
  shift
  "$nvcc" -arch=sm_90 --cudart static -L"$(dirname "$nvcc")/../lib" "$out/objects/$united.o" \
    "$out/libisotherm_cuda.a" build/release/lib/libisotherm.a -o "$out/$united"
  for name in $(programs_of "$@"); do
    echo "link $name"
    ln -f "$out/$united" "$out/$name"
  done
}
link index_tests "${index_tests[@]}"
link tests "${tests[@]}"
link benches "${benches[@]}"
echo "$(find src tests bench -name '*.cu' | wc -l) passed"

#!/usr/bin/env bash
# Checks that code compiled for AVX2 or AVX-512 stays in its own file.
#
# An inline function that several files use is emitted in each as a weak symbol, and the linker
# keeps any one of them. Were that the copy from an *_avx2.cc file, the program would die on a
# processor without AVX2. So such objects may define weak functions only if the name contains
# Avx2 or Avx512: those are reached after the check at run time alone. Left out are the small programs
# *_bench, which nobody installs and which run where they were built.
#
# Usage: check_isa_symbols.sh FOLDER   (a build folder; its *_avx2.cc.o and *_avx512.cc.o)
set -euo pipefail

folder=${1:?usage: check_isa_symbols.sh FOLDER}
bad=0
while IFS= read -r -d '' object; do
  symbols=$(nm -C --defined-only "$object" | grep -E '^[0-9a-f]+ W ' | cut -d' ' -f3- |
    grep -vE 'Avx2|Avx512' || true)
  if [[ -n $symbols ]]; then
    echo "$object defines functions that the linker may share:"
    while IFS= read -r symbol; do echo "  $symbol"; done <<<"$symbols"
    bad=1
  fi
done < <(find "$folder" \( -name '*_avx2.cc.o' -o -name '*_avx512.cc.o' \) \
  ! -path '*_bench.dir/*' -print0)
exit "$bad"

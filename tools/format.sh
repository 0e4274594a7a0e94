#!/usr/bin/env bash
# Formats all C++ and CUDA sources; with --check it only names the files that would change and fails.
set -euo pipefail
cd "$(dirname "$0")/.."

folders=()
for folder in src include python bench tests examples; do
  if [[ -d $folder ]]; then folders+=("$folder"); fi
done
sources() {
  find "${folders[@]}" \( -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \) -print0
}
if [[ ${1:-} != --check ]]; then
  sources | xargs -0 -r -P 2 -n 16 clang-format-14 -i
  exit 0
fi
bad=$({ sources | xargs -0 -r clang-format-14 --dry-run -Werror 2>&1 || true; } |
  sed -nE 's/^([^ :]+):[0-9]+:[0-9]+: error:.*/\1/p' | sort -u)
if [[ -n $bad ]]; then
  echo "Not formatted (make format does it):"
  echo "$bad"
  exit 1
fi

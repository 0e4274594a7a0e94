#!/usr/bin/env bash
# Builds the Python package's extension with the library of a build, and runs the package's tests.
#   run_python_package.sh [build folder] [arguments of pytest]
set -euo pipefail
repository="$(cd "$(dirname "$0")/.." && pwd)"
build="$(realpath "${1:-$repository/build/release}")"
shift || true
python="$repository/build/venv/bin/python"
work="$repository/build/python"

launcher=$(command -v ccache || true)
# Optimised less than what is installed, for it takes longer to compile than to run.
cmake -S "$repository/python" -B "$work" -G Ninja -DCMAKE_CXX_COMPILER=g++ \
  -DCMAKE_CXX_FLAGS_RELEASE="-O1 -DNDEBUG" \
  ${launcher:+-DCMAKE_CXX_COMPILER_LAUNCHER="$launcher"} -DPython_EXECUTABLE="$python" \
  -DISOTHERM_PYTHON_LIBRARY="$build/lib/libisotherm.a" >/dev/null
cmake --build "$work"
rm -rf "$work/site"
cmake --install "$work" --prefix "$work/site" >/dev/null
# Where the build has it, tables are tested on fake GPUs, too.
fake="$build/tests/fake_device/isotherm_fake_gpu_part.so"
if [[ -e $fake ]]; then export ISOTHERM_TEST_GPU_PART="$fake"; fi
cd "$repository/python/tests"
PYTHONPATH="$work/site" PYTHONDONTWRITEBYTECODE=1 "$python" -m pytest -q -p no:cacheprovider -rs . "$@"

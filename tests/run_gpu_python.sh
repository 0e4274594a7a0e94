#!/usr/bin/env bash
# Builds the Python package with its GPU part from the libraries of the release build (tools/compile_cuda.sh
# makes them), and runs its tests on a GPU. Tests of PyTorch and CuPy are skipped where these are missing.
#   run_gpu_python.sh --build      only builds, into build/gpu-python/site, which a machine with a GPU needs
#                                  beside NumPy and pytest (build/gpu-python/packages is looked into, too)
#   run_gpu_python.sh --run        only runs what was built
#   run_gpu_python.sh              both
# ISOTHERM_PYTHON names another Python; with ISOTHERM_PYTHON_ABI3=1 (cmake 3.26, Python 3.12) what is built
# serves that and all later ones.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(command -v "${ISOTHERM_PYTHON:-build/venv/bin/python}")
python=$(realpath -s "$python")
work=build/gpu-python

if [[ ${1:-} != --run ]]; then
  libraries=build/release/lib
  cudart=$(sed -n 's/^ISOTHERM_CUDART:[A-Z]*=//p' build/release/CMakeCache.txt)
  launcher=$(command -v ccache || true)
  cmake -S python -B "$work/build" -G Ninja -DCMAKE_CXX_COMPILER=g++ \
    ${launcher:+-DCMAKE_CXX_COMPILER_LAUNCHER="$launcher"} -DPython_EXECUTABLE="$python" \
    ${ISOTHERM_PYTHON_ABI3:+-DSKBUILD_SABI_COMPONENT=Development.SABIModule} \
    -DISOTHERM_PYTHON_LIBRARY="$(realpath "$libraries/libisotherm.a")" \
    -DISOTHERM_PYTHON_GPU_LIBRARIES="$(realpath "$libraries/libisotherm_gpu.a");$(realpath \
      "$libraries/libisotherm_gpu_store.a");$cudart" >/dev/null
  cmake --build "$work/build"
  rm -rf "$work/site"
  cmake --install "$work/build" --prefix "$work/site" >/dev/null
fi
if [[ ${1:-} == --build ]]; then exit 0; fi
if [[ ! -e /dev/nvidiactl ]]; then
  echo "Python package: skipped: no GPU"
  exit 0
fi
export PYTHONPATH="$PWD/$work/site:$PWD/$work/packages" PYTHONDONTWRITEBYTECODE=1
cd python/tests
"$python" -m pytest -q -p no:cacheprovider -rs test_gpu.py test_gpu_arrays.py test_gpu_host_memory.py test_device_strings.py test_several_gpus.py test_evict.py test_gpu_libraries.py test_docs.py test_table.py test_files.py test_threads.py

#!/usr/bin/env bash
# Runs what a GPU is tested with: kernels and tables against models, stores whose index is on it
# against models, the scripts, the Python package, histories of concurrent clients, and random streams beside Redis and
# memcached. Says `skipped` where there is no GPU, or not what a part needs.
#
# Usage: run_gpu.sh   (programs from build/cuda and build/release)
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ ! -e /dev/nvidiactl ]]; then
  echo "kernels, tables, stores and scripts: skipped: no GPU"
  exit 0
fi
build/cuda/index_kernels_test
build/cuda/device_table_test
build/cuda/split_table_test
build/cuda/device_queue_test
build/cuda/device_item_test
build/cuda/device_sorted_test
ISOTHERM_TEST_GPU=$(find /dev -maxdepth 1 -name "nvidia[0-9]*" | wc -l)
export ISOTHERM_TEST_GPU
build/release/isotherm-unit-tests --gtest_brief=1 --gtest_filter='Gpu/*'
build/release/isotherm-script-tests --gtest_brief=1 --gtest_filter='Gpu*'
python3 tests/system/mixed_load.py -- --device cuda
python3 tests/system/mixed_load.py -- --device cuda --gpu-values 1gb --maxmemory 300mb
python3 tests/system/mixed_load.py --caps 100mb 300mb -- --device cuda --gpu-items 1gb --maxmemory 300mb
if [[ -x build/release/isotherm-packets ]]; then
  tests/cuda/check_packets.py
else
  echo "packets: skipped: no isotherm-packets in build/release"
fi
if build/venv/bin/python -c 'import numpy, nanobind' 2>/dev/null; then
  tests/run_gpu_python.sh
else
  echo "Python package: skipped: no NumPy or nanobind in build/venv"
fi
if command -v go >/dev/null; then
  bash tests/linearizability/run_device.sh build/release/isotherm-server 20
else
  echo "histories: skipped: no go"
fi
if command -v redis-server >/dev/null && command -v memcached >/dev/null; then
  build/venv/bin/python tests/python/differential.py --device cuda --commands 60000
else
  echo "random streams: skipped: no redis-server or no memcached"
fi

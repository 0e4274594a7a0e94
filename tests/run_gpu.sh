#!/usr/bin/env bash
# Runs what a GPU is tested with: kernels and tables against models, stores whose index is on it
# against models, and the scripts. Says `skipped: no GPU` where there is none.
#
# Usage: run_gpu.sh   (programs from build/cuda and build/release)
set -euo pipefail
cd "$(dirname "$0")/.."

build/cuda/index_kernels_test
build/cuda/device_table_test
build/cuda/sharded_table_test
build/cuda/device_queue_test
build/cuda/device_item_test
if [[ ! -e /dev/nvidiactl ]]; then
  echo "stores and scripts: skipped: no GPU"
  exit 0
fi
ISOTHERM_TEST_GPU=$(find /dev -maxdepth 1 -name "nvidia[0-9]*" | wc -l)
export ISOTHERM_TEST_GPU
build/release/isotherm-unit-tests --gtest_brief=1 --gtest_filter='Gpu/*'
build/release/isotherm-script-tests --gtest_brief=1 --gtest_filter='Gpu*'

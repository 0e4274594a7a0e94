#!/usr/bin/env bash
# Runs Feast's own tests of online stores with ours: those which Feast runs with each of its stores, and
# those for one store that ask what any store must do (tests/python/feast_configs.py).
#   run_feast_tests.sh CHECKOUT    of Feast at the release that is installed (0.67 and later)
# ISOTHERM_PYTHON is a Python that has isotherm[feast], and what these tests need: assertpy, botocore,
# minio, pytest, pytest-asyncio, pytest-xdist and testcontainers.
set -euo pipefail
repository="$(cd "$(dirname "$0")/.." && pwd)"
checkout=${1:-}
if [[ -z $checkout ]]; then
  echo "Feast's tests: skipped: no checkout"
  exit 0
fi
python=$(command -v "${ISOTHERM_PYTHON:-$repository/build/venv/bin/python}")
if [[ -d $checkout/sdk/python ]]; then checkout=$checkout/sdk/python; fi
cd "$checkout"
# Those that start containers of other stores, and search by vectors, are not ours.
PYTHONPATH="$PWD:$repository/tests/python${PYTHONPATH:+:$PYTHONPATH}" FULL_REPO_CONFIGS_MODULE=feast_configs \
  "$python" -m pytest -p no:cacheprovider --integration -o asyncio_mode=auto -q -rs \
  -k "not dynamo and not documents and not image_search and not connection_pool" \
  tests/universal/online_store tests/integration/online_store/test_universal_online_types.py

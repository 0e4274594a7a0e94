#!/usr/bin/env bash
# Installs what is missing, by apt on Debian 12; does nothing when everything is there.
#
# Usage: setup.sh build   compilers and libraries that the programs need
#        setup.sh run     the same and clients to try the server with
#        setup.sh bench   the same as build and the servers to compare with
#        setup.sh test    all that `make test` needs, Python packages in build/venv included
set -euo pipefail
cd "$(dirname "$0")/.."

goal=${1:-test}
packages=(g++ make cmake ninja-build libxxhash-dev libjemalloc-dev libcli11-dev
  libspdlog-dev libfmt-dev libgtest-dev libbenchmark-dev librapidcheck-dev libabsl-dev
  librocksdb-dev)
case $goal in
  build) ;;
  run) packages+=(redis-tools netcat-openbsd) ;;
  bench) packages+=(redis-tools redis-server memcached) ;;
  test)
    packages+=(clang-14 lld-14 clang-tidy-14 clang-format-14 libclang-rt-14-dev redis-tools redis-server
      memcached libmemcached-tools python3 python3-venv ca-certificates iproute2)
    command -v go >/dev/null || packages+=(golang-go)
    ;;
  *)
    echo "setup.sh: unknown goal '$goal'; one of build, run, bench, test" >&2
    exit 64
    ;;
esac

installed() { [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

as_root() {
  if [[ $(id -u) == 0 ]]; then "$@"; else sudo "$@"; fi
}

# The tests start servers of their own on free ports; a package that starts its service during the
# installation would take the ports that `make run` listens on.
forbid_service_start() {
  [[ -e /usr/sbin/policy-rc.d ]] && return
  printf '#!/bin/sh\nexit 101\n' | as_root tee /usr/sbin/policy-rc.d >/dev/null
  as_root chmod 755 /usr/sbin/policy-rc.d
  trap 'as_root rm -f /usr/sbin/policy-rc.d' EXIT
}

install_packages() {
  if ! command -v apt-get >/dev/null; then
    echo "setup.sh: no apt-get here; please install: $*" >&2
    exit 1
  fi
  echo "Installing: $*"
  forbid_service_start
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" \
    >/dev/null
}

missing=()
for package in "${packages[@]}"; do
  installed "$package" || missing+=("$package")
done
if ((${#missing[@]} > 0)); then install_packages "${missing[@]}"; fi

if [[ $goal == test ]]; then
  stamp=build/venv/.requirements
  if ! cmp -s tools/requirements.txt "$stamp"; then
    echo "Making build/venv"
    rm -rf build/venv
    python3 -m venv build/venv
    build/venv/bin/pip install --quiet --disable-pip-version-check -r tools/requirements.txt
    cp tools/requirements.txt "$stamp"
  fi
fi

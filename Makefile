# The two commands to know: `make run` and `make test`. `make help` lists the others.

PREFIX ?= /usr/local
ARGS ?=
CMAKE_FLAGS ?=

.DEFAULT_GOAL := build
.PHONY: build run test test-quick test-long test-gpu test-gpu-sanitize \
	bench bench-gpu bench-peers portable format install clean help

build: ## build build/release/isotherm-server, isotherm-check and isotherm-bench, for GPUs too where nvcc is found
	@tools/setup.sh build
	@cmake --preset release $(CMAKE_FLAGS) >/dev/null
	@cmake --build --preset release --target isotherm-server isotherm-check isotherm-bench

run: ## build the server, then serve on 127.0.0.1:6379 (RESP) and 127.0.0.1:11211 (memcached); ARGS="--threads 2"
	@tools/setup.sh run
	@cmake --preset release $(CMAKE_FLAGS) >/dev/null
	@cmake --build --preset release --target isotherm-server
	@echo
	@echo 'Next, in another terminal:'
	@echo '  redis-cli set greeting hello        # OK'
	@echo '  redis-cli get greeting              # "hello"'
	@echo "  printf 'get greeting\r\nquit\r\n' | nc 127.0.0.1 11211"
	@echo '  redis-benchmark -t set,get -P 32 -q'
	@echo 'Ctrl-C ends the server; nothing is kept.'
	@echo
	@exec build/release/isotherm-server --port 6379 --memcached-port 11211 $(ARGS)

test: ## all checks and tests (about 20 minutes on 2 cores, up to 40 on slow ones)
	@tools/run_tests.sh

test-quick: ## after an edit: release build, unit tests of what changed, scripts
	@tools/run_tests.sh --quick

test-long: ## the same with 1,000 histories, long differential streams and 10 minutes a fuzzer
	@tools/run_tests.sh --long

test-gpu: ## kernels, tables, stores and scripts, on a GPU if there is one
	@tools/setup.sh build
	@tools/compile_cuda.sh
	@cmake --preset release >/dev/null
	@cmake --build --preset release --target isotherm-unit-tests isotherm-script-tests isotherm-server
	@tests/run_gpu.sh

test-gpu-sanitize: ## the checks of kernels and tables under all tools of compute-sanitizer, small
	@tools/compile_cuda.sh
	@tests/run_gpu_sanitize.sh

bench-peers: ## tables on a GPU beside those of others; HKV=FOLDER: a checkout of HierarchicalKV, too
	@tools/compile_peers.sh $(if $(HKV),--hkv "$(HKV)")
	@build/cuda/peer_table_bench
	@$(if $(HKV),build/cuda/peer_rows_bench)

bench-gpu: ## the figures of GPU tables in docs/performance.md
	@tools/compile_cuda.sh
	@build/cuda/device_table_bench
	@build/cuda/device_cache_bench
	@build/cuda/device_growth_bench
	@build/cuda/device_rows_bench
	@build/cuda/device_express_bench
	@build/cuda/device_energy_bench
	@build/cuda/device_queue_bench
	@build/cuda/device_tiered_bench
	@build/cuda/device_items_bench
	@build/cuda/device_shards_bench
	@build/cuda/packet_bench
	@build/cuda/sorted_bench
	@build/cuda/packet_beside_bench

bench: build ## the figures of servers and of the CPU in docs/performance.md
	@tools/setup.sh bench
	@cmake --build --preset release --target isotherm-bench-programs
	@bench/figures.sh

portable: ## fully static programs in build/portable
	@tools/setup.sh build
	@cmake --preset portable >/dev/null
	@cmake --build --preset portable

format: ## clang-format all sources in place
	@tools/format.sh

install: build ## install programs, libraries and headers below PREFIX; CMAKE_FLAGS="-DISOTHERM_CUDA_ARCHITECTURES=…"
	@cmake --build --preset release --target isotherm-libraries
	@cmake --install build/release --prefix "$(PREFIX)"

clean: ## remove build/
	rm -rf build

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

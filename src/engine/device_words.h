// DeviceWords: values of up to 8 bytes on one or more GPUs, over a SplitTable; a GpuTable
// (engine/gpu_part.h).
//
// Values of fewer bytes are widened with zeros on their way to the device, and cut again on their
// way back.
//
// Threads. Any; calls with writes take turns, so that a get and a put of the host's are one step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include "engine/device_calls.h"
#include "engine/key_sieve.h"
#include "gpu/split/split_table.h"
#include "gpu/split/split_walk.h"
#include "isotherm/gpu/common.h"

namespace isotherm {

template <class Gpu>
class DeviceWords final : public GpuTable {
 public:
  using Device = typename Gpu::Device;
  using Keep = typename Gpu::Keep;
  using Memory = CallMemory<Gpu>;

  explicit DeviceWords(const GpuTableOptions& options)
      : row_bytes_(options.row_bytes), sums_(options.word_sums) {
    const Keep keep;
    for (const int gpu : options.gpus) devices_.push_back(&Gpu::device(gpu));
    table_.emplace(devices_, split(options));
    shortages_.emplace(*table_);
    if (options.expected_entries != 0) table_->reserve(options.expected_entries);
  }
  ~DeviceWords() override {
    const Keep keep;
    devices_[0]->enter();
    sieve_.reset();
    table_.reset();
  }

  gpu::TableStats stats() override {
    const Keep keep;
    return table_->stats();
  }

  RowHandle::Result run_host(const RowRequests& requests) override {
    const Keep keep;
    if (requests.op == TableOp::get) return widen_and_run(requests);
    const std::lock_guard lock(mutex_);
    if (requests.op == TableOp::add && !sums_) {
      return HostUpdate(requests, row_bytes_).run([&](const RowRequests& its) {
        widen_and_run(its);
      });
    }
    return widen_and_run(requests);
  }

  uint64_t run(const GpuCall& call) override {
    const Keep keep;
    const DeviceCall<Gpu> its(*devices_[call.place], call);
    if (its.rows == 0) return 0;
    std::unique_lock<std::mutex> lock(mutex_, std::defer_lock);
    if (its.requests.op != TableOp::get) lock.lock();
    return run_device(its);
  }

  New put_new(std::span<const uint64_t> keys, uint64_t* to) override {
    if (row_bytes_ != sizeof(uint64_t)) throw std::invalid_argument("values have 8 bytes here");
    if (keys.empty()) return {};
    const Keep keep;
    const std::lock_guard lock(sieve_mutex_);
    if (!sieve_) {
      require_device(devices_[0]->enter(), "choose the GPU");
      sieve_.emplace(*devices_[0]);
    }
    return sieve_->run(*this, keys, to);
  }

  uint64_t scan(uint64_t cursor, uint64_t count,
                const std::function<void(uint64_t key, const void* row)>& visit) override {
    const Keep keep;
    return SplitWalk<Device>(*table_).step(cursor, count,
                                           [&](uint64_t key, uint64_t word) { visit(key, &word); });
  }

 private:
  static SplitOptions split(const GpuTableOptions& options) {
    SplitOptions split;
    split.table = fixed_options<Gpu>(options);
    split.host_memory = options.host_memory;
    split.host_threads = std::max(std::thread::hardware_concurrency(), 1u);
    if (options.host_memory != 0) {
      split.table.line_bits = std::min(split.table.line_bits, shared_line_bits(options.gpu_memory));
    }
    return split;
  }

  // A column of the host as words.
  class Words {
   public:
    Words(const void* column, uint64_t rows, uint64_t row_bytes) : column_(column) {
      if (column == nullptr || row_bytes == sizeof(uint64_t)) return;
      wide_.resize(rows);
      for (uint64_t i = 0; i < rows; ++i) {
        std::memcpy(&wide_[i], static_cast<const char*>(column) + i * row_bytes, row_bytes);
      }
    }
    const uint64_t* data() const {
      return wide_.empty() ? static_cast<const uint64_t*>(column_) : wide_.data();
    }

   private:
    const void* column_;
    std::vector<uint64_t> wide_;
  };

  RowHandle::Result widen_and_run(const RowRequests& requests) {
    const uint64_t rows = requests.keys.size();
    const Words values(requests.rows, rows, row_bytes_);
    const Words expected(requests.expected, rows, row_bytes_);
    TableRequests all;
    all.rows = rows;
    all.op = requests.op;
    all.keys = requests.keys.data();
    all.values = values.data();
    all.expected = expected.data();
    if (requests.rows_out == nullptr && requests.found == nullptr &&
        requests.op != TableOp::erase) {
      return run_without_replies(all);
    }
    const bool direct = requests.rows_out != nullptr && row_bytes_ == sizeof(uint64_t);
    std::vector<uint64_t> words(direct ? 0 : rows);
    std::vector<uint8_t> found(requests.found != nullptr ? 0 : rows);
    all.values_out = direct ? static_cast<uint64_t*>(requests.rows_out) : words.data();
    all.found = requests.found != nullptr ? requests.found : found.data();
    table_->run_host(all);
    if (requests.rows_out != nullptr && !direct) {
      for (uint64_t i = 0; i < rows; ++i) {
        if (all.found[i] != 1) continue;
        std::memcpy(static_cast<char*>(requests.rows_out) + i * row_bytes_, &words[i], row_bytes_);
      }
    }
    return count_replies(all.found, rows);
  }

  // Of puts and adds: a key that was refused is not there afterwards.
  RowHandle::Result run_without_replies(const TableRequests& requests) {
    const uint64_t before = shortages_->count();
    table_->run_host(requests);
    if (shortages_->count() == before) return {};
    std::vector<uint64_t> words(requests.rows);
    std::vector<uint8_t> found(requests.rows);
    TableRequests gets;
    gets.rows = requests.rows;
    gets.keys = requests.keys;
    gets.values_out = words.data();
    gets.found = found.data();
    table_->run_host(gets);
    return {0, static_cast<uint64_t>(std::count(found.begin(), found.end(), 0))};
  }

  uint64_t run_device(const DeviceCall<Gpu>& its) {
    TableRequests all;
    all.rows = its.rows;
    all.op = its.requests.op;
    all.keys = its.requests.keys.data();
    all.values = static_cast<const uint64_t*>(its.requests.rows);
    all.expected = static_cast<const uint64_t*>(its.requests.expected);
    const uint64_t before = its.call.count_refused ? shortages_->count() : 0;
    const auto is_short = [&] { return its.call.count_refused && shortages_->count() != before; };
    if (its.requests.found == nullptr) {
      queue(its, all);
      return is_short() ? count_absent(its) : 0;
    }
    std::optional<Memory> words;
    all.values_out = static_cast<uint64_t*>(its.requests.rows_out);
    if (all.values_out == nullptr) {
      words.emplace(its.device, its.stream, its.rows * sizeof(uint64_t));
      all.values_out = words->template as<uint64_t>();
    } else if (all.op == TableOp::put_if_absent) {  // which leaves those of missing keys
      require_device(
          its.device.copy(its.stream, all.values_out, all.values, its.rows * sizeof(uint64_t)),
          "copy values");
    }
    all.found = its.requests.found;
    queue(its, all);
    require_device(its.device.enter(), "choose the GPU");
    const uint64_t refused = is_short() ? its.count(all.found, reply_retry) : 0;
    its.make_mask(all.found, all.values_out);
    return refused;
  }

  void queue(const DeviceCall<Gpu>& its, const TableRequests& requests) {
    if (devices_.size() == 1) return table_->run(requests, its.stream);
    std::vector<TableRequests> slices(devices_.size());
    std::vector<typename Device::Stream> streams;
    for (Device* device : devices_) streams.push_back(Gpu::stream(*device, 0));
    slices[its.call.place] = requests;
    streams[its.call.place] = its.stream;
    table_->run(slices, streams);
  }

  uint64_t count_absent(const DeviceCall<Gpu>& its) {
    require_device(its.device.enter(), "choose the GPU");
    const Memory words(its.device, its.stream, its.rows * sizeof(uint64_t));
    const Memory found(its.device, its.stream, its.rows);
    TableRequests gets;
    gets.rows = its.rows;
    gets.keys = its.requests.keys.data();
    gets.values_out = words.template as<uint64_t>();
    gets.found = found.template as<uint8_t>();
    queue(its, gets);
    require_device(its.device.enter(), "choose the GPU");
    return its.count(gets.found, 0);
  }

  const uint64_t row_bytes_;
  const bool sums_;
  std::vector<Device*> devices_;
  std::mutex mutex_;  // of calls with writes
  std::optional<SplitTable<Device>> table_;
  std::optional<Shortages<Device>> shortages_;
  std::mutex sieve_mutex_;  // of the next
  std::optional<KeySieve<Gpu>> sieve_;
};

}  // namespace isotherm

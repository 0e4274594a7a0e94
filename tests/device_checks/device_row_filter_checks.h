// The check of an export by a predicate (isotherm/gpu/row_filter.h). For any devices; see
// tests/device_checks/device_row_checks.h.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/macros.h"
#include "device_checks/device_row_score_checks.h"
#include "isotherm/gpu/row_filter.h"

namespace isotherm {

// Rows whose key or last word is a multiple of three, of a score up to a bound.
struct ThirdRows {
  uint64_t words = 0;
  uint64_t most = 0;

  ISOTHERM_HOST_DEVICE bool operator()(uint64_t key, const void* row, uint64_t score) const {
    if (score > most) return false;
    return key % 3 == 0 ||
           (row != nullptr && static_cast<const uint64_t*>(row)[words - 1] % 3 == 0);
  }
};

struct FilterRowsKernel {
  gpu::RowFilter<ThirdRows> filter;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    filter.run(uint64_t{lane.block()} * lane.threads() + lane.thread(),
               uint64_t{lane.blocks()} * lane.threads(),
               [](uint32_t* at) { return Lane::atomic_add(at, uint32_t{1}); });
  }
};

// Columns for a chunk, on a device.
template <class Device>
struct FilteredColumns {
  FilteredColumns(DeviceMemory<Device>& memory, uint64_t rows, uint64_t words)
      : keys(memory, rows), data(memory, rows * words), scores(memory, rows) {}
  gpu::RowExport chunk(uint64_t capacity, bool with_rows, bool with_scores) {
    gpu::RowExport its;
    its.capacity = capacity;
    its.keys = keys.data();
    its.rows = with_rows ? data.data() : nullptr;
    its.scores = with_scores ? scores.data() : nullptr;
    return its;
  }
  DeviceArray<Device, uint64_t> keys;
  DeviceArray<Device, uint64_t> data;
  DeviceArray<Device, uint64_t> scores;
};

template <class Device>
uint64_t check_rows_filtered(std::span<Device* const> devices, uint64_t scale) {
  constexpr uint64_t row_bytes = 48, words = row_bytes / sizeof(uint64_t), capacity = 128;
  uint64_t wrong = 0;
  for (const bool scored : {true, false}) {
    DeviceRowOptions options{row_bytes, row_bytes * 128, {0, 3, 6, 256}};
    if (scored) options.scores = gpu::RowScores::given;
    ScoredRows<Device> table(devices, options);
    DeviceRequestSource source(17);
    const std::vector<uint64_t> keys = source.keys(scale);
    std::vector<uint64_t> scores;
    for (size_t i = 0; scored && i < keys.size(); ++i) scores.push_back(i % 100);
    table.write(gpu::RowOp::put, keys, scores);

    Device& device = *devices[0];
    device.enter();
    DeviceMemory<Device> memory(device, 0);
    const DeviceStream<Device> own(device);
    const auto stream = own.get();
    FilteredColumns<Device> all(memory, capacity, words), kept(memory, capacity, words);
    DeviceArray<Device, uint32_t> count(memory, 1);
    for (const bool with_rows : {true, false}) {
      const ThirdRows wanted{words, 60};
      std::map<uint64_t, uint64_t> found;
      uint64_t cursor = 0;
      do {
        gpu::RowExport from = all.chunk(capacity, with_rows, scored);
        const gpu::RowExport to = kept.chunk(capacity, with_rows, scored);
        cursor = table.store().export_rows(cursor, from, stream);
        device.enter();
        const FilterRowsKernel kernel{{from, to, row_bytes, wanted, count.data()}};
        uint32_t some = 0;
        std::vector<uint64_t> keys_there(capacity), rows_there(capacity * words),
            scores_there(capacity);
        require_device(
            device.clear(stream, count.data(), sizeof some) &&
                device.launch(stream, 3, 32, kernel) &&
                device.to_host(stream, &some, count.data(), sizeof some) &&
                device.to_host(stream, keys_there.data(), to.keys, capacity * 8) &&
                device.to_host(stream, rows_there.data(), kept.data.data(), capacity * row_bytes) &&
                device.to_host(stream, scores_there.data(), kept.scores.data(), capacity * 8) &&
                device.synchronize(stream),
            "filter rows");
        if (some > from.count) table.fail("more rows are kept than there are");
        for (uint64_t i = 0; i < some && i < capacity; ++i) {
          const uint64_t* const row = &rows_there[i * words];
          if (!found.emplace(keys_there[i], row[0]).second) table.fail("a key is kept twice");
          if (with_rows && row[0] != row[words - 1]) table.fail("a kept row is a mixture");
          const auto at = table.model().find(keys_there[i]);
          if (at == table.model().end()) {
            table.fail("a kept key was never put");
          } else if ((with_rows && row[0] != at->second.number) ||
                     (scored && scores_there[i] != at->second.score)) {
            table.fail("a kept row or score is wrong");
          }
        }
      } while (cursor != 0);
      uint64_t expected = 0;
      for (const auto& [key, row] : table.model()) {
        const std::vector<uint64_t> its(words, row.number);
        expected += wanted(key, with_rows ? its.data() : nullptr, scored ? row.score : 0);
      }
      if (found.size() != expected || expected == 0) table.fail("kept too many rows or too few");
    }
    wrong += table.wrong();
  }
  return wrong;
}

}  // namespace isotherm

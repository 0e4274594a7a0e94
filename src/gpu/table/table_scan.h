// TableScan: walks over a table in device memory for the host; see gpu/table/scan_kernel.h.
//
// Memory. Pinned, 16 bytes for each entry that is wanted, more where a line has more. Threads. One
// at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "base/hash.h"
#include "gpu/platform/pinned_block.h"
#include "gpu/table/fixed_device_table.h"

namespace isotherm {

template <class Device>
class TableScan {
 public:
  using Stream = typename Device::Stream;

  // Throws std::bad_alloc.
  explicit TableScan(Device& device) : device_(device), result_(device, sizeof(ScanResult)) {}

  // Visits the entries of about `lines` lines at most from `bound` on, visit(key, word), until
  // there are `wanted`, and returns the bound to go on from; 0 at the end.
  template <class Table, class Visit>
  uint64_t run(Table& table, uint64_t seed, uint64_t bound, uint64_t lines, uint64_t wanted,
               Stream stream, Visit&& visit) {
    // Who wants all of them names any number: there are no more than the table says.
    constexpr uint64_t many = uint64_t{1} << 20;
    if (wanted > many) wanted = std::min(wanted, std::max(many, table.stats().entries));
    // What is wanted, and the rest of its line.
    uint64_t room = wanted + uint64_t{8} * Bucket::slots;
    for (;;) {
      if (!entries_ || entries_->bytes() < room * 2 * sizeof(uint64_t)) {
        table.end_express();
        entries_.reset();
        entries_ = std::make_unique<PinnedBlock<Device>>(device_, room * 2 * sizeof(uint64_t));
      }
      auto* hashes = reinterpret_cast<uint64_t*>(entries_->data());
      uint64_t* words = hashes + room;
      auto* result = reinterpret_cast<ScanResult*>(result_.data());
      table.scan(bound, lines, wanted, {hashes, words, room, result}, stream);
      require_device(device_.synchronize(stream), "wait for a walk");
      if (result->needed != 0) {
        room = result->needed;
        continue;
      }
      for (uint64_t i = 0; i < result->entries; ++i) visit(unmix(hashes[i], seed), words[i]);
      return result->next;
    }
  }

  uint64_t pinned_bytes() const { return entries_ ? entries_->bytes() : 0; }

 private:
  Device& device_;
  PinnedBlock<Device> result_;
  std::unique_ptr<PinnedBlock<Device>> entries_;
};

}  // namespace isotherm

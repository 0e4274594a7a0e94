// TableReports: the totals of a table on a device, as they arrive on the host.
//
// Each part of a batch with writes leaves the table's totals in pinned memory when it ends
// (gpu/kernel/settle_kernels.h). The host asks for them when it has to know; until then it takes
// the rows of parts that have not reported as new entries. Reports come in the order of the parts,
// so what a part inserted is the difference to the report before.
//
// Threads. One at a time. Limits. `most` parts are under way; for one more the oldest is awaited.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <new>

#include "gpu/batch/new_keys.h"
#include "gpu/kernel/settle_kernels.h"
#include "gpu/platform/device_error.h"

namespace isotherm {

template <class Device>
class TableReports {
 public:
  using Stream = typename Device::Stream;

  explicit TableReports(Device& device)
      : device_(device),
        memory_(static_cast<TableTotals*>(device.allocate_pinned(sizeof(TableTotals) * most))) {
    if (memory_ == nullptr) throw std::bad_alloc();
    for (auto& event : events_) event = device.create_event();
  }
  ~TableReports() {
    for (auto& event : events_) device_.destroy_event(event);
    device_.release_pinned(memory_, sizeof(TableTotals) * most);
  }
  TableReports(const TableReports&) = delete;
  TableReports& operator=(const TableReports&) = delete;

  // What the last part that is known to have ended left.
  const TableTotals& known() const { return known_; }
  // Rows of the parts that have not reported.
  uint64_t rows_under_way() const { return rows_; }
  bool any_under_way() const { return !under_way_.empty(); }
  // Whether puts are expected to be of new keys; those of an empty table are.
  bool expects_new_keys() const {
    return new_keys_.expected() || (known_.entries == 0 && under_way_.empty());
  }

  // What happened since without a report; nothing is under way.
  void add(int64_t entries, uint64_t lines) {
    known_.entries += static_cast<uint64_t>(entries);
    known_.free_lines -= std::min(known_.free_lines, lines);
  }

  // Where the next part has to leave its totals; the device writes to host memory.
  TableTotals* next() {
    if (under_way_.size() == most) take_one();
    return memory_ + next_;
  }
  // `puts`: whether all rows are.
  void expect(uint64_t rows, bool puts, Stream stream) {
    require_device(device_.record(events_[next_], stream), "record an event");
    under_way_.push_back({next_, rows, puts});
    next_ = (next_ + 1) % most;
    rows_ += rows;
  }
  void take_done() {
    while (!under_way_.empty() && device_.done(events_[under_way_.front().at])) take_one();
  }
  void take_all() {
    while (!under_way_.empty()) take_one();
  }
  // Waits for the oldest.
  void take_one() {
    const Expected& oldest = under_way_.front();
    require_device(device_.synchronize(events_[oldest.at]), "wait for a batch");
    const TableTotals& now = memory_[oldest.at];
    if (oldest.puts) new_keys_.note(oldest.rows, now.entries - known_.entries);
    known_ = now;
    rows_ -= oldest.rows;
    under_way_.pop_front();
  }

 private:
  static constexpr uint32_t most = 64;
  struct Expected {
    uint32_t at;
    uint64_t rows;
    bool puts;
  };
  Device& device_;
  TableTotals* memory_;
  typename Device::Event events_[most];
  std::deque<Expected> under_way_;
  uint32_t next_ = 0;
  uint64_t rows_ = 0;
  TableTotals known_;
  NewKeys new_keys_;
};

}  // namespace isotherm

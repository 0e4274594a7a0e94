// CacheOwner: the owner of a cache index on a device: parts that are taken once, and the time.
//
// Time counts the rows of calls; a call or part has as many moments as rows, each row its own.
//
// Threads. One at a time, as the table's. Limits. Memory ends when the table is made or never.
#pragma once

#include <algorithm>
#include <cstdint>
#include <new>

#include "gpu/kernel/cache_kind.h"
#include "gpu/platform/device_context.h"
#include "gpu/table/scan_kernel.h"
#include "gpu/table/table_options.h"
#include "gpu/table/table_reports.h"

namespace isotherm {

template <class Device, class Part>
class CacheOwner {
 public:
  using Stream = typename Device::Stream;

  // Throws std::bad_alloc.
  CacheOwner(DeviceContext<Device>& context, TableReports<Device>& reports,
             const FixedDeviceOptions& options)
      : context_(context),
        reports_(reports),
        seed_(options.seed),
        parts_(context.memory(), parts_for<Part>(0, entries_of(options))),
        counts_(context.memory(), CacheCounts::shards) {
    if (parts_.empty() || counts_.empty()) throw std::bad_alloc();
    Device& device = context.device();
    require_device(device.clear(context.stream(), parts_.data(), parts_.bytes()) &&
                       device.clear(context.stream(), counts_.data(), counts_.bytes()) &&
                       device.synchronize(context.stream()),
                   "make the table");
  }

  CacheView<Part> view() const {
    return {parts_.data(), parts_.size(), seed_, began_, room() / slack_share, counts_.data()};
  }
  CacheTotals totals() { return {counts_.data(), reports_.next()}; }
  uint64_t segments() const { return room() / 64; }
  uint64_t room() const { return parts_.size() * Part::entries; }

  // What follows is asked by so many rows, which are given their time.
  void pass(uint64_t rows) {
    began_ = now_;
    now_ += rows;
  }

  // There is always room.
  static uint64_t likely_rows(uint64_t entries, uint64_t /*bytes*/) { return entries / 32; }
  bool fits(uint64_t /*rows*/) const { return true; }
  bool has_plenty(uint64_t /*rows*/) const { return true; }
  uint64_t rows_at_once() const { return ~uint64_t{0}; }
  void reserve(uint64_t /*entries*/, uint64_t /*rows*/, Stream /*stream*/) {}
  template <class Leave>
  bool make_room(uint64_t rows, uint64_t /*soon*/, Stream /*stream*/, Leave&& /*leave*/) {
    pass(rows);
    return true;
  }
  template <class Leave>
  bool has_room(uint64_t /*rows*/, Leave&& /*leave*/) {
    return true;
  }
  template <class Leave>
  bool has_express_room(uint64_t /*rows*/, Leave&& /*leave*/) {
    return true;
  }
  void add_express(int64_t /*entries*/, uint64_t /*inserted*/) {}

  // What happened up to now is in the next report.
  void report() {
    require_device(
        context_.device().launch(context_.stream(), 1, TotalsKernel<CacheTotals>::threads,
                                 TotalsKernel<CacheTotals>{totals()}),
        "launch the totals");
    reports_.expect(0, false, context_.stream());
  }

 private:
  // Stamps of lookups stand for so long: a share of the time in which all entries could be new.
  static constexpr uint64_t slack_share = 64;

  static uint64_t entries_of(const FixedDeviceOptions& options) {
    return options.entries != 0 ? options.entries : uint64_t{options.max_part_rows} * 8;
  }

  DeviceContext<Device>& context_;
  TableReports<Device>& reports_;
  const uint64_t seed_;
  DeviceArray<Device, Part> parts_;
  DeviceArray<Device, CacheCounts> counts_;
  uint64_t began_ = 1;
  uint64_t now_ = 1;
};

}  // namespace isotherm

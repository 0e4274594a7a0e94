// ExpressPath: small batches to the kernel that stays on the device (gpu/express/express.h), and
// back.
//
// A batch that the table does not take that way (it has a key twice beside writes, or the device is
// busy) goes by a bulk path of the express path's own. One mail is under way at a time: the next
// one waits a few microseconds for its replies, as does any other call on the table.
//
// Threads. One at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "batch/bulk_path.h"

namespace isotherm {

template <class Device, class Table = FixedDeviceTable<Device>>
class ExpressPath final : public BatchPath {
 public:
  // `device` and `table` must outlive it. Throws std::bad_alloc.
  ExpressPath(Device& device, Table& table, uint32_t channels)
      : table_(table),
        bulk_(device, table, channels, static_cast<uint32_t>(table.most_express())),
        posted_(channels) {}

  void enter() override { bulk_.enter(); }
  uint64_t most_rows() const override { return table_.most_express(); }

  void send(uint32_t channel, const TableRequests& requests, int64_t now) override {
    posted_[channel] = table_.post(requests);
    if (posted_[channel]) {
      last_ = channel;
    } else {
      bulk_.send(channel, requests, now);
    }
  }

  bool done(uint32_t channel, int64_t now) override {
    if (!posted_[channel]) return bulk_.done(channel, now);
    if (channel != last_) return true;  // a later call took its replies
    if (!table_.ready()) return false;
    table_.take();
    return true;
  }

 private:
  Table& table_;
  BulkPath<Device, Table> bulk_;
  std::vector<bool> posted_;  // of each channel, whether its batch went by mail
  uint32_t last_ = 0;         // that did
};

}  // namespace isotherm

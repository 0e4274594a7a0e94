#include "server/rewrite_walk.h"

#include <algorithm>

#include "durability/record.h"

namespace isotherm {

const std::vector<RewriteWalk::Found>& RewriteWalk::next(uint64_t record_bytes) {
  found_.clear();
  uint64_t bytes = 0;
  do {
    bytes += step(record_bytes);
  } while (!at_end_ && bytes < record_bytes && found_.size() < most_keys);
  return found_;
}

// How many bytes the records of its keys have. A step of one line cannot be shorter.
uint64_t RewriteWalk::step(uint64_t most_bytes) {
  const size_t before = found_.size();
  for (;;) {
    uint64_t key_bytes = 0;
    uint64_t bytes = 0;
    const auto fits = [&] { return key_bytes <= most_bytes || at_once_ == 1; };
    const uint64_t next = worker_.scan(database_, cursor_, at_once_, [&](const ScanItem& item) {
      key_bytes += item.key.size();
      if (!fits()) return;
      found_.push_back({std::string(item.key), record_bytes(item.key.size(), item.value_bytes)});
      bytes += found_.back().record_bytes;
    });
    if (fits()) {
      cursor_ = next;
      at_end_ = cursor_ == 0;
      at_once_ = std::min(2 * at_once_, most_keys);
      return bytes;
    }
    found_.erase(found_.begin() + static_cast<ptrdiff_t>(before), found_.end());
    at_once_ = std::max<uint64_t>(at_once_ / 8, 1);
  }
}

}  // namespace isotherm

#include "tree/direct_reads.h"

#include <cstring>
#include <memory>
#include <string>

#include "tree/device_files.h"
#include "tree/tree_record.h"

namespace isotherm {

size_t DirectReads::read(std::span<const std::string_view> keys, TreeRead* reads,
                         std::vector<size_t>& left) {
  if (uint32_t pauses = pauses_.load(std::memory_order_relaxed); pauses != 0) {
    pauses_.compare_exchange_strong(pauses, pauses - 1, std::memory_order_relaxed);
    return 0;
  }
  const auto lent = pool_.lend(false);
  if (lent == nullptr) return 0;
  const size_t left_before = left.size();
  size_t at = 0;
  while (at < keys.size()) {
    const size_t some = read_some(lent->columns(), keys.subspan(at), reads, at, left);
    if (some == 0) break;
    at += some;
  }
  const bool mostly_long = left.size() - left_before > at / 2;
  if (mostly_long && lent->columns().shape().stride == DirectPool::most_stride) {
    pauses_.store(pause, std::memory_order_relaxed);
  }
  return at;
}

// How many of the keys the columns have room for; `first`: where their reads begin.
size_t DirectReads::read_some(DirectGets& gets, std::span<const std::string_view> keys,
                              TreeRead* reads, size_t first, std::vector<size_t>& left) {
  const DirectColumns& columns = gets.columns();
  const DirectShape& shape = gets.shape();
  std::string text;
  const size_t rows = pack_keys(gets, keys.size(), [&](size_t i) {
    return DeviceFiles::device_key(TreeRecord::database_of(keys[i]),
                                   keys[i].substr(TreeRecord::prefix_bytes), text);
  });
  if (rows == 0) return 0;
  gets.start(static_cast<uint32_t>(rows));
  gets.wait();
  for (size_t row = 0; row < rows; ++row) {
    const char* const slot = columns.replies + row * shape.stride;
    DirectHead head;
    std::memcpy(&head, slot, sizeof head);
    TreeRead& read = reads[first + row];
    if (head.bytes == DirectHead::too_long) {
      pool_.note_long(shape.stride);
      left.push_back(first + row);
      continue;
    }
    const bool found = head.bytes != DirectHead::absent;
    read.state = found ? TreeRead::State::found : TreeRead::State::absent;
    if (!found) continue;
    read.value.assign(1, static_cast<char>(head.flags));
    read.value.append(slot + sizeof head, head.bytes);
  }
  return rows;
}

}  // namespace isotherm

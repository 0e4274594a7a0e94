// PairText: pairs as a device writes those of a range (gpu/sorted/direct_ranges.h), written by the
// host: ranges one after another, each in one piece of memory.
//
// Threads. One. Memory. Blocks, until `clear`, which keeps none. Throws std::bad_alloc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "gpu/sorted/direct_ranges.h"

namespace isotherm {

class PairText {
 public:
  // A range begins.
  void begin() { begin_ = at_; }
  void add(std::string_view key, std::string_view value) {
    const PairHead head{static_cast<uint32_t>(key.size()), static_cast<uint32_t>(value.size())};
    const uint64_t bytes = head.bytes();
    char* const to = take(bytes);
    std::memset(to + bytes - sizeof(uint64_t), 0, sizeof(uint64_t));
    std::memcpy(to, &head, sizeof head);
    copy_bytes(to + sizeof head, key.data(), key.size());
    copy_bytes(to + sizeof head + key.size(), value.data(), value.size());
  }
  // Pairs as they lie elsewhere.
  void add_all(std::string_view pairs) {
    if (!pairs.empty()) std::memcpy(take(pairs.size()), pairs.data(), pairs.size());
  }
  // Where the range lies, when all of it was added.
  const char* range() const { return begin_; }
  void clear() {
    blocks_.clear();
    begin_ = at_ = end_ = nullptr;
  }

 private:
  char* take(uint64_t bytes) {
    if (bytes > static_cast<uint64_t>(end_ - at_)) move(bytes);
    return std::exchange(at_, at_ + bytes);
  }
  // What the range has so far, to a block with room for more.
  void move(uint64_t more) {
    constexpr uint64_t usual = 64 << 10;
    const auto has = static_cast<uint64_t>(at_ - begin_);
    const uint64_t size = std::max(usual, 2 * (has + more));
    auto block = std::make_unique_for_overwrite<char[]>(size);
    if (has != 0) std::memcpy(block.get(), begin_, has);
    blocks_.push_back(std::move(block));
    begin_ = blocks_.back().get();
    at_ = begin_ + has;
    end_ = begin_ + size;
  }

  std::vector<std::unique_ptr<char[]>> blocks_;
  char* begin_ = nullptr;
  char* at_ = nullptr;
  char* end_ = nullptr;
};

}  // namespace isotherm

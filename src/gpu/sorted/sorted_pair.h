// SortedPair: what a sorted tier takes and how it is set up; gpu/store/sorted_tier.h says what it
// does.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace isotherm {

struct SortedPair {
  std::string_view key;
  std::string_view value;
  uint32_t flags = 0;
  bool erased = false;  // the key is absent from now on
};

struct SortedTierOptions {
  static constexpr uint32_t most_front = 16;

  uint64_t bytes = 0;  // of device memory, with what a merge takes while it runs
  // What most keys begin with, `most_front` bytes at most: they are found by the 8 bytes behind it,
  // and all others more slowly.
  std::string front = {};
  // A value whose pair has one of these flags has an expiry in the 8 bytes from `expiry_at` on, a
  // multiple of 8: milliseconds since 1970. What has expired by `now_ms` goes when runs are merged.
  uint32_t expiry_flag = 0;
  uint32_t expiry_at = 0;
  std::function<int64_t()> now_ms = {};
};

struct SortedStats {
  uint64_t entries = 0;  // of all runs, with those that are hidden and what was erased
  uint64_t bytes = 0;    // of device memory that runs take
  uint64_t runs = 0;
  uint64_t merges = 0;
};

}  // namespace isotherm

// WaitingWrites: tells which reads may be on the key of a waiting write.
//
// A table of a few thousand cells; the cell of a key holds the number of the last write on any of
// its keys. Writes are sent in the order of their numbers, so a cell says "waits" exactly while its
// number is not yet sent: nothing is ever taken out or cleared.
//
// Keys share cells, so a key without a waiting write is sometimes taken for one that has one; the
// opposite never happens. Threads. One.
#pragma once

#include <cstdint>
#include <vector>

namespace isotherm {

class WaitingWrites {
 public:
  // Write `number` is on `key`; numbers grow.
  void add(uint64_t key, uint64_t number) { last_[cell(key)] = number + 1; }
  // Whether a write on `key` may be among those that were not sent: the numbers from `sent` on.
  bool may_wait(uint64_t key, uint64_t sent) const { return last_[cell(key)] > sent; }

 private:
  static constexpr int bits = 14;
  static uint64_t cell(uint64_t key) { return key * 0x9e3779b97f4a7c15 >> (64 - bits); }

  std::vector<uint64_t> last_ = std::vector<uint64_t>(uint64_t{1} << bits);
};

}  // namespace isotherm

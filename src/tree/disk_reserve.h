// DiskReserve: a file in a tree's folder that takes room on its disk, so that the tree can be
// opened when the disk is full: RocksDB writes a manifest and its options before anything can be
// read.
//
// Where the disk has less left than that, the file goes before the tree is opened. It is made anew
// behind that, of at most half of what the disk has left then.
//
// Threads. One.
#pragma once

#include <cstdint>
#include <string>

#include "durability/files.h"

namespace isotherm {

class DiskReserve {
 public:
  static constexpr uint64_t most_bytes = 4 << 20;

  // Gives up the file where its room is needed.
  DiskReserve(Files& files, std::string folder);
  // Takes room for the next time, as far as there is any.
  void take();

 private:
  Files& files_;
  const std::string folder_;
  const std::string path_;
};

}  // namespace isotherm

// AllShards: who has the locks of all shards of a tree's runs (tree/tree_run.h) at once, always
// taken in the same order.
//
// Threads. Belongs to the one that made it.
#pragma once

#include <array>
#include <mutex>

#include "tree/tree_run.h"

namespace isotherm {

class AllShards {
 public:
  explicit AllShards(std::array<std::mutex, TreeRun::shards>& locks) : locks_(locks) {
    for (std::mutex& lock : locks_) lock.lock();
  }
  ~AllShards() {
    for (std::mutex& lock : locks_) lock.unlock();
  }
  AllShards(const AllShards&) = delete;
  AllShards& operator=(const AllShards&) = delete;

 private:
  std::array<std::mutex, TreeRun::shards>& locks_;
};

}  // namespace isotherm

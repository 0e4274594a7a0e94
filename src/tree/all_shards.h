// AllShards: who has the locks of all shards of a tree's runs (tree/tree_run.h) at once, always
// taken in the same order.
//
// Threads. Belongs to the one that made it.
#pragma once

#include "tree/tree_run.h"

namespace isotherm {

class AllShards {
 public:
  explicit AllShards(TreeRun::Locks& locks) : locks_(locks) {
    for (TreeRun::Lock& lock : locks_) lock.lock();
  }
  ~AllShards() {
    for (TreeRun::Lock& lock : locks_) lock.unlock();
  }
  AllShards(const AllShards&) = delete;
  AllShards& operator=(const AllShards&) = delete;

 private:
  TreeRun::Locks& locks_;
};

}  // namespace isotherm

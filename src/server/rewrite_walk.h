// RewriteWalk: a walk over the keys of a database that are to be written once more, of which it
// copies few at a time.
//
// A step of the walk shows as many keys as it is asked for. Where these are too long it is taken
// again, shorter, and the next steps become longer again.
//
// Memory. So many bytes of keys as a call says twice, or of the keys of one line of the index.
// Threads. One at a time, with the worker.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace isotherm {

class RewriteWalk {
 public:
  static constexpr uint64_t most_keys = 512;
  struct Found {
    std::string key;
    uint64_t record_bytes;
  };

  RewriteWalk(Worker& worker, uint32_t database) : worker_(worker), database_(database) {}

  // The next keys, until their records have so many bytes, but of one step at least; more than
  // `most_keys` where a step has them. They stay until the next call. Not at the end. Throws
  // std::bad_alloc.
  const std::vector<Found>& next(uint64_t record_bytes);
  bool at_end() const { return at_end_; }

 private:
  uint64_t step(uint64_t most_bytes);

  Worker& worker_;
  const uint32_t database_;
  uint64_t cursor_ = 0;
  uint64_t at_once_ = most_keys;
  bool at_end_ = false;
  std::vector<Found> found_;
};

}  // namespace isotherm

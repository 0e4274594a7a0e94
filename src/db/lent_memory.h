// LentMemory: bytes beyond the cap that an engine's writes may take, for as long as it is there,
// also where what it is for ends by an exception.
//
// Threads. Any.
#pragma once

#include <cstdint>

#include "engine/engine.h"

namespace isotherm {

class LentMemory {
 public:
  LentMemory(Engine& engine, uint64_t bytes)
      : engine_(engine), bytes_(static_cast<int64_t>(bytes)) {
    if (bytes_ != 0) engine_.lend_memory(bytes_);
  }
  ~LentMemory() {
    if (bytes_ != 0) engine_.lend_memory(-bytes_);
  }
  LentMemory(const LentMemory&) = delete;
  LentMemory& operator=(const LentMemory&) = delete;

 private:
  Engine& engine_;
  const int64_t bytes_;
};

}  // namespace isotherm

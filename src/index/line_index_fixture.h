// LineIndexFixture: a LineIndex with everything it stands on, and one thread's view of it; for
// tests.
//
// The fixture stays in an epoch, so what the index retires stays readable; `let_go` leaves the
// epoch for a moment.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/tile.h"
#include "index/line_index.h"
#include "items/poison.h"

namespace isotherm {

class LineIndexFixture : public ::testing::Test {
 protected:
  explicit LineIndexFixture(uint64_t reserve_bytes = 0)
      : pages(reserve_bytes), slot(epochs.acquire()) {
    index = std::make_unique<LineIndex>(pages, budget, epochs);
    epochs.enter(*slot);
  }
  ~LineIndexFixture() override {
    epochs.leave(*slot);
    epochs.release(slot);
    index.reset();
    EXPECT_EQ(budget.index.load(), 0);
    EXPECT_EQ(pages.pages_taken(), 0u);
  }

  Updated put(uint64_t hash, uint64_t word) {
    return index->update<TilePlain>(hash, [&](bool, uint64_t, Segment&) {
      return Decision{Action::store, word};
    });
  }
  Updated erase(uint64_t hash) {
    return index->update<TilePlain>(hash, [](bool, uint64_t, Segment&) {
      return Decision{Action::erase, 0};
    });
  }
  // Stores `desired` where the word is `expected`.
  Updated compare_and_swap(uint64_t hash, uint64_t expected, uint64_t desired) {
    return index->update<TilePlain>(hash, [&](bool found, uint64_t word, Segment&) {
      return Decision{found && word == expected ? Action::store : Action::keep, desired};
    });
  }
  Found find(uint64_t hash) const { return index->find<TilePlain>(hash); }

  // Runs steps until nothing wants to grow.
  void grow(uint32_t lines = segment_lines) {
    while (index->wants_step() && index->step(lines)) {
    }
  }
  void let_go() {
    epochs.leave(*slot);
    epochs.enter(*slot);
  }

  Pages pages;
  MemoryBudget budget{0};
  EpochDomain epochs;
  EpochDomain::Slot* slot;
  std::unique_ptr<LineIndex> index;
};

// Rounds of a random test, fewer where a sanitizer makes each one slow.
inline constexpr uint64_t scaled(uint64_t rounds) {
  return poison::sanitized ? rounds / 10 : rounds;
}

}  // namespace isotherm

#include "base/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <new>
#include <vector>

#include "models/no_threads.h"

namespace isotherm::worker_pool_test {
namespace {

TEST(WorkerPool, TakesEachPieceOnceAndEndsWithTheLast) {
  for (const uint32_t threads : {1, 2, 5}) {
    WorkerPool pool(threads);
    EXPECT_LE(pool.threads(), threads);
    const auto working = std::make_unique<std::atomic<bool>[]>(threads);
    for (uint32_t pieces = 0; pieces < 60; ++pieces) {
      std::vector<std::atomic<int>> taken(pieces);
      pool.run(pieces, [&](uint32_t piece, uint32_t worker) {
        EXPECT_FALSE(working[worker].exchange(true)) << "two work under one number";
        ++taken[piece];
        working[worker] = false;
      });
      for (const auto& times : taken) EXPECT_EQ(times, 1);
    }
  }
}

TEST(WorkerPool, ThreadsThatComeLateFindNothingOfRunsThatHaveEnded) {
  constexpr uint32_t runs = 3000;
  WorkerPool pool(12);
  for (uint32_t run = 0; run < runs; ++run) {
    const uint32_t pieces = 1 + run % 5;
    std::atomic<uint32_t> sum{0};  // gone with the run
    pool.run(pieces, [&](uint32_t piece, uint32_t) { sum += run + piece; });
    ASSERT_EQ(sum, pieces * run + pieces * (pieces - 1) / 2);
  }
}

TEST(WorkerPool, WhatWorkThrowsIsThrownBehindTheOtherPieces) {
  for (const uint32_t threads : {1, 4}) {
    WorkerPool pool(threads);
    std::atomic<int> done{0};
    const auto work = [&](uint32_t piece, uint32_t) {
      if (piece == 3) throw std::bad_alloc();
      ++done;
    };
    EXPECT_THROW(pool.run(20, work), std::bad_alloc);
    EXPECT_EQ(done, 19);
    pool.run(3, work);
    EXPECT_EQ(done, 22);
  }
}

TEST(WorkerPool, WhereTheSystemGivesNoThreadTheCallerDoesAll) {
  const NoThreads none;
  WorkerPool pool(4);
  EXPECT_EQ(pool.threads(), 1u);
}

TEST(WorkerPool, PiecesOfRowsAreAllRowsOnce) {
  WorkerPool pool(3);
  for (WorkerPool* const its : {static_cast<WorkerPool*>(nullptr), &pool}) {
    for (const uint32_t count : {0, 1, 9, 10, 11, 1000, 1001}) {
      std::vector<std::atomic<int>> looks(count);
      run_pieces(its, count, 10, [&](uint32_t first, uint32_t end) {
        for (uint32_t row = first; row < end; ++row) ++looks[row];
      });
      for (const auto& one : looks) EXPECT_EQ(one, 1);
    }
  }
}

TEST(WorkerPool, NoThreadsAreTheCaller) {
  WorkerPool pool(0);
  EXPECT_EQ(pool.threads(), 1u);
  int done = 0;
  pool.run(7, [&](uint32_t, uint32_t) { ++done; });
  EXPECT_EQ(done, 7);
}

}  // namespace
}  // namespace isotherm::worker_pool_test

#include "tree/tree_loads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "models/failing_memory.h"
#include "models/no_threads.h"
#include "models/tree_files_in_memory.h"

namespace isotherm::tree_loads_test {
namespace {

struct Told final : Awaited::Waiter {
  void there() override { ++times; }
  void wait() const {
    while (times == 0) std::this_thread::yield();
  }
  std::atomic<int> times{0};
};

class TreeLoadsTest : public ::testing::Test {
 protected:
  TreeLoadsTest() {
    for (const char* key : {"a", "b", "c"}) disk_.pairs[key] = std::string(1000, key[0]);
  }
  // Whether it is there, and as it should be.
  bool take(const std::string& key, uint64_t changes = 0) {
    TreeRead read;
    if (!loads_.take(key, {0, changes, changes}, read)) return false;
    EXPECT_EQ(read.value, disk_.pairs[key]);
    return true;
  }
  Awaited* want_and_wait(const std::string& key, uint64_t changes = 0) {
    Awaited* const load = loads_.want(key, {0, changes, changes});
    Told told;
    load->begin(told);
    told.wait();
    return load;
  }

  TreeDisk disk_;
  TreeFilesInMemory files_{disk_};
  TreeLoads loads_{files_, 2, 100, 64};  // less than any of them takes
};

TEST_F(TreeLoadsTest, WhatWasTakenIsForgotten) {
  for (int i = 0; i < 1000; ++i) {
    Awaited* const load = want_and_wait("a");
    EXPECT_TRUE(take("a"));
    load->ran_again();
  }
  EXPECT_EQ(loads_.bytes(), 0u);
}

// Else two rows might take from each other what they need, for ever.
TEST_F(TreeLoadsTest, WhatARowWaitedForIsThereUntilItHasRunAgain) {
  Awaited* const a = want_and_wait("a");
  Awaited* const b = want_and_wait("b");
  Awaited* const c = want_and_wait("c");
  EXPECT_TRUE(take("a"));
  EXPECT_TRUE(take("b"));
  for (Awaited* load : {a, b, c}) load->ran_again();
  // Nobody took it, nobody holds it, and there is too much of it.
  EXPECT_FALSE(take("c"));
  EXPECT_EQ(loads_.bytes(), 0u);
}

TEST_F(TreeLoadsTest, EachOfThoseWhoShareALoadIsGivenIt) {
  Awaited* const first = want_and_wait("a");
  Awaited* const second = want_and_wait("a");
  EXPECT_EQ(first, second);
  EXPECT_TRUE(take("a"));
  first->ran_again();
  EXPECT_TRUE(take("a"));
  second->ran_again();
  EXPECT_FALSE(take("a"));
  EXPECT_EQ(loads_.loads(), 1u);
  EXPECT_EQ(loads_.bytes(), 0u);
}

// While others hold it; they are not given it either.
TEST_F(TreeLoadsTest, WhatAWriteHasOvertakenIsReadAgain) {
  Awaited* const old = want_and_wait("a", 1);
  EXPECT_FALSE(take("a", 2));
  Awaited* const now = want_and_wait("a", 2);
  EXPECT_NE(old, now);
  EXPECT_TRUE(take("a", 2));
  old->ran_again();
  now->ran_again();
  EXPECT_EQ(loads_.bytes(), 0u);
}

// Each allocation fails in turn, and then nothing is wanted.
TEST_F(TreeLoadsTest, WhatThereIsNoMemoryForIsWantedLater) {
  const std::string key(100, 'k');
  disk_.pairs[key] = "value";
  bool failed = true;
  uint64_t changes = 0;
  for (; failed; ++changes) {
    bool thrown = false;
    Awaited* load = nullptr;
    {
      const FailingMemory fails(static_cast<int64_t>(changes));
      try {
        load = loads_.want(key, {0, changes, changes});
      } catch (const std::bad_alloc&) {
        thrown = true;
      }
      failed = FailingMemory::failed();
    }
    EXPECT_EQ(thrown, failed);
    if (thrown) {
      EXPECT_EQ(loads_.bytes(), 0u);
      load = loads_.want(key, {0, changes, changes});
    }
    Told told;
    load->begin(told);
    told.wait();
    EXPECT_TRUE(take(key, changes));
    load->ran_again();
    EXPECT_EQ(loads_.bytes(), 0u);
  }
  EXPECT_GT(changes, 2u);
}

TEST_F(TreeLoadsTest, ToForgetWhatOthersHoldNeedsNoMemory) {
  Awaited* const old = want_and_wait("a", 1);
  {
    const FailingMemory fails(0);
    EXPECT_FALSE(take("a", 2));
  }
  old->ran_again();
  EXPECT_EQ(loads_.bytes(), 0u);
}

// Who waits is told all the same, and the next one has it read again.
TEST_F(TreeLoadsTest, WhatThereIsNoMemoryToReadHasFailed) {
  disk_.throws = true;
  Awaited* const load = want_and_wait("a");
  disk_.throws = false;
  TreeRead read;
  EXPECT_TRUE(loads_.take("a", {}, read));
  EXPECT_EQ(read.state, TreeRead::State::failed);
  load->ran_again();
  want_and_wait("a")->ran_again();
  EXPECT_FALSE(take("a"));
}

TEST_F(TreeLoadsTest, WithoutThreadsNothingIsWanted) {
  const NoThreads none;
  TreeLoads loads(files_, 2, 100, 64);
  EXPECT_EQ(loads.want("a", {}), nullptr);
  const std::string_view key = "a";
  TreeRead read;
  loads.read({&key, 1}, &read);
  EXPECT_EQ(read.value, disk_.pairs["a"]);
}

// All threads that have nothing else to do help whoever reads many.
TEST_F(TreeLoadsTest, ManyAreReadByAllThreadsTogether) {
  std::vector<std::string> names;
  for (int i = 0; i < 300; ++i) {
    names.push_back("key" + std::to_string(i));
    if (i % 10 != 0) disk_.pairs[names.back()] = std::to_string(i);
  }
  const std::vector<std::string_view> keys(names.begin(), names.end());
  std::vector<TreeRead> reads(keys.size());
  disk_.hold(true);
  std::thread asks([&] { loads_.read(keys, reads.data()); });
  {
    std::unique_lock lock(disk_.mutex);
    disk_.changed.wait(lock, [&] { return disk_.held == 3; });
  }
  disk_.hold(false);
  asks.join();
  for (size_t i = 0; i < reads.size(); ++i) {
    EXPECT_EQ(reads[i].state, i % 10 == 0 ? TreeRead::State::absent : TreeRead::State::found);
    EXPECT_EQ(reads[i].value, i % 10 == 0 ? "" : std::to_string(i));
  }
  EXPECT_EQ(loads_.loads(), 300u);
  for (std::atomic<bool>* const fault : {&disk_.fails_to_read, &disk_.throws}) {
    reads.assign(keys.size(), {});
    *fault = true;
    loads_.read(keys, reads.data());
    *fault = false;
    for (const TreeRead& read : reads) EXPECT_EQ(read.state, TreeRead::State::failed);
  }
}

}  // namespace
}  // namespace isotherm::tree_loads_test

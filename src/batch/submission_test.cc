#include "batch/submission.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace isotherm::submission_test {
namespace {

// A submission whose keys say whose it is, and which of its.
struct Numbered {
  uint64_t thread_and_number[2] = {0, 0};
  gpu::Completion completion;

  void begin(uint64_t thread, uint64_t number) {
    thread_and_number[0] = thread;
    thread_and_number[1] = number;
    TableRequests requests;
    requests.rows = 2;
    requests.keys = thread_and_number;
    Submission::begin(completion, requests);
  }
};

TEST(Inbox, GivesEachThreadsSubmissionsInTheirOrder) {
  constexpr uint64_t threads = 3;
  constexpr uint64_t each = 5000;
  Inbox inbox;
  std::vector<std::unique_ptr<Numbered[]>> made;
  std::vector<std::thread> pushing;
  pushing.reserve(threads);
  for (uint64_t thread = 0; thread < threads; ++thread) {
    made.push_back(std::make_unique<Numbered[]>(each));
    pushing.emplace_back([&inbox, thread, mine = made.back().get()] {
      for (uint64_t number = 0; number < each; ++number) {
        mine[number].begin(thread, number);
        inbox.push(mine[number].completion);
      }
    });
  }
  uint64_t next[threads] = {};
  for (uint64_t taken = 0; taken < threads * each;) {
    gpu::Completion* list = inbox.take();
    for (gpu::Completion* at = list; at != nullptr; at = Submission::next(*at), ++taken) {
      const uint64_t* keys = Submission::requests(*at).keys;
      EXPECT_EQ(keys[1], next[keys[0]]++);
    }
    Submission::finish(list, gpu::QueueStatus::ok);
  }
  for (std::thread& thread : pushing) thread.join();
  EXPECT_TRUE(inbox.empty());
  EXPECT_TRUE(made[0][0].completion.ready());
}

TEST(Submission, IsAnsweredWithTheLastOfItsRows) {
  Numbered numbered;
  numbered.begin(0, 0);
  EXPECT_FALSE(numbered.completion.ready());
  EXPECT_FALSE(Submission::answered(numbered.completion, 1));
  EXPECT_TRUE(Submission::answered(numbered.completion, 1));
}

// The waiters fall asleep in between: one that is not woken would end the test by its timeout.
TEST(Submission, FinishWakesAllWhoWait) {
  for (int round = 0; round < 20; ++round) {
    Numbered numbered;
    numbered.begin(0, 0);
    std::vector<std::thread> waiting;
    waiting.reserve(3);
    for (int i = 0; i < 3; ++i) {
      waiting.emplace_back([&] { EXPECT_EQ(numbered.completion.wait(), gpu::QueueStatus::lost); });
    }
    if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    Submission::finish(&numbered.completion, gpu::QueueStatus::lost);
    for (std::thread& thread : waiting) thread.join();
  }
}

}  // namespace
}  // namespace isotherm::submission_test

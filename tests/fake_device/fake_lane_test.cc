// The lanes of the fake device: collectives, blocks, shared memory, atomics, and their misuse.
#include "fake_device/fake_lane.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/macros.h"
#include "fake_device/fake_device_fixture.h"

namespace isotherm::fake_lane_test {
namespace {

using FakeLanes = FakeDeviceFixture;

// One lane's part of a random partition of its warp.
struct Part {
  uint32_t mask = 0;
  uint32_t source = 0;
  uint32_t value = 0;
  uint32_t predicate = 0;
};

struct Seen {
  uint32_t ballot = 0;
  uint32_t match = 0;
  uint64_t shuffle = 0;
};

struct MeetInParts {
  const Part* parts;
  Seen* seen;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const uint32_t row = lane.block() * lane.threads() + lane.thread();
    const Part part = parts[row];
    Seen mine;
    mine.ballot = lane.ballot(part.mask, part.predicate != 0);
    mine.match = lane.match(part.mask, part.value);
    lane.sync_warp(part.mask);
    mine.shuffle = lane.shuffle(part.mask, uint64_t{row} << 32 | part.value, part.source);
    seen[row] = mine;
  }
};

// Splits the lanes of a warp among up to `groups` masks.
void split_warp(Part* parts, uint32_t groups, std::mt19937_64& random) {
  std::vector<uint32_t> masks(groups, 0);
  uint32_t group_of[32];
  for (uint32_t lane = 0; lane < 32; ++lane) {
    group_of[lane] = static_cast<uint32_t>(random() % groups);
    masks[group_of[lane]] |= 1u << lane;
  }
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t mask = masks[group_of[lane]];
    uint32_t source = static_cast<uint32_t>(random() % 32);
    while ((mask >> source & 1) == 0) source = (source + 1) % 32;
    parts[lane] = {mask, source, static_cast<uint32_t>(random() % 5),
                   static_cast<uint32_t>(random() % 2)};
  }
}

Seen expected(const std::vector<Part>& parts, uint32_t row) {
  const uint32_t warp = row / 32 * 32;
  const Part& mine = parts[row];
  Seen seen;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const Part& other = parts[warp + lane];
    if ((mine.mask >> lane & 1) == 0) continue;
    seen.ballot |= other.predicate << lane;
    seen.match |= uint32_t{other.value == mine.value} << lane;
  }
  const uint32_t source = warp + mine.source;
  seen.shuffle = uint64_t{source} << 32 | parts[source].value;
  return seen;
}

TEST_F(FakeLanes, MeetInRandomMasks) {
  constexpr uint32_t blocks = 6, threads = 96, rows = blocks * threads;
  std::mt19937_64 random(1);
  for (const uint32_t groups : {1, 2, 3, 8, 32}) {
    std::vector<Part> parts(rows);
    for (uint32_t warp = 0; warp < rows; warp += 32) split_warp(&parts[warp], groups, random);
    auto* device_parts = upload(parts);
    auto* device_seen = zeros<Seen>(rows);
    run(blocks, threads, MeetInParts{device_parts, device_seen});
    const std::vector<Seen> seen = download(device_seen, rows);
    for (uint32_t row = 0; row < rows; ++row) {
      const Seen wanted = expected(parts, row);
      EXPECT_EQ(seen[row].ballot, wanted.ballot);
      EXPECT_EQ(seen[row].match, wanted.match);
      EXPECT_EQ(seen[row].shuffle, wanted.shuffle);
    }
  }
}

struct SayWho {
  uint32_t* block_of;
  uint32_t* order;
  uint32_t* next;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const uint32_t row = lane.block() * lane.threads() + lane.thread();
    block_of[row] = lane.block() + 1000 * lane.blocks();
    order[Lane::atomic_add(next, 1u)] = row;
  }
};

TEST_F(FakeLanes, RunOnceEachAndInAnOrderOfTheSeed) {
  constexpr uint32_t blocks = 40, threads = 33, rows = blocks * threads;
  std::set<std::vector<uint32_t>> orders;
  for (int repeat = 0; repeat < 3; ++repeat) {
    auto* block_of = zeros<uint32_t>(rows);
    auto* order = zeros<uint32_t>(rows);
    run(blocks, threads, SayWho{block_of, order, zeros<uint32_t>(1)});
    const std::vector<uint32_t> seen = download(block_of, rows);
    for (uint32_t row = 0; row < rows; ++row) EXPECT_EQ(seen[row], row / threads + 1000 * blocks);
    std::vector<uint32_t> drawn = download(order, rows);
    orders.insert(drawn);
    std::sort(drawn.begin(), drawn.end());
    for (uint32_t row = 0; row < rows; ++row) EXPECT_EQ(drawn[row], row);
  }
  EXPECT_EQ(orders.size(), 3u);
}

struct SumBlocks {
  struct Shared {
    uint64_t sums[256];
  };
  const uint64_t* values;
  uint64_t* sums;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    auto* shared = lane.template shared<Shared>();
    const uint32_t at = lane.thread();
    shared->sums[at] = values[lane.block() * lane.threads() + at];
    lane.sync_block();
    for (uint32_t half = lane.threads() / 2; half > 0; half /= 2) {
      if (at < half) shared->sums[at] += shared->sums[at + half];
      lane.sync_block();
    }
    if (at == 0) sums[lane.block()] = shared->sums[0];
  }
};

TEST_F(FakeLanes, ReduceInSharedMemory) {
  constexpr uint32_t blocks = 50, threads = 256;
  std::mt19937_64 random(2);
  std::vector<uint64_t> values(blocks * threads), wanted(blocks, 0);
  for (uint32_t row = 0; row < values.size(); ++row) {
    values[row] = random();
    wanted[row / threads] += values[row];
  }
  auto* sums = zeros<uint64_t>(blocks);
  run(blocks, threads, SumBlocks{upload(values), sums});
  EXPECT_EQ(download(sums, blocks), wanted);
}

// Lanes return one after another; those left meet at sync_block all the same.
struct LeaveOneByOne {
  struct Shared {
    uint32_t count;
  };
  uint32_t* wrong;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    auto* shared = lane.template shared<Shared>();
    if (lane.thread() == 0) shared->count = 0;
    lane.sync_block();
    for (uint32_t round = 0; round <= lane.thread(); ++round) {
      Lane::atomic_add(&shared->count, 1u);
      lane.sync_block();
      const uint32_t so_far = Lane::load(&shared->count);
      const uint32_t left = lane.threads() - round;
      const uint32_t before = lane.threads() * round - round * (round - 1) / 2;
      if (so_far != before + left) Lane::atomic_add(wrong, 1u);
      lane.sync_block();
    }
  }
};

TEST_F(FakeLanes, ThatReturnDoNotCountAtSyncBlock) {
  auto* wrong = zeros<uint32_t>(1);
  run(5, 70, LeaveOneByOne{wrong});
  EXPECT_EQ(download(wrong, 1)[0], 0u);
}

struct Count {
  uint64_t* atomic;
  uint64_t* racy;
  uint64_t* swapped;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane&) const {
    Lane::atomic_add(atomic, uint64_t{1});
    Lane::store(racy, Lane::load(racy) + 1);
    uint64_t seen = Lane::load(swapped);
    for (;;) {
      const uint64_t old = Lane::compare_exchange(swapped, seen, seen + 1);
      if (old == seen) break;
      seen = old;
    }
  }
};

TEST_F(FakeLanes, InterleaveAtAccesses) {
  constexpr uint32_t lanes = 512;
  uint64_t lost = 0;
  for (int repeat = 0; repeat < 8; ++repeat) {
    auto* counts = zeros<uint64_t>(3);
    run(4, lanes / 4, Count{counts, counts + 1, counts + 2});
    const std::vector<uint64_t> got = download(counts, 3);
    EXPECT_EQ(got[0], lanes);
    EXPECT_EQ(got[2], lanes);
    lost += lanes - got[1];
  }
  EXPECT_GT(lost, 0u);
}

template <class T>
struct TryAtomics {
  T* at;  // starts as 12, 12, 12, 12, 12
  T* old;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane&) const {
    old[0] = Lane::atomic_or(at, T{3});
    old[1] = Lane::atomic_max(at + 1, T{20});
    old[2] = Lane::atomic_min(at + 2, T{7});
    old[3] = Lane::atomic_exchange(at + 3, T{9});
    old[4] = Lane::compare_exchange(at + 4, T{11}, T{1});
    Lane::atomic_max(at + 1, T{5});
    Lane::atomic_min(at + 2, T{8});
    Lane::fence();
  }
};

TEST_F(FakeLanes, AtomicsReturnTheOldValue) {
  const auto check = [&]<class T>(T) {
    auto* at = upload(std::vector<T>(5, 12));
    auto* old = zeros<T>(5);
    run(1, 1, TryAtomics<T>{at, old});
    EXPECT_EQ(download(old, 5), std::vector<T>(5, 12));
    EXPECT_EQ(download(at, 5), (std::vector<T>{15, 20, 7, 9, 12}));
  };
  check(uint32_t{0});
  check(uint64_t{0});
  check(int64_t{0});
}

// Misuse, by number.
struct Misuse {
  enum Kind : uint32_t {
    not_in_mask,
    returned,
    masks_differ,
    calls_differ,
    foreign_source,
    divergent_block,
    circle,
    no_such_lane,
    too_much_shared,
    released,
    unaligned,
  };
  Kind kind;
  uint32_t* memory;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const uint32_t all = ~0u;
    const uint32_t at = lane.thread();
    if (at >= 32 && kind != no_such_lane && kind != divergent_block) return;
    if (kind == not_in_mask) lane.ballot(1, true);
    if (kind == returned && at != 7) lane.ballot(all, true);
    if (kind == masks_differ) lane.ballot(at == 0 || at == 2 ? all : all - 4, true);
    if (kind == calls_differ) at == 0 ? lane.sync_warp(all) : void(lane.ballot(all, true));
    if (kind == foreign_source) lane.shuffle(at < 16 ? 0xffffu : 0xffff0000u, at, 16);
    if (kind == divergent_block && at % 32 == 0) lane.sync_warp(at == 0 ? 3 : 1);
    if (kind == divergent_block) lane.sync_block();
    if (kind == circle && at < 3) lane.sync_warp(at == 0 ? 3 : at == 1 ? 6 : 5);
    if (kind == no_such_lane && at >= 32) lane.ballot(all, true);
    if (kind == too_much_shared) *lane.template shared<uint32_t>() = 1;
    if (kind == released) Lane::load(memory);
    if (kind == unaligned)
      Lane::load(reinterpret_cast<uint32_t*>(reinterpret_cast<char*>(memory) + 2));
  }
};

std::string error_of(FakeDevice& device, const Misuse& misuse) {
  const FakeDevice::Stream stream = device.create_stream();
  EXPECT_TRUE(device.launch(stream, 3, 48, misuse));
  EXPECT_FALSE(device.synchronize(stream));
  EXPECT_TRUE(device.lost());
  const std::vector<std::string> errors = device.take_errors();
  device.recover();
  return errors.size() == 1 ? errors[0] : std::to_string(errors.size()) + " errors";
}

TEST_F(FakeLanes, MisuseIsReported) {
  void* released = device.allocate(4);
  device.release(released, 4);
  const std::pair<Misuse::Kind, const char*> wanted[] = {
      {Misuse::not_in_mask, "by a lane that is not in the mask"},
      {Misuse::returned, "wait"},
      {Misuse::masks_differ, "which wait for it at"},
      {Misuse::calls_differ, "which wait for it at"},
      {Misuse::foreign_source, "from lane 16, which is not in the mask"},
      {Misuse::divergent_block, "sync_block"},
      {Misuse::circle, "waits for ever at sync_warp(0x3), others at sync_warp(0x6), others"},
      {Misuse::no_such_lane, "names lanes that the block does not have"},
      {Misuse::too_much_shared, "more shared memory"},
      {Misuse::released, "not allocated"},
      {Misuse::unaligned, "not aligned"},
  };
  for (const auto& [kind, text] : wanted) {
    for (int repeat = 0; repeat < 5; ++repeat) {
      const std::string error = error_of(device, {kind, static_cast<uint32_t*>(released)});
      EXPECT_NE(error.find(text), std::string::npos) << kind << ": " << error;
      EXPECT_NE(error.find("Misuse, block "), std::string::npos) << error;
    }
  }
}

}  // namespace
}  // namespace isotherm::fake_lane_test

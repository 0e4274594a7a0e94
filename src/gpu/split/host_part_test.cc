// The host's part of a table: lists answered by threads, and memory that ends.
#include "gpu/split/host_part.h"

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "items/poison.h"
#include "models/table_model.h"

namespace isotherm::host_part_test {
namespace {

constexpr uint64_t seed = 7;
constexpr size_t lists = 6;

HostPartOptions options(uint64_t bytes, uint32_t threads = 3) {
  return {.seed = seed, .bytes = bytes, .expected = 0, .threads = threads};
}

// Requests whose keys say which list they are in.
std::vector<DeviceRequest> random_list(std::mt19937_64& random, size_t list, uint64_t keys) {
  std::vector<DeviceRequest> requests(random() % 400);
  for (DeviceRequest& request : requests) {
    request.op = static_cast<TableOp>(random() % 6);
    request.key = random() % keys * lists + list;
    request.value = random() % 5;
    request.expected = random() % 5;
  }
  return requests;
}

TEST(HostPart, ListsAreAnsweredInOrderWhoeverTakesThem) {
  std::mt19937_64 random(1);
  HostPart part(options(uint64_t{1} << 30));
  TableModel model;
  for (int round = 0; round < (poison::sanitized ? 20 : 200); ++round) {
    std::vector<std::vector<DeviceRequest>> requests;
    std::vector<HostRequests> columns;
    std::vector<TableRequests> calls;
    calls.reserve(lists);
    for (size_t list = 0; list < lists; ++list) {
      requests.push_back(random_list(random, list, 500));
      columns.emplace_back(requests.back());
    }
    for (HostRequests& of_list : columns) calls.push_back(of_list.call());
    part.answer(calls);
    for (size_t list = 0; list < lists; ++list) {
      model.compare(requests[list], columns[list].values_out, columns[list].found);
    }
  }
  EXPECT_EQ(model.wrong() + model.refused(), 0u);
  EXPECT_EQ(part.entries(), model.entries().size());
}

// Entries from number `from` on.
std::vector<BinHost::Entry> entries(uint64_t from, uint64_t count) {
  std::vector<BinHost::Entry> some;
  for (uint64_t i = from; i < from + count; ++i) some.push_back({mix(i, seed), i});
  return some;
}

TEST(HostPart, EntriesThatFindNoMemoryAreNotThere) {
  constexpr uint64_t bytes = 2 << 20;
  constexpr uint64_t a_put = 2'500;
  HostPart part(options(bytes));
  uint64_t put = 0;
  while (part.put(entries(put, a_put))) {
    put += a_put;
    ASSERT_EQ(part.entries(), put);
    ASSERT_LE(part.bytes(), bytes);
    ASSERT_LT(put, bytes / 16) << "more than has room";
  }
  EXPECT_GT(put, 0u);
  EXPECT_EQ(part.entries(), put);
  std::vector<BinHost::Entry> there;
  EXPECT_EQ(part.read(0, 0, ~uint64_t{0} / 2, there), 0u);
  ASSERT_EQ(there.size(), put);
  for (const BinHost::Entry& entry : there) EXPECT_EQ(entry.hash, mix(entry.word, seed));
  part.erase(entries(0, put));
  EXPECT_EQ(part.entries(), 0u);
}

// Bins are ranges of hashes: what one has left another can use.
TEST(HostPart, WhatARangeOfHashesHasLeftAnotherTakes) {
  HostPart part(options(16 << 20));
  const auto in_range = [](uint64_t range, uint64_t from) {
    std::vector<BinHost::Entry> some;
    for (uint64_t i = from; i < from + 4096; ++i) {
      some.push_back({range << 62 | mix(i, seed) >> 2, i});
    }
    return some;
  };
  uint64_t taken[2] = {};
  for (const uint64_t range : {0, 1}) {
    while (part.put(in_range(range, taken[range]))) taken[range] += 4096;
    for (uint64_t from = 0; from < taken[range]; from += 4096) part.erase(in_range(range, from));
    ASSERT_EQ(part.entries(), 0u);
  }
  EXPECT_GT(taken[0], 300'000u);
  EXPECT_GT(taken[1], taken[0] / 2);
}

}  // namespace
}  // namespace isotherm::host_part_test

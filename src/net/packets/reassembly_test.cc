// Fragments in any order become the frame that was cut, or nothing; mutated ones, too, and no byte
// is read beyond them.
#include "net/packets/reassembly.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "device_checks/test_size.h"
#include "gpu/udp/request_frame.h"
#include "items/poison.h"
#include "models/built_frames.h"
#include "models/fragments.h"
#include "models/guarded_slot.h"

namespace isotherm::reassembly_test {
namespace {

using built_frames::build;
using built_frames::Parts;
using fragments::part_of;
using fragments::split;
using net::Reassembly;

std::string some_text(size_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

// Of what the fragments become; where that are several frames, an error.
std::string joined(Reassembly& reassembly, const std::vector<std::string>& parts,
                   int64_t now_us = 0) {
  std::string whole;
  for (const std::string& part : parts) {
    const std::string now = reassembly.take(part, now_us);
    if (now.empty()) continue;
    EXPECT_TRUE(whole.empty());
    whole = now;
  }
  return whole;
}

bool is_request_with(const std::string& frame, const std::string& text) {
  const auto bytes = static_cast<uint32_t>(frame.size());
  if (!is_request(RequestFrame::read(frame.data(), bytes, built_frames::server_port).kind)) {
    return false;
  }
  const auto read = built_frames::read(frame);
  return read && read->text == text;
}

TEST(Reassembly, AnyOrderOfTheFragmentsWillDo) {
  Reassembly reassembly;
  for (const bool v6 : {false, true}) {
    const std::string text = some_text(90, 1);
    std::vector<std::string> parts = split(build({.v6 = v6, .text = text}), 24, 5);
    ASSERT_EQ(parts.size(), 5u);
    std::sort(parts.begin(), parts.end());
    do {
      EXPECT_TRUE(is_request_with(joined(reassembly, parts), text));
    } while (std::next_permutation(parts.begin(), parts.end()));
  }
  EXPECT_EQ(reassembly.datagrams(), 0u);
  EXPECT_EQ(reassembly.bytes(), 0u);
  EXPECT_EQ(reassembly.counts().joined, 240u);
  EXPECT_EQ(reassembly.counts().fragments, 1200u);
}

TEST(Reassembly, TheLongestDatagrams) {
  for (const bool v6 : {false, true}) {
    const uint32_t head = v6 ? 0 : 20;
    const std::string text = some_text(65'535 - head - 8 - 8, 2);
    const std::string frame = build({.v6 = v6, .text = text});
    Reassembly reassembly;
    EXPECT_TRUE(is_request_with(joined(reassembly, split(frame, 1480, 1)), text));
    // One byte more would be a longer packet than there is.
    const std::string longer = frame + "x";
    EXPECT_EQ(joined(reassembly, split(longer, 1480, 2)), "");
    EXPECT_EQ(reassembly.counts().faulty, 1u);
  }
  // Nor with a longer head of its first fragment.
  const std::string text = some_text(65'535 - 20 - 8 - 8, 2);
  std::vector<std::string> parts = split(build({.text = text}), 1480, 3);
  parts[0] = split(build({.text = text, .options = std::string(4, '\1')}), 1480, 3)[0];
  Reassembly reassembly;
  EXPECT_EQ(joined(reassembly, parts), "");
  EXPECT_EQ(reassembly.counts().faulty, 1u);
  EXPECT_EQ(reassembly.bytes(), 0u);
}

TEST(Reassembly, OptionsAndPaddingAndFragmentsOfOne) {
  Reassembly reassembly;
  const std::string text = some_text(100, 3);
  std::vector<std::string> parts =
      split(build({.text = text, .options = std::string(8, '\1')}), 64, 5);
  for (std::string& part : parts) part += "padding";
  EXPECT_TRUE(is_request_with(joined(reassembly, parts), text));
  // A packet in one fragment is whole, whatever else there is of its number.
  const std::string frame = build({.v6 = true, .text = text});
  EXPECT_EQ(reassembly.take(split(frame, 64, 7)[0], 0), "");
  EXPECT_TRUE(is_request_with(joined(reassembly, split(frame, 65'000, 7)), text));
  EXPECT_EQ(reassembly.datagrams(), 1u);
}

TEST(Reassembly, DatagramsOfOthersAreKeptApart) {
  Reassembly reassembly;
  std::vector<std::string> texts;
  std::vector<std::vector<std::string>> parts;
  for (uint32_t i = 0; i < 8; ++i) {
    texts.push_back(some_text(100, i));
    parts.push_back(split(
        build({.v6 = i % 2 == 1, .text = texts.back(), .client = static_cast<uint8_t>(i / 4)}), 64,
        i / 2 % 2));
  }
  for (const auto& of_one : parts) EXPECT_EQ(reassembly.take(of_one[0], 0), "");
  for (size_t i = 0; i < parts.size(); ++i) {
    EXPECT_TRUE(is_request_with(reassembly.take(parts[i][1], 0), texts[i]));
  }
}

TEST(Reassembly, AFragmentThatComesTwiceIsTakenOnce) {
  const std::string text = some_text(100, 4);
  const auto parts = split(build({.text = text}), 48, 5);
  Reassembly reassembly;
  EXPECT_TRUE(is_request_with(
      joined(reassembly, {parts[0], parts[0], parts[1], parts[1], parts[0], parts[2]}), text));
  EXPECT_TRUE(is_request_with(joined(reassembly, {parts[2], parts[1], parts[2], parts[0]}), text));
}

// None of them becomes anything, nor does what comes behind.
TEST(Reassembly, FragmentsThatContradictEachOther) {
  for (const bool v6 : {false, true}) {
    const std::string frame = build({.v6 = v6, .text = some_text(112, 5)});  // 128 bytes of IP's
    const auto part = [&](size_t at, size_t bytes, bool more = true) {
      return part_of(frame, at, bytes, 9, more);
    };
    const std::vector<std::vector<std::string>> wrong = {
        {part(0, 64), part(56, 72, false)},          // the front overlaps
        {part(64, 64, false), part(0, 72)},          // the end does
        {part(0, 128), part(32, 32), part(0, 8)},    // one lies in the other
        {part(32, 32), part(0, 128)},                // and the other round it
        {part(64, 32, false), part(64, 64, false)},  // two ends
        {part(64, 32, false), part(96, 32)},         // behind the end
        {part(64, 32, false), part(64, 32, true), part(96, 32, false)},
        {part(96, 32), part(64, 32, false)},
    };
    for (const auto& parts : wrong) {
      Reassembly reassembly;
      EXPECT_EQ(joined(reassembly, parts), "");
      EXPECT_EQ(joined(reassembly, split(frame, 64, 9)), "");
      EXPECT_GE(reassembly.counts().faulty, 3u);
      EXPECT_EQ(reassembly.bytes(), 0u);
      // The number may be used again when its time is over.
      EXPECT_NE(joined(reassembly, split(frame, 64, 9), Reassembly::patience_us), "");
    }
  }
}

TEST(Reassembly, WhatIsNoFragmentOfUdpIsRefused) {
  for (const bool v6 : {false, true}) {
    const std::string frame = build({.v6 = v6, .text = some_text(112, 6)});
    std::string tcp = part_of(frame, 0, 64, 1, true);
    tcp[v6 ? 54 : 23] = 6;
    for (const std::string& wrong : {
             tcp,
             part_of(frame, 0, 60, 1, true),  // not of whole units
             part_of(frame, 0, 0, 1, true),   // of nothing
             part_of(frame, 64, 0, 1, false),
             std::string(part_of(frame, 0, 64, 1, true), 0, v6 ? 61 : 33),
             std::string(part_of(frame, 0, 64, 1, true), 0, v6 ? 70 : 60),
             std::string("short"),
         }) {
      Reassembly reassembly;
      EXPECT_EQ(reassembly.take(wrong, 0), "");
      EXPECT_EQ(reassembly.counts().faulty, 1u);
      EXPECT_EQ(reassembly.datagrams(), 0u);
    }
  }
}

TEST(Reassembly, WhatDoesNotBecomeWholeIsGivenUp) {
  const std::string text = some_text(100, 7);
  const auto parts = split(build({.text = text}), 64, 5);
  Reassembly reassembly;
  EXPECT_EQ(reassembly.take(parts[0], 0), "");
  EXPECT_TRUE(is_request_with(reassembly.take(parts[1], Reassembly::patience_us - 1), text));
  EXPECT_EQ(reassembly.take(parts[0], 0), "");
  EXPECT_EQ(reassembly.take(parts[1], Reassembly::patience_us), "");
  EXPECT_EQ(reassembly.counts().given_up, 1u);
  EXPECT_EQ(reassembly.datagrams(), 1u);
}

TEST(Reassembly, ItsMemoryIsBounded) {
  const std::string frame = build({.v6 = true, .text = some_text(65'000, 8)});
  Reassembly reassembly;
  uint64_t count = 0;
  for (uint32_t i = 0; i < 1000; ++i, ++count) {
    // Bytes far behind take as much as those before them.
    EXPECT_EQ(reassembly.take(part_of(frame, 64'800, 8, i, true), 0), "");
    EXPECT_LE(reassembly.bytes(), Reassembly::most_bytes);
  }
  EXPECT_GT(reassembly.bytes(), Reassembly::most_bytes / 2);
  for (uint32_t i = 0; i < 1000; ++i, ++count) {
    EXPECT_EQ(reassembly.take(part_of(frame, 0, 8, 1000 + i, true), 0), "");
    EXPECT_LE(reassembly.datagrams(), Reassembly::most_datagrams);
  }
  EXPECT_EQ(reassembly.datagrams(), Reassembly::most_datagrams);
  EXPECT_EQ(reassembly.counts().given_up, count - Reassembly::most_datagrams);
  // The newest is still there.
  const auto rest = part_of(frame, 8, frame.size() - 14 - 40 - 8, 1999, false);
  EXPECT_NE(reassembly.take(rest, 0), "");
}

// Cut datagrams of two clients, the fragments in any order; those of the one are changed, lost and
// doubled, those of the other only doubled.
TEST(Reassembly, MutatedFragments) {
  std::mt19937_64 random(9);
  const auto below = [&](size_t bound) { return static_cast<size_t>(random() % bound); };
  Reassembly reassembly;
  GuardedSlot slot;
  uint64_t whole = 0;
  uint64_t wrong = 0;
  int64_t now_us = 0;
  const uint64_t datagrams = test_size(100'000, 10'000'000) / (poison::sanitized ? 20 : 4);
  for (uint64_t i = 0; i < datagrams; ++i) {
    now_us += 1000;
    const bool intact = below(4) == 0;
    Parts its{.v6 = below(2) == 0, .text = some_text(1 + below(300), static_cast<uint32_t>(i))};
    its.client = intact ? 1 : 2;
    // Numbers that mutations do not mistake.
    const uint32_t number = static_cast<uint32_t>(i) * 8 % 0x8000 + (intact ? 0 : 0x8000);
    std::vector<std::string> parts = split(build(its), 8 * (1 + below(20)), number);
    const bool is_one = parts.size() == 1;
    std::shuffle(parts.begin(), parts.end(), random);
    if (below(4) == 0) parts.insert(parts.begin(), parts[below(parts.size())]);
    if (!intact) {
      for (std::string& part : parts) {
        if (below(2) == 0) part = built_frames::mutated(part, random);
      }
      if (below(2) == 0) parts.erase(parts.begin() + static_cast<ptrdiff_t>(below(parts.size())));
    }
    uint64_t here = 0;
    for (const std::string& part : parts) {
      const std::string frame = reassembly.take(slot.put(part), now_us);
      if (frame.empty()) continue;
      ++here;
      const size_t bytes = built_frames::is_v6(frame) ? 40 + built_frames::number(frame, 18)
                                                      : built_frames::number(frame, 16);
      wrong += frame.size() != 14 + bytes;
      wrong += intact && !is_request_with(frame, its.text);
    }
    whole += here;
    wrong += intact && here != (is_one ? parts.size() : 1);
    wrong += reassembly.bytes() > Reassembly::most_bytes ||
             reassembly.datagrams() > Reassembly::most_datagrams;
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(whole, datagrams / 4);
}

}  // namespace
}  // namespace isotherm::reassembly_test

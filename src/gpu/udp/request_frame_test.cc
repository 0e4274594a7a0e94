// Frames of clients are read, and answered, as a parser and a reader of the tests' own say; mutated
// ones, too, and no byte is touched beyond them.
#include "gpu/udp/request_frame.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "device_checks/test_size.h"
#include "gpu/udp/reply_frame.h"
#include "models/built_frames.h"
#include "models/guarded_slot.h"

namespace isotherm::request_frame_test {
namespace {

using built_frames::build;
using built_frames::Parts;
using built_frames::server_port;

RequestFrame read_in(GuardedSlot& slot, const std::string& frame) {
  return RequestFrame::read(slot.put(frame).data(), static_cast<uint32_t>(frame.size()),
                            server_port);
}
RequestFrame read_one(const std::string& frame) {
  GuardedSlot slot;
  return read_in(slot, frame);
}
FrameKind kind_of(const Parts& parts) { return read_one(build(parts)).kind; }

// The reply of a hit or a miss, as a device stores it.
std::string reply_to(const std::string& frame, const std::string* value, uint32_t flags = 0,
                     uint64_t version = 0) {
  struct alignas(16) Unit {
    char bytes[16];
  };
  std::vector<Unit> slot(ReplyFrame::slot_bytes / sizeof(Unit));
  std::memcpy(slot[0].bytes, frame.data(), frame.size());
  const auto request =
      RequestFrame::read(slot[0].bytes, static_cast<uint32_t>(frame.size()), server_port);
  EXPECT_EQ(request.kind, FrameKind::get);
  // A unit before it and one behind, as units around a value are read whole.
  std::vector<Unit> stored((value != nullptr ? value->size() : 0) / sizeof(Unit) + 3);
  std::memset(stored.data(), 0, stored.size() * sizeof(Unit));
  char* const at = stored[1].bytes + 8;  // an item's value lies at a whole word
  if (value != nullptr) std::memcpy(at, value->data(), value->size());
  const auto reply =
      value == nullptr
          ? ReplyFrame::miss(request)
          : ReplyFrame::hit(request, static_cast<uint32_t>(value->size()), flags, version);
  EXPECT_TRUE(reply.fits(request));
  reply.write_front(slot[0].bytes, request, at);
  std::string sent;
  for (uint32_t i = 0; i * sizeof(Unit) < reply.bytes(); ++i) {
    const Pair unit = reply.unit(slot[0].bytes, at, i);
    sent.append(reinterpret_cast<const char*>(&unit), sizeof unit);
  }
  for (uint64_t i = reply.bytes(); i < sent.size(); ++i) EXPECT_EQ(sent[i], '\0');
  sent.resize(reply.bytes());
  return sent;
}

// Right in all but its text, which is returned.
std::string text_of_reply(const std::string& frame, const std::string& reply) {
  const auto asked = built_frames::read(frame);
  const auto answered = built_frames::read(reply);
  if (!asked || !answered) {
    ADD_FAILURE() << "no right datagram";
    return {};
  }
  EXPECT_EQ(answered->ethernet_to, asked->ethernet_from);
  EXPECT_EQ(answered->ethernet_from, asked->ethernet_to);
  EXPECT_EQ(answered->to, asked->from);
  EXPECT_EQ(answered->from, asked->to);
  EXPECT_EQ(answered->to_port, asked->from_port);
  EXPECT_EQ(answered->from_port, asked->to_port);
  EXPECT_EQ(answered->header, asked->header.substr(0, 2) + std::string("\0\0\0\1\0\0", 6));
  EXPECT_FALSE(answered->options);
  return answered->text;
}

TEST(RequestFrame, AGetIsRead) {
  for (const bool v6 : {false, true}) {
    for (const char* verb : {"get ", "gets "}) {
      for (const size_t bytes : {size_t{1}, size_t{16}, size_t{17}, size_t{250}}) {
        Parts parts{.v6 = v6};
        const std::string key(bytes, 'k');
        parts.text = verb + key + "\r\n";
        const std::string frame = build(parts);
        const RequestFrame read = read_one(frame);
        ASSERT_EQ(read.kind, FrameKind::get);
        EXPECT_EQ(frame.substr(read.key_at, read.key_bytes), key);
        EXPECT_EQ(read.with_version, parts.text[3] == 's');
        EXPECT_EQ(read.v6, v6);
        EXPECT_LE(frame.size(), RequestFrame::most_get_bytes);
        parts.padding = std::string(30, 'p');
        EXPECT_EQ(kind_of(parts), FrameKind::get);
      }
    }
  }
  EXPECT_EQ(kind_of({.has_sum = false}), FrameKind::get);
}

TEST(RequestFrame, OtherRequestsAreTheCpus) {
  for (const bool v6 : {false, true}) {
    for (const char* text :
         {"set k 0 0 1\r\nx\r\n", "get a b\r\n", "get k\r\nget l\r\n", "get  k\r\n", "get k \r\n",
          "get k\n", "get \r\n", "get\r\n", "gat 0 k\r\n", "getx k\r\n", "GET k\r\n",
          "get k\r\n\r\n", "x", "\x80\x00", "get a\x7f\r\n", "get a\rb\r\n"}) {
      EXPECT_EQ(kind_of({.v6 = v6, .text = text}), FrameKind::other) << text;
    }
    EXPECT_EQ(kind_of({.v6 = v6, .text = "get " + std::string(251, 'k') + "\r\n"}),
              FrameKind::other);
  }
  EXPECT_EQ(kind_of({.options = std::string(4, '\1')}), FrameKind::options);
  EXPECT_EQ(kind_of({.text = "set k 0 0 1\r\nx\r\n", .options = std::string(40, '\1')}),
            FrameKind::options);
}

TEST(RequestFrame, FaultsHaveNames) {
  const auto with = [](size_t at, const std::string& bytes, bool v6, bool right) {
    std::string frame = build({.v6 = v6});
    frame.replace(at, bytes.size(), bytes);
    if (right) built_frames::right_sums(frame);
    return read_one(frame).kind;
  };
  using built_frames::two;
  EXPECT_EQ(with(50, "G", false, false), FrameKind::checksum);
  EXPECT_EQ(with(22, "\x07", false, false), FrameKind::checksum);
  EXPECT_EQ(with(70, "G", true, false), FrameKind::checksum);
  EXPECT_EQ(kind_of({.v6 = true, .has_sum = false}), FrameKind::checksum);
  EXPECT_EQ(with(20, two(0x2000), false, true), FrameKind::fragment);
  EXPECT_EQ(with(20, two(0x0001), false, true), FrameKind::fragment);
  EXPECT_EQ(with(20, "\x2c", true, true), FrameKind::fragment);
  EXPECT_EQ(with(44, two(1), false, true), FrameKind::several);
  EXPECT_EQ(with(46, two(2), false, true), FrameKind::several);
  EXPECT_EQ(with(14, "\x44", false, true), FrameKind::lengths);
  EXPECT_EQ(with(16, two(200), false, true), FrameKind::lengths);
  EXPECT_EQ(with(38, two(12), false, true), FrameKind::lengths);
  EXPECT_EQ(with(18, two(200), true, true), FrameKind::lengths);
  EXPECT_EQ(with(12, two(0x0806), false, true), FrameKind::foreign);
  EXPECT_EQ(with(23, "\x06", false, true), FrameKind::foreign);
  EXPECT_EQ(with(26, "\xe0", false, true), FrameKind::foreign);
  EXPECT_EQ(with(26, std::string(1, '\0'), false, true), FrameKind::foreign);
  EXPECT_EQ(with(30, "\xff", false, true), FrameKind::foreign);
  EXPECT_EQ(with(22, "\xff", true, true), FrameKind::foreign);
  EXPECT_EQ(with(22, std::string(16, '\0'), true, true), FrameKind::foreign);
  EXPECT_EQ(with(0, "\x01", false, true), FrameKind::foreign);
  EXPECT_EQ(kind_of({.to_port = 80}), FrameKind::foreign);
  EXPECT_EQ(kind_of({.from_port = server_port}), FrameKind::foreign);
  EXPECT_EQ(kind_of({.from_port = 0}), FrameKind::foreign);
  EXPECT_EQ(kind_of({.text = ""}), FrameKind::lengths);
}

TEST(RequestFrame, EveryFrontOfAFrameIsTooShort) {
  for (const bool v6 : {false, true}) {
    const std::string frame = build({.v6 = v6});
    for (size_t bytes = 0; bytes < frame.size(); ++bytes) {
      EXPECT_EQ(read_one(frame.substr(0, bytes)).kind, FrameKind::lengths) << bytes;
    }
  }
}

TEST(ReplyFrame, HitsAndMisses) {
  for (const bool v6 : {false, true}) {
    for (const size_t key_bytes : {1, 2, 15, 16, 31, 250}) {
      for (const bool gets : {false, true}) {
        const std::string key(key_bytes, 'q');
        const std::string frame =
            build({.v6 = v6, .text = (gets ? "gets " : "get ") + key + "\r\n"});
        EXPECT_EQ(text_of_reply(frame, reply_to(frame, nullptr)), "END\r\n");
        for (const size_t bytes : {0, 1, 2, 3, 8, 15, 16, 17, 33, 64, 100, 1000}) {
          std::string value;
          for (size_t i = 0; i < bytes; ++i) value += static_cast<char>(i * 37 + bytes);
          const uint32_t flags = bytes % 2 == 0 ? 0 : 4'294'967'295u;
          const uint64_t version = bytes % 3 == 0 ? ~uint64_t{0} : bytes;
          const std::string expected =
              "VALUE " + key + ' ' + std::to_string(flags) + ' ' + std::to_string(bytes) +
              (gets ? ' ' + std::to_string(version) : "") + "\r\n" + value + "\r\nEND\r\n";
          EXPECT_EQ(text_of_reply(frame, reply_to(frame, &value, flags, version)), expected);
        }
      }
    }
  }
}

TEST(ReplyFrame, LongerThanADatagramDoesNotFit) {
  const std::string frame = build({});
  const RequestFrame request = read_one(frame);
  // "VALUE key 0 1359\r\n", the end and memcached's header beside it
  EXPECT_TRUE(ReplyFrame::hit(request, 1400 - 8 - 18 - 7, 0, 0).fits(request));
  EXPECT_FALSE(ReplyFrame::hit(request, 1400 - 8 - 18 - 7 + 1, 0, 0).fits(request));
  EXPECT_FALSE(ReplyFrame::hit(request, 8 << 20, ~0u, 0).fits(request));
}

// Each reply of a mutated frame is one to its sender; what the tests' own parser takes for no get
// is none.
TEST(RequestFrame, MutatedFrames) {
  std::mt19937_64 random(5);
  std::vector<std::string> seeds;
  for (const bool v6 : {false, true}) {
    for (const char* text : {"get key\r\n", "gets a-key-of-16-byte\r\n", "set k 0 0 1\r\nx\r\n"}) {
      seeds.push_back(build({.v6 = v6, .text = text}));
      seeds.push_back(build({.v6 = v6, .text = text, .padding = "padded"}));
    }
  }
  seeds.push_back(build({.options = std::string(8, '\1')}));
  GuardedSlot slot;
  const std::string value = "some value";
  uint64_t gets = 0;
  uint64_t wrong = 0;
  for (uint64_t i = test_size(100'000, 10'000'000); i != 0; --i) {
    const std::string frame = built_frames::mutated(seeds[random() % seeds.size()], random);
    const RequestFrame read = read_in(slot, frame);
    const auto expected = built_frames::find_get(frame);
    const bool is_get = read.kind == FrameKind::get;
    if (is_get != expected.has_value()) ++wrong;
    if (!is_get || !expected) continue;
    ++gets;
    wrong += frame.substr(read.key_at, read.key_bytes) != expected->key ||
             read.with_version != expected->with_version;
    if (frame.size() > ReplyFrame::slot_bytes || gets % 4 != 0) continue;
    const std::string text = text_of_reply(frame, reply_to(frame, &value, 3, 9));
    wrong += text != "VALUE " + expected->key + " 3 10" + (expected->with_version ? " 9" : "") +
                         "\r\nsome value\r\nEND\r\n";
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(gets, 5000u);
}

}  // namespace
}  // namespace isotherm::request_frame_test

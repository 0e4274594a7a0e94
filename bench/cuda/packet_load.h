// PacketLoad: a table of items, and frames of GETs that all hit it: 16-byte keys, drawn uniformly,
// in IPv4 frames of 96 bytes. Replies are read anew (tests/models/built_frames.h) and compared:
// addresses, lengths, checksums, key and value.
//
// Threads. One, but check_one() may be called by many at once. Limits. All values are equally long.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cuda/ranks.h"
#include "gpu/udp/packet_slots.h"
#include "isotherm/gpu/item_table.h"
#include "models/built_frames.h"

namespace isotherm::bench::packets {

using Clock = std::chrono::steady_clock;
constexpr uint32_t frame_bytes = 96;
constexpr uint64_t key_bytes = 16;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

inline std::string key_of(uint64_t item) {
  char text[key_bytes + 1];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(scramble(item)));
  return {text, key_bytes};
}
inline std::string value_of(uint64_t item, uint64_t bytes) {
  std::string value;
  for (uint64_t i = 0; value.size() < bytes; ++i) {
    const uint64_t word = scramble(item * 31 + i);
    value.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  value.resize(bytes);
  return value;
}
inline std::string frame_of(uint64_t item, uint64_t number) {
  built_frames::Parts parts;
  parts.text = "get " + key_of(item) + "\r\n";
  parts.id = static_cast<uint16_t>(number);
  parts.from_port = static_cast<uint16_t>(20'000 + number % 10'000);
  std::string frame = built_frames::build(parts);
  frame.resize(frame_bytes);
  return frame;
}

// Calls work(i) for all i below `count`, by many threads.
template <class Work>
void in_parallel(uint64_t count, Work&& work) {
  const uint64_t threads = std::max(1u, std::min(16u, std::thread::hardware_concurrency()));
  std::vector<std::thread> all;
  for (uint64_t t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      for (uint64_t i = count * t / threads; i < count * (t + 1) / threads; ++i) work(i);
    });
  }
  for (std::thread& thread : all) thread.join();
}

struct Percentiles {
  double p50;
  double p95;
  double most;
};
// Of seconds, in microseconds.
inline Percentiles percentiles(std::vector<double> took) {
  std::sort(took.begin(), took.end());
  return {took[took.size() / 2] * 1e6, took[took.size() * 95 / 100] * 1e6, took.back() * 1e6};
}

class PacketLoad {
 public:
  PacketLoad(uint64_t items, uint64_t value_bytes)
      : items_(items),
        value_bytes_(value_bytes),
        reply_bytes_(static_cast<uint32_t>(14 + 20 + 8 + 8 + 6 + key_bytes + 3 +
                                           std::to_string(value_bytes).size() + 2 + value_bytes +
                                           7)) {
    fill();
  }

  gpu::ItemTable& table() { return table_; }
  uint64_t value_bytes() const { return value_bytes_; }
  uint64_t wrong() const { return wrong_; }
  uint32_t reply_bytes() const { return reply_bytes_; }

  PacketOptions options(uint32_t rows, uint32_t channels) const {
    PacketOptions options;
    options.rows = rows;
    options.channels = channels;
    options.frame_stride = frame_bytes;
    options.reply_stride = reply_bytes();
    options.amplification = 0;
    return options;
  }

  // Which items are asked for, and the frames that ask.
  struct Drawn {
    std::vector<uint64_t> items;
    std::vector<char> frames;
  };
  Drawn draw(uint64_t rows, uint64_t seed) const {
    Drawn drawn{std::vector<uint64_t>(rows), std::vector<char>(rows * frame_bytes)};
    std::mt19937_64 random(seed);
    for (uint64_t& item : drawn.items) item = random() % items_;
    in_parallel(rows, [&](uint64_t i) {
      frame_of(drawn.items[i], i).copy(drawn.frames.data() + i * frame_bytes, frame_bytes);
    });
    return drawn;
  }

  // Counts a wrong reply.
  void check_one(const PacketSlots& slots, uint32_t row, uint64_t item) {
    const PacketResult result = slots.results[row];
    const std::string_view reply(slots.reply(row), result.bytes);
    const std::string_view frame(slots.frame(row), frame_bytes);
    const auto answer = built_frames::read(reply);
    const auto asked = built_frames::read(frame);
    const std::string text = "VALUE " + key_of(item) + " 0 " + std::to_string(value_bytes_) +
                             "\r\n" + value_of(item, value_bytes_) + "\r\nEND\r\n";
    const bool right = result.fate == PacketFate::hit && result.bytes == reply_bytes_ && answer &&
                       asked && answer->text == text && answer->to == asked->from &&
                       answer->from == asked->to && answer->to_port == asked->from_port &&
                       answer->from_port == asked->to_port &&
                       answer->ethernet_to == asked->ethernet_from &&
                       answer->header.substr(0, 2) == asked->header.substr(0, 2);
    if (!right) ++wrong_;
  }

  // Counts frames of a batch that have no reply of the right length.
  void count_and_forget_results(const PacketSlots& slots, uint32_t rows) {
    uint64_t right = 0;
    for (uint32_t row = 0; row < rows; ++row) {
      const PacketResult& result = slots.results[row];
      right += result.fate == PacketFate::hit && result.bytes == reply_bytes_ ? 1 : 0;
    }
    wrong_ += rows - right;
    forget_results(slots, rows);
  }

  static void forget(const PacketSlots& slots, uint32_t rows) {
    std::memset(slots.replies, '#', uint64_t{rows} * slots.reply_stride);
    forget_results(slots, rows);
  }
  static void put_frames(const PacketSlots& slots, const Drawn& drawn, uint32_t rows) {
    std::memcpy(slots.frames, drawn.frames.data(), drawn.frames.size());
    std::fill(slots.bytes, slots.bytes + rows, frame_bytes);
  }

 private:
  void fill() {
    constexpr uint64_t most = 1 << 20;
    std::vector<int64_t> key_offsets(most + 1);
    std::vector<int64_t> value_offsets(most + 1);
    std::string keys(most * key_bytes, ' ');
    std::string values(most * value_bytes_, ' ');
    for (uint64_t i = 0; i <= most; ++i) {
      key_offsets[i] = static_cast<int64_t>(i * key_bytes);
      value_offsets[i] = static_cast<int64_t>(i * value_bytes_);
    }
    for (uint64_t first = 0; first < items_; first += most) {
      const uint64_t rows = std::min(most, items_ - first);
      in_parallel(rows, [&](uint64_t i) {
        key_of(first + i).copy(keys.data() + i * key_bytes, key_bytes);
        value_of(first + i, value_bytes_).copy(values.data() + i * value_bytes_, value_bytes_);
      });
      table_.put({{key_offsets.data(), rows + 1}, keys},
                 {{value_offsets.data(), rows + 1}, values});
    }
  }

  static void forget_results(const PacketSlots& slots, uint32_t rows) {
    std::memset(static_cast<void*>(slots.results), 0, rows * sizeof *slots.results);
  }

  const uint64_t items_;
  const uint64_t value_bytes_;
  const uint32_t reply_bytes_;
  gpu::ItemTable table_;
  std::atomic<uint64_t> wrong_{0};
};

}  // namespace isotherm::bench::packets

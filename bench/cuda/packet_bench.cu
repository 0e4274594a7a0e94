// Packets: raw frames of GETs in pinned memory to reply frames there, answered by one GPU from a
// gpu::ItemTable; hits for 16-byte keys, drawn uniformly, in IPv4 frames of 96 bytes.
//
//   packet_bench [--items N] [--rows N] [--streams N] [--rounds N] [--calls N] [--batch N]
//
// For values of 2 bytes and of 64: frames a second over `streams` batches of `rows` frames, all of
// them started, then awaited; beside copies of as many bytes of frames and replies over the bus,
// both ways at once, in the same run. Then the latency of batches of `batch` frames, one at a time,
// from frames in a receive buffer, which are copied into the slots first, to the moment when the
// host knows that the replies are ready; beside an empty kernel that is launched and awaited. Every
// reply of every round and call is read anew (tests/models/built_frames.h): addresses, lengths,
// checksums, key and value.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cuda/bench_flags.h"
#include "cuda/gpu_timer.cuh"
#include "engine/device_packets.h"
#include "models/built_frames.h"

namespace isotherm::bench::packet_bench {
namespace {

struct Parameters {
  uint64_t items = 10'000'000;
  uint32_t rows = 1 << 18;
  uint32_t streams = 4;
  int rounds = 9;
  uint64_t calls = 5'000;
  uint32_t batch = 512;
};

using Clock = std::chrono::steady_clock;
constexpr uint32_t frame_bytes = 96;
constexpr uint64_t key_bytes = 16;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string key_of(uint64_t item) {
  char text[key_bytes + 1];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(scramble(item)));
  return {text, key_bytes};
}
std::string value_of(uint64_t item, uint64_t bytes) {
  std::string value;
  for (uint64_t i = 0; value.size() < bytes; ++i) {
    const uint64_t word = scramble(item * 31 + i);
    value.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  value.resize(bytes);
  return value;
}
std::string frame_of(uint64_t item, uint64_t number) {
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

class PacketBench {
 public:
  PacketBench(const Parameters& parameters, uint64_t value_bytes)
      : parameters_(parameters), value_bytes_(value_bytes) {
    fill();
  }

  uint64_t run() {
    std::printf("values of %llu bytes, replies of %u\n",
                static_cast<unsigned long long>(value_bytes_), reply_bytes());
    throughput();
    latency();
    std::printf("wrong replies: %llu\n\n", static_cast<unsigned long long>(wrong_.load()));
    std::fflush(stdout);
    return wrong_;
  }

 private:
  uint32_t reply_bytes() const {
    return static_cast<uint32_t>(14 + 20 + 8 + 8 + 6 + key_bytes + 3 +
                                 std::to_string(value_bytes_).size() + 2 + value_bytes_ + 7);
  }

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
    for (uint64_t first = 0; first < parameters_.items; first += most) {
      const uint64_t rows = std::min(most, parameters_.items - first);
      in_parallel(rows, [&](uint64_t i) {
        key_of(first + i).copy(keys.data() + i * key_bytes, key_bytes);
        value_of(first + i, value_bytes_).copy(values.data() + i * value_bytes_, value_bytes_);
      });
      table_.put({{key_offsets.data(), rows + 1}, keys},
                 {{value_offsets.data(), rows + 1}, values});
    }
  }

  PacketOptions options(uint32_t rows, uint32_t channels) const {
    PacketOptions options;
    options.rows = rows;
    options.channels = channels;
    options.frame_stride = frame_bytes;
    options.reply_stride = reply_bytes();
    options.amplification = 0;
    return options;
  }

  // Items for `rows` frames, and the frames.
  struct Drawn {
    std::vector<uint64_t> items;
    std::vector<char> frames;
  };
  Drawn draw(uint64_t rows, uint64_t seed) const {
    Drawn drawn{std::vector<uint64_t>(rows), std::vector<char>(rows * frame_bytes)};
    std::mt19937_64 random(seed);
    for (uint64_t& item : drawn.items) item = random() % parameters_.items;
    in_parallel(rows, [&](uint64_t i) {
      frame_of(drawn.items[i], i).copy(drawn.frames.data() + i * frame_bytes, frame_bytes);
    });
    return drawn;
  }

  void check_one(const PacketSlots& slots, uint32_t row, uint64_t item) {
    const PacketResult result = slots.results[row];
    const std::string_view reply(slots.reply(row), result.bytes);
    const std::string_view frame(slots.frame(row), frame_bytes);
    const auto answer = built_frames::read(reply);
    const auto asked = built_frames::read(frame);
    const std::string text = "VALUE " + key_of(item) + " 0 " + std::to_string(value_bytes_) +
                             "\r\n" + value_of(item, value_bytes_) + "\r\nEND\r\n";
    const bool right = result.fate == PacketFate::hit && result.bytes == reply_bytes() && answer &&
                       asked && answer->text == text && answer->to == asked->from &&
                       answer->from == asked->to && answer->to_port == asked->from_port &&
                       answer->from_port == asked->to_port &&
                       answer->ethernet_to == asked->ethernet_from &&
                       answer->header.substr(0, 2) == asked->header.substr(0, 2);
    if (!right) ++wrong_;
  }

  static void forget(const PacketSlots& slots, uint32_t rows) {
    std::memset(slots.replies, '#', uint64_t{rows} * slots.reply_stride);
    std::memset(static_cast<void*>(slots.results), 0, rows * sizeof *slots.results);
  }
  static void put_frames(const PacketSlots& slots, const Drawn& drawn, uint32_t rows) {
    std::memcpy(slots.frames, drawn.frames.data(), drawn.frames.size());
    std::fill(slots.bytes, slots.bytes + rows, frame_bytes);
  }

  void throughput() {
    const uint32_t rows = parameters_.rows;
    DevicePackets packets(table_, options(rows, parameters_.streams));
    const uint32_t streams = packets.options().channels;
    std::vector<Drawn> drawn;
    for (uint32_t i = 0; i < streams; ++i) {
      drawn.push_back(draw(rows, i + 1));
      put_frames(packets.slots(i), drawn[i], rows);
    }
    const uint64_t all = uint64_t{rows} * streams;
    const double bus = copies(packets, rows);
    std::vector<double> took;
    for (int round = 0; round <= parameters_.rounds; ++round) {
      for (uint32_t i = 0; i < streams; ++i) forget(packets.slots(i), rows);
      const auto begin = Clock::now();
      for (uint32_t i = 0; i < streams; ++i) packets.start(i, rows, 1);
      for (uint32_t i = 0; i < streams; ++i) packets.wait(i);
      if (round > 0) took.push_back(seconds_since(begin));
      in_parallel(all, [&](uint64_t i) {
        const auto stream = static_cast<uint32_t>(i / rows);
        const auto row = static_cast<uint32_t>(i % rows);
        check_one(packets.slots(stream), row, drawn[stream].items[row]);
      });
    }
    std::sort(took.begin(), took.end());
    const auto rate = [&](double seconds) { return static_cast<double>(all) / seconds / 1e6; };
    const double median = rate(took[took.size() / 2]);
    std::printf(
        "GET frames: %.1f M/s (slowest %.1f, fastest %.1f), %u streams of %u; the copies of the "
        "same bytes: %.1f M/s; %.2f of them\n",
        median, rate(took.back()), rate(took.front()), streams, rows, bus, median / bus);
    std::fflush(stdout);
  }

  // Million frames a second, were frames and replies copied only.
  double copies(const DevicePackets& packets, uint32_t rows) const {
    const PacketSlots& slots = packets.slots(0);
    const uint64_t in = uint64_t{rows} * frame_bytes;
    const uint64_t out = uint64_t{rows} * reply_bytes();
    char* const device_in = device_array<char>(in);
    char* const device_out = device_array<char>(out);
    cudaStream_t streams[2];
    for (cudaStream_t& stream : streams) check(cudaStreamCreate(&stream));
    constexpr int times = 16;
    const auto run = [&] {
      const auto begin = Clock::now();
      for (int i = 0; i < times; ++i) {
        check(cudaMemcpyAsync(device_in, slots.frames, in, cudaMemcpyHostToDevice, streams[0]));
        check(cudaMemcpyAsync(slots.replies, device_out, out, cudaMemcpyDeviceToHost, streams[1]));
      }
      for (cudaStream_t stream : streams) check(cudaStreamSynchronize(stream));
      return seconds_since(begin);
    };
    run();
    const double seconds = run();
    for (cudaStream_t stream : streams) check(cudaStreamDestroy(stream));
    check(cudaFree(device_in));
    check(cudaFree(device_out));
    return static_cast<double>(rows) * times / seconds / 1e6;
  }

  struct Percentiles {
    double p50;
    double p95;
  };
  static Percentiles percentiles(std::vector<double> took) {
    std::sort(took.begin(), took.end());
    return {took[took.size() / 2] * 1e6, took[took.size() * 95 / 100] * 1e6};
  }

  void latency() {
    constexpr uint32_t kinds = 64;  // so that no cache holds one
    const uint32_t rows = parameters_.batch;
    DevicePackets packets(table_, options(rows, 1));
    const PacketSlots& slots = packets.slots(0);
    std::vector<Drawn> drawn;
    for (uint32_t i = 0; i < kinds; ++i) drawn.push_back(draw(rows, 100 + i));
    std::vector<double> took;
    std::vector<double> without_copy;
    for (uint64_t call = 0; call < parameters_.calls + kinds; ++call) {
      const Drawn& frames = drawn[call % kinds];
      forget(slots, rows);
      const auto begin = Clock::now();
      put_frames(slots, frames, rows);
      const auto copied = Clock::now();
      packets.start(0, rows, 1);
      while (!packets.done(0)) {
      }
      if (call >= kinds) {
        took.push_back(seconds_since(begin));
        without_copy.push_back(seconds_since(copied));
      }
      for (uint32_t row = 0; row < rows; ++row) check_one(slots, row, frames.items[row]);
    }
    const Percentiles all = percentiles(took);
    const Percentiles device = percentiles(without_copy);
    const Percentiles empty = percentiles(empty_kernels());
    std::printf(
        "batches of %u: p50 %.1f us, p95 %.1f us; from the slots on %.1f and %.1f; an empty kernel "
        "%.1f and %.1f\n",
        rows, all.p50, all.p95, device.p50, device.p95, empty.p50, empty.p95);
  }

  std::vector<double> empty_kernels() const;

  const Parameters parameters_;
  const uint64_t value_bytes_;
  gpu::ItemTable table_;
  std::atomic<uint64_t> wrong_{0};
};

__global__ void nothing() {}

std::vector<double> PacketBench::empty_kernels() const {
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::vector<double> took;
  for (uint64_t call = 0; call < parameters_.calls; ++call) {
    const auto begin = Clock::now();
    nothing<<<1, 32, 0, stream>>>();
    check(cudaStreamSynchronize(stream));
    took.push_back(seconds_since(begin));
  }
  check(cudaStreamDestroy(stream));
  return took;
}

}  // namespace
}  // namespace isotherm::bench::packet_bench

int main(int argc, char** argv) {
  using namespace isotherm::bench;
  using namespace packet_bench;
  Parameters parameters;
  if (!begin_bench("packet_bench", argc, argv,
                   {flag("--items", parameters.items), flag("--rows", parameters.rows),
                    flag("--streams", parameters.streams), flag("--rounds", parameters.rounds),
                    flag("--calls", parameters.calls), flag("--batch", parameters.batch)})) {
    return EXIT_SUCCESS;
  }
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0));
  std::printf("packet_bench: %s; %llu items, frames of %u bytes, median of %d rounds\n",
              properties.name, static_cast<unsigned long long>(parameters.items), frame_bytes,
              parameters.rounds);
  uint64_t wrong = 0;
  for (const uint64_t value_bytes : {uint64_t{2}, uint64_t{64}}) {
    wrong += PacketBench(parameters, value_bytes).run();
  }
  return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

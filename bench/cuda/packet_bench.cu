// Packets: raw frames of GETs in pinned memory to reply frames there, answered by one GPU from a
// gpu::ItemTable; hits for 16-byte keys, drawn uniformly, in IPv4 frames of 96 bytes.
//
//   packet_bench [--items N] [--rows N] [--streams N] [--rounds N] [--calls N] [--batch N]
//                [--seconds S]
//
// For values of 2 bytes and of 64: frames a second over `streams` batches of `rows` frames, all of
// them started, then awaited; beside copies of as many bytes of frames and replies over the bus,
// both ways at once, in the same run. Then what they cost: the GPU's watts, by its own meter, and
// frames a joule, with frames offered at the full rate and at shares of it, each for `seconds`; the
// host is not counted. Then the latency of batches of `batch` frames, one at a time,
// from frames in a receive buffer to the moment when the host knows that the replies are ready:
// they are read where they lie, in memory that was lent, or copied into the slots first; beside an
// empty kernel that is launched and awaited. Every reply of every round and call is checked
// (cuda/packet_load.h); of the frames whose energy is measured, that each has a reply of the right
// length, and of the last of each stream all of it.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "cuda/bench_flags.h"
#include "cuda/gpu_energy.h"
#include "cuda/gpu_timer.cuh"
#include "cuda/packet_load.h"
#include "engine/device_packets.h"

namespace isotherm::bench::packet_bench {
namespace {

using namespace packets;

struct Parameters {
  uint64_t items = 10'000'000;
  uint32_t rows = 1 << 18;
  uint32_t streams = 4;
  int rounds = 9;
  uint64_t calls = 5'000;
  uint32_t batch = 512;
  double seconds = 1.5;
};

// Frames one behind the other, as a network card leaves them.
class ReceiveBuffer {
 public:
  explicit ReceiveBuffer(const std::vector<PacketLoad::Drawn>& drawn) {
    constexpr size_t page = 4096;
    for (const auto& some : drawn) bytes_ += some.frames.size();
    bytes_ = (bytes_ + page - 1) / page * page;
    memory_.reset(static_cast<char*>(std::aligned_alloc(page, bytes_)));
    char* to = memory_.get();
    for (const auto& some : drawn) to = std::copy(some.frames.begin(), some.frames.end(), to);
  }
  std::span<char> memory() const { return {memory_.get(), bytes_}; }
  // The batch with this number, as the frames of a channel.
  void show(const PacketSlots& slots, uint64_t batch, uint32_t rows) const {
    for (uint32_t row = 0; row < rows; ++row) {
      slots.at[row] = memory_.get() + (batch * rows + row) * frame_bytes;
    }
    std::fill(slots.bytes, slots.bytes + rows, frame_bytes);
  }

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  size_t bytes_ = 0;
  std::unique_ptr<char, Free> memory_;
};

class PacketBench {
 public:
  PacketBench(const Parameters& parameters, const GpuEnergy& energy, uint64_t value_bytes)
      : parameters_(parameters), energy_(energy), load_(parameters.items, value_bytes) {}

  uint64_t run() {
    std::printf("values of %llu bytes, replies of %u\n",
                static_cast<unsigned long long>(load_.value_bytes()), load_.reply_bytes());
    throughput();
    latency(true);
    latency(false);
    std::printf("wrong replies: %llu\n\n", static_cast<unsigned long long>(load_.wrong()));
    std::fflush(stdout);
    return load_.wrong();
  }

 private:
  void throughput() {
    const uint32_t rows = parameters_.rows;
    DevicePackets packets(load_.table(), load_.options(rows, parameters_.streams));
    const uint32_t streams = packets.options().channels;
    std::vector<PacketLoad::Drawn> drawn;
    for (uint32_t i = 0; i < streams; ++i) {
      drawn.push_back(load_.draw(rows, i + 1));
      load_.put_frames(packets.slots(i), drawn[i], rows);
    }
    const double bus = copies(packets, rows);
    std::vector<double> took;
    for (int round = 0; round <= parameters_.rounds; ++round) {
      const double seconds = checked_round(packets, drawn);
      if (round > 0) took.push_back(seconds);
    }
    std::sort(took.begin(), took.end());
    const auto rate = [&](double seconds) {
      return static_cast<double>(rows) * streams / seconds / 1e6;
    };
    const double median = rate(took[took.size() / 2]);
    std::printf(
        "GET frames: %.1f M/s (slowest %.1f, fastest %.1f), %u streams of %u; the copies of the "
        "same bytes: %.1f M/s; %.2f of them\n",
        median, rate(took.back()), rate(took.front()), streams, rows, bus, median / bus);
    if (!energy_.available()) {
      std::printf("the driver shows no energy meter\n");
      return;
    }
    for (const int part : {16, 8, 4, 2, 1}) energy(packets, median, part);
    checked_round(packets, drawn);
    std::fflush(stdout);
  }

  // One batch of each stream, all of them started, then awaited: its time.
  double checked_round(DevicePackets& packets, const std::vector<PacketLoad::Drawn>& drawn) {
    const uint32_t rows = parameters_.rows;
    const auto streams = static_cast<uint32_t>(drawn.size());
    for (uint32_t i = 0; i < streams; ++i) load_.forget(packets.slots(i), rows);
    const auto begin = Clock::now();
    for (uint32_t i = 0; i < streams; ++i) packets.start(i, rows, 1);
    for (uint32_t i = 0; i < streams; ++i) packets.wait(i);
    const double seconds = seconds_since(begin);
    in_parallel(uint64_t{rows} * streams, [&](uint64_t i) {
      const auto stream = static_cast<uint32_t>(i / rows);
      const auto row = static_cast<uint32_t>(i % rows);
      load_.check_one(packets.slots(stream), row, drawn[stream].items[row]);
    });
    return seconds;
  }

  // Of frames that come evenly, a batch at a time, at a `part`th of `most` million a second; a part
  // of 1: as fast as they are answered.
  void energy(DevicePackets& packets, double most, int part) {
    const uint32_t rows = parameters_.rows;
    const uint32_t streams = packets.options().channels;
    uint64_t started = 0;
    uint64_t answered = 0;
    const auto finish = [&](uint32_t stream) {
      packets.wait(stream);
      load_.count_and_forget_results(packets.slots(stream), rows);
      answered += rows;
    };
    for (uint32_t i = 0; i < streams; ++i) load_.forget(packets.slots(i), rows);
    const EnergyUsed used(energy_);
    for (; used.seconds() < parameters_.seconds; ++started) {
      const auto stream = static_cast<uint32_t>(started % streams);
      if (started >= streams) finish(stream);
      const double due = part == 1 ? 0 : static_cast<double>(started) * rows * part / (most * 1e6);
      while (used.seconds() < due) {
      }
      packets.start(stream, rows, 1);
    }
    for (uint64_t i = started - std::min<uint64_t>(started, streams); i < started; ++i) {
      finish(static_cast<uint32_t>(i % streams));
    }
    const double seconds = used.seconds();
    const double joules = used.joules();
    const auto frames = static_cast<double>(answered);
    std::printf(
        "energy, values of %llu bytes, 1/%d of the rate: %.1f M/s, %.0f W, %.2f M frames/J\n",
        static_cast<unsigned long long>(load_.value_bytes()), part, frames / seconds / 1e6,
        joules / seconds, frames / joules / 1e6);
  }

  // Million frames a second, were frames and replies copied only.
  double copies(const DevicePackets& packets, uint32_t rows) const {
    const PacketSlots& slots = packets.slots(0);
    const uint64_t in = uint64_t{rows} * frame_bytes;
    const uint64_t out = uint64_t{rows} * load_.reply_bytes();
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

  void latency(bool lent) {
    constexpr uint32_t kinds = 64;  // so that no cache holds one
    const uint32_t rows = parameters_.batch;
    DevicePackets packets(load_.table(), load_.options(rows, 1));
    const PacketSlots& slots = packets.slots(0);
    std::vector<PacketLoad::Drawn> drawn;
    for (uint32_t i = 0; i < kinds; ++i) drawn.push_back(load_.draw(rows, 100 + i));
    const ReceiveBuffer received(drawn);
    if (lent && !packets.lend(received.memory())) {
      std::printf("memory cannot be lent to this GPU\n");
      return;
    }
    std::vector<double> took;
    std::vector<double> without_copy;
    for (uint64_t call = 0; call < parameters_.calls + kinds; ++call) {
      const PacketLoad::Drawn& frames = drawn[call % kinds];
      load_.forget(slots, rows);
      const auto begin = Clock::now();
      lent ? received.show(slots, call % kinds, rows) : load_.put_frames(slots, frames, rows);
      const auto copied = Clock::now();
      packets.start(0, rows, 1);
      while (!packets.done(0)) {
      }
      if (call >= kinds) {
        took.push_back(seconds_since(begin));
        without_copy.push_back(seconds_since(copied));
      }
      for (uint32_t row = 0; row < rows; ++row) load_.check_one(slots, row, frames.items[row]);
    }
    if (lent) packets.take_back();
    const Percentiles all = percentiles(took);
    const Percentiles device = percentiles(without_copy);
    const Percentiles empty = percentiles(empty_kernels());
    std::printf(
        "batches of %u, %s: p50 %.1f us, p95 %.1f us; from the slots on %.1f and %.1f; an empty "
        "kernel %.1f and %.1f\n",
        rows, lent ? "read where they lie" : "copied", all.p50, all.p95, device.p50, device.p95,
        empty.p50, empty.p95);
  }

  std::vector<double> empty_kernels() const;

  const Parameters parameters_;
  const GpuEnergy& energy_;
  PacketLoad load_;
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
                    flag("--calls", parameters.calls), flag("--batch", parameters.batch),
                    flag("--seconds", parameters.seconds)})) {
    return EXIT_SUCCESS;
  }
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0));
  std::printf("packet_bench: %s; %llu items, frames of %u bytes, median of %d rounds\n",
              properties.name, static_cast<unsigned long long>(parameters.items), frame_bytes,
              parameters.rounds);
  const GpuEnergy energy;
  uint64_t wrong = 0;
  for (const uint64_t value_bytes : {uint64_t{2}, uint64_t{64}}) {
    wrong += PacketBench(parameters, energy, value_bytes).run();
  }
  return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

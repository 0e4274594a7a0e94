// Scheduling: when requests that wait for a device are sent to it, and how many together.
//
// A batch costs the same few microseconds whatever its size, so requests that wait for each other
// cost little and are answered late, and requests that do not wait cost much and are answered
// early. The policies differ in what they ask when to stop waiting:
//   greedy      the queue: what is there goes, after a few looks at it
//   periodic    the clock: reads go every cycle, writes every few cycles
//   fixed_size  the count: a batch goes when it is full, or when its oldest request gets too old
//   adaptive    the length of the queue: short ones go by the express path, long ones by the bulk
//               path, with a threshold that follows the load
// Times are in nanoseconds.
//
// SchedulingOptions are for a gpu::Queue, whose submitters do not wait; RoundOptions for a store
// whose index is on a GPU, whose threads wait for each other (docs/gpu.md).
//
// Sources. KVCG, section 5 (greedy); Mega-KV, section 5 (periodic); MemcachedGPU, sections 2.1 and
// 5.3 (fixed size); H-Rocks, sections 6 and 6.7 (adaptive).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace isotherm {

enum class Scheduling : uint8_t { greedy, periodic, fixed_size, adaptive };

std::string_view to_string(Scheduling policy);  // "greedy", "periodic", "fixed", "adaptive"
std::optional<Scheduling> parse_scheduling(std::string_view name);

// What a batch takes: fixed + row × rows.
struct BatchCost {
  double fixed_ns = 0;
  double row_ns = 0;
};

struct GreedyOptions {
  // A batch goes when it has so many rows (twice the threads of an H200) ...
  uint64_t most_rows = 540'672;
  // ... or when the queue was looked at so often.
  uint32_t budget = 1;
  // Batches that are on the device at once; while they are, rows gather.
  uint32_t most_on_device = 2;
};

struct PeriodicOptions {
  // 0: the least cycle that the costs allow, times headroom.
  int64_t cycle_ns = 0;
  double headroom = 1.25;
  // Writes go every so many cycles, at most 1000; 1: with the reads.
  uint32_t write_cycles = 2;
  // So many reads go before their cycle is over; 0: none do.
  uint64_t enough_reads = 0;
  // The expected load: rows a second, and the share of reads among them.
  double rate = 0;
  double read_share = 0.95;
  // Measured; see gpu::QueueStats.
  BatchCost read_cost = {};
  BatchCost write_cost = {};
};

struct FixedSizeOptions {
  uint64_t rows = 512;
  int64_t timeout_ns = 100'000;
};

struct AdaptiveOptions {
  // Rows that wait: so many and more go by the bulk path, fewer by the express path, which takes
  // 512 at a time. (H-Rocks: 10,000 at first and at least, at most 250 M, times 10.)
  uint64_t threshold = 512;  // the first and the least
  uint64_t most_threshold = 1024;
  // Reached within this time the threshold is multiplied.
  int64_t soon_ns = 1'000'000;
  uint64_t factor = 2;
  // The rate is measured over such windows; below `fall` times that of the window before it has
  // fallen, and the threshold is halved.
  int64_t rate_window_ns = 10'000'000;
  double fall = 0.9;
  // Changes of path within any second, at least 1. The last of them leads to the path that is then
  // kept for a second: the express path where the rate stayed below low_rate rows a second, else
  // the bulk path.
  uint32_t most_switches = 3;
  double low_rate = 50'000;
  // Batches that are on the device at once.
  uint32_t most_on_device = 3;
};

struct SchedulingOptions {
  Scheduling policy = Scheduling::adaptive;  // the fastest at all rates measured
  // Only the options of the chosen policy are used.
  GreedyOptions greedy = {};
  PeriodicOptions periodic = {};
  FixedSizeOptions fixed_size = {};
  AdaptiveOptions adaptive = {};
};

// When the threads of a store whose index is on a GPU go to it together, in a round:
//   greedy      at once; what arrives meanwhile is the next round
//   fixed_size  when the round has `rows` requests, or the first of them has waited for `wait_ns`
//   periodic    at the end of every cycle of `wait_ns`, or when it has `rows` requests; requests
//               that write every `write_cycles` of them, while the others of their batches go
//   adaptive    at once; where rounds have fewer than `rows` requests the host is to answer them,
//               and the index goes there in the background, else the GPU (docs/gpu.md)
// and in any case once all threads that use the store are in it.
struct RoundOptions {
  static constexpr uint64_t most_rows = 1 << 21;  // of a round

  Scheduling policy = Scheduling::greedy;
  // 1 to 2^21. 0: 512 for fixed_size and adaptive, 2^21 for periodic. Greedy takes 0 only.
  uint64_t rows = 0;
  // At most a second. 0: 100 µs. Greedy and adaptive take 0 only.
  int64_t wait_ns = 0;
  // Writes wait for the end of every so many cycles, 1 to 1000; 1: they go with the reads. For
  // periodic only.
  uint32_t write_cycles = 1;
};

}  // namespace isotherm

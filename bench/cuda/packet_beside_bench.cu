// GETs of raw frames beside the work of others on the same GPU, and what each costs the other, in
// the way of MemcachedGPU's section 5.4: a background task of 256 blocks, in 1 to 32 launches.
//
//   packet_beside_bench [--items N] [--batch N] [--rate N] [--streams N] [--rows N] [--rounds N]
//                       [--background-ms N] [--elements N]
//
// Batches of `batch` frames are due at `rate` million frames a second, in open loop. What a batch
// took counts from when it was due, its copy into the slots included, until the host saw its
// replies; so what stood behind a batch that waited has waited, too. The first free of `streams`
// streams takes the next. Then `streams` batches of `rows` frames, all started at once, for the
// full rate.
//
// Each line has the background alone, the GETs alone for as long as it took, and both together: the
// batches that were due while it ran. At full rate the GETs begin a millisecond after it. The
// background multiplies vectors of `elements` floats (cuda/background_work.cuh), as often as take
// about `background-ms` in one launch, by the paper's 256 blocks, and again by as many for each
// multiprocessor as were the paper's on a GPU of 13: only those are more than find room at once.
// "first": whose blocks go first, by the priority of streams. Every reply is checked
// (cuda/packet_load.h), and the background's sums.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "cuda/background_work.cuh"
#include "cuda/bench_flags.h"
#include "cuda/gpu_timer.cuh"
#include "cuda/packet_load.h"
#include "engine/device_packets.h"

namespace isotherm::bench::packet_beside_bench {
namespace {

using namespace packets;

struct Parameters {
  uint64_t items = 1'300'000;
  uint32_t batch = 512;
  double rate = 4;
  uint32_t streams = 4;
  uint32_t rows = 1 << 16;
  uint32_t rounds = 3;
  double background_ms = 32;
  uint64_t elements = 1 << 28;
};

PacketOptions options_of(const PacketLoad& load, uint32_t rows, uint32_t streams, bool urgent) {
  PacketOptions options = load.options(rows, streams);
  options.urgent = urgent;
  return options;
}

// Batches in open loop.
class OfferedBatches {
 public:
  OfferedBatches(PacketLoad& load, const Parameters& parameters, bool urgent)
      : load_(load),
        rows_(parameters.batch),
        gap_(std::chrono::duration_cast<Clock::duration>(
            std::chrono::duration<double>(rows_ / (parameters.rate * 1e6)))),
        packets_(load.table(), options_of(load, rows_, parameters.streams, urgent)),
        channels_(packets_.options().channels) {
    for (uint32_t i = 0; i < kinds; ++i) drawn_.push_back(load.draw(rows_, 100 + i));
    for (uint32_t i = 0; i < channels_.size(); ++i) load.forget(packets_.slots(i), rows_);
  }

  // Offers one at least, and until ends(); the seconds of each that was due by then.
  template <class Ends>
  std::vector<double> run(Ends&& ends) {
    begin_ = Clock::now();
    next_ = 0;
    took_.clear();
    kept_.clear();
    bool ended = false;
    auto last = Clock::time_point::max();
    while (!ended || under_way() || due(next_) <= last) {
      if (!ended && next_ > 0 && ends()) {
        ended = true;
        last = Clock::now();
      }
      collect();
      start(std::min(Clock::now(), last));
    }
    in_parallel(kept_.size(), [&](uint64_t i) { check_batch(kept_[i]); });
    return took_;
  }

 private:
  static constexpr uint32_t kinds = 64;  // so that no cache holds one

  struct Channel {
    bool busy = false;
    uint64_t batch = 0;
  };
  // Replies are read when all is over: that takes longer than their batch did.
  struct Kept {
    uint64_t batch;
    std::vector<char> replies;
    std::vector<PacketResult> results;
  };

  Clock::time_point due(uint64_t batch) const {
    return begin_ + (static_cast<int64_t>(batch) + 1) * gap_;
  }
  bool under_way() const {
    return std::any_of(channels_.begin(), channels_.end(), [](const Channel& c) { return c.busy; });
  }

  void start(Clock::time_point now) {
    if (due(next_) > now) return;
    for (uint32_t i = 0; i < channels_.size(); ++i) {
      if (channels_[i].busy) continue;
      load_.put_frames(packets_.slots(i), drawn_[next_ % kinds], rows_);
      packets_.start(i, rows_, 1);
      channels_[i] = {true, next_++};
      return;
    }
  }

  void collect() {
    std::vector<uint32_t> done;
    for (uint32_t i = 0; i < channels_.size(); ++i) {
      if (!channels_[i].busy || !packets_.done(i)) continue;
      took_.push_back(seconds_since(due(channels_[i].batch)));
      done.push_back(i);
    }
    for (const uint32_t i : done) {
      const PacketSlots& slots = packets_.slots(i);
      kept_.push_back({channels_[i].batch,
                       {slots.replies, slots.replies + uint64_t{rows_} * slots.reply_stride},
                       {slots.results, slots.results + rows_}});
      load_.forget(slots, rows_);
      channels_[i].busy = false;
    }
  }

  void check_batch(Kept& kept) {
    Drawn& drawn = drawn_[kept.batch % kinds];
    PacketSlots slots = packets_.slots(0);
    slots.frames = drawn.frames.data();
    slots.replies = kept.replies.data();
    slots.results = kept.results.data();
    for (uint32_t row = 0; row < rows_; ++row) load_.check_one(slots, row, drawn.items[row]);
  }

  using Drawn = PacketLoad::Drawn;

  PacketLoad& load_;
  const uint32_t rows_;
  const Clock::duration gap_;
  DevicePackets packets_;
  std::vector<Channel> channels_;
  std::vector<Drawn> drawn_;
  Clock::time_point begin_;
  uint64_t next_ = 0;
  std::vector<double> took_;
  std::vector<Kept> kept_;
};

// Large batches, all at once.
class FullBatches {
 public:
  FullBatches(PacketLoad& load, const Parameters& parameters, bool urgent)
      : load_(load),
        rows_(parameters.rows),
        packets_(load.table(), options_of(load, rows_, parameters.streams, urgent)),
        streams_(packets_.options().channels) {
    for (uint32_t i = 0; i < streams_; ++i) {
      drawn_.push_back(load.draw(rows_, i + 1));
      load.put_frames(packets_.slots(i), drawn_[i], rows_);
    }
  }

  // Starts them when ready() returns; million frames a second.
  template <class Ready>
  double run(Ready&& ready) {
    for (uint32_t i = 0; i < streams_; ++i) load_.forget(packets_.slots(i), rows_);
    ready();
    const auto begin = Clock::now();
    for (uint32_t i = 0; i < streams_; ++i) packets_.start(i, rows_, 1);
    for (uint32_t i = 0; i < streams_; ++i) packets_.wait(i);
    const double took = seconds_since(begin);
    const uint64_t all = uint64_t{rows_} * streams_;
    in_parallel(all, [&](uint64_t i) {
      const auto stream = static_cast<uint32_t>(i / rows_);
      const auto row = static_cast<uint32_t>(i % rows_);
      load_.check_one(packets_.slots(stream), row, drawn_[stream].items[row]);
    });
    return static_cast<double>(all) / took / 1e6;
  }

 private:
  PacketLoad& load_;
  const uint32_t rows_;
  DevicePackets packets_;
  const uint32_t streams_;
  std::vector<PacketLoad::Drawn> drawn_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void wait_for(double seconds) {
  for (const auto begin = Clock::now(); seconds_since(begin) < seconds;) {
  }
}

// What one line is made of.
struct Measured {
  std::vector<double> alone;  // of batches, in seconds
  std::vector<double> beside;
  std::vector<double> background_alone;  // of rounds, in seconds
  std::vector<double> background_beside;
  std::vector<double> full_alone;  // of rounds, in million frames a second
  std::vector<double> full_beside;
};

// The background of some blocks, and GETs by streams with or without priority.
class Pair {
 public:
  Pair(PacketLoad& load, BackgroundWork& background, const Parameters& parameters, bool urgent)
      : background_(background),
        offered_(load, parameters, urgent),
        full_(load, parameters, urgent) {
    // Not counted.
    const auto begin = Clock::now();
    offered_.run([&] { return seconds_since(begin) > 0.02; });
    full_.run([] {});
  }

  void measure(uint32_t launches, Measured& to) {
    const auto add = [](std::vector<double>& all, const std::vector<double>& some) {
      all.insert(all.end(), some.begin(), some.end());
    };
    const double alone = background_.run(launches);
    to.background_alone.push_back(alone);
    const auto begin = Clock::now();
    add(to.alone, offered_.run([&] { return seconds_since(begin) >= alone; }));
    beside(launches, to.background_beside, [&](const auto&, const std::atomic<bool>& ended) {
      add(to.beside, offered_.run([&] { return ended.load(); }));
    });
    to.full_alone.push_back(full_.run([] {}));
    std::vector<double> not_kept;
    beside(launches, not_kept, [&](const std::atomic<bool>& launched, const auto&) {
      to.full_beside.push_back(full_.run([&] {
        while (!launched) {
        }
        wait_for(1e-3);
      }));
    });
  }

 private:
  // Calls gets(launched, ended) while another thread runs the background.
  template <class Gets>
  void beside(uint32_t launches, std::vector<double>& seconds, Gets&& gets) {
    std::atomic<bool> launched{false};
    std::atomic<bool> ended{false};
    std::thread other([&] {
      seconds.push_back(background_.run(launches, [&] { launched = true; }));
      ended = true;
    });
    gets(launched, ended);
    other.join();
  }

  BackgroundWork& background_;
  OfferedBatches offered_;
  FullBatches full_;
};

void print_line(uint32_t blocks, bool urgent, uint32_t launches, const Measured& measured) {
  const Percentiles alone = percentiles(measured.alone);
  const Percentiles beside = percentiles(measured.beside);
  const double work = median(measured.background_alone) * 1e3;
  const double work_beside = median(measured.background_beside) * 1e3;
  const double full = median(measured.full_alone);
  const double full_beside = median(measured.full_beside);
  std::printf(
      "%6u %5s %8u %8.1f %8.1f %8.1f %9.1f %9.1f %9.1f %7.2f %7.2f %8.2f %8.2f %6.2f %7.1f %7.1f "
      "%6.2f\n",
      blocks, urgent ? "GETs" : "none", launches, alone.p50, alone.p95, alone.most, beside.p50,
      beside.p95, beside.most, beside.p50 / alone.p50, beside.p95 / alone.p95, work, work_beside,
      work_beside / work, full, full_beside, full_beside / full);
  std::fflush(stdout);
}

// Returns wrong sums.
uint64_t run(PacketLoad& load, const Parameters& parameters, uint32_t blocks) {
  BackgroundWork background(parameters.elements, blocks, parameters.background_ms / 1e3);
  std::printf("background: %u blocks of %u threads, %llu elements, %u passes\n", blocks,
              BackgroundVectors::threads, static_cast<unsigned long long>(parameters.elements),
              background.passes());
  std::printf("%43s %38s %15s %24s %22s\n", "GETs alone, us a batch", "beside, us a batch",
              "of alone", "background, ms", "full rate, M/s");
  std::printf("%6s %5s %8s %8s %8s %8s %9s %9s %9s %7s %7s %8s %8s %6s %7s %7s %6s\n", "blocks",
              "first", "launches", "p50", "p95", "longest", "p50", "p95", "longest", "p50", "p95",
              "alone", "beside", "of it", "alone", "beside", "of it");
  for (const bool urgent : {false, true}) {
    Pair pair(load, background, parameters, urgent);
    for (const uint32_t launches : {1u, 2u, 4u, 8u, 16u, 32u}) {
      Measured measured;
      for (uint32_t round = 0; round < parameters.rounds; ++round) pair.measure(launches, measured);
      print_line(blocks, urgent, launches, measured);
    }
  }
  return background.wrong();
}

}  // namespace
}  // namespace isotherm::bench::packet_beside_bench

int main(int argc, char** argv) {
  using namespace isotherm::bench;
  using namespace packet_beside_bench;
  // A queue of the GPU for each stream: those that share one wait for each other.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  Parameters parameters;
  if (!begin_bench("packet_beside_bench", argc, argv,
                   {flag("--items", parameters.items), flag("--batch", parameters.batch),
                    flag("--rate", parameters.rate), flag("--streams", parameters.streams),
                    flag("--rows", parameters.rows), flag("--rounds", parameters.rounds),
                    flag("--background-ms", parameters.background_ms),
                    flag("--elements", parameters.elements)})) {
    return EXIT_SUCCESS;
  }
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0));
  std::printf(
      "packet_beside_bench: %s; %llu items, batches of %u frames at %.1f M/s by %u streams, %u "
      "rounds\n",
      properties.name, static_cast<unsigned long long>(parameters.items), parameters.batch,
      parameters.rate, parameters.streams, parameters.rounds);
  constexpr uint32_t paper_blocks = 256;
  constexpr uint32_t paper_multiprocessors = 13;
  const auto multiprocessors = static_cast<uint32_t>(properties.multiProcessorCount);
  PacketLoad load(parameters.items, 2);
  uint64_t wrong = 0;
  for (const uint32_t blocks :
       {paper_blocks, paper_blocks * multiprocessors / paper_multiprocessors}) {
    wrong += run(load, parameters, blocks);
  }
  std::printf("wrong replies: %llu; wrong sums of the background: %llu\n",
              static_cast<unsigned long long>(load.wrong()),
              static_cast<unsigned long long>(wrong));
  return load.wrong() + wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

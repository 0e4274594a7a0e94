#include "isotherm_bench/in_process.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <thread>

#include "isotherm_bench/arrivals.h"
#include "isotherm_bench/line_reads.h"
#include "isotherm_bench/memory_watch.h"
#include "isotherm_bench/runner.h"

namespace isotherm::bench {
namespace {

constexpr uint32_t load_batch = 512;
constexpr int64_t spin_ns = 60'000;  // shorter waits are spun, sleeping would overshoot them
constexpr uint64_t least_reference_bytes = uint64_t{256} << 20;
constexpr uint64_t most_reference_bytes = uint64_t{4} << 30;
constexpr double most_reference_seconds = 1;

// One thread of the load.
class Loader {
 public:
  Loader(std::unique_ptr<Runner> runner, const Workload& workload, KeySpace& keys, Control& control,
         const RunOptions& options, uint32_t stream)
      : runner_(std::move(runner)),
        keys_(keys),
        control_(control),
        requester_(workload, keys, stream),
        quota_(options.requests / options.threads + (stream < options.requests % options.threads)) {
    if (options.rate > 0) {
      arrivals_.emplace(options.rate / options.threads, options.poisson, workload.seed,
                        ~uint64_t{stream});
    }
  }

  void run() {
    while (phase() == Phase::prepare) usleep(100);
    if (arrivals_) arrivals_->begin(now_ns());
    while (phase() != Phase::stop && !done_) {
      if (!(arrivals_ ? fill_due() : fill())) continue;
      turn();
    }
    if (arrivals_) count_backlog();
    counts_.rate =
        counts_.busy_seconds > 0 ? static_cast<double>(counts_.requests) / counts_.busy_seconds : 0;
    control_.finished.fetch_add(1, std::memory_order_release);
  }
  const Counts& counts() const { return counts_; }

 private:
  Phase phase() const { return control_.phase.load(std::memory_order_acquire); }

  bool add(int64_t due) {
    const auto request = requester_.next();
    if (!request) {
      done_ = true;
      return false;
    }
    if (request->operation == Operation::insert) ++inserts_;
    runner_->add(*request);
    due_.push_back(due);
    return true;
  }

  bool fill() {
    while (!runner_->full() && add(0)) {
    }
    return runner_->size() > 0;
  }

  // Takes what is due; waits a little, doing background work, where nothing is.
  bool fill_due() {
    const int64_t now = now_ns();
    while (arrivals_->next() <= now && !runner_->full() && add(arrivals_->next())) {
      arrivals_->advance();
    }
    if (runner_->size() > 0) return true;
    const int64_t wait = arrivals_->next() - now_ns();
    if (wait > spin_ns) {
      runner_->maintain();
      const timespec pause{.tv_sec = 0, .tv_nsec = std::min<int64_t>(wait - spin_ns, 1'000'000)};
      nanosleep(&pause, nullptr);
    }
    return false;
  }

  void turn() {
    const uint32_t requests = runner_->size();
    const int64_t begin = now_ns();
    runner_->run();
    const int64_t end = now_ns();
    const bool counted = phase() == Phase::measure;
    Counts ignored;
    const std::string failure = runner_->check(counted ? counts_ : ignored);
    if (!failure.empty()) control_.fail(failure);
    keys_.present.fetch_add(inserts_, std::memory_order_relaxed);
    control_.answered.fetch_add(requests, std::memory_order_relaxed);
    if (counted) count(requests, begin, end);
    if (arrivals_) count_latencies(end);
    inserts_ = 0;
    due_.clear();
  }

  void count(uint32_t requests, int64_t begin, int64_t end) {
    counts_.requests += requests;
    ++counts_.commands;
    counts_.busy_seconds += static_cast<double>(end - begin) / 1e9;
    if (!arrivals_) counts_.latency.record(static_cast<uint64_t>(end - begin));
    if (quota_ > 0 && counts_.requests >= quota_) done_ = true;
  }

  // Of all that was due in the measured time, also where it was answered after it.
  void count_latencies(int64_t answered) {
    const Phase now = phase();
    if (now < Phase::measure) return;
    const int64_t begin = control_.measure_begin.load(std::memory_order_relaxed);
    const int64_t end = control_.measure_end.load(std::memory_order_relaxed);
    for (int64_t due : due_) {
      if (due < begin || (now == Phase::stop && due >= end)) continue;
      counts_.latency.record(static_cast<uint64_t>(answered - due));
    }
  }

  void count_backlog() {
    const int64_t begin = control_.measure_begin.load(std::memory_order_relaxed);
    const int64_t end = control_.measure_end.load(std::memory_order_relaxed);
    for (; arrivals_->next() < end; arrivals_->advance()) {
      if (arrivals_->next() < begin) continue;
      counts_.latency.record(static_cast<uint64_t>(end - arrivals_->next()));
      ++counts_.backlog;
    }
  }

  std::unique_ptr<Runner> runner_;
  KeySpace& keys_;
  Control& control_;
  Requester requester_;
  uint64_t quota_;
  std::optional<Arrivals> arrivals_;
  std::vector<int64_t> due_;
  uint64_t inserts_ = 0;
  bool done_ = false;
  Counts counts_;
};

// Loaders in threads of their own.
class Loaders {
 public:
  Loaders(RunnerFactory& store, const Workload& workload, KeySpace& keys, const RunOptions& options,
          uint32_t batch) {
    for (uint32_t i = 0; i < options.threads; ++i) {
      loaders_.push_back(std::make_unique<Loader>(store.make(batch, options.verify), workload, keys,
                                                  control_, options, i));
    }
    for (auto& loader : loaders_) threads_.emplace_back([&loader] { loader->run(); });
  }
  ~Loaders() { join(); }
  Loaders(const Loaders&) = delete;
  Loaders& operator=(const Loaders&) = delete;

  Control& control() { return control_; }
  void enter(Phase phase) {
    if (!control_.has_failed) control_.phase.store(phase, std::memory_order_release);
  }
  // Until all have ended or the time is up (0: no limit).
  template <typename Watch>
  void wait(double seconds, Watch watch) {
    const int64_t end = now_ns() + static_cast<int64_t>(seconds * 1e9);
    while (!control_.has_failed && control_.finished.load() < loaders_.size() &&
           (seconds == 0 || now_ns() < end)) {
      usleep(poll_us);
      watch(control_.answered.load(std::memory_order_relaxed));
    }
  }
  std::string join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    std::lock_guard lock(control_.mutex);
    return control_.failure;
  }
  Counts counts() const {
    Counts all;
    for (const auto& loader : loaders_) all.merge(loader->counts());
    return all;
  }

 private:
  Control control_;
  std::vector<std::unique_ptr<Loader>> loaders_;
  std::vector<std::thread> threads_;
};

LoadResult load(RunnerFactory& store, const Options& options, KeySpace& keys, Progress& progress) {
  Workload inserts = options.workload;
  inserts.mix = {0, 0, 100, 0, 0, 0};
  keys.limit = inserts.records;
  RunOptions run;
  run.threads = options.run.threads;
  progress.stage("load in process");
  LoadResult result;
  result.resident_before = resident_bytes(getpid());
  MemoryWatch memory(getpid(), keys, inserts.records);
  const int64_t begin = now_ns();
  Loaders loaders(store, inserts, keys, run, load_batch);
  loaders.enter(Phase::measure);
  loaders.wait(0, [&](uint64_t answered) {
    progress.update(answered);
    memory.look();
  });
  loaders.control().stop(now_ns());
  result.failure = loaders.join();
  memory.look();
  result.seconds = static_cast<double>(now_ns() - begin) / 1e9;
  result.records = keys.present;
  result.resident_after = resident_bytes(getpid());
  result.worst_bytes_per_record = memory.worst();
  keys.next = inserts.records;
  keys.limit = ~uint64_t{0};
  progress.clear();
  return result;
}

RunResult run_once(RunnerFactory& store, const Options& options, KeySpace& keys,
                   Progress& progress) {
  RunResult result;
  const RunOptions& run = options.run;
  progress.stage("in process " + options.workload.name);
  Loaders loaders(store, options.workload, keys, run, options.batch);
  const auto watch = [&](uint64_t answered) { progress.update(answered); };
  loaders.enter(Phase::warm_up);
  if (run.warm_up > 0) loaders.wait(run.warm_up, watch);
  const CpuTime cpu_begin = own_cpu();
  const int64_t begin = now_ns();
  loaders.control().measure_begin = begin;
  loaders.enter(Phase::measure);
  loaders.wait(run.requests > 0 ? 0 : run.seconds, watch);
  const int64_t end = now_ns();
  loaders.control().stop(end);
  result.failure = loaders.join();
  result.client_cpu = own_cpu() - cpu_begin;
  result.seconds = static_cast<double>(end - begin) / 1e9;
  result.counts = loaders.counts();
  if (run.rate > 0) {
    result.counts.rate = static_cast<double>(result.counts.requests) / result.seconds;
  }
  progress.clear();
  return result;
}

}  // namespace

InProcessResult run_in_process(const Options& options, Progress& progress) {
  InProcessResult result;
  result.system.label = options.fixed ? "fixed table" : options.mica ? "MICA's layout" : "store";
  KeySpace keys;
  try {
    const auto store = options.fixed  ? make_fixed_runners(options.workload)
                       : options.mica ? make_mica_runners(options.workload)
                                      : make_store_runners(options.workload, options.store);
    result.system.load = load(*store, options, keys, progress);
    result.system.label += store->place();
    result.failure = result.system.load->failure;
    if (!result.failure.empty() || options.load_only) return result;
    for (uint32_t round = 0; round < options.rounds && result.failure.empty(); ++round) {
      result.system.rounds.push_back(run_once(*store, options, keys, progress));
      result.failure = result.system.rounds.back().failure;
    }
    const uint64_t bytes = std::clamp(store->memory(), least_reference_bytes, most_reference_bytes);
    result.reference = {"random 128-byte line reads/s",
                        random_line_reads(bytes, options.run.threads,
                                          std::min(options.run.seconds, most_reference_seconds))};
  } catch (const std::exception& error) {
    result.failure = error.what();
  }
  return result;
}

}  // namespace isotherm::bench

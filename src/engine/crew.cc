#include "engine/crew.h"

#include <algorithm>
#include <system_error>

#include "base/broken.h"
#include "base/lasting_thread.h"
#include "engine/batch_runner.h"
#include "engine/engine_state.h"

namespace isotherm {
namespace {

constexpr uint32_t least_threads = 2;
constexpr uint32_t usual_threads = 8;
constexpr uint64_t most_rows = 1 << 20;
constexpr uint32_t most_fetchers = 4;

uint32_t threads_of(const Options& options) {
  if (options.gpu_threads != 0) return options.gpu_threads;
  return std::clamp(std::thread::hardware_concurrency(), least_threads, usual_threads);
}

}  // namespace

Crew::Crew(EngineState& engine)
    : engine_(engine),
      count_(threads_of(engine.store.options)),
      most_runs_(engine.store.options.gpu_queue) {
  try {
    make_threads();
  } catch (const std::system_error&) {
    if (!threads_.empty()) return;
    throw;
  } catch (...) {
    end_threads();
    throw;
  }
}

void Crew::make_threads() {
  if (engine_.store.values != nullptr) {
    fetchers_ = std::make_unique<ValueFetchers>(
        std::min(count_, most_fetchers),
        [this](ValueReader& reader) { engine_.device->finish(reader); });
  }
  if (!engine_.device->gathers()) {
    quick_ = std::make_unique<QuickPath>(engine_, *this, fetchers_.get());
  }
  for (uint32_t i = 0; i < count_; ++i) {
    BatchRunner& runner = *runners_.emplace_back(
        std::make_unique<BatchRunner>(engine_, false, this, fetchers_.get()));
    threads_.push_back(lasting_thread([this, &runner] { work(runner); }));
  }
}

Crew::~Crew() { end_threads(); }

void Crew::end_threads() {
  {
    const std::lock_guard guard(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Submitted Crew::submit(BatchRun& run) {
  const uint32_t rows = run.batch->size();
  {
    const std::lock_guard guard(mutex_);
    const bool full = runs_ == most_runs_ || (runs_ != 0 && rows_ + rows > most_rows);
    if (full && !broken(Rule::retry)) {
      refused_.fetch_add(1, std::memory_order_relaxed);
      const auto known = std::find(refused_owners_.begin(), refused_owners_.end(), &run.owner);
      if (known == refused_owners_.end()) refused_owners_.push_back(&run.owner);
      return Submitted::retry;
    }
    waiting_.push(run);
    ++runs_;
    rows_ += rows;
  }
  changed_.notify_one();
  return Submitted::under_way;
}

void Crew::resume(BatchRun& run) {
  {
    const std::lock_guard guard(mutex_);
    resumed_.push(run);
  }
  changed_.notify_one();
}

void Crew::nudge() {
  {
    const std::lock_guard guard(mutex_);
    nudged_ = true;
  }
  changed_.notify_one();
}

void Crew::forget(BatchRun::Owner& owner) {
  const std::lock_guard guard(mutex_);
  std::erase(refused_owners_, &owner);
}

// Owners take their own locks only, and end after `forget`.
void Crew::tell_room() {
  if (refused_owners_.empty() || runs_ > most_runs_ / 2 || rows_ > most_rows / 2) return;
  for (BatchRun::Owner* owner : refused_owners_) owner->has_room();
  refused_owners_.clear();
}

// Waits for something to do, unless there is background work; false: the crew ends.
bool Crew::take(BatchRun*& run, bool& again, bool maintains) {
  std::unique_lock lock(mutex_);
  const auto some = [&] {
    return resumed_.first != nullptr || waiting_.first != nullptr || nudged_ || stopping_;
  };
  if (!maintains) changed_.wait(lock, some);
  run = resumed_.pop();
  again = run != nullptr;
  if (run == nullptr && (run = waiting_.pop()) != nullptr) {
    --runs_;
    rows_ -= run->batch->size();
    tell_room();
  }
  nudged_ = false;
  return run != nullptr || !stopping_;
}

void Crew::work(BatchRunner& runner) {
  BatchRun* run = nullptr;
  bool again = false;
  bool maintains = false;
  while (take(run, again, maintains)) {
    if (run != nullptr) {
      const Submitted how = again ? runner.run_again(*run) : runner.submit(*run);
      if (how == Submitted::ended) run->owner.moved(*run, BatchRun::Phase::ended);
    }
    maintains = maintain(runner);
  }
}

bool Crew::maintain(BatchRunner& runner) {
  const uint32_t others = maintaining_.fetch_add(1, std::memory_order_relaxed);
  const bool may = count_ == 1 || others + 1 < count_;
  bool more = may && runner.maintain(engine_.clock.now_ms());
  if (may && quick_) more |= quick_->tidy();
  maintaining_.fetch_sub(1, std::memory_order_relaxed);
  return more;
}

}  // namespace isotherm

// Runner on isotherm::Store: byte strings.
#include <algorithm>
#include <vector>

#include "isotherm/store.h"
#include "isotherm_bench/runner.h"

namespace isotherm::bench {
namespace {

constexpr size_t most_arena_bytes = size_t{64} << 20;

class StoreRunner final : public Runner {
 public:
  StoreRunner(Store& store, const Workload& workload, uint32_t batch, bool verify)
      : handle_(store), workload_(workload), limit_(batch), verify_(verify) {
    const size_t request_bytes = workload.key_size + workload.value_size_max;
    // The largest values share what fits; a batch ends when the next request might not.
    arena_.resize(std::max(request_bytes, std::min(request_bytes * batch, most_arena_bytes)));
  }

  void add(const Request& request) override {
    if (request.operation == Operation::scan) {
      scan_ = request;
      scans_ = true;
      return;
    }
    const std::string_view key = take_key(request.key);
    switch (request.operation) {
      case Operation::read:
        batch_.get(key);
        break;
      case Operation::update:
      case Operation::insert:
        batch_.put(key, take_value(request));
        break;
      case Operation::read_modify_write:
        batch_.get(key);
        keys_.push_back(request.key);
        batch_.put(key, take_value(request));
        break;
      default:
        batch_.erase(key);
        break;
    }
    keys_.push_back(request.key);
  }

  bool full() const override {
    return scans_ || batch_.size() >= limit_ ||
           arena_.size() - used_ < workload_.key_size + workload_.value_size_max;
  }
  uint32_t size() const override { return batch_.size() + (scans_ ? 1 : 0); }

  void run() override {
    // First: a scan may not run between a batch's end and its being cleared.
    if (scans_) {
      handle_.scan(scan_.key, scan_.count, [this](std::string_view) { ++scanned_; });
    }
    if (!batch_.empty()) handle_.submit(batch_);
  }

  std::string check(Counts& counts) override {
    std::string failure;
    for (Batch::Row row = 0; row < batch_.size(); ++row) {
      const Reply& reply = batch_.reply(row);
      const Status status = reply.status.load(std::memory_order_acquire);
      if (batch_.columns().op[row] == Op::put) {
        if (status == Status::ok) continue;
      } else if (status == Status::ok || status == Status::not_found) {
        ++(status == Status::ok ? counts.hits : counts.misses);
        if (status == Status::not_found || is_right(row, reply)) continue;
        failure = "a value that was never stored under its key";
        continue;
      }
      if (status == Status::retry) {
        ++counts.retries;
      } else {
        failure = "a request was answered '" + std::string(to_string(status)) + "'";
      }
    }
    counts.scanned += scanned_;
    batch_.clear();
    keys_.clear();
    used_ = 0;
    scanned_ = 0;
    scans_ = false;
    return failure;
  }

  void maintain() override { handle_.maintain(); }

 private:
  std::string_view take_key(uint64_t number) {
    char* at = arena_.data() + used_;
    write_key(number, workload_.key_size, at);
    used_ += workload_.key_size;
    return {at, workload_.key_size};
  }
  std::string_view take_value(const Request& request) {
    char* at = arena_.data() + used_;
    write_value(request.key, request.value_size, at);
    used_ += request.value_size;
    return {at, request.value_size};
  }
  bool is_right(Batch::Row row, const Reply& reply) const {
    if (!verify_ || batch_.columns().op[row] != Op::get) return true;
    return reply.size >= workload_.value_size_min && reply.size <= workload_.value_size_max &&
           value_belongs(keys_[row], reply.value());
  }

  Handle handle_;
  const Workload& workload_;
  const uint32_t limit_;
  const bool verify_;
  Batch batch_;
  std::vector<char> arena_;
  size_t used_ = 0;
  std::vector<uint64_t> keys_;  // numbers, by row
  Request scan_;
  bool scans_ = false;
  uint64_t scanned_ = 0;
};

class StoreRunners final : public RunnerFactory {
 public:
  StoreRunners(const Workload& workload, const isotherm::Options& options)
      : workload_(workload), store_(options) {}
  std::unique_ptr<Runner> make(uint32_t batch, bool verify) override {
    return std::make_unique<StoreRunner>(store_, workload_, batch, verify);
  }
  uint64_t memory() const override { return store_.memory(); }
  std::string place() const override {
    if (!store_.on_gpu()) return {};
    const auto share = [&](uint64_t entries, const char* what) {
      if (entries == 0) return std::string();
      return ", " + std::to_string(entries * 100 / store_.size()) + "% of " + what;
    };
    return " on a GPU" + share(store_.entries_beyond_gpu(), "the index beyond") +
           share(store_.values_on_gpu(), "the values");
  }

 private:
  const Workload& workload_;
  Store store_;
};

}  // namespace

std::unique_ptr<RunnerFactory> make_store_runners(const Workload& workload,
                                                  const isotherm::Options& options) {
  return std::make_unique<StoreRunners>(workload, options);
}

}  // namespace isotherm::bench

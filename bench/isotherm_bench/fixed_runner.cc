// Runner on isotherm::FixedTable: 64-bit keys and values in arrays.
//
// The table takes one operation for a whole array, so a mixed batch becomes an array of reads, one
// of writes and one of erases, run in this order.
#include <vector>

#include "isotherm/fixed_table.h"
#include "isotherm_bench/runner.h"

namespace isotherm::bench {
namespace {

// Spread over all 64 bits, as user keys may be.
uint64_t key_of(uint64_t number) { return mix(number, 0x6b6579); }
uint64_t value_of(uint64_t number) { return mix(number, 0x76616c); }

class FixedRunner final : public Runner {
 public:
  FixedRunner(FixedTable& table, uint32_t batch, bool verify)
      : handle_(table), limit_(batch), verify_(verify) {}

  void add(const Request& request) override {
    switch (request.operation) {
      case Operation::read:
        add_read(request.key);
        break;
      case Operation::read_modify_write:
        add_read(request.key);
        add_write(request.key);
        break;
      case Operation::update:
      case Operation::insert:
        add_write(request.key);
        break;
      case Operation::erase:
        erased_.push_back(key_of(request.key));
        break;
      case Operation::scan:
        scan_ = request;
        scans_ = true;
        break;
    }
  }

  bool full() const override { return scans_ || size() >= limit_; }
  uint32_t size() const override {
    return static_cast<uint32_t>(reads_.size() + writes_.size() + erased_.size()) +
           (scans_ ? 1 : 0);
  }

  void run() override {
    values_.resize(reads_.size());
    found_.resize(reads_.size());
    if (!reads_.empty()) found_count_ = handle_.get(reads_, values_, found_);
    if (!writes_.empty()) written_ = handle_.put(writes_, written_values_);
    if (!erased_.empty()) erased_count_ = handle_.erase(erased_);
    if (scans_) {
      handle_.scan(scan_.key, scan_.count, [this](uint64_t, uint64_t) { ++scanned_; });
    }
  }

  std::string check(Counts& counts) override {
    std::string failure;
    for (size_t i = 0; verify_ && i < reads_.size(); ++i) {
      if (found_[i] != 0 && values_[i] != value_of(numbers_[i])) {
        failure = "a value that was never stored under its key";
      }
    }
    if (!writes_.empty() && written_.status != Status::ok) {
      failure = "a write was answered '" + std::string(to_string(written_.status)) + "'";
    }
    counts.hits += found_count_ + erased_count_;
    counts.misses += reads_.size() - found_count_ + erased_.size() - erased_count_;
    counts.scanned += scanned_;
    for (auto* column : {&reads_, &numbers_, &writes_, &written_values_, &erased_}) column->clear();
    found_count_ = erased_count_ = scanned_ = 0;
    scans_ = false;
    return failure;
  }

  void maintain() override { handle_.maintain(); }

 private:
  void add_read(uint64_t number) {
    reads_.push_back(key_of(number));
    numbers_.push_back(number);
  }
  void add_write(uint64_t number) {
    writes_.push_back(key_of(number));
    written_values_.push_back(value_of(number));
  }

  FixedHandle handle_;
  const uint32_t limit_;
  const bool verify_;
  std::vector<uint64_t> reads_, numbers_, values_, writes_, written_values_, erased_;
  std::vector<uint8_t> found_;
  uint64_t found_count_ = 0;
  uint64_t erased_count_ = 0;
  uint64_t scanned_ = 0;
  FixedHandle::Result written_;
  Request scan_;
  bool scans_ = false;
};

class FixedRunners final : public RunnerFactory {
 public:
  std::unique_ptr<Runner> make(uint32_t batch, bool verify) override {
    return std::make_unique<FixedRunner>(table_, batch, verify);
  }
  uint64_t memory() const override { return table_.memory(); }

 private:
  FixedTable table_;
};

}  // namespace

std::unique_ptr<RunnerFactory> make_fixed_runners(const Workload&) {
  return std::make_unique<FixedRunners>();
}

}  // namespace isotherm::bench

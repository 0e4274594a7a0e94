// Runner on MicaTable: requests in the order of the batch, as MICA's loop takes them.
#include <algorithm>
#include <stdexcept>
#include <vector>

#include "base/hash.h"
#include "isotherm_bench/mica_table.h"
#include "isotherm_bench/runner.h"

namespace isotherm::bench {
namespace {

constexpr uint64_t hash_seed = 0x6d696361;
constexpr size_t at_once = 32;  // whose memory is fetched before the first of them is answered

class MicaRunner final : public Runner {
 public:
  MicaRunner(MicaTable& table, const Workload& workload, uint32_t batch, bool verify)
      : table_(table),
        workload_(workload),
        limit_(batch),
        verify_(verify),
        key_words_(MicaTable::words_of(workload.key_size)),
        value_words_(MicaTable::words_of(workload.value_size_max)) {}

  void add(const Request& request) override {
    if (request.operation == Operation::scan) throw std::runtime_error("MICA has no scans");
    const bool both = request.operation == Operation::read_modify_write;
    add_row(both ? Operation::read : request.operation, request.key);
    if (both) add_row(Operation::update, request.key);
  }
  bool full() const override { return rows_.size() >= limit_; }
  uint32_t size() const override { return static_cast<uint32_t>(rows_.size()); }

  void run() override {
    for (size_t first = 0; first < rows_.size(); first += at_once) {
      const size_t end = std::min(first + at_once, rows_.size());
      for (size_t i = first; i < end; ++i) {
        rows_[i].hash =
            hash_bytes({reinterpret_cast<const char*>(key_of(i)), workload_.key_size}, hash_seed);
        table_.prefetch_bucket(rows_[i].hash);
      }
      for (size_t i = first; i < end; ++i) table_.prefetch_item(rows_[i].hash);
      for (size_t i = first; i < end; ++i) answer(i);
    }
  }

  std::string check(Counts& counts) override {
    std::string failure;
    for (size_t i = 0; i < rows_.size(); ++i) {
      const Row& row = rows_[i];
      if (row.operation == Operation::read || row.operation == Operation::erase) {
        ++(row.done ? counts.hits : counts.misses);
      } else if (!row.done) {
        failure = "MICA's index does not grow, and has no room for another key";
      }
      const std::string_view value(reinterpret_cast<const char*>(value_of(i)),
                                   workload_.value_size_max);
      if (verify_ && row.operation == Operation::read && row.done &&
          !value_belongs(row.number, value)) {
        failure = "a value that was never stored under its key";
      }
    }
    rows_.clear();
    words_.clear();
    return failure;
  }

  void maintain() override {}

 private:
  struct Row {
    Operation operation;
    bool done;
    uint64_t number;
    uint64_t hash;
  };

  uint64_t* key_of(size_t row) { return words_.data() + row * (key_words_ + value_words_); }
  uint64_t* value_of(size_t row) { return key_of(row) + key_words_; }
  void add_row(Operation operation, uint64_t number) {
    const size_t row = rows_.size();
    rows_.push_back({operation, false, number, 0});
    words_.resize(words_.size() + key_words_ + value_words_);
    write_key(number, workload_.key_size, reinterpret_cast<char*>(key_of(row)));
    if (operation == Operation::update || operation == Operation::insert) {
      write_value(number, workload_.value_size_max, reinterpret_cast<char*>(value_of(row)));
    }
  }
  void answer(size_t at) {
    Row& row = rows_[at];
    if (row.operation == Operation::read) {
      row.done = table_.get(row.hash, key_of(at), value_of(at));
    } else if (row.operation == Operation::erase) {
      row.done = table_.erase(row.hash, key_of(at));
    } else {
      row.done = table_.put(row.hash, key_of(at), value_of(at));
    }
  }

  MicaTable& table_;
  const Workload& workload_;
  const uint32_t limit_;
  const bool verify_;
  const uint64_t key_words_;
  const uint64_t value_words_;
  std::vector<Row> rows_;
  std::vector<uint64_t> words_;  // of each row its key and its value
};

class MicaRunners final : public RunnerFactory {
 public:
  explicit MicaRunners(const Workload& workload)
      : workload_(workload), table_(workload.records, workload.key_size, workload.value_size_max) {}
  std::unique_ptr<Runner> make(uint32_t batch, bool verify) override {
    return std::make_unique<MicaRunner>(table_, workload_, batch, verify);
  }
  uint64_t memory() const override { return table_.memory(); }

 private:
  const Workload& workload_;
  MicaTable table_;
};

}  // namespace

std::unique_ptr<RunnerFactory> make_mica_runners(const Workload& workload) {
  return std::make_unique<MicaRunners>(workload);
}

}  // namespace isotherm::bench

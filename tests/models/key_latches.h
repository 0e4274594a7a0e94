// KeyLatches: keeps rows on some keys waiting (executor/awaited.h) until a test lets them go.
//
// Threads. Any; which keys it keeps is said before rows come.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <string>

#include "executor/awaited.h"
#include "models/awaited_latch.h"

namespace isotherm {

class KeyLatches final : public RowGate {
 public:
  KeyLatches(std::initializer_list<std::string> keys) {
    for (const std::string& key : keys) add(key);
  }
  void add(const std::string& key) { latches_[key]; }
  Awaited* awaited(const Batch::Columns& columns, Batch::Row row) override {
    const auto latch = latches_.find(columns.key[row]);
    return latch == latches_.end() || latch->second.is_open() ? nullptr : &latch->second;
  }
  AwaitedLatch& operator[](const std::string& key) { return latches_.at(key); }
  void open_all() {
    for (auto& [key, latch] : latches_) latch.open();
  }
  void close_all() {
    for (auto& [key, latch] : latches_) latch.close();
  }

 private:
  std::map<std::string, AwaitedLatch, std::less<>> latches_;
};

}  // namespace isotherm

// HeldKeys: a group of another thread, whose guard waits until it is let go; then it puts its keys.
//
// Threads. Belongs to the test's thread.
#pragma once

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "fake_device/gated_root_table.h"

namespace isotherm {

class HeldKeys {
 public:
  HeldKeys(Engine& engine, std::vector<std::string> keys, std::string value = "new")
      : keys_(std::move(keys)),
        value_(std::move(value)),
        thread_([this, &engine] { run(engine); }) {
    gate_.wait_for(1);
  }
  ~HeldKeys() { let_go(); }
  HeldKeys(const HeldKeys&) = delete;
  HeldKeys& operator=(const HeldKeys&) = delete;

  void let_go() {
    gate_.open();
    if (thread_.joinable()) thread_.join();
  }
  // Whether the key was there when the group looked again.
  bool found(size_t key) const { return found_[key]; }

 private:
  void run(Engine& engine) {
    Worker worker(engine);
    Batch batch;
    for (const std::string& key : keys_) batch.get(key, option::no_touch);
    batch.guard([](Batch&, Batch::Row, void* gate) { static_cast<Gate*>(gate)->pass(); }, &gate_);
    const Batch::Row again = batch.size();
    for (const std::string& key : keys_) batch.get(key, option::no_touch);
    for (const std::string& key : keys_) batch.put(key, value_);
    batch.group(0);
    worker.submit(batch);
    for (size_t i = 0; i < keys_.size(); ++i) {
      found_.push_back(batch.reply(again + static_cast<Batch::Row>(i)).status == Status::ok);
    }
  }

  struct ClosedGate : Gate {
    ClosedGate() { close(); }
  } gate_;
  const std::vector<std::string> keys_;
  const std::string value_;  // that they get
  std::vector<bool> found_;
  std::thread thread_;
};

}  // namespace isotherm

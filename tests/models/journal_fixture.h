// JournalFixture: an empty folder for the journal of a test, and a store whose changes it has.
//
// A store is opened on what the journal holds, as a server does, but through FaultyFiles. Segments
// are small, so that a test has many of them.
//
// Threads. The test's, and those that fill a store.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "db/stored_journal.h"
#include "durability/journal.h"
#include "engine/engine.h"
#include "models/faulty_files.h"
#include "models/history.h"

namespace isotherm {

// A store with a journal; what is in it when it is opened came from there.
class JournaledStore {
 public:
  static constexpr uint64_t usual_file_bytes = 16 << 10;

  JournaledStore(const std::string& folder, const Clock& clock, Files& files, SyncPolicy policy,
                 uint64_t file_bytes = usual_file_bytes)
      : engine(options(), clock) {
    const JournalReader reader(folder, "test", 2);
    torn_bytes = reader.torn_bytes();
    engine.begin_versions(reader.last_version());
    fill_store(engine, reader);
    JournalOptions its;
    its.folder = folder;
    its.name = "test";
    its.policy = policy;
    its.segment_bytes = file_bytes;
    its.most_unwritten = 100'000;
    its.pause_ms = 5;
    its.count = [this](int64_t bytes) {
      counted += bytes;
      engine.add_sink_bytes(bytes);
    };
    const uint64_t filled = reader.records() + reader.manifest().base.bytes;
    journal = std::make_unique<Journal>(its, reader, reader.last_version() + 2 * filled + 1, files);
    engine.set_commit_sink(journal.get());
  }

  static Options options() {
    Options options;
    options.hash_seed = 1;
    options.databases = 3;
    options.max_value_bytes = 50'000;
    return options;
  }

  using Content = std::map<std::pair<uint32_t, std::string>,
                           std::tuple<std::string, uint32_t, int64_t>>;  // value, flags, expiry
  // What is in the store, without what has expired.
  Content content() {
    Content all;
    Worker worker(engine);
    for (uint32_t database = 0; database < options().databases; ++database) {
      std::vector<std::string> keys;
      uint64_t cursor = 0;
      do {
        cursor = worker.scan(database, cursor, 100,
                             [&](const ScanItem& item) { keys.emplace_back(item.key); });
      } while (cursor != 0);
      for (const std::string& key : keys) {
        Batch batch;
        batch.select(database);
        batch.get(key);
        worker.submit(batch);
        const Reply& reply = batch.reply(0);
        if (reply.status != Status::ok) continue;
        all[{database, key}] = {std::string(reply.value()), reply.flags, reply.expiry};
      }
    }
    return all;
  }

  Engine engine;
  std::atomic<int64_t> counted{0};  // of the journal's memory
  std::unique_ptr<Journal> journal;
  uint64_t torn_bytes = 0;
};

class JournalFixture : public ::testing::Test {
 protected:
  JournalFixture() {
    std::string path = std::filesystem::temp_directory_path() / "isotherm-journal-XXXXXX";
    root = ::mkdtemp(path.data());
    folder = new_folder();
  }
  ~JournalFixture() override {
    store.reset();
    std::filesystem::remove_all(root);
  }

  std::string new_folder() {
    const std::string path = root + "/" + std::to_string(folders++);
    std::filesystem::create_directory(path);
    return path;
  }

  JournaledStore& open(SyncPolicy policy = SyncPolicy::always,
                       uint64_t file_bytes = JournaledStore::usual_file_bytes) {
    store.reset();
    store = std::make_unique<JournaledStore>(folder, clock, files, policy, file_bytes);
    return *store;
  }
  Status put(std::string_view key, std::string_view value, int64_t expiry = no_expiry) {
    Worker worker(store->engine);
    Batch batch;
    batch.put(key, value, 0, expiry);
    worker.submit(batch);
    return batch.reply(0).status;
  }
  // Why it cannot be opened; empty: it can.
  std::string refusal() {
    store.reset();
    try {
      const JournalReader reader(folder, "test", 2);
    } catch (const JournalError& error) {
      return error.what();
    }
    return {};
  }
  // Random batches of every operation on three databases.
  void run_history(uint64_t seed, int steps) {
    Worker worker(store->engine);
    History history({.seed = seed, .keys = 60, .databases = 3, .max_value_bytes = 50'000});
    for (int i = 0; i < steps && !HasFatalFailure(); ++i) {
      history.step(clock.now_ms(), [&](Batch& batch) { worker.submit(batch); });
      worker.maintain();
      if (i % 3 == 0) clock.advance(15);
      if (i == steps / 2) {
        worker.flush(1);
        history.model().clear(1);
      }
    }
  }
  std::string path(const std::string& suffix) const { return folder + "/test." + suffix; }
  std::vector<std::string> segments() const {
    std::vector<std::string> all;
    for (int i = 1; std::filesystem::exists(path(std::to_string(i))); ++i) {
      all.push_back(path(std::to_string(i)));
    }
    return all;
  }
  static std::string read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  static void write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  }

  ManualClock clock{1'700'000'000'000};
  FaultyFiles files{7};
  std::string root;
  int folders = 0;
  std::string folder;  // of the journal
  std::unique_ptr<JournaledStore> store;
};

}  // namespace isotherm

// SnapshotFixture: a store of three databases, and what a snapshot of it has, read by RdbFile.
//
// Threads. The test's.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "durability/rdb_file.h"
#include "engine/engine.h"
#include "engine/snapshot.h"

namespace isotherm {

using SnapshotContent = std::map<std::pair<uint32_t, std::string>, std::pair<std::string, int64_t>>;

class SnapshotFixture : public ::testing::Test {
 protected:
  SnapshotFixture() {
    std::string path = std::filesystem::temp_directory_path() / "isotherm-snapshot-XXXXXX";
    folder_ = ::mkdtemp(path.data());
    options_.databases = 3;
    engine_ = std::make_unique<Engine>(options_, clock_);
    snapshot_ = std::make_unique<Snapshot>(*engine_);
  }
  ~SnapshotFixture() override { std::filesystem::remove_all(folder_); }

  // The rest of a snapshot that has begun; none: it was flushed.
  std::optional<SnapshotContent> rest(Worker& worker) {
    std::string text = "REDIS0010";
    Snapshot::Step step = Snapshot::Step::more;
    while (step == Snapshot::Step::more) {
      step = snapshot_->step([&](std::string_view bytes) {
        text += bytes;
        return true;
      });
    }
    snapshot_->end(worker);
    if (step == Snapshot::Step::flushed) return std::nullopt;
    text += std::string("\xFF", 1) + std::string(8, '\0');
    std::ofstream(folder_ + "/file", std::ios::binary) << text;
    const RdbFile file(folder_ + "/file");
    SnapshotContent content;
    for (uint32_t part = 0; part < file.parts(); ++part) {
      file.read(part, [&](const RdbItem& item) {
        const bool made =
            content.try_emplace({item.database, std::string(item.key)}, item.value, item.expiry)
                .second;
        EXPECT_TRUE(made) << item.key << " twice";
      });
    }
    return content;
  }
  std::optional<SnapshotContent> whole(Worker& worker, bool keeps_flushed = false) {
    EXPECT_NE(snapshot_->begin(worker, keeps_flushed), nullptr);
    return rest(worker);
  }
  void put(Worker& worker, uint32_t database, std::string_view key, std::string_view value,
           int64_t expiry = no_expiry) {
    Batch batch;
    batch.select(database);
    batch.put(key, value, 0, expiry);
    worker.submit(batch);
    ASSERT_EQ(batch.reply(0).status, Status::ok);
  }

  ManualClock clock_{1'700'000'000'000};
  Options options_;
  std::string folder_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Snapshot> snapshot_;
};

}  // namespace isotherm

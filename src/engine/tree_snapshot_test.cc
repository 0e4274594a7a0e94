// A snapshot of a store with a tree has what there was at its moment, whatever comes behind it.
#include "engine/tree_snapshot.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "base/clock.h"
#include "durability/rdb_file.h"
#include "fake_device/fake_item_tier.h"
#include "items/poison.h"
#include "tree/tree.h"

namespace isotherm::tree_snapshot_test {
namespace {

using Content = std::map<std::pair<uint32_t, std::string>, std::pair<std::string, int64_t>>;

enum class Behind : uint8_t { files, gpu, small_gpu };
std::string name_of(const ::testing::TestParamInfo<Behind>& info) {
  return info.param == Behind::files ? "files" : "gpu";
}

class TreeSnapshotTest : public ::testing::TestWithParam<Behind> {
 protected:
  TreeSnapshotTest() {
    std::string path = std::filesystem::temp_directory_path() / "isotherm-tree-XXXXXX";
    folder_ = ::mkdtemp(path.data());
    options_.maxmemory = 4 << 20;
    options_.maxmemory_policy = EvictionPolicy::allkeys_lru;
    options_.databases = 3;
  }
  ~TreeSnapshotTest() override {
    source_.reset();
    worker_.reset();
    engine_.reset();
    std::filesystem::remove_all(folder_);
  }
  void SetUp() override {
    if (on_gpu()) {
      options_.device = DeviceChoice::cuda;
      options_.gpu_items = GetParam() == Behind::gpu ? 8 << 20 : 4 << 20;
      options_.maxmemory_policy = EvictionPolicy::noeviction;
      // One thread changes and walks, so what a moment keeps must not wait for room.
      options_.maxmemory = 64 << 20;
      engine_ = std::make_unique<Engine>(options_, clock_, fake_item_tier_maker(device_));
    } else {
      options_.tree = folder_;
      try {
        engine_ = std::make_unique<Engine>(options_, clock_);
      } catch (const TreeError&) {
        GTEST_SKIP() << "built without RocksDB";
      }
    }
    worker_ = std::make_unique<Worker>(*engine_);
    source_ = make_snapshot_source(*engine_);
  }
  static bool on_gpu() { return GetParam() != Behind::files; }
  // One change, which the model has, too.
  void change() {
    const auto draw = [&](uint64_t below) { return static_cast<uint32_t>(random_() % below); };
    const uint32_t database = draw(3);
    const uint32_t number = draw(300);
    // One that is too long for a GPU, where its database is not the first.
    const std::string key = number == 0 ? std::string(65'535, 'k') : "key" + std::to_string(number);
    const std::string value(draw(2000), static_cast<char>('a' + draw(26)));
    const uint32_t kind = draw(400);
    const bool expires = draw(4) == 0;
    const int64_t expiry = expires ? clock_.now_ms() + 1 + draw(100'000) : no_expiry;
    Batch batch;
    batch.select(database);
    if (kind == 0) {
      batch.flush(database, database + 1);
      std::erase_if(model_, [&](const auto& one) { return one.first.first == database; });
    } else if (kind < 100) {
      batch.erase(key);
      model_.erase({database, key});
    } else if (kind < 150) {
      batch.expire(key, expiry);
      if (const auto at = model_.find({database, key}); at != model_.end()) {
        at->second.second = expiry;
      }
    } else {
      batch.put(key, value, 0, expiry);
      model_[{database, key}] = {value, expiry};
    }
    worker_->submit(batch, clock_.now_ms());
    batch.clear();
    if (kind < 20) worker_->maintain();
    if (kind == 399) {
      EXPECT_TRUE(engine_->tree()->flush());
    }
  }
  void expire_in_model() {
    std::erase_if(model_, [&](const auto& one) {
      return one.second.second != no_expiry && one.second.second <= clock_.now_ms();
    });
  }
  // What steps write from now on, each behind work(); they end well.
  std::string rest(const std::function<void()>& work = [] {}) {
    std::string text;
    auto step = SnapshotSource::Step::more;
    while (step == SnapshotSource::Step::more) {
      work();
      step = source_->step([&](std::string_view bytes) {
        text += bytes;
        return true;
      });
    }
    EXPECT_EQ(step, SnapshotSource::Step::done);
    source_->end(*worker_);
    return text;
  }
  Content read(const std::string& text) const {
    const std::string path = folder_ + "/snapshot";
    std::ofstream(path, std::ios::binary)
        << "REDIS0010" + text + std::string("\xFF", 1) + std::string(8, '\0');
    const RdbFile file(path);
    Content content;
    for (uint32_t part = 0; part < file.parts(); ++part) {
      file.read(part, [&](const RdbItem& item) {
        EXPECT_TRUE(
            content.try_emplace({item.database, std::string(item.key)}, item.value, item.expiry)
                .second)
            << item.key << " twice";
      });
    }
    return content;
  }

  FakeDevice device_{5, uint64_t{1} << 28};
  ManualClock clock_{1'700'000'000'000};
  std::string folder_;
  Options options_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<SnapshotSource> source_;
  std::mt19937_64 random_{11};
  Content model_;
};

TEST_P(TreeSnapshotTest, ItHasItsMomentWhileChangesAndFlushesGoOn) {
  for (int round = 0; round < (poison::sanitized ? 2 : 4); ++round) {
    for (int i = 0; i < 1500; ++i) change();
    clock_.advance(10'000);
    expire_in_model();
    // What the run that is still there has must not be lost behind it.
    for (int i = 0; i < 20; ++i) change();
    const Content at_moment = model_;
    const SnapshotSource::Moment* const moment = source_->begin(*worker_, false);
    ASSERT_NE(moment, nullptr);
    EXPECT_EQ(moment->at_ms, clock_.now_ms());
    EXPECT_EQ(moment->changes, engine_->stats().changes);
    for (int i = 0; i < 300; ++i) change();
    ASSERT_TRUE(engine_->tree()->flush());
    const std::string text = rest([&] {
      for (int i = 0; i < 10; ++i) change();
    });
    EXPECT_EQ(read(text), at_moment);
  }
}

// A journal begins with its snapshot: what has a version up to the moment's counts no more there.
TEST_P(TreeSnapshotTest, WhatIsChangedBehindItsMomentHasALargerVersion) {
  const auto put = [&](uint32_t database) {
    Batch batch;
    batch.select(database);
    batch.put("key", "value");
    worker_->submit(batch);
    const uint64_t version = batch.reply(0).version;
    batch.clear();
    return version;
  };
  for (int i = 0; i < 100; ++i) put(0);
  put(1);
  const SnapshotSource::Moment* const moment = source_->begin(*worker_, false);
  ASSERT_NE(moment, nullptr);
  for (uint32_t database = 0; database < 3; ++database) {
    EXPECT_GT(put(database), moment->version) << database;
  }
  source_->end(*worker_);
}

// It is written from where it lies, and not as a piece with others.
TEST_P(TreeSnapshotTest, ALargeValueIsThereBetweenSmallOnes) {
  const std::string large(1 << 20, 'v');
  const std::pair<const char*, std::string> pairs[] = {{"a", "1"}, {"b", large}, {"c", "3"}};
  for (const auto& [key, value] : pairs) {
    Batch batch;
    batch.put(key, value);
    worker_->submit(batch);
    ASSERT_EQ(batch.reply(0).status, Status::ok);
    batch.clear();
  }
  ASSERT_NE(source_->begin(*worker_, false), nullptr);
  const Content content = read(rest());
  ASSERT_EQ(content.size(), 3u);
  EXPECT_EQ(content.at({0, "b"}).first, large);
  EXPECT_EQ(content.at({0, "c"}).first, "3");
}

TEST_P(TreeSnapshotTest, ADiskThatTakesNoMoreEndsIt) {
  Batch batch;
  batch.put("key", "value");
  worker_->submit(batch);
  batch.clear();
  ASSERT_NE(source_->begin(*worker_, false), nullptr);
  EXPECT_EQ(source_->step([](std::string_view) { return false; }), SnapshotSource::Step::done);
  source_->end(*worker_);
}

class FullGpuSnapshotTest : public TreeSnapshotTest {};

// The runs that find no room there are newer than what is there.
TEST_P(FullGpuSnapshotTest, WhatAFullGpuDoesNotTakeIsInTheSnapshot) {
  Content model;
  const auto change = [&](int number, char text) {
    const std::string key = "key" + std::to_string(number);
    const std::string value(text == 0 ? 0 : 6000, text);
    Batch batch;
    text == 0 ? batch.erase(key) : batch.put(key, value);
    worker_->submit(batch);
    // Where the writer has found by then that the GPU is full.
    if (text != 0 && batch.reply(0).status == Status::not_saved) return;
    ASSERT_EQ(batch.reply(0).status, Status::ok);
    model.erase({0, key});
    if (text != 0) model[{0, key}] = {value, no_expiry};
  };
  for (int i = 0; i < 200; ++i) change(i, 'a');
  ASSERT_TRUE(engine_->tree()->flush());
  for (int i = 100; i < 1500; ++i) change(i, 'b');
  for (int i = 50; i < 150; ++i) change(i, 0);
  ASSERT_FALSE(engine_->tree()->flush());
  ASSERT_NE(source_->begin(*worker_, false), nullptr);
  EXPECT_EQ(read(rest()), model);
}

INSTANTIATE_TEST_SUITE_P(All, TreeSnapshotTest, ::testing::Values(Behind::files, Behind::gpu),
                         name_of);
INSTANTIATE_TEST_SUITE_P(All, FullGpuSnapshotTest, ::testing::Values(Behind::small_gpu), name_of);

}  // namespace
}  // namespace isotherm::tree_snapshot_test

// A store whose items live on a GPU, asked by threads that must not wait: their gets are on their
// way to the device while they go on (Backing::Coming).
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "fake_device/gated_root_table.h"
#include "items/poison.h"
#include "models/gpu_items_fixture.h"

namespace isotherm::gpu_items_quick_test {
namespace {

class QuickGpuItemsTest : public GpuItemsFixture {
 protected:
  ~QuickGpuItemsTest() override {
    quick_.reset();
    EXPECT_EQ(device_.take_errors(), std::vector<std::string>{});
  }
  // Keys whose values are their names, all of them on the device alone.
  void open(int keys) {
    open_engine();
    quick_ = std::make_unique<Worker>(*engine_, false);
    Worker worker(*engine_);
    Batch batch;
    for (int i = 0; i < keys; ++i) names_.push_back("key" + std::to_string(i));
    for (const std::string& name : names_) batch.put(name, name);
    worker.submit(batch);
    batch.clear();
    forget(worker);
  }
  // Batches that are under way together, until all have ended.
  void run_together(std::vector<Batch>& batches) {
    std::set<Batch*> left;
    const auto note = [&](Batch& batch, bool ended) {
      if (ended) left.erase(&batch);
    };
    for (Batch& batch : batches) {
      left.insert(&batch);
      Worker::Started started = quick_->start(batch);
      for (; started == Worker::Started::retry; started = quick_->start(batch)) quick_->poll(note);
      if (started == Worker::Started::ended) left.erase(&batch);
    }
    while (!left.empty()) quick_->poll(note);
  }

  std::unique_ptr<Worker> quick_;
  std::vector<std::string> names_;
};

TEST_F(QuickGpuItemsTest, GetsAreAnsweredInPlace) {
  open(600);
  std::vector<Batch> batches(3);
  for (size_t i = 0; i < names_.size(); ++i) batches[i % 3].get(names_[i]);
  batches[1].get("absent");
  const uint64_t before = engine_->tree()->stats().loads;
  run_together(batches);
  for (size_t i = 0; i < names_.size(); ++i) {
    const Reply& reply = batches[i % 3].reply(static_cast<Batch::Row>(i / 3));
    ASSERT_EQ(reply.status, Status::ok) << i;
    ASSERT_EQ(reply.value(), names_[i]);
    ASSERT_NE(reply.version, 0u);
  }
  EXPECT_EQ(batches[1].reply(200).status, Status::not_found);
  EXPECT_EQ(engine_->tree()->stats().loads, before) << "they were read by other threads";
  EXPECT_EQ(engine_->database(0).keys, 0u) << "they went through memory";
}

// More batches are under way than there are columns, so some of their gets, and of one batch some
// and others not, are read by other threads; writes stand between gets of the same key.
TEST_F(QuickGpuItemsTest, GetsGoOnWhereAllColumnsAreHeld) {
  options_.maxmemory = 2 << 20;  // so 256 KiB of columns
  open(400);
  Worker worker(*engine_);
  for (int round = 0; round < 6; ++round) {
    const std::string later = "round" + std::to_string(round);
    std::vector<Batch> batches(40);
    for (size_t i = 0; i < batches.size(); ++i) {
      for (size_t k = 0; k < 120; ++k) batches[i].get(names_[(10 * i + k * k) % 399]);
      // Nobody else writes this key.
      const std::string& own = names_[399];
      if (i == 20) {
        batches[i].get(own);
        batches[i].put(own, later);
        batches[i].get(own);
      }
    }
    run_together(batches);
    for (size_t i = 0; i < batches.size(); ++i) {
      for (size_t k = 0; k < 120; ++k) {
        const Reply& reply = batches[i].reply(static_cast<Batch::Row>(k));
        ASSERT_EQ(reply.status, Status::ok) << i << ", " << k;
        ASSERT_EQ(reply.value(), names_[(10 * i + k * k) % 399]);
      }
    }
    const std::string before = round == 0 ? names_[399] : "round" + std::to_string(round - 1);
    EXPECT_EQ(batches[20].reply(120).value(), before);
    EXPECT_EQ(batches[20].reply(121).status, Status::ok);
    EXPECT_EQ(batches[20].reply(122).value(), later);
    batches.clear();
    if (round % 2 == 0) forget(worker);
  }
}

// A writer counts up; whoever reads later than a count was written reads it, or a later one.
TEST_F(QuickGpuItemsTest, AGetIsNeverOvertakenByAWrite) {
  constexpr int keys = 24;
  constexpr int rounds = 40;
  open(keys);
  std::atomic<int> written{0};
  std::thread writer = count_up(names_, rounds, written);
  bool ends = false;
  while (!ends) {
    ends = written == rounds;
    const int least = written;
    std::vector<Batch> batches(2);
    for (Batch& batch : batches) {
      for (const std::string& name : names_) batch.get(name);
    }
    run_together(batches);
    for (const Batch& batch : batches) {
      for (int i = 0; i < keys; ++i) {
        const Reply& reply = batch.reply(static_cast<Batch::Row>(i));
        ASSERT_EQ(reply.status, Status::ok);
        const std::string text(reply.value());
        EXPECT_GE(text.starts_with("key") ? 0 : std::stoi(text), least);
      }
    }
  }
  writer.join();
}

// Rows that are to be seen together show what there was at one moment: a writer counts up all keys
// of a group together.
TEST_F(QuickGpuItemsTest, AViewIsOfOneMoment) {
  constexpr int keys = 12;
  constexpr int rounds = poison::sanitized ? 40 : 60;
  open(keys + 20);
  std::atomic<bool> ended{false};
  std::thread writer([&] {
    Worker worker(*engine_);
    for (int count = 1; count <= rounds; ++count) {
      const std::string text = std::to_string(count);
      Batch batch;
      for (int i = 0; i < keys; ++i) batch.put(names_[i], text);
      batch.group(0);
      worker.submit(batch);
      batch.clear();
      if (count % 3 == 0) forget(worker);
    }
    ended = true;
  });
  uint64_t in_place = 0;
  for (bool last = false; !last;) {
    last = ended;
    const uint64_t before = engine_->tree()->stats().loads;
    std::vector<Batch> batches(3);
    for (Batch& batch : batches) {
      batch.get(names_[keys]);
      for (int i = 0; i < keys; ++i) batch.get(names_[i]);
      batch.view(1);
      for (int i = keys; i < keys + 20; ++i) batch.get(names_[i]);
    }
    run_together(batches);
    in_place += engine_->tree()->stats().loads == before;
    for (const Batch& batch : batches) {
      for (Batch::Row row = 1; row <= keys; ++row) {
        ASSERT_EQ(batch.reply(row).status, Status::ok);
        const std::string_view first = batch.reply(1).value();
        const std::string_view value = batch.reply(row).value();
        if (first.starts_with("key")) {
          EXPECT_EQ(value, names_[row - 1]);
        } else {
          EXPECT_EQ(value, first);
        }
      }
      for (Batch::Row row = keys + 1; row < batch.size(); ++row) {
        ASSERT_EQ(batch.reply(row).value(), names_[row - 1]);
      }
    }
  }
  writer.join();
  EXPECT_GT(in_place, 0u);
}

// What the first row of a group has written is on the device alone while its second one waits.
TEST_F(QuickGpuItemsTest, AViewShowsNoHalfOfAGroup) {
  open(2);
  Gate gate;
  gate.close();
  std::thread writer([&] {
    Worker worker(*engine_);
    Batch batch;
    batch.put(names_[0], "new");
    batch.guard([](Batch&, Batch::Row, void* its) { static_cast<Gate*>(its)->pass(); }, &gate);
    batch.put(names_[1], "new");
    batch.group(0);
    worker.submit(batch);
  });
  gate.wait_for(1);
  Worker worker(*engine_);
  forget(worker);
  std::vector<Batch> batches(1);
  batches[0].get(names_[0]);
  batches[0].get(names_[1]);
  batches[0].view(0);
  bool ended = quick_->start(batches[0]) == Worker::Started::ended;
  const auto note = [&](Batch&, bool its) { ended |= its; };
  for (int looks = 0; looks < 1000 && !ended; ++looks) quick_->poll(note);
  gate.open();
  writer.join();
  while (!ended) quick_->poll(note);
  EXPECT_EQ(batches[0].reply(0).value() == "new", batches[0].reply(1).value() == "new");
}

// A row that waits for what memory lacks changes what views behind it show.
TEST_F(QuickGpuItemsTest, AViewIsBehindRowsBeforeIt) {
  open(6);
  std::vector<Batch> batches(1);
  Batch& batch = batches[0];
  batch.get(names_[2]);
  batch.append(names_[0], "+");
  batch.erase(names_[1]);
  for (int i = 0; i < 3; ++i) batch.get(names_[i]);
  batch.view(3);
  batch.append(names_[2], "+");
  batch.get(names_[2]);
  for (int i = 3; i < 6; ++i) batch.get(names_[i]);
  batch.view(8);
  run_together(batches);
  EXPECT_EQ(batch.reply(0).value(), names_[2]);
  EXPECT_EQ(batch.reply(3).value(), names_[0] + "+");
  EXPECT_EQ(batch.reply(4).status, Status::not_found);
  EXPECT_EQ(batch.reply(5).value(), names_[2]);
  EXPECT_EQ(batch.reply(7).value(), names_[2] + "+");
  for (int i = 3; i < 6; ++i) EXPECT_EQ(batch.reply(5 + i).value(), names_[i]);
}

TEST_F(QuickGpuItemsTest, ViewsAreAnsweredInPlace) {
  open(300);
  std::vector<Batch> batches(2);
  for (Batch& batch : batches) {
    for (int i = 0; i < 200; ++i) batch.get(names_[i]);
    batch.view(0);
    batch.get("absent");
    for (int i = 200; i < 300; ++i) batch.get(names_[i]);
    batch.view(201);
  }
  const uint64_t before = engine_->tree()->stats().loads;
  run_together(batches);
  for (const Batch& batch : batches) {
    for (Batch::Row row = 0; row < 301; ++row) {
      if (row == 200) continue;
      ASSERT_EQ(batch.reply(row).status, Status::ok) << row;
      ASSERT_EQ(batch.reply(row).value(), names_[row > 200 ? row - 1 : row]);
    }
    EXPECT_EQ(batch.reply(200).status, Status::not_found);
  }
  EXPECT_EQ(engine_->tree()->stats().loads, before) << "they were read by other threads";
}

// Values that no slot has room for are read the other way, and so is all where the device fails.
TEST_F(QuickGpuItemsTest, WhatSlotsDoNotShowIsReadTheOtherWay) {
  open(64);
  Worker worker(*engine_);
  const std::string long_value(5'000, 'v');
  std::vector<Batch> batches(1);
  for (int i = 0; i < 64; i += 2) batches[0].put(names_[i], long_value);
  run_together(batches);
  batches[0].clear();
  forget(worker);
  for (const std::string& name : names_) batches[0].get(name);
  run_together(batches);
  for (Batch::Row row = 0; row < 64; ++row) {
    ASSERT_EQ(batches[0].reply(row).status, Status::ok) << row;
    ASSERT_EQ(batches[0].reply(row).value(), row % 2 == 0 ? long_value : names_[row]);
  }
  batches[0].clear();
  forget(worker);
  device_.lose_after(0);
  for (const std::string& name : names_) batches[0].get(name);
  run_together(batches);
  int absent = 0;
  for (Batch::Row row = 0; row < 64; ++row) {
    const Reply& reply = batches[0].reply(row);
    absent += reply.status == Status::not_found;
    if (reply.status == Status::not_found) continue;
    // Memory has it still.
    ASSERT_EQ(reply.status, Status::ok) << row;
    ASSERT_EQ(reply.value(), row % 2 == 0 ? long_value : names_[row]);
  }
  EXPECT_GT(absent, 0);
  EXPECT_TRUE(engine_->tree()->is_lost());
  batches.clear();
  device_.take_errors();
}

// The others could still answer, with what has been written anew or erased since; and so have those
// that were asked before the loss was found.
TEST_F(QuickGpuItemsTest, WhenOneOfSeveralDevicesFailsTheOthersAreAskedNoMore) {
  devices_.push_back(&second_);
  open(32);
  std::vector<Batch> batches(12);
  std::set<Batch*> waiting;  // the others have been answered before
  for (size_t i = 0; i < batches.size(); ++i) {
    batches[i].get(names_[i]);
    if (quick_->start(batches[i]) == Worker::Started::under_way) waiting.insert(&batches[i]);
  }
  device_.lose();
  Worker other(*engine_);
  const auto get = [&](const std::string& name) {
    Batch batch;
    batch.get(name);
    other.submit(batch);
    return batch.reply(0).status.load();
  };
  for (const std::string& name : names_) get(name);
  EXPECT_TRUE(engine_->tree()->is_lost());
  for (size_t left = waiting.size(); left != 0;) {
    quick_->poll([&](Batch&, bool ended) { left -= ended ? 1 : 0; });
  }
  for (const Batch* batch : waiting) EXPECT_EQ(batch->reply(0).status, Status::not_found);
  batches.clear();
  for (const std::string& name : names_) EXPECT_EQ(get(name), Status::not_found) << name;
  device_.take_errors();
}

}  // namespace
}  // namespace isotherm::gpu_items_quick_test

// Journals that are damaged at any place, and repaired, by programs that are killed meanwhile.
#include "durability/journal_repair.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "durability/journal_lock.h"
#include "models/journal_fixture.h"

namespace isotherm::journal_repair_test {
namespace {

struct Killed {};

// Does so many calls, and then has the program end.
class KilledFiles final : public Files {
 public:
  explicit KilledFiles(int calls) : left_(calls) {}

  int open(const std::string& path) override { return its().open(path); }
  void close(int file) override { system_files().close(file); }
  int allocate(int file, uint64_t bytes) override { return its().allocate(file, bytes); }
  // The last one only in part.
  int64_t write(int file, const char* data, uint64_t bytes, uint64_t offset) override {
    return its().write(file, data, left_ == 0 ? bytes / 2 : bytes, offset);
  }
  int sync(int file) override { return its().sync(file); }
  bool has_name(int file) override { return system_files().has_name(file); }
  int rename(const std::string& from, const std::string& to) override {
    return its().rename(from, to);
  }
  int64_t copy(const std::string& from, const std::string& to) override {
    return its().copy(from, to);
  }
  int remove(const std::string& path) override { return its().remove(path); }
  int sync_folder(const std::string& path) override { return its().sync_folder(path); }
  int trim(int file, uint64_t offset) override { return its().trim(file, offset); }
  int64_t room(const std::string& of) override { return its().room(of); }

 private:
  Files& its() {
    if (left_-- == 0) throw Killed();
    return system_files();
  }
  int left_;
};

class JournalRepairTest : public JournalFixture {
 protected:
  using Files = std::map<std::string, std::string>;  // what a folder has, by name
  struct Block {
    size_t segment;
    size_t begin;
    size_t end;
    std::vector<const RecordHeader*> records;
  };

  // A journal of several segments, each change a block.
  void fill() {
    open();
    std::mt19937 random(3);
    for (int i = 0; i < 120; ++i) {
      const std::string key = "key" + std::to_string(random() % 40);
      ASSERT_EQ(put(key, std::string(100 + random() % 900, static_cast<char>('a' + i % 26))),
                Status::ok);
    }
    store.reset();
    whole_ = folder;
    for (const std::string& segment : segments()) texts_.push_back(read(segment));
    ASSERT_GE(texts_.size(), 4u);
    uint64_t lsn = 0;
    for (size_t i = 0; i < texts_.size(); ++i) {
      const uint64_t store_id = head(i).store;
      size_t at = sizeof(SegmentHeader);
      while (const BlockHeader* const block =
                 find_block(std::string_view(texts_[i]).substr(at), lsn, store_id)) {
        Block its{
            .segment = i, .begin = at, .end = at + sizeof *block + block->bytes, .records = {}};
        std::string_view body = block->body();
        while (const RecordHeader* const record = first_record(body)) {
          its.records.push_back(record);
          body.remove_prefix(record_bytes(record->key_bytes, record->value_bytes));
        }
        at = its.end;
        lsn = block->end_lsn();
        blocks_.push_back(std::move(its));
      }
    }
  }
  const SegmentHeader& head(size_t segment) const {
    return *reinterpret_cast<const SegmentHeader*>(texts_[segment].data());
  }
  // What is before the first block that `counts` does not have.
  template <class Counts>
  std::map<std::string, std::string> content_before(const Counts& counts) const {
    std::map<std::string, std::string> all;
    for (const Block& block : blocks_) {
      if (!counts(block)) break;
      for (const RecordHeader* const record : block.records) {
        if (record->op == RecordOp::put) all[std::string(record->key())] = record->value();
      }
    }
    return all;
  }
  std::map<std::string, std::string> content() {
    std::map<std::string, std::string> all;
    for (const auto& [key, its] : open().content()) all[key.second] = std::get<0>(its);
    store.reset();
    return all;
  }
  // The same without a store.
  std::map<std::string, std::string> records() const {
    std::map<std::string, std::string> all;
    JournalReader(folder, "test", 1).read([&](const RecordHeader& put, int64_t) {
      all[std::string(put.key())] = put.value();
    });
    return all;
  }
  void begin_with_whole() {
    folder = new_folder();
    std::filesystem::copy(whole_, folder, std::filesystem::copy_options::recursive);
  }
  void flip(size_t segment, size_t at) {
    const std::string its = path(std::to_string(segment + 1));
    std::string text = read(its);
    text[at] = static_cast<char>(text[at] ^ 1 << at % 8);
    write(its, text);
  }
  Files files_in(const std::string& its) const {
    Files all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(its)) {
      if (entry.is_regular_file()) all[entry.path().lexically_relative(its)] = read(entry.path());
    }
    return all;
  }
  std::string repair_error() {
    try {
      JournalRepair(folder, "test").run();
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return {};
  }

  std::string whole_;
  std::vector<std::string> texts_;
  std::vector<Block> blocks_;
};

TEST_F(JournalRepairTest, WhatIsBeforeTheDamageIsThereAndNothingElse) {
  fill();
  std::mt19937 random(5);
  for (int round = 0; round < 20; ++round) {
    begin_with_whole();
    std::vector<std::pair<size_t, size_t>> flips;
    for (uint32_t i = 0; i <= random() % 3; ++i) {
      const size_t segment = random() % texts_.size();
      const bool in_head = random() % 8 == 0;
      size_t used = sizeof(SegmentHeader);
      for (const Block& block : blocks_) used = block.segment == segment ? block.end : used;
      const size_t at = random() % (in_head ? sizeof(SegmentHeader) : used);
      const std::pair<size_t, size_t> one{segment, at};
      if (std::find(flips.begin(), flips.end(), one) != flips.end()) continue;
      flips.push_back(one);
      flip(segment, at);
    }
    const auto is_hit = [&](const Block& block) {
      return std::any_of(flips.begin(), flips.end(), [&](const auto& flip) {
        return flip.first == block.segment && flip.second >= block.begin && flip.second < block.end;
      });
    };
    const auto counts = [&](const Block& block) {
      const bool has_head = std::none_of(flips.begin(), flips.end(), [&](const auto& flip) {
        return flip.first == block.segment && flip.second < sizeof(SegmentHeader);
      });
      return has_head && !is_hit(block);
    };
    const auto expected = content_before(counts);
    const bool is_torn = refusal().empty();
    const Files before = files_in(folder);
    JournalRepair repair(folder, "test");
    EXPECT_EQ(repair.damage().empty(), is_torn);
    EXPECT_EQ(files_in(folder), before) << "a look";
    repair.run();
    EXPECT_EQ(refusal(), "");
    const JournalReader reader(folder, "test", 1);
    uint64_t readable = 0;
    for (const Block& block : blocks_) readable += is_hit(block) ? 0 : block.records.size();
    uint64_t left_out = 0;
    for (const JournalRepair::LeftOut& its : repair.left_out()) left_out += its.records;
    EXPECT_EQ(reader.records() + left_out, readable);
    const uint64_t last = blocks_.back().records.back()->version;
    EXPECT_TRUE(is_torn || reader.last_version() > last);
    EXPECT_EQ(repair_error(), "");
    EXPECT_EQ(content(), expected) << round;
    if (HasFailure()) break;
  }
}

TEST_F(JournalRepairTest, SegmentsThatAreMissingOrTruncated) {
  fill();
  const auto in_first_two = content_before([](const Block& block) { return block.segment < 2; });
  begin_with_whole();
  std::filesystem::remove(path("3"));
  {
    JournalRepair repair(folder, "test");
    EXPECT_EQ(repair.damage(), path("3") + " is missing");
    repair.run();
    ASSERT_EQ(repair.left_out().size(), texts_.size() - 3);
    EXPECT_EQ(repair.left_out().front().file, "test.4");
  }
  EXPECT_EQ(content(), in_first_two);
  open();
  ASSERT_EQ(put("later", "value"), Status::ok);
  EXPECT_EQ(content().size(), in_first_two.size() + 1) << "it goes on";
  begin_with_whole();
  const Block& cut = blocks_[blocks_.size() / 2];
  std::filesystem::resize_file(path(std::to_string(cut.segment + 1)), cut.end - 1);
  EXPECT_EQ(repair_error(), "");
  EXPECT_EQ(content(), content_before([&](const Block& block) { return &block < &cut; }));
  begin_with_whole();
  std::filesystem::remove(path("1"));
  EXPECT_EQ(repair_error(), "");
  EXPECT_TRUE(content().empty());
  // What an older manifest does not know.
  begin_with_whole();
  auto manifest = JournalFile(path("manifest")).manifest();
  manifest.last = 2;
  seal_header(manifest);
  write(path("manifest"), {reinterpret_cast<const char*>(&manifest), sizeof manifest});
  EXPECT_NE(refusal(), "");
  EXPECT_EQ(repair_error(), "");
  EXPECT_EQ(content(), in_first_two);
}

// Nothing is lost of what there was, however often it is killed.
TEST_F(JournalRepairTest, OneThatIsKilledAtAnyStepIsRunAgain) {
  fill();
  struct Damage {
    size_t segment;
    size_t at;
  };
  const Block& middle = blocks_[blocks_.size() / 2];
  const Block& late = *(blocks_.end() - 4);
  const Damage damages[] = {
      {middle.segment, middle.begin + 50}, {late.segment, late.begin + 50}, {0, 20}};
  for (const Damage& damage : damages) {
    const size_t segment = damage.segment;
    const size_t at = damage.at;
    const auto expected = content_before([&](const Block& block) {
      return block.segment < segment ||
             (block.segment == segment && at >= sizeof(SegmentHeader) && block.end <= at);
    });
    bool ended = false;
    for (int calls = 0; !ended; ++calls) {
      begin_with_whole();
      flip(segment, at);
      const Files before = files_in(folder);
      for (int again = 0; again < 2 && !ended; ++again) {
        KilledFiles killed(calls);
        try {
          JournalRepair(folder, "test", killed).run();
          ended = again == 0;
          break;
        } catch (const Killed&) {
        }
        EXPECT_TRUE(!refusal().empty() || records() == expected) << calls;
      }
      EXPECT_EQ(repair_error(), "");
      EXPECT_FALSE(std::filesystem::exists(path("damaged-2")));
      EXPECT_FALSE(std::filesystem::exists(path("damaged-1.unfinished")));
      for (size_t i = segment; i < texts_.size(); ++i) {
        const std::string name = "test." + std::to_string(i + 1);
        EXPECT_TRUE(read(path("damaged-1/" + name)) == before.at(name)) << name;
      }
      EXPECT_EQ(records(), expected) << calls;
      if (HasFailure()) return;
    }
  }
}

TEST_F(JournalRepairTest, FoldersOfTwoRepairsStay) {
  fill();
  begin_with_whole();
  const auto expected = content_before([](const Block& block) { return block.segment < 1; });
  flip(2, 100);
  EXPECT_EQ(repair_error(), "");
  const Files first = files_in(path("damaged-1"));
  flip(1, 20);
  EXPECT_EQ(repair_error(), "");
  EXPECT_EQ(files_in(path("damaged-1")), first);
  EXPECT_TRUE(files_in(path("damaged-2")).contains("test.2"));
  EXPECT_EQ(content(), expected);
}

TEST_F(JournalRepairTest, WhatCannotBeRepairedIsNotChanged) {
  fill();
  const auto expect_same = [&](const std::string& reason) {
    const Files before = files_in(folder);
    const std::string error = repair_error();
    EXPECT_TRUE(reason.empty() ? error.empty() : error.find(reason) != std::string::npos) << error;
    EXPECT_EQ(files_in(folder), before);
  };
  begin_with_whole();
  expect_same("");
  // A torn tail.
  flip(blocks_.back().segment, blocks_.back().begin + 20);
  expect_same("");
  // Behind a tree.
  begin_with_whole();
  auto manifest = JournalFile(path("manifest")).manifest();
  const auto write_manifest = [&] {
    seal_header(manifest);
    write(path("manifest"), {reinterpret_cast<const char*>(&manifest), sizeof manifest});
  };
  manifest.base = JournalBase::in_tree();
  write_manifest();
  expect_same("");
  flip(1, 100);
  expect_same("is in the files of a tree");
  // Without its base.
  manifest.base = {1, 5, 7, 100};
  write_manifest();
  expect_same("test.1.base is missing");
  write(path("1.base"), "REDIS");
  expect_same("the journal is nothing without this file");
  begin_with_whole();
  std::string text = read(path("manifest"));
  text[20] ^= 1;
  write(path("manifest"), text);
  expect_same("test.manifest is damaged in its header");
}

TEST_F(JournalRepairTest, AServersJournalIsLocked) {
  const JournalLock lock(folder, "test");
  EXPECT_THROW(JournalLock(folder, "test"), JournalError);
}

}  // namespace
}  // namespace isotherm::journal_repair_test

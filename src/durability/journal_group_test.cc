// What takes effect together is read again from the journal whole or not at all.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "durability/journal_reader.h"
#include "models/journal_fixture.h"

namespace isotherm::journal_group_test {
namespace {

using JournalGroupTest = JournalFixture;

// Several rows in a group are one block: a crash leaves all of them, or none.
TEST_F(JournalGroupTest, AGroupIsReadWholeOrNotAtAll) {
  open();
  put("before", "1");
  Worker worker(store->engine);
  Batch batch;
  constexpr std::string_view keys[] = {"abcde0", "abcde1", "abcde2", "abcde3", "abcde4"};
  for (const std::string_view key : keys) batch.put(key, "value");
  batch.group(0);
  worker.submit(batch);
  const std::string whole = read(segments().back());
  const std::string manifest = read(path("manifest"));
  const size_t end = whole.find_last_not_of('\0') + 1;
  for (size_t cut = end - 1; cut > end - 300; cut -= 31) {
    folder = new_folder();
    std::string torn = whole;
    std::fill(torn.begin() + static_cast<ptrdiff_t>(cut), torn.end(), '\0');
    write(path("1"), torn);
    write(path("manifest"), manifest);
    EXPECT_EQ(JournalReader(folder, "test", 1).records(), 1u) << "cut at " << cut;
  }
}

// So is a flush among them.
TEST_F(JournalGroupTest, AFlushIsInTheBlockOfItsGroup) {
  open();
  put("before", "1");
  Worker worker(store->engine);
  Batch batch;
  batch.put("first", "1");
  batch.flush(0, 1);
  batch.put("behind", "1");
  batch.group(0);
  worker.submit(batch);
  const std::string whole = read(segments().back());
  const std::string manifest = read(path("manifest"));
  const size_t end = whole.find_last_not_of('\0') + 1;
  for (size_t cut = end; cut > end - 150; cut -= 11) {
    folder = new_folder();
    std::string torn = whole;
    std::fill(torn.begin() + static_cast<ptrdiff_t>(cut), torn.end(), '\0');
    write(path("1"), torn);
    write(path("manifest"), manifest);
    std::string keys;
    JournalReader(folder, "test", 1).read([&](const RecordHeader& record, int64_t) {
      keys += record.key();
    });
    EXPECT_EQ(keys, cut == end ? "behind" : "before") << "cut at " << cut << " of " << end;
  }
}

}  // namespace
}  // namespace isotherm::journal_group_test

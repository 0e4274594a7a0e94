// What the host makes of the reports of parts: whether the next puts are expected to be of new
// keys.
#include "gpu/table/table_reports.h"

#include <gtest/gtest.h>

#include "fake_device/fake_device.h"
#include "gpu/platform/device_stream.h"

namespace isotherm::table_reports_test {
namespace {

class TableReportsTest : public ::testing::Test {
 protected:
  // A part ends and leaves the table with so many entries.
  void end_part(uint64_t rows, bool puts, uint64_t entries) {
    queue_part(rows, puts, entries);
    reports_.take_all();
  }
  void queue_part(uint64_t rows, bool puts, uint64_t entries) {
    *reports_.next() = {entries, 0, 0};
    reports_.expect(rows, puts, stream_.get());
  }

  FakeDevice device_{1, uint64_t{1} << 20};
  DeviceStream<FakeDevice> stream_{device_};
  TableReports<FakeDevice> reports_{device_};
};

TEST_F(TableReportsTest, KeysAreExpectedToBeNewUntilPutsWereNot) {
  EXPECT_TRUE(reports_.expects_new_keys());
  end_part(100, true, 100);
  EXPECT_TRUE(reports_.expects_new_keys());
  end_part(100, true, 100);
  EXPECT_FALSE(reports_.expects_new_keys());
  end_part(100, true, 150);
  EXPECT_FALSE(reports_.expects_new_keys());
  end_part(100, true, 245);
  EXPECT_TRUE(reports_.expects_new_keys());
}

TEST_F(TableReportsTest, OtherPartsSayNothingOfPuts) {
  end_part(100, true, 100);
  end_part(100, false, 100);
  EXPECT_TRUE(reports_.expects_new_keys());
  end_part(100, true, 100);
  end_part(100, false, 200);
  EXPECT_FALSE(reports_.expects_new_keys());
  // Nor do entries that came without a part count as the next part's.
  reports_.add(100, 0);
  end_part(100, true, 300);
  EXPECT_FALSE(reports_.expects_new_keys());
}

TEST_F(TableReportsTest, ThoseOfATableThatIsEmptyAgainAreNew) {
  end_part(100, true, 100);
  end_part(100, true, 100);
  EXPECT_FALSE(reports_.expects_new_keys());
  end_part(100, false, 0);
  EXPECT_TRUE(reports_.expects_new_keys());
  queue_part(100, true, 10);
  EXPECT_FALSE(reports_.expects_new_keys());  // it may have any number of entries by now
  reports_.take_all();
  EXPECT_FALSE(reports_.expects_new_keys());
}

TEST_F(TableReportsTest, EachPartIsJudgedByWhatItInsertedItself) {
  queue_part(100, true, 100);
  queue_part(100, true, 110);
  queue_part(10, true, 120);
  reports_.take_one();
  EXPECT_TRUE(reports_.expects_new_keys());
  reports_.take_one();
  EXPECT_FALSE(reports_.expects_new_keys());
  reports_.take_one();
  EXPECT_TRUE(reports_.expects_new_keys());
  EXPECT_EQ(reports_.known().entries, 120u);
}

}  // namespace
}  // namespace isotherm::table_reports_test

#include "gpu/items/split_direct_gets.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/items/item_hash.h"
#include "gpu/platform/device_error.h"

namespace isotherm::split_direct_gets_test {
namespace {

// Columns whose slots have what nobody would take for replies, and whose device fails on demand.
class FailingGets final : public DirectGets {
 public:
  explicit FailingGets(bool fails) : fails_(fails) {
    for (uint32_t row = 0; row < shape_.rows; ++row) put({1'000'000'000, 0}, row);
  }
  const DirectShape& shape() const override { return shape_; }
  const DirectColumns& columns() const override { return columns_; }
  void start(uint32_t rows) override {
    if (fails_) throw DeviceError("lost");
    for (uint32_t row = 0; row < rows; ++row) put({DirectHead::absent, 0}, row);
  }
  void post(uint32_t rows) override {
    posted_ = true;
    if (!fails_) start(rows);
  }
  bool done() override { return true; }
  // The failure is told once.
  void wait() override {
    if (std::exchange(posted_, false) && fails_) throw DeviceError("lost");
  }
  uint64_t pinned_bytes() const override { return slots_.size(); }

 private:
  void put(const DirectHead& head, uint32_t row) {
    std::memcpy(slots_.data() + row * shape_.stride, &head, sizeof head);
  }

  const DirectShape shape_{8, 64, 32};
  const bool fails_;
  bool posted_ = false;
  std::vector<uint32_t> key_ends_ = std::vector<uint32_t>(9);
  std::vector<char> keys_ = std::vector<char>(64);
  std::vector<char> slots_ = std::vector<char>(8 * 32);
  const DirectColumns columns_{key_ends_.data(), keys_.data(), slots_.data()};
};

// Whoever gives columns back waits for them once more.
TEST(SplitDirectGets, NoSlotIsReadThatADeviceHasNotFilled) {
  std::vector<std::unique_ptr<DirectGets>> parts;
  parts.push_back(std::make_unique<FailingGets>(false));
  parts.push_back(std::make_unique<FailingGets>(true));
  SplitDirectGets gets(std::move(parts), ItemHash());
  const std::string_view keys = "abcdefgh";
  std::memcpy(gets.columns().keys, keys.data(), keys.size());
  for (uint32_t row = 0; row < keys.size(); ++row) gets.columns().key_ends[row + 1] = row + 1;
  gets.post(8);
  EXPECT_THROW(gets.wait(), DeviceError);
  gets.wait();
  EXPECT_THROW(gets.start(8), DeviceError);
  gets.wait();
}

}  // namespace
}  // namespace isotherm::split_direct_gets_test

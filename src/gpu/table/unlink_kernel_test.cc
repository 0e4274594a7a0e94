// UnlinkKernel on chains made by hand: all shapes of up to 3 overflow lines, with holes anywhere.
#include "gpu/table/unlink_kernel.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "fake_device/fake_device_fixture.h"
#include "items/poison.h"

namespace isotherm::unlink_kernel_test {
namespace {

constexpr int line_bits = 3;
constexpr uint64_t homes = uint64_t{1} << line_bits;
constexpr uint64_t most_overflow = 3;
constexpr uint64_t per_segment = homes * (1 + most_overflow);

// The entries of a chain, and its overflow lines in order.
struct Contents {
  std::map<uint64_t, uint64_t> entries;
  std::vector<Bucket*> lines;
};

// Two segments, of hashes that begin with 0 and with 1 1, each with its overflow lines behind it.
class Chains : public FakeDeviceFixture {
 protected:
  void build(uint64_t seed) {
    random_.seed(seed);
    at_ = array<Bucket>(2 * per_segment);
    image_.assign(2 * per_segment, {});
    jobs_ = {{at_, 1, 0}, {at_ + per_segment, 2, uint64_t{3} << 62}};
    for (uint64_t home = 0; home < 2 * homes; ++home) fill(home);
    copy_image();
  }

  // What is on the device; a line that is met twice is a fault.
  std::vector<Contents> read() {
    image_ = download(at_, image_.size());
    std::vector<Contents> all;
    std::set<const Bucket*> met;
    for (uint64_t home = 0; home < 2 * homes; ++home) all.push_back(read_chain(home, met));
    return all;
  }

  void unlink(uint64_t seed) {
    counters_ = zeros<StockCounters>(1);
    returned_ = zeros<Bucket*>(2 * per_segment);
    TableView table;
    table.index.line_bits = line_bits;
    table.stock.counters = counters_;
    table.stock.returned = returned_;
    const UnlinkKernel kernel{table, upload(jobs_), static_cast<uint32_t>(jobs_.size())};
    run(1 + seed % 3, 32 << seed % 2, kernel);
  }
  std::multiset<Bucket*> returned() {
    const uint64_t count = download(counters_, 1)[0].returned;
    const std::vector<Bucket*> lines = download(returned_, count);
    return {lines.begin(), lines.end()};
  }

 private:
  const SegmentJob& job_of(uint64_t home) const { return jobs_[home / homes]; }
  uint64_t hash_of(uint64_t home) const {
    return job_of(home).hash_of_line(home % homes, line_bits);
  }
  Bucket* line_of(uint64_t home) const { return job_of(home).lines + home % homes; }
  Bucket& image_of(const Bucket* line) { return image_[static_cast<uint64_t>(line - at_)]; }

  void fill(uint64_t home) {
    const int free_bits = 64 - job_of(home).depth - line_bits;
    const uint64_t overflow = random_() % (most_overflow + 1);
    Bucket* line = line_of(home);
    Bucket* spare = job_of(home).lines + homes + home % homes * most_overflow;
    for (uint64_t i = 0; i <= overflow; ++i) {
      const uint64_t holes = random_() % 9;  // of 8 slots; 8: all
      for (Slot& slot : image_of(line).slot) {
        if (random_() % 8 < holes) continue;
        // Small ones look like marks but for the top bit.
        const uint64_t low = random_() % 4 == 0 ? 1 + random_() % 2 : 1 + (random_() >> 1);
        slot = {hash_of(home) | (low & ((uint64_t{1} << free_bits) - 1)), random_()};
        if (!hashes_.insert(slot.first).second || slot.first == 0) slot = {0, 0};
      }
      if (i < overflow) {
        image_of(line).slot[Bucket::last] = mark::make_link(spare, hash_of(home));
        line = spare++;
      }
    }
  }
  void copy_image() {
    ASSERT_TRUE(device.to_device(stream, at_, image_.data(), image_.size() * sizeof(Bucket)));
    ASSERT_TRUE(device.synchronize(stream));
  }

  Contents read_chain(uint64_t home, std::set<const Bucket*>& met) {
    Contents contents;
    for (const Bucket* line = line_of(home); line != nullptr;) {
      EXPECT_TRUE(met.insert(line).second);
      const Bucket* next = nullptr;
      for (const Slot& slot : image_of(line).slot) {
        if (slot.first == 0) continue;
        if (mark::is_mark(slot, hash_of(home))) {
          EXPECT_EQ(&slot, &image_of(line).slot[Bucket::last]);
          contents.lines.push_back(mark::link_target(slot));
          next = contents.lines.back();
        } else {
          EXPECT_TRUE(contents.entries.emplace(slot.first, slot.second).second);
        }
      }
      line = next;
    }
    return contents;
  }

  std::mt19937_64 random_;
  std::set<uint64_t> hashes_;
  Bucket* at_ = nullptr;
  std::vector<Bucket> image_;
  std::vector<SegmentJob> jobs_;
  StockCounters* counters_ = nullptr;
  Bucket** returned_ = nullptr;
};

uint64_t lines_needed(uint64_t entries) {
  return entries <= Bucket::slots ? 0 : (entries - Bucket::slots + Bucket::last - 1) / Bucket::last;
}

class UnlinkKernelTest : public Chains {
 protected:
  // Each chain has its entries, no line more than they need, and the others are returned once.
  void expect_closed_up(uint64_t seed) {
    build(seed);
    const std::vector<Contents> before = read();
    unlink(seed);
    const std::vector<Contents> after = read();
    std::multiset<Bucket*> left;
    for (uint64_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(after[i].entries, before[i].entries);
      EXPECT_EQ(after[i].lines.size(), lines_needed(before[i].entries.size()));
      left.insert(before[i].lines.begin(), before[i].lines.end());
      for (Bucket* line : after[i].lines) EXPECT_EQ(left.erase(line), 1u);
    }
    EXPECT_EQ(returned(), left);
    EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
  }
};

TEST_F(UnlinkKernelTest, ChainsKeepTheirEntriesAndNoLineTooMany) {
  for (uint64_t seed = 1; seed <= (poison::sanitized ? 100 : 1000); ++seed) {
    SCOPED_TRACE(seed);
    expect_closed_up(seed);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace isotherm::unlink_kernel_test

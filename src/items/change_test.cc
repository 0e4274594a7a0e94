// What one request makes of one item, with nothing around it.
#include "items/change.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <tuple>

#include "items/meta_request.h"
#include "items/meta_state.h"

namespace isotherm::change_test {
namespace {

constexpr int64_t now = 1'000;

// An item in memory of its own.
class OwnItem {
 public:
  OwnItem(const std::string& value, int64_t expiry = no_expiry, uint32_t flags = 0,
          uint64_t state = 0) {
    Item::Parts parts;
    parts.key = "key";
    parts.value_bytes = value.size();
    parts.expiry = expiry;
    parts.flags = flags;
    parts.state = state;
    memory_ = std::make_unique<std::max_align_t[]>(parts.bytes() / sizeof(std::max_align_t) + 1);
    item_ = Item::create(memory_.get(), parts);
    std::memcpy(item_->value_data(), value.data(), value.size());
    item_->set_version(7);
  }
  Item* get() { return item_; }

 private:
  std::unique_ptr<std::max_align_t[]> memory_;
  Item* item_;
};

class ChangeTest : public ::testing::Test {
 protected:
  static Request request(Op op, uint16_t options = 0) {
    return {op, options, 0, 0, "key", {}, 0, no_expiry};
  }
  Status plan_for(const Request& request, Item* old, uint64_t max_value_bytes = 1000) {
    plan_change(request, old, now, max_value_bytes, plan);
    return plan.status;
  }
  // The value that the plan stores.
  std::string stored() const {
    EXPECT_EQ(plan.action, Plan::Action::store);
    auto memory =
        std::make_unique<std::max_align_t[]>(plan.parts.bytes() / sizeof(std::max_align_t) + 1);
    Item* item = Item::create(memory.get(), plan.parts);
    plan.fill(item);
    EXPECT_EQ(item->key(), "key");
    return std::string(item->value());
  }
  // The text after adding `delta` to `text`.
  std::string added(const std::string& text, int64_t delta, uint16_t options = 0) {
    OwnItem old(text);
    Request add = request(Op::add, options);
    add.number = delta;
    return plan_for(add, old.get()) == Status::ok ? stored() : std::string(to_string(plan.status));
  }

  Plan plan;
};

constexpr int64_t most = std::numeric_limits<int64_t>::max();
constexpr int64_t least = std::numeric_limits<int64_t>::min();

// Over the old value, with anything behind it, as in a copy.
TEST_F(ChangeTest, PatchesLeadToTheSameInTheOldPlace) {
  const std::string value(100, 'v');
  OwnItem old(value);
  BitfieldStep step;
  step.kind = BitfieldStep::Kind::set;
  step.bits = 8;
  step.operand = 'b';
  for (const int64_t at : {0, 50, 99, 100, 101, 150}) {
    step.offset = static_cast<uint64_t>(at) * 8;
    Request requests[] = {request(Op::append), request(Op::set_range), request(Op::set_bit),
                          request(Op::bitfield)};
    requests[0].value = requests[1].value = "some";
    requests[1].number = at;
    requests[2].number = at * 8;
    requests[2].flags = 1;
    requests[3].value = {reinterpret_cast<const char*>(&step), sizeof step};
    for (const Request& one : requests) {
      ASSERT_EQ(plan_for(one, old.get()), Status::ok);
      if (plan.action == Plan::Action::keep) continue;
      EXPECT_TRUE(plan.patches());
      std::string patched = value + std::string(100, 'x');
      plan.patch(patched.data(), value.size());
      patched.resize(plan.parts.value_bytes);
      EXPECT_EQ(patched, stored()) << static_cast<int>(one.op) << " at " << at;
    }
  }
  Request prepend = request(Op::prepend);
  prepend.value = "some";
  ASSERT_EQ(plan_for(prepend, old.get()), Status::ok);
  EXPECT_FALSE(plan.patches());
}

TEST_F(ChangeTest, SignedAdd) {
  EXPECT_EQ(added("5", 7), "12");
  EXPECT_EQ(added("5", -7), "-2");
  EXPECT_EQ(added("-1", 1), "0");
  EXPECT_EQ(added("9223372036854775807", 0), "9223372036854775807");
  EXPECT_EQ(added("9223372036854775806", 1), "9223372036854775807");
  EXPECT_EQ(added("9223372036854775807", 1), "overflow");
  EXPECT_EQ(added("-9223372036854775808", -1), "overflow");
  EXPECT_EQ(added("-1", least), "overflow");
  EXPECT_EQ(added("0", least), "-9223372036854775808");
  EXPECT_EQ(added("-9223372036854775808", most), "-1");
  for (const char* text :
       {"", " 5", "5 ", "05", "+5", "-0", "-", "5.0", "0x5", "9223372036854775808",
        "-9223372036854775809", "99999999999999999999999", "five"}) {
    EXPECT_EQ(added(text, 1), "not an integer") << text;
  }
}

TEST_F(ChangeTest, CounterWrapsUpwardStopsAtZeroAndKeepsItsLength) {
  const uint16_t up = option::saturating;
  const uint16_t down = option::saturating | option::decrement;
  EXPECT_EQ(added("5", 7, up), "12");
  EXPECT_EQ(added("18446744073709551615", 1, up), "0" + std::string(19, ' '));
  EXPECT_EQ(added("18446744073709551615", -1, up), "18446744073709551614");  // as unsigned
  EXPECT_EQ(added("10", 1, down), "9 ");
  EXPECT_EQ(added("9 ", 1, down), "8 ");
  EXPECT_EQ(added("9 ", 3, up), "12");
  EXPECT_EQ(added("5", 6, down), "0");
  EXPECT_EQ(added("5", -1, down), "0");  // 2^64 - 1 is subtracted
  EXPECT_EQ(added("007", 1, up), "8  ");
  for (const char* text : {"", "x", "-1", "1x", "18446744073709551616"}) {
    EXPECT_EQ(added(text, 1, up), "not an integer") << text;
  }
}

TEST_F(ChangeTest, AddToNothingStartsAtZero) {
  Request add = request(Op::add);
  add.number = 5;
  EXPECT_EQ(plan_for(add, nullptr), Status::ok);
  EXPECT_EQ(stored(), "5");
  EXPECT_EQ(plan.number, 5);
  add.options = option::if_present;
  EXPECT_EQ(plan_for(add, nullptr), Status::not_found);
  EXPECT_EQ(plan.action, Plan::Action::keep);
}

TEST_F(ChangeTest, WhatIsReworkedKeepsFlagsAndExpiry) {
  OwnItem old("5", 2'000, 42);
  for (const Op op : {Op::add, Op::append, Op::prepend}) {
    Request rework = request(op);
    rework.number = 1;
    rework.value = "0";
    EXPECT_EQ(plan_for(rework, old.get()), Status::ok);
    EXPECT_EQ(plan.parts.expiry, 2'000);
    EXPECT_EQ(plan.parts.flags, 42u);
  }
  EXPECT_EQ(stored(), "05");
  EXPECT_EQ(plan.number, 2);
}

TEST_F(ChangeTest, PutReplacesFlagsAndExpiryUnlessAskedToKeepIt) {
  OwnItem old("5", 2'000, 42);
  Request put = request(Op::put);
  put.value = "new";
  put.flags = 1;
  EXPECT_EQ(plan_for(put, old.get()), Status::ok);
  EXPECT_EQ(stored(), "new");
  EXPECT_EQ(plan.parts.expiry, no_expiry);
  EXPECT_EQ(plan.parts.flags, 1u);
  put.options = option::keep_expiry;
  plan_for(put, old.get());
  EXPECT_EQ(plan.parts.expiry, 2'000);
  // An expiry that was taken away is none, though the item still has the field.
  old.get()->set_expiry(no_expiry);
  put.expiry = 5'000;
  plan_for(put, old.get());
  EXPECT_EQ(plan.parts.expiry, no_expiry);
  plan_for(put, nullptr);
  EXPECT_EQ(plan.parts.expiry, 5'000);
}

TEST_F(ChangeTest, ConditionsOfPutAndErase) {
  OwnItem old("5");
  struct Case {
    Op op;
    uint16_t options;
    int64_t number;
    bool present;
    Status expected;
  };
  const Case cases[] = {
      {Op::put, option::if_absent, 0, true, Status::condition_failed},
      {Op::put, option::if_absent, 0, false, Status::ok},
      {Op::put, option::if_present, 0, true, Status::ok},
      {Op::put, option::if_present, 0, false, Status::not_found},
      {Op::put, option::if_version, 7, true, Status::ok},
      {Op::put, option::if_version, 8, true, Status::condition_failed},
      {Op::put, option::if_version, 7, false, Status::not_found},
      {Op::erase, 0, 0, true, Status::ok},
      {Op::erase, 0, 0, false, Status::not_found},
      {Op::erase, option::if_version, 7, true, Status::ok},
      {Op::erase, option::if_version, 6, true, Status::condition_failed},
      {Op::append, option::if_present, 0, false, Status::not_found},
      {Op::append, 0, 0, false, Status::ok},
  };
  for (const Case& c : cases) {
    Request its = request(c.op, c.options);
    its.number = c.number;
    EXPECT_EQ(plan_for(its, c.present ? old.get() : nullptr), c.expected);
    if (c.expected != Status::ok) {
      EXPECT_EQ(plan.action, Plan::Action::keep);
    }
  }
}

TEST_F(ChangeTest, LengthsAreComparedBeforeAnythingElse) {
  OwnItem old(std::string(60, 'o'));
  const std::string value(41, 'v');
  Request its = request(Op::append);
  its.value = value;
  EXPECT_EQ(plan_for(its, old.get(), 100), Status::too_large);
  EXPECT_EQ(plan_for(its, old.get(), 101), Status::ok);
  its.op = Op::put;
  EXPECT_EQ(plan_for(its, old.get(), 40), Status::too_large);
  EXPECT_EQ(plan.action, Plan::Action::keep);
  EXPECT_EQ(plan_for(its, nullptr, 41), Status::ok);
  const std::string key(50, 'k');
  its.key = key;
  EXPECT_EQ(plan_for(its, nullptr, 49), Status::too_large);
  its.op = Op::get;
  EXPECT_EQ(plan_for(its, nullptr, 49), Status::not_found);
}

TEST_F(ChangeTest, ExpiryAndItsConditions) {
  OwnItem without("v");
  OwnItem with("v", 2'000);
  struct Case {
    uint16_t options;
    int64_t expiry;
    Item* old;
    Status status;
    Plan::Action action;
  };
  using A = Plan::Action;
  const Case cases[] = {
      {0, 3'000, nullptr, Status::not_found, A::keep},
      {0, 3'000, without.get(), Status::ok, A::store},
      {0, 3'000, with.get(), Status::ok, A::in_place},
      {0, no_expiry, with.get(), Status::ok, A::in_place},
      {0, no_expiry, without.get(), Status::ok, A::keep},
      {0, now, with.get(), Status::ok, A::erase},
      {0, -5, without.get(), Status::ok, A::erase},
      {option::expire_if_none, 3'000, with.get(), Status::condition_failed, A::keep},
      {option::expire_if_none, 3'000, without.get(), Status::ok, A::store},
      {option::expire_if_any, 3'000, without.get(), Status::condition_failed, A::keep},
      {option::expire_if_any, 3'000, with.get(), Status::ok, A::in_place},
      {option::expire_if_greater, 2'000, with.get(), Status::condition_failed, A::keep},
      {option::expire_if_greater, 2'001, with.get(), Status::ok, A::in_place},
      {option::expire_if_greater, 3'000, without.get(), Status::condition_failed, A::keep},
      {option::expire_if_less, 2'000, with.get(), Status::condition_failed, A::keep},
      {option::expire_if_less, 1'999, with.get(), Status::ok, A::in_place},
      {option::expire_if_less, 3'000, without.get(), Status::ok, A::store},
  };
  for (const Case& c : cases) {
    Request its = request(Op::expire, c.options);
    its.expiry = c.expiry;
    EXPECT_EQ(plan_for(its, c.old), c.status) << c.options << " " << c.expiry;
    EXPECT_EQ(plan.action, c.action) << c.options << " " << c.expiry;
  }
}

TEST_F(ChangeTest, AnUnknownOperationIsInvalid) {
  EXPECT_EQ(plan_for(request(static_cast<Op>(99)), nullptr), Status::invalid);
}

TEST_F(ChangeTest, AFieldOutOfItsLimitsIsInvalid) {
  for (const auto& [bits, is_signed, offset] : {std::tuple<uint8_t, bool, uint64_t>{0, false, 0},
                                                {64, false, 0},
                                                {65, true, 0},
                                                {8, false, uint64_t{1} << 60},
                                                {8, false, ~uint64_t{0}}}) {
    BitfieldStep step;
    step.kind = BitfieldStep::Kind::set;
    step.bits = bits;
    step.is_signed = is_signed;
    step.offset = offset;
    Request field = request(Op::bitfield);
    field.value = as_value({&step, 1});
    EXPECT_EQ(plan_for(field, nullptr), Status::invalid) << offset;
  }
}

TEST_F(ChangeTest, SetRangeWritesOverAndBehindTheValue) {
  const auto set = [&](Item* old, int64_t at, std::string_view value) {
    Request range = request(Op::set_range);
    range.number = at;
    range.value = value;
    return plan_for(range, old, 20) == Status::ok ? plan.number : -1;
  };
  OwnItem old("hello", 5'000, 3);
  EXPECT_EQ(set(old.get(), 1, "EL"), 5);
  EXPECT_EQ(stored(), "hELlo");
  EXPECT_EQ(plan.parts.expiry, 5'000);
  EXPECT_EQ(plan.parts.flags, 3u);
  EXPECT_EQ(set(old.get(), 4, "abc"), 7);
  EXPECT_EQ(stored(), "hellabc");
  EXPECT_EQ(set(old.get(), 7, "x"), 8);
  EXPECT_EQ(stored(), std::string("hello\0\0x", 8));
  EXPECT_EQ(set(nullptr, 2, "x"), 3);
  EXPECT_EQ(stored(), std::string("\0\0x", 3));
  EXPECT_EQ(set(old.get(), 100, ""), 5);
  EXPECT_EQ(plan.action, Plan::Action::keep);
  EXPECT_EQ(set(nullptr, 0, ""), 0);
  EXPECT_EQ(plan.action, Plan::Action::keep);
  EXPECT_EQ(set(old.get(), 19, "x"), 20);
  EXPECT_EQ(set(old.get(), 20, "x"), -1);
  EXPECT_EQ(set(old.get(), most, "x"), -1);
  EXPECT_EQ(set(old.get(), -1, "x"), -1);
  EXPECT_EQ(set(nullptr, -2, "xyz"), -1);
  EXPECT_EQ(plan.status, Status::too_large);
}

TEST_F(ChangeTest, SetBitTellsTheBitBefore) {
  const auto set = [&](Item* old, int64_t bit, uint32_t to) {
    Request one = request(Op::set_bit);
    one.number = bit;
    one.flags = to;
    return plan_for(one, old, 20) == Status::ok ? plan.number : -1;
  };
  OwnItem old("A");
  EXPECT_EQ(set(old.get(), 1, 0), 1);
  EXPECT_EQ(stored(), "\x01");
  EXPECT_EQ(set(old.get(), 6, 1), 0);
  EXPECT_EQ(stored(), "C");
  EXPECT_EQ(set(old.get(), 16, 1), 0);
  EXPECT_EQ(stored(), std::string("A\0\x80", 3));
  EXPECT_EQ(set(nullptr, 8, 0), 0);
  EXPECT_EQ(stored(), std::string("\0\0", 2));
  EXPECT_EQ(set(old.get(), 159, 1), 0);
  EXPECT_EQ(set(old.get(), 160, 1), -1);
  for (const uint32_t bit : {0u, 1u}) {
    EXPECT_EQ(set(old.get(), bit, bit), bit);
    EXPECT_EQ(plan.action, Plan::Action::keep);
  }
}

TEST_F(ChangeTest, BitfieldStoresOnlyWhereItWrites) {
  BitfieldStep steps[2];
  steps[0].bits = steps[1].bits = 8;
  Request fields = request(Op::bitfield);
  fields.value = as_value(steps);
  OwnItem old("A");
  EXPECT_EQ(plan_for(fields, old.get()), Status::ok);
  EXPECT_EQ(plan.action, Plan::Action::keep);
  EXPECT_EQ(steps[0].result, 'A');
  steps[1].kind = BitfieldStep::Kind::add;
  steps[1].offset = 8;
  steps[1].operand = 'B';
  EXPECT_EQ(plan_for(fields, old.get()), Status::ok);
  EXPECT_EQ(stored(), "AB");
  EXPECT_EQ(steps[1].result, 'B');
  EXPECT_EQ(plan_for(fields, nullptr, 1), Status::too_large);
}

TEST_F(ChangeTest, BitfieldStoresNothingThatIsSoAlready) {
  BitfieldStep steps[3];
  for (BitfieldStep& step : steps) step.bits = 8;
  steps[0].kind = BitfieldStep::Kind::set;
  steps[0].operand = 'A';
  steps[1].kind = BitfieldStep::Kind::add;
  steps[1].offset = 8;
  steps[1].operand = 1'000;
  steps[1].overflow = BitfieldStep::Overflow::fail;
  Request fields = request(Op::bitfield);
  fields.value = as_value(steps);
  OwnItem old("AB");
  EXPECT_EQ(plan_for(fields, old.get()), Status::ok);
  EXPECT_EQ(plan.action, Plan::Action::keep);
  EXPECT_EQ(steps[0].result, 'A');
  EXPECT_FALSE(steps[1].stored);
  OwnItem shorter("A");
  EXPECT_EQ(plan_for(fields, shorter.get()), Status::ok);
  EXPECT_EQ(stored(), std::string("A\0", 2));
  steps[2].kind = BitfieldStep::Kind::add;
  steps[2].operand = -1;
  EXPECT_EQ(plan_for(fields, old.get()), Status::ok);
  EXPECT_EQ(stored(), "@B");
  EXPECT_EQ(steps[2].result, '@');
}

TEST_F(ChangeTest, FloatsAddUp) {
  const auto add = [&](const std::string& text, std::string_view delta) {
    OwnItem old(text, 5'000);
    Request fraction = request(Op::add_float);
    fraction.value = delta;
    const Status status = plan_for(fraction, old.get());
    EXPECT_TRUE(status != Status::ok || plan.parts.expiry == 5'000);
    return status == Status::ok ? stored() : std::string(to_string(status));
  };
  EXPECT_EQ(add("1.5", "1e1"), "11.5");
  EXPECT_EQ(add("x", "1"), "not a float");
  EXPECT_EQ(add("1", ""), "not a float");
  EXPECT_EQ(add("1", "inf"), "not finite");
  EXPECT_EQ(add("1.18e4932", "1.18e4932"), "not finite");
}

TEST_F(ChangeTest, ACancelledRowDoesNothing) {
  OwnItem old("v");
  EXPECT_EQ(plan_for(request(Op::none), old.get()), Status::not_found);
  EXPECT_EQ(plan.action, Plan::Action::keep);
}

// Else two clients are told that they are to bring a new value.
TEST_F(ChangeTest, AnOldValueThatTakesAStaleItemsPlaceKeepsWhoHasWonIt) {
  OwnItem old("old", no_expiry, 0, MetaState::fresh(now) | MetaState::stale);
  MetaRequest meta;
  meta.kind = MetaRequest::Kind::store;
  meta.checks_version = meta.may_store_stale = true;
  meta.version = 6;
  Request store = request(Op::meta);
  store.value = "older";
  store.number = static_cast<int64_t>(reinterpret_cast<uintptr_t>(&meta));
  EXPECT_EQ(plan_for(store, old.get()), Status::ok);
  EXPECT_EQ(stored(), "older");
  // It is planned anew where somebody wins the item in between.
  EXPECT_TRUE(plan.token_decides);
  EXPECT_FALSE(plan.token_seen);
  old.get()->set_state(old.get()->state() | MetaState::token_sent);
  EXPECT_EQ(plan_for(store, old.get()), Status::ok);
  EXPECT_TRUE(plan.token_seen);
  EXPECT_TRUE(MetaState::has_token(plan.parts.state));
}

}  // namespace
}  // namespace isotherm::change_test

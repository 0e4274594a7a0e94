// History: random batches of every operation and option, each answer checked against a StoreModel;
// for tests.
//
// The subject is anything that runs a batch. Where it may evict, absence is allowed: a request that
// was answered as if its key were absent is checked against that. Where it has a cap, out_of_memory
// is allowed for what stores.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "models/store_model.h"

namespace isotherm {

class History {
 public:
  struct Setup {
    uint64_t seed = 1;
    uint64_t keys = 50;
    std::string prefix = "key";
    uint32_t databases = 1;
    uint64_t rows = 200;  // of a batch, at most
    uint64_t max_value_bytes = 64 << 10;
    uint64_t longest_value = 300;  // of most
    bool may_evict = false;
    bool has_cap = false;
  };

  explicit History(const Setup& setup)
      : setup_(setup), random_(setup.seed), model_(setup.max_value_bytes) {}

  // One batch: filled, run by `submit`, checked. `submit` may be called once only.
  void step(int64_t now_ms, const std::function<void(Batch&)>& submit) {
    std::vector<StoreModel::Request> requests(1 + random_() % setup_.rows);
    for (StoreModel::Request& request : requests) request = draw(now_ms);
    append(requests);
    submit(batch_);
    for (Batch::Row row = 0; row < batch_.size() && !::testing::Test::HasFatalFailure(); ++row) {
      check(requests[row], batch_.reply(row), now_ms);
    }
    batch_.clear();
  }

  // Reads all keys that may exist.
  void check_all(int64_t now_ms, const std::function<void(Batch&)>& submit) {
    std::vector<StoreModel::Request> requests;
    for (uint32_t database = 0; database < setup_.databases; ++database) {
      for (uint64_t i = 0; i < setup_.keys; ++i) {
        requests.push_back({Op::get, 0, {database, key(i)}, "", 0, 0, 0});
      }
    }
    append(requests);
    submit(batch_);
    for (Batch::Row row = 0; row < batch_.size() && !::testing::Test::HasFatalFailure(); ++row) {
      check(requests[row], batch_.reply(row), now_ms);
    }
    batch_.clear();
  }

  StoreModel& model() { return model_; }
  uint64_t absences() const { return absences_; }
  uint64_t refusals() const { return refusals_; }

 private:
  std::string key(uint64_t number) const {
    // Of different lengths, with a zero byte, and the empty one.
    if (number == 0) return setup_.prefix == "key" ? "" : setup_.prefix;
    return setup_.prefix + std::string(number % 30, '\0') + std::to_string(number);
  }

  std::string draw_value() {
    static const char* const numbers[] = {"0",
                                          "7",
                                          "-7",
                                          "007",
                                          " 12",
                                          "12 ",
                                          "12 ab",
                                          "-0",
                                          "+3",
                                          "abc",
                                          "",
                                          "1x",
                                          "99",
                                          "100",
                                          "9223372036854775807",
                                          "9223372036854775808",
                                          "-9223372036854775808",
                                          "18446744073709551615",
                                          "-18446744073709551615",
                                          "18446744073709551616",
                                          "000000000000000000001",
                                          "00000000000000000001"};
    switch (random_() % 8) {
      case 0:
      case 1:
      case 2:
        return numbers[random_() % std::size(numbers)];
      case 3:
        return std::to_string(random_() % 1000);
      case 4:
        if (random_() % 8 == 0) return std::string(random_() % (setup_.max_value_bytes + 100), 'L');
        [[fallthrough]];
      default: {
        std::string value(random_() % (setup_.longest_value + 1), ' ');
        for (char& c : value) c = static_cast<char>(random_());
        return value;
      }
    }
  }

  int64_t draw_expiry(int64_t now_ms) {
    if (random_() % 2 == 0) return no_expiry;
    return now_ms - 5 + static_cast<int64_t>(random_() % 200);
  }

  int64_t draw_number() {
    switch (random_() % 4) {
      case 0:
        return std::numeric_limits<int64_t>::max();
      case 1:
        return std::numeric_limits<int64_t>::min();
      default:
        return static_cast<int64_t>(random_() % 2001) - 1000;
    }
  }

  StoreModel::Request draw(int64_t now_ms) {
    StoreModel::Request request;
    const auto maybe = [&](uint16_t option, uint64_t one_in) {
      if (random_() % one_in == 0) request.options |= option;
    };
    request.key = {static_cast<uint32_t>(random_() % setup_.databases),
                   key(random_() % setup_.keys)};
    static constexpr Op drawn[] = {
        Op::get,     Op::get,    Op::put,    Op::put,       Op::erase,   Op::add,       Op::append,
        Op::prepend, Op::expire, Op::expire, Op::set_range, Op::set_bit, Op::add_float, Op::none};
    request.op = drawn[random_() % std::size(drawn)];
    switch (request.op) {
      case Op::get:
        maybe(option::no_touch, 4);
        break;
      case Op::put:
        request.value = draw_value();
        request.expiry = draw_expiry(now_ms);
        request.flags = random_() % 2 == 0 ? 0 : static_cast<uint32_t>(random_());
        maybe(option::if_absent, 6);
        maybe(option::if_present, 6);
        maybe(option::keep_expiry, 4);
        [[fallthrough]];
      case Op::erase:
        maybe(option::want_previous, 3);
        maybe(option::if_version, 6);
        if (request.has(option::if_version)) request.number = draw_version(request.key, now_ms);
        break;
      case Op::add:
        request.number = draw_number();
        maybe(option::saturating, 2);
        maybe(option::decrement, 2);
        maybe(option::if_present, 4);
        break;
      case Op::append:
      case Op::prepend:
        request.value = draw_value();
        maybe(option::if_present, 4);
        break;
      case Op::expire:
        request.expiry = draw_expiry(now_ms);
        maybe(option::expire_if_none, 6);
        maybe(option::expire_if_any, 6);
        if (request.expiry != no_expiry) {
          maybe(option::expire_if_greater, 6);
          maybe(option::expire_if_less, 6);
        }
        break;
      case Op::set_range:
        if (random_() % 8 != 0) request.value = draw_value();
        request.number = static_cast<int64_t>(random_() % (setup_.longest_value + 10));
        break;
      case Op::set_bit:
        request.number = static_cast<int64_t>(random_() % (8 * setup_.longest_value + 80));
        request.flags = random_() % 2;
        break;
      case Op::add_float: {
        static constexpr const char* deltas[] = {"1.5", "-0.25", "3", "1e3", "x", "1e-3"};
        request.value = deltas[random_() % std::size(deltas)];
        break;
      }
      case Op::bitfield:
      case Op::flush:
      case Op::call:
      case Op::put_object:
      case Op::walk:
      case Op::meta:
      case Op::none:
        break;
    }
    // What depends on the value before must tell whether there was one.
    const bool reworks = request.op == Op::add || request.op == Op::append ||
                         request.op == Op::prepend || request.op == Op::set_range ||
                         request.op == Op::set_bit || request.op == Op::add_float;
    if (reworks && setup_.may_evict) request.options |= option::if_present;
    return request;
  }

  // As of the last batch: right only where nothing in this one writes the key before.
  int64_t draw_version(const StoreModel::Key& key, int64_t now_ms) {
    const StoreModel::Entry* entry = model_.find(key, now_ms);
    return static_cast<int64_t>(entry == nullptr ? random_() % 100
                                                 : entry->version + (random_() % 4 == 0));
  }

  void append(const std::vector<StoreModel::Request>& requests) {
    for (const StoreModel::Request& r : requests) {
      const std::string& key = r.key.second;
      batch_.select(r.key.first);
      switch (r.op) {
        case Op::get:
          batch_.get(key, r.options);
          break;
        case Op::put:
          batch_.put(key, r.value, r.options, r.expiry, r.flags, static_cast<uint64_t>(r.number));
          break;
        case Op::erase:
          batch_.erase(key, r.options, static_cast<uint64_t>(r.number));
          break;
        case Op::add:
          batch_.add(key, r.number, r.options);
          break;
        case Op::append:
          batch_.append(key, r.value, r.options);
          break;
        case Op::prepend:
          batch_.prepend(key, r.value, r.options);
          break;
        case Op::expire:
          batch_.expire(key, r.expiry, r.options);
          break;
        case Op::set_range:
          batch_.set_range(key, r.number, r.value, r.options);
          break;
        case Op::set_bit:
          batch_.set_bit(key, r.number, r.flags != 0, r.options);
          break;
        case Op::add_float:
          batch_.add_float(key, r.value, r.options);
          break;
        case Op::bitfield:
        case Op::flush:
        case Op::call:
        case Op::put_object:
        case Op::walk:
        case Op::meta:
        case Op::none: {
          const Batch::Row row = batch_.get(key);
          batch_.cancel(row, row + 1);
          break;
        }
      }
    }
  }

  static bool agrees(const StoreModel::Request& request, const StoreModel::Answer& answer,
                     const Reply& reply) {
    if (reply.status != answer.status) return false;
    if (answer.status == Status::ok && reply.number != answer.number) return false;
    if (answer.writes && reply.expiry != answer.expiry) return false;
    if (!answer.shown) return reply.data == nullptr;
    if (reply.data == nullptr) return false;
    const StoreModel::Entry& shown = *answer.shown;
    const bool reads = request.op == Op::get || request.op == Op::expire;
    if (reads && reply.version != shown.version) return false;
    if (request.op == Op::get && reply.expiry != shown.expiry) return false;
    return reply.value() == shown.value && reply.flags == shown.flags &&
           reply.type == ValueType::string;
  }

  static std::string describe(const StoreModel::Request& request, const StoreModel::Answer& answer,
                              const Reply& reply, int64_t now_ms) {
    std::ostringstream text;
    text << "op " << static_cast<int>(request.op) << " options " << request.options << " key '"
         << request.key.second << "' number " << request.number << " expiry " << request.expiry
         << " at " << now_ms << ": got " << to_string(reply.status) << " (" << reply.number << ", '"
         << reply.value().substr(0, 40) << "'), expected " << to_string(answer.status) << " ("
         << answer.number << ", '" << (answer.shown ? answer.shown->value.substr(0, 40) : "-")
         << "')";
    return text.str();
  }

  void check(const StoreModel::Request& request, const Reply& reply, int64_t now_ms) {
    const bool refused = reply.status == Status::out_of_memory && setup_.has_cap;
    const auto before = refused ? model_.entry(request.key) : std::nullopt;
    StoreModel::Answer answer = model_.expect(request, now_ms);
    if (setup_.may_evict && !(refused ? answer.stores : agrees(request, answer, reply))) {
      // Was it evicted?
      model_.forget(request.key);
      answer = model_.expect(request, now_ms);
      ++absences_;
    }
    if (refused) {
      ASSERT_TRUE(answer.stores) << describe(request, answer, reply, now_ms);
      model_.restore(request.key, before);
      ++refusals_;
      return;
    }
    ASSERT_TRUE(agrees(request, answer, reply)) << describe(request, answer, reply, now_ms);
    if (!answer.writes) return;
    uint64_t& last = versions_[request.key];
    ASSERT_GT(reply.version, last);
    last = reply.version;
    if (StoreModel::Entry* entry = model_.find(request.key, std::numeric_limits<int64_t>::min())) {
      entry->version = reply.version;
    }
  }

  const Setup setup_;
  std::mt19937_64 random_;
  StoreModel model_;
  Batch batch_;
  StoreModel::KeyMap<uint64_t> versions_;  // the last that a write gave
  uint64_t absences_ = 0;
  uint64_t refusals_ = 0;
};

}  // namespace isotherm

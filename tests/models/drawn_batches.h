// DrawnBatches: random batches of all kinds of rows, with groups, guards, views and flushes, of few
// keys, so that rows of a key stand at all distances; for tests.
//
// Keys of many pools lie in one line of the index, or have the same of the host executor's marks of
// late writes (executor/host/host_stages.h). Versions are of those that a test has noted.
//
// Threads. One.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "isotherm/batch.h"
#include "items/meta_request.h"
#include "models/pile.h"

namespace isotherm {

class DrawnBatches {
 public:
  static constexpr uint32_t databases = 3;
  static constexpr uint64_t hash_seed = 5;
  static constexpr int64_t second_ms = 1000;

  struct Setup {
    uint64_t seed = 1;
    bool has_objects = true;
    bool grows = false;    // puts of new keys, all the time
    bool spreads = false;  // the keys, as an index of a fixed size needs them
  };

  // A version of a key as the two engines have it.
  struct Version {
    uint64_t of_batch = 0;
    uint64_t of_row = 0;
  };

  struct Row {
    enum class Kind : uint8_t { plain, meta, call, put_object, flush };

    Kind kind = Kind::plain;
    Op op = Op::get;
    uint16_t options = 0;
    uint32_t database = 0;
    std::string key = {};
    std::string value = {};
    int64_t number = 0;  // flush: the last database and one
    int64_t expiry = no_expiry;
    uint32_t flags = 0;
    Version version = {};
    const ObjectFunction* function = nullptr;
    MetaRequest meta = {};
    bool cancelled = false;
  };

  struct Guard {
    enum class Kind : uint8_t { unless_absent, unless_unchanged, copies, compares };

    Kind kind;
    Batch::Row row;   // before which it stands
    Batch::Row from;  // the gets that it looks at
    Batch::Row end;   // of its group
    bool everywhere;  // looks at all rows, as far as the engine knows
  };

  struct Plan {
    std::vector<Row> rows;
    std::vector<Guard> guards;
    std::vector<Batch::Span> groups;
    std::vector<Batch::Span> views;
  };

  using Key = std::pair<uint32_t, std::string>;

  explicit DrawnBatches(const Setup& setup) : setup_(setup), random_(setup.seed) { draw_keys(); }

  Plan draw(int64_t now_ms) {
    now_ms_ = now_ms;
    static constexpr uint64_t reads[] = {20, 50, 80, 95, 97};
    favourite_database_ = static_cast<uint32_t>(below(databases));
    favourite_key_ = below(keys_.size());
    read_share_ = reads[below(std::size(reads))];
    const uint64_t most = one_in(4) ? 1 + below(3) : one_in(10) ? 400 : 1 + below(100);
    const bool groups = one_in(3);
    const bool flushes = one_in(4);
    // Rows that change nothing before the first write, which is of the key that is asked for most.
    const uint64_t quiet = one_in(2) ? 1 + below(40) : 0;
    // Behind it reads: of other keys first, since a read that has to look its key up again renews
    // the mark of a late write, and then of this one, further than an executor looks ahead.
    const uint64_t echoes = quiet != 0 && one_in(2) ? quiet + 40 : 0;
    Plan plan;
    while (plan.rows.size() < std::max(most, echoes)) {
      if (plan.rows.size() < quiet) {
        plan.rows.push_back(draw_get());
        if (plan.rows.size() == quiet) plan.rows.push_back(first_write());
      } else if (plan.rows.size() < echoes) {
        plan.rows.push_back(favourite(Op::get));
        if (plan.rows.size() < quiet + 17 || one_in(2)) plan.rows.back().key = "nowhere";
      } else if (groups && one_in(15)) {
        draw_group(plan);
      } else if (groups && one_in(20)) {
        const auto first = static_cast<Batch::Row>(plan.rows.size());
        for (uint64_t gets = 2 + below(4); gets != 0; --gets) plan.rows.push_back(draw_get());
        plan.views.push_back({first, static_cast<Batch::Row>(plan.rows.size())});
      } else if (flushes && one_in(40)) {
        Row row{.kind = Row::Kind::flush, .op = Op::flush};
        row.database = static_cast<uint32_t>(below(databases));
        row.number = one_in(3) ? databases : row.database + 1;
        plan.rows.push_back(row);
      } else if (setup_.grows && one_in(3)) {
        add_fillers(plan, below(60));
      } else {
        plan.rows.push_back(draw_row());
      }
    }
    return plan;
  }

  void add_fillers(Plan& plan, uint64_t puts) {
    for (; puts != 0; --puts) {
      Row row{.op = Op::put, .value = "fills"};
      row.key = "filler" + std::to_string(fillers_++);
      plan.rows.push_back(row);
    }
  }
  void note(const Key& key, Version version) { known_[key].push_back(version); }
  const std::vector<std::string>& keys() const { return keys_; }
  uint64_t below(uint64_t end) { return random_() % end; }
  bool one_in(uint64_t times) { return below(times) == 0; }

 private:
  static constexpr uint64_t of_line = 12;

  // A few keys, of different lengths, or all of one line of the index and with the same of the
  // executor's marks of late writes.
  void draw_keys() {
    keys_.clear();
    const uint64_t count = one_in(3) ? 1 + below(4) : 4 + below(60);
    if (!setup_.spreads && one_in(3)) {
      keys_.assign(alike().begin(), alike().begin() + std::min(count, alike().size()));
      return;
    }
    for (uint64_t i = 0; i < count; ++i) {
      keys_.push_back(i == 3 ? "" : std::string(below(40), 'k') + std::to_string(i));
    }
  }
  static const std::vector<std::string>& alike() {
    static const std::vector<std::string> keys = [] {
      std::vector<std::string> found;
      const uint64_t like = hash_bytes("0", hash_seed);
      for (uint64_t i = 0; found.size() < 2 * of_line; ++i) {
        std::string key = std::to_string(i);
        const uint64_t hash = hash_bytes(key, hash_seed);
        const bool of_line = hash >> 52 == like >> 52;
        const bool of_mark = (hash >> 32) % 64 == (like >> 32) % 64 && hash >> 60 == like >> 60;
        if (found.size() < of_line ? of_line : of_mark) found.push_back(std::move(key));
      }
      return found;
    }();
    return keys;
  }

  std::string draw_value() {
    static constexpr size_t sizes[] = {0, 1, 7, 16, 30, 40, 64, 100, 300, 1000, 5000, 100'000};
    if (one_in(3)) return std::to_string(below(1000));
    if (one_in(8)) return "1.5";
    const size_t size = sizes[below(one_in(20) ? std::size(sizes) : 9)];
    return std::string(size, static_cast<char>('a' + below(26)));
  }
  int64_t draw_expiry() {
    return one_in(2) ? no_expiry : now_ms_ - 5 + static_cast<int64_t>(below(100));
  }
  // Mostly one that some write of the key got, often the last.
  Version draw_version(const Row& row) {
    const auto at = known_.find({row.database, row.key});
    if (at == known_.end() || one_in(8)) return {~uint64_t{0} >> 1, ~uint64_t{0} >> 1};
    const std::vector<Version>& all = at->second;
    return one_in(3) ? all[below(all.size())] : all.back();
  }

  Row draw_place() {
    Row row;
    row.database = one_in(3) ? static_cast<uint32_t>(below(databases)) : favourite_database_;
    row.key = one_in(3) ? keys_[favourite_key_] : keys_[below(keys_.size())];
    return row;
  }
  Row draw_get() {
    Row row = draw_place();
    const auto maybe = [&](uint16_t option, uint64_t times) {
      if (one_in(times)) row.options |= option;
    };
    maybe(option::no_touch, 4);
    maybe(option::any_type, 2);
    maybe(option::no_value, 8);
    maybe(option::with_state, 8);
    return row;
  }
  Row draw_write() {
    Row row = draw_place();
    const auto maybe = [&](uint16_t option, uint64_t times) {
      if (one_in(times)) row.options |= option;
    };
    row.value = draw_value();
    row.version = draw_version(row);
    const uint64_t kind = below(setup_.has_objects ? 28 : 22);
    if (kind >= 25) {
      row.kind = Row::Kind::put_object;
      row.op = Op::put_object;
      row.value = "7";
      row.expiry = draw_expiry();
      maybe(option::if_absent, 4);
      maybe(option::if_present, 4);
      return row;
    }
    if (kind >= 22) {
      static constexpr const ObjectFunction* functions[] = {
          &pile::push,  &pile::push,   &pile::push_there, &pile::pop,  &pile::pop,
          &pile::count, &pile::refuse, &pile::size,       &pile::text, &pile::other};
      row.kind = Row::Kind::call;
      row.op = Op::call;
      row.function = functions[below(std::size(functions))];
      // Numbers, so that they can be counted on.
      row.value = std::to_string(below(100));
      return row;
    }
    if (kind >= 20) {
      draw_meta(row);
      return row;
    }
    static constexpr Op ops[] = {Op::put,    Op::put,    Op::put,       Op::put,     Op::put,
                                 Op::put,    Op::erase,  Op::erase,     Op::erase,   Op::add,
                                 Op::add,    Op::append, Op::append,    Op::prepend, Op::expire,
                                 Op::expire, Op::expire, Op::set_range, Op::set_bit, Op::add_float};
    row.op = ops[kind];
    switch (row.op) {
      case Op::put:
        if (one_in(2)) return row;
        row.expiry = draw_expiry();
        row.flags = one_in(2) ? 0 : static_cast<uint32_t>(random_());
        maybe(option::if_absent, 4);
        maybe(option::if_present, 6);
        maybe(option::keep_expiry, 4);
        [[fallthrough]];
      case Op::erase:
        maybe(option::want_previous, 3);
        maybe(option::if_version, 4);
        break;
      case Op::add:
        row.number = static_cast<int64_t>(below(100)) - 50;
        maybe(option::saturating, 2);
        maybe(option::decrement, 2);
        maybe(option::if_present, 4);
        break;
      case Op::expire:
        row.options |= option::over_cap;
        row.expiry = draw_expiry();
        maybe(option::any_type, 2);
        maybe(option::expire_if_none, 6);
        maybe(option::expire_if_any, 6);
        if (row.expiry != no_expiry) maybe(option::expire_if_greater, 6);
        break;
      case Op::set_range:
        row.number = static_cast<int64_t>(below(100));
        break;
      case Op::set_bit:
        row.number = static_cast<int64_t>(below(1000));
        row.flags = static_cast<uint32_t>(below(2));
        break;
      case Op::add_float:
        row.value = "0.5";
        break;
      default:
        maybe(option::if_present, 4);
        break;
    }
    row.cancelled = one_in(40);
    return row;
  }
  void draw_meta(Row& row) {
    row.kind = Row::Kind::meta;
    row.op = Op::meta;
    row.expiry = draw_expiry();
    using enum MetaRequest::Kind;
    MetaRequest& meta = row.meta;
    meta.kind = static_cast<MetaRequest::Kind>(below(6));
    meta.mode = static_cast<MetaRequest::Mode>(below(5));
    meta.counts_use = !one_in(4);
    meta.sets_expiry = one_in(3);
    meta.expiry_first = meta.kind == get && one_in(2);
    meta.vivifies = (meta.kind == get || meta.kind == arithmetic) && one_in(3);
    meta.vivify_expiry = draw_expiry();
    meta.recaches = meta.kind == get && one_in(3);
    meta.recache_before = now_ms_ + second_ms + 50;
    meta.checks_version = meta.kind != get && one_in(3);
    meta.may_store_stale = meta.kind == store && one_in(2);
    meta.decrements = one_in(2);
    meta.delta = below(10);
    meta.initial = below(100);
  }
  Row draw_row() { return below(100) < read_share_ ? draw_get() : draw_write(); }

  // Gets, a guard and the rows behind it, of which there may be more with a guard.
  void draw_group(Plan& plan) {
    const auto first = static_cast<Batch::Row>(plan.rows.size());
    const size_t first_guard = plan.guards.size();
    for (uint64_t part = 1 + below(2); part != 0; --part) {
      Guard guard{static_cast<Guard::Kind>(below(4)), 0, static_cast<Batch::Row>(plan.rows.size()),
                  0, one_in(6)};
      for (uint64_t gets = 1 + below(3); gets != 0; --gets) {
        plan.rows.push_back(draw_get());
        plan.rows.back().options &= option::any_type | option::no_touch;
        plan.rows.back().version = one_in(3) ? Version{} : draw_version(plan.rows.back());
      }
      guard.row = static_cast<Batch::Row>(plan.rows.size());
      Row behind = draw_write();
      if (guard.kind == Guard::Kind::copies || guard.kind == Guard::Kind::compares) {
        const bool compares = guard.kind == Guard::Kind::compares;
        const Row& get = plan.rows[guard.from];
        behind = Row{.op = Op::put, .database = get.database, .key = get.key, .value = "compared"};
        if (compares) behind.options = option::if_version;
        if (!compares && one_in(2)) behind.key = keys_[below(keys_.size())];
        if (!compares && one_in(2)) behind.op = Op::append;
        // What it looks at may stand before its group.
        if (guard.everywhere && !compares) guard.from = static_cast<Batch::Row>(below(guard.row));
      }
      plan.rows.push_back(std::move(behind));
      for (uint64_t more = below(4); more != 0; --more) plan.rows.push_back(draw_row());
      plan.guards.push_back(guard);
    }
    const auto end = static_cast<Batch::Row>(plan.rows.size());
    for (size_t i = first_guard; i < plan.guards.size(); ++i) plan.guards[i].end = end;
    plan.groups.push_back({first, end});
  }

  Row favourite(Op op) const {
    return {.op = op, .database = favourite_database_, .key = keys_[favourite_key_]};
  }
  Row first_write() {
    Row row = favourite(Op::put);
    row.value = draw_value();
    return row;
  }

  const Setup setup_;
  std::mt19937_64 random_;
  std::vector<std::string> keys_;
  std::map<Key, std::vector<Version>> known_;
  int64_t now_ms_ = 0;
  uint32_t favourite_database_ = 0;
  uint64_t favourite_key_ = 0;
  uint64_t read_share_ = 0;
  uint64_t fillers_ = 0;
};

}  // namespace isotherm

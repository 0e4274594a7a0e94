// A batch answers as if its rows ran one by one, in order, however far an executor looks ahead over
// them: the same random rows go to one engine as a batch and to another one by one, and all answers
// and the final content are the same.
//
// The other engine is always a plain one on the host, so that it also says what each kind of store
// has to answer. Versions are of an engine's own: those of one stand for those of the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <ostream>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/wait_clock.h"
#include "device_checks/test_size.h"
#include "engine/engine.h"
#include "fake_device/fake_item_tier.h"
#include "fake_device/fake_root_table.h"
#include "items/meta_request.h"
#include "items/poison.h"
#include "models/drawn_batches.h"
#include "models/pile.h"

namespace isotherm::batch_order_test {
namespace {

using Plan = DrawnBatches::Plan;
using Row = DrawnBatches::Row;
using Guard = DrawnBatches::Guard;
constexpr uint32_t databases = DrawnBatches::databases;

enum class Where : uint8_t { host, device, small_devices, items };

struct Case {
  const char* name;
  uint64_t seeds;  // of `make test`
  RouterChoice router = RouterChoice::off;
  IndexChoice index = IndexChoice::line;
  Where where = Where::host;
  uint64_t maxmemory = 0;
  RoundOptions rounds = {};
  bool waits = true;  // the worker may wait for a device
  bool values_away = false;
  bool grows = false;  // the index, all the time
  bool has_objects = true;

  friend void PrintTo(const Case& its, std::ostream* out) { *out << its.name; }
};

struct Answer {
  Status status = Status::pending;
  ValueType type = ValueType::none;
  uint32_t flags = 0;
  int64_t number = 0;
  int64_t expiry = no_expiry;
  bool has_data = false;
  uint64_t size = 0;
  std::string value = {};
  uint64_t version = 0;
  std::string text = {};  // what a call or a meta command says beside the reply

  bool agrees(const Answer& other) const {
    return status == other.status && type == other.type && flags == other.flags &&
           number == other.number && expiry == other.expiry && has_data == other.has_data &&
           size == other.size && value == other.value && text == other.text;
  }
  friend std::ostream& operator<<(std::ostream& out, const Answer& its) {
    return out << to_string(its.status) << " type " << int(its.type) << " flags " << its.flags
               << " number " << its.number << " expiry " << its.expiry << " data " << its.has_data
               << " of " << its.size << " '" << its.value.substr(0, 40) << "' version "
               << its.version << " text '" << its.text << "'";
  }
};

// What rows of one batch need while it runs.
struct Lent {
  std::deque<std::unique_ptr<Object>> objects;
  std::deque<std::string> texts;
  std::deque<MetaRequest> metas;
  std::vector<void*> of_row;
};

void append(Batch& batch, Lent& lent, const Row& row, bool in_batch) {
  const uint64_t version = in_batch ? row.version.of_batch : row.version.of_row;
  batch.select(row.database);
  void* what = nullptr;
  switch (row.kind) {
    case Row::Kind::flush:
      batch.flush(row.database, static_cast<uint32_t>(row.number));
      break;
    case Row::Kind::call: {
      what = &lent.texts.emplace_back();
      const std::array<std::string_view, 1> arguments{row.value};
      const bool pushes = row.function == &pile::push || row.function == &pile::push_there;
      batch.call(row.key, *row.function, std::span(arguments).first(pushes ? size_t{1} : size_t{0}),
                 what, row.options);
      break;
    }
    case Row::Kind::put_object: {
      std::unique_ptr<Object>& object = lent.objects.emplace_back();
      auto made = std::make_unique<Pile>();
      made->push(row.value);
      object = std::move(made);
      batch.put(row.key, object, row.options, row.expiry);
      break;
    }
    case Row::Kind::meta: {
      MetaRequest& meta = lent.metas.emplace_back(row.meta);
      meta.version = version;
      what = &meta;
      batch.meta(row.key, row.value, meta, row.expiry, row.flags);
      break;
    }
    case Row::Kind::plain: {
      if (row.op == Op::get) {
        (row.options & option::with_state) != 0 ? batch.get_with_state(row.key, row.options)
                                                : batch.get(row.key, row.options);
        break;
      }
      const int64_t number =
          (row.options & option::if_version) != 0 && (row.op == Op::put || row.op == Op::erase)
              ? static_cast<int64_t>(version)
              : row.number;
      const Batch::Row at = batch.put(row.key, row.value, row.options, row.expiry, row.flags,
                                      static_cast<uint64_t>(number));
      batch.columns().op[at] = row.op;
      break;
    }
  }
  if (row.cancelled) batch.cancel(batch.size() - 1, batch.size());
  lent.of_row.push_back(what);
}

Answer answer_of(const Row& row, const Reply& reply, const void* what) {
  Answer answer;
  answer.status = reply.status;
  answer.type = reply.type;
  answer.flags = reply.flags;
  answer.number = reply.number;
  answer.expiry = reply.expiry;
  answer.size = reply.size;
  answer.version = reply.version;
  answer.has_data = reply.data != nullptr;
  if ((row.options & option::no_value) != 0) {
    answer.has_data = false;
  } else if (reply.type == ValueType::string) {
    answer.value = reply.value();
  }
  if (row.kind == Row::Kind::call) answer.text = *static_cast<const std::string*>(what);
  if (row.kind == Row::Kind::meta) {
    const auto& meta = *static_cast<const MetaRequest*>(what);
    std::ostringstream text;
    text << meta.created << ' ' << meta.won << ' ' << meta.state << ' ' << meta.old_expiry;
    answer.text = text.str();
  }
  return answer;
}

struct Verdict {
  bool cancels = false;
  std::string_view copied = {};
  uint64_t version = 0;
};

// What a guard of this test says, of the replies of gets before it.
Verdict judge(Guard::Kind kind, const Status status, std::string_view value, uint64_t version) {
  if (status != Status::ok) return {.cancels = true};
  return {.copied = kind == Guard::Kind::copies ? value.substr(0, 30) : std::string_view(),
          .version = kind == Guard::Kind::compares ? version : 0};
}

void check(Batch& batch, Batch::Row row, void* context) {
  const Guard& guard = *static_cast<const Guard*>(context);
  const Reply& reply = batch.reply(guard.from);
  const bool has_value = (batch.columns().options[guard.from] & option::no_value) == 0;
  const std::string_view value = has_value ? reply.value() : std::string_view();
  const Verdict verdict = judge(guard.kind, reply.status, value, reply.version);
  if (verdict.cancels) return batch.cancel(row, guard.end);
  if (guard.kind == Guard::Kind::copies) batch.columns().value[row] = verdict.copied;
  if (guard.kind == Guard::Kind::compares) {
    batch.columns().number[row] = static_cast<int64_t>(verdict.version);
  }
}

class RowsOneByOneTest : public ::testing::TestWithParam<Case> {
 protected:
  void open(uint64_t seed) {
    close();
    const Case& its = GetParam();
    drawn_ = std::make_unique<DrawnBatches>(
        DrawnBatches::Setup{seed, its.has_objects, its.grows, its.index != IndexChoice::line});
    Options options;
    options.databases = databases;
    options.hash_seed = DrawnBatches::hash_seed;
    options.max_value_bytes = 150'000;
    Options plain = options;
    options.maxmemory = its.maxmemory;
    options.index = its.index;
    options.index_item_bytes = 4096;  // the index of each database leaves room for the next ones
    options.rounds = its.rounds;
    options.gpu_threads = 2;
    if (its.index != IndexChoice::line || its.where == Where::items) {
      options.maxmemory_policy = EvictionPolicy::allkeys_lru;
    }
    if (its.router != RouterChoice::off) {
      options.router = {.choice = its.router,
                        .bins = 16,
                        .memory = 128 << 10,
                        .threshold = .01,
                        .interval_ms = 1};
    }
    if (its.values_away) {
      options.gpu_values = 16 << 20;
      options.gpu_values_from = 64;
    }
    device_ = std::make_unique<FakeDevice>(seed, uint64_t{1} << 28);
    other_device_ = std::make_unique<FakeDevice>(seed + 1, uint64_t{1} << 28);
    switch (its.where) {
      case Where::host:
        batched_ = std::make_unique<Engine>(options, clock_);
        break;
      case Where::device:
        batched_ = std::make_unique<Engine>(options, clock_, fake_root_tiers_maker(*device_),
                                            waits_by_clock() ? &rounds_clock_ : nullptr);
        break;
      case Where::small_devices:
        batched_ = std::make_unique<Engine>(
            options, clock_,
            fake_root_tiers_maker({device_.get(), other_device_.get()}, 2'140'000));
        break;
      case Where::items:
        options.device = DeviceChoice::cuda;
        options.gpu_items = 64 << 20;
        batched_ = std::make_unique<Engine>(options, clock_, fake_item_tier_maker(*device_));
        break;
    }
    by_row_ = std::make_unique<Engine>(plain, clock_);
    batched_worker_ = std::make_unique<Worker>(*batched_, its.waits);
    by_row_worker_ = std::make_unique<Worker>(*by_row_);
    pairs_.clear();
  }
  void close() {
    batched_worker_.reset();
    by_row_worker_.reset();
    batched_.reset();
    by_row_.reset();
  }
  ~RowsOneByOneTest() override {
    close();
    EXPECT_EQ(Pile::there_are(), 0);
  }
  bool waits_by_clock() const { return GetParam().rounds.policy == Scheduling::adaptive; }

  std::vector<Answer> run_as_batch(const Plan& plan) {
    Batch batch;
    Lent lent;
    auto guard = plan.guards.begin();
    auto group = plan.groups.begin();
    auto view = plan.views.begin();
    const auto size = static_cast<Batch::Row>(plan.rows.size());
    for (Batch::Row row = 0; row <= size; ++row) {
      if (group != plan.groups.end() && group->end == row) batch.group((group++)->first);
      if (view != plan.views.end() && view->end == row) batch.view((view++)->first);
      if (row == size) break;
      if (guard != plan.guards.end() && guard->row == row) add(batch, plan, *guard++);
      append(batch, lent, plan.rows[row], true);
    }
    submit(batch);
    std::vector<Answer> answers;
    for (Batch::Row row = 0; row < size; ++row) {
      answers.push_back(answer_of(plan.rows[row], batch.reply(row), lent.of_row[row]));
    }
    batch.clear();
    return answers;
  }
  static void add(Batch& batch, const Plan& plan, const Guard& guard) {
    if (guard.kind == Guard::Kind::unless_absent) return batch.unless_absent(guard.from);
    if (guard.kind == Guard::Kind::unless_unchanged) {
      for (Batch::Row get = guard.from; get < guard.row; ++get) {
        batch.note(get, static_cast<int64_t>(plan.rows[get].version.of_batch));
      }
      return batch.unless_unchanged(guard.from);
    }
    batch.guard(check, const_cast<Guard*>(&guard),
                guard.everywhere ? Batch::everywhere : guard.from);
  }
  void submit(Batch& batch) {
    if (GetParam().waits) return batched_worker_->submit(batch);
    while (batched_worker_->start(batch) == Worker::Started::retry) {
      batched_worker_->poll([](Batch&, bool) {});
    }
    batched_worker_->wait_for(batch);
  }

  // `beside`: the answers of the batch. A row that it had no memory for does not run.
  std::vector<Answer> run_by_row(Plan plan, const std::vector<Answer>& beside) {
    std::vector<Answer> answers;
    auto guard = plan.guards.begin();
    Batch batch;
    for (Batch::Row at = 0; at < plan.rows.size(); ++at) {
      Row& row = plan.rows[at];
      for (; guard != plan.guards.end() && guard->row == at; ++guard) {
        if (!row.cancelled) decide(plan, *guard, answers);
      }
      if (GetParam().maxmemory != 0 && beside[at].status == Status::out_of_memory) {
        answers.push_back(beside[at]);
        continue;
      }
      Lent lent;
      append(batch, lent, row, false);
      by_row_worker_->submit(batch);
      answers.push_back(answer_of(row, batch.reply(0), lent.of_row[0]));
      batch.clear();
    }
    return answers;
  }
  static void decide(Plan& plan, const Guard& guard, const std::vector<Answer>& answers) {
    bool cancels = false;
    for (Batch::Row get = guard.from; get < guard.row; ++get) {
      const Answer& its = answers[get];
      if (guard.kind == Guard::Kind::unless_absent) cancels |= its.status != Status::not_found;
      if (guard.kind != Guard::Kind::unless_unchanged) continue;
      const uint64_t noted = plan.rows[get].version.of_row;
      cancels |= its.status == Status::ok ? its.version != noted
                                          : its.status != Status::not_found || noted != 0;
    }
    if (guard.kind == Guard::Kind::copies || guard.kind == Guard::Kind::compares) {
      const Answer& its = answers[guard.from];
      const Verdict verdict = judge(guard.kind, its.status, its.value, its.version);
      cancels = verdict.cancels;
      if (!cancels && guard.kind == Guard::Kind::copies)
        plan.rows[guard.row].value = verdict.copied;
      if (guard.kind == Guard::Kind::compares)
        plan.rows[guard.row].version.of_row = verdict.version;
    }
    if (!cancels) return;
    for (Batch::Row row = guard.row; row < guard.end; ++row) plan.rows[row].cancelled = true;
  }

  void compare(const Plan& plan, const std::vector<Answer>& batched,
               const std::vector<Answer>& by_row) {
    for (Batch::Row at = 0; at < plan.rows.size(); ++at) {
      const Row& row = plan.rows[at];
      ASSERT_TRUE(batched[at].agrees(by_row[at]) && same_version(row, batched[at], by_row[at]))
          << describe(plan, at) << "\n  as a batch: " << batched[at]
          << "\n  row by row: " << by_row[at];
    }
  }
  std::string describe(const Plan& plan, Batch::Row at) const {
    std::ostringstream text;
    text << "row " << at << " of " << plan.rows.size() << ", " << plan.guards.size() << " guards";
    const Row& its = plan.rows[at];
    for (Batch::Row row = at - std::min<Batch::Row>(at, 70); row <= at; ++row) {
      const Row& one = plan.rows[row];
      const bool flushes = one.kind == Row::Kind::flush;
      if (!flushes && (one.key != its.key || one.database != its.database)) continue;
      text << "\n  " << row << ": op " << int(one.op) << " options " << one.options << " database "
           << one.database << " key '" << one.key << "' value of " << one.value.size() << " number "
           << one.number << " expiry " << one.expiry << " at " << clock_.now_ms() << " versions "
           << one.version.of_batch << ' ' << one.version.of_row;
    }
    return text.str();
  }
  // Whether the versions stand for each other.
  bool same_version(const Row& row, const Answer& batched, const Answer& by_row) {
    if (batched.status == Status::out_of_memory) return true;
    // A read that takes out what has expired leaves the version of that.
    if (batched.status == Status::not_found) return true;
    if (batched.version == 0 || by_row.version == 0) return batched.version == by_row.version;
    const DrawnBatches::Key key{row.database, row.key};
    const auto [at, is_new] = pairs_[key].try_emplace(batched.version, by_row.version);
    if (is_new) drawn_->note(key, {batched.version, by_row.version});
    return at->second == by_row.version;
  }

  void step() {
    const Plan plan = drawn_->draw(clock_.now_ms());
    const std::vector<Answer> batched = run_as_batch(plan);
    const std::vector<Answer> by_row = run_by_row(plan, batched);
    compare(plan, batched, by_row);
  }
  void check_content() {
    Plan plan;
    for (uint32_t database = 0; database < databases; ++database) {
      for (const std::string& key : drawn_->keys()) {
        Row row{.options = option::any_type, .database = database, .key = key};
        plan.rows.push_back(row);
        if (!GetParam().has_objects) continue;
        row.kind = Row::Kind::call;
        row.op = Op::call;
        row.options = 0;
        row.function = &pile::text;
        plan.rows.push_back(row);
      }
    }
    const std::vector<Answer> batched = run_as_batch(plan);
    compare(plan, batched, run_by_row(plan, batched));
    for (uint32_t database = 0; database < databases; ++database) {
      EXPECT_EQ(batched_worker_->count(database), by_row_worker_->count(database));
      if (GetParam().where == Where::items) continue;  // memory has some
      EXPECT_EQ(batched_->database(database).expires, by_row_->database(database).expires);
    }
  }
  // Work in the background, or none, so that an index is met between two states.
  void tend() {
    if (!drawn_->one_in(3)) clock_.advance(static_cast<int64_t>(drawn_->below(20)));
    rounds_clock_.advance(400'000'000);
    for (uint64_t steps = drawn_->one_in(3) ? 8 : drawn_->below(2); steps != 0; --steps) {
      batched_worker_->maintain();
      by_row_worker_->maintain();
    }
    if (GetParam().grows || !drawn_->one_in(4)) return;
    batched_worker_->flush_all();
    by_row_worker_->flush_all();
  }

  ManualClock clock_{1'700'000'000'000};
  ManualWaitClock rounds_clock_{1};
  std::unique_ptr<DrawnBatches> drawn_;
  std::unique_ptr<FakeDevice> device_;
  std::unique_ptr<FakeDevice> other_device_;
  std::unique_ptr<Engine> batched_;
  std::unique_ptr<Engine> by_row_;
  std::unique_ptr<Worker> batched_worker_;
  std::unique_ptr<Worker> by_row_worker_;
  // Versions of the one engine, with those of the other.
  std::map<DrawnBatches::Key, std::map<uint64_t, uint64_t>> pairs_;
};

TEST_P(RowsOneByOneTest, ABatchAnswersAsItsRowsOneByOne) {
  const uint64_t seeds = test_size(
      poison::sanitized ? (GetParam().seeds + 1) / 2 : GetParam().seeds, 20 * GetParam().seeds);
  for (uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    open(seed);
    if (GetParam().grows) {
      Plan plan;
      drawn_->add_fillers(plan, 14'000);
      run_by_row(plan, run_as_batch(plan));
    }
    for (int i = 0; i < 15 && !HasFailure(); ++i) {
      step();
      tend();
    }
    if (!HasFailure()) check_content();
    EXPECT_EQ(batched_->stats().evicted, 0u);
  }
}

constexpr uint64_t room = 64 << 20;

INSTANTIATE_TEST_SUITE_P(
    Host, RowsOneByOneTest,
    ::testing::Values(
        Case{.name = "line", .seeds = 20}, Case{.name = "growing", .seeds = 2, .grows = true},
        Case{.name = "chance", .seeds = 10, .router = RouterChoice::chance},
        Case{.name = "budget", .seeds = 10, .router = RouterChoice::budget},
        Case{.name = "histogram", .seeds = 10, .router = RouterChoice::histogram},
        Case{.name = "cuckoo", .seeds = 10, .index = IndexChoice::cuckoo, .maxmemory = room},
        Case{.name = "set", .seeds = 10, .index = IndexChoice::set, .maxmemory = room},
        Case{.name = "full", .seeds = 10, .maxmemory = 2 << 20}),
    [](const auto& param) { return std::string(param.param.name); });

constexpr RoundOptions adaptive_rounds{Scheduling::adaptive, 80};
constexpr RoundOptions delayed_writes{Scheduling::periodic, 0, 100'000, 3};

constexpr Case greedy{.name = "greedy", .seeds = 1, .where = Where::device};
constexpr Case values{.name = "values", .seeds = 1, .where = Where::device, .values_away = true};
constexpr Case items{
    .name = "items", .seeds = 1, .where = Where::items, .maxmemory = room, .has_objects = false};

constexpr Case quick(Case its, const char* name) {
  its.name = name;
  its.waits = false;
  return its;
}

INSTANTIATE_TEST_SUITE_P(
    Device, RowsOneByOneTest,
    ::testing::Values(
        greedy, quick(greedy, "quick"),
        Case{.name = "small", .seeds = 1, .where = Where::small_devices},
        Case{.name = "adaptive", .seeds = 1, .where = Where::device, .rounds = adaptive_rounds},
        Case{.name = "delayed", .seeds = 1, .where = Where::device, .rounds = delayed_writes},
        values, quick(values, "values_quick"), items, quick(items, "items_quick")),
    [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace isotherm::batch_order_test

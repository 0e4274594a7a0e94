#include "executor/host/host_executor.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/broken.h"
#include "base/hash.h"
#include "base/instruction_set.h"
#include "base/tile.h"
#include "base/wait_clock.h"
#include "executor/backing.h"
#include "executor/commit_sink.h"
#include "executor/host/bare_items.h"
#include "executor/host/host_stages_entry.h"
#include "executor/run/batch_run.h"
#include "items/arriving_item.h"
#include "router/hot_side.h"

namespace isotherm {

HostExecutor::HostExecutor(HostStore& store)
    : store_(store), cache_(store.items), stages_(choose_stages(store)) {}

HostExecutor::Stages HostExecutor::choose_stages(const HostStore& store) {
  if (store.options.index == IndexChoice::cuckoo) return run_cuckoo_stages;
  if (store.options.index == IndexChoice::set) return run_set_stages;
  const bool hot = store.hot != nullptr;
  if constexpr (!only_plain) {
    switch (instruction_set()) {
      case InstructionSet::avx512:
        return hot ? run_hot_stages_avx512 : run_stages_avx512;
      case InstructionSet::avx2:
        return hot ? run_hot_stages_avx2 : run_stages_avx2;
      case InstructionSet::plain:
        break;
    }
  }
  return hot ? run_hot_stages_plain : run_stages_plain;
}

// As far as memory has room.
void HostExecutor::bring_in(const Run& run, std::span<const Backing::Hot> hot) {
  for (const Backing::Hot& one : hot) {
    if (!bring_in(run, one)) return;
  }
}

// An item that was shown directly, unless somebody has changed it. False: memory has no room.
bool HostExecutor::bring_in(const Run& run, const Backing::Hot& hot) {
  const Reply& shown = run.columns.reply[hot.row];
  if (shown.status.load(std::memory_order_relaxed) != Status::ok) return true;
  Backing::Stored stored;
  stored.seen = hot.seen;
  stored.value = shown.value();
  stored.version = shown.version;
  stored.expiry = shown.expiry;
  stored.flags = shown.flags;
  Reply unused;
  Batch::Columns columns = run.columns.from(hot.row);
  columns.reply = &unused;
  Run one{*this, columns, run.now_ms, run.largest_item, true, true};
  one.known = &stored;
  stages_(one, 1);
  return unused.status.load(std::memory_order_relaxed) != Status::out_of_memory;
}

void HostExecutor::note_keys(std::span<const uint64_t> hashes) {
  sample_.take(hashes, store_.hot->counts());
}

Batch::Row HostExecutor::run(Batch& batch, int64_t now_ms, bool writable, Batch::Row first,
                             Batch::Row end, bool hashed) {
  Batch::Columns columns = batch.columns().from(first);
  const uint64_t largest = writable ? store_.largest_item() : 0;
  Run run{*this, columns, now_ms, largest, batch.only_gets(), hashed};
  run.puts_plainly = store_.values == nullptr && !broken(Rule::swaps);
  run.token = token_;
  run.parking = parking_;
  run.passes_some = parking_ != nullptr;
  run.batch = &batch;
  run.first_row = first;
  if (writable && stops_from_ != never) run.stops_from = stops_from_ - std::min(stops_from_, first);
  if (store_.backing != nullptr && gets_directly()) [[unlikely]] {
    run_directly(run, end - first);
  } else {
    stages_(run, end - first);
  }
  const Batch::Row rows = std::min(run.stopped, end - first);
  count(run, rows);
  return first + rows;
}

bool HostExecutor::get_at_once(uint32_t database, std::string_view key, Reply& reply) {
  using Bare = BareItems<TilePlain>;
  const LineIndex* const index = store_.databases[database].index();
  if (index == nullptr || store_.hot != nullptr) return false;
  const uint64_t hash = store_.hash(key, store_.seed);
  const Location root = index->find<TilePlain>(hash).word;
  const Member member = Bare::find(store_.items, root, key);
  if (member.item == nullptr) return false;
  const CommitSink* const sink = store_.sink;
  if (sink != nullptr && !sink->is_safe(database, hash)) return false;
  Bare::show(reply, *member.item);
  if (store_.touches) store_.items.touch(member.location);
  counters_.batches.add();
  counters_.requests.add();
  counters_.hits.add();
  return true;
}

bool HostExecutor::gets_directly() const {
  const Backing& backing = *store_.backing;
  if (parking_ == nullptr || !backing.gets_directly()) return false;
  if (backing.reads_dearly()) return reads_;
  return waits_ || (backing.starts_directly() && parking_->may_ask());
}

void HostExecutor::run_directly(Run& run, Batch::Row rows) {
  run.direct = &direct_;
  const bool dear = store_.backing->reads_dearly();
  direct_.begin(dear);
  const bool may_skip = !dear && direct_.pays(rows) && !parking_->has_parked();
  const bool is_timed = may_skip && run.reads_only && waits_;
  const int64_t begin = is_timed ? SteadyWaitClock().now_ns() : 0;
  const bool skips = may_skip && (is_timed ? direct_.skips_memory(rows) : direct_.skips_memory());
  if (skips && run.reads_only) {
    if (!run.hashed) hash_keys(run.columns, 0, rows);
    direct_.add_all(rows);
  } else {
    run.leaves_gets = skips;
    stages_(run, rows);
    if (!skips) direct_.note_look(rows, direct_.rows().size());
  }
  if (!direct_.rows().empty()) get_directly(run, skips);
  if (is_timed) direct_.note_time(rows, skips, SteadyWaitClock().now_ns() - begin);
}

// Rows that come in vain, since others change their keys, or that should be in memory, run again
// one by one.
void HostExecutor::get_directly(Run& run, bool skips) {
  std::vector<Batch::Row> again;
  direct_.part(run.columns, *store_.backing, skips, again);
  const std::vector<Batch::Row>& rows = direct_.rows();
  Backing::Answered answered;
  const bool starts = !waits_ && !store_.backing->reads_dearly();
  if (starts) {
    start_directly(run, again);
  } else if (direct_.pays(rows.size())) {
    store_.backing->get_directly(run.columns, run.now_ms, rows, parking_->held, answered);
    again.insert(again.end(), answered.left.begin(), answered.left.end());
  } else {
    again.insert(again.end(), rows.begin(), rows.end());
  }
  run.hits += answered.hits;
  run.misses += answered.misses;
  if (skips) direct_.note_skip(rows.size(), again.size());
  if (!starts) bring_in(run, direct_.hot());
  std::sort(again.begin(), again.end());
  for (const Batch::Row row : again) {
    Batch::Columns columns = run.columns.from(row);
    Run one{*this, columns, run.now_ms, run.largest_item, run.reads_only, true};
    one.token = run.token;
    one.parking = run.parking;
    one.batch = run.batch;
    one.first_row = run.first_row + row;
    if (one.parks_behind(0)) continue;
    stages_(one, 1);
    count(one, 0);
  }
}

// The rows are parked until the device has answered.
void HostExecutor::start_directly(const Run& run, std::vector<Batch::Row>& left) {
  std::vector<std::unique_ptr<Backing::Coming>> coming;
  store_.backing->start_directly(run.columns, run.first_row, direct_.rows(), false, coming, left);
  await(*parking_, coming, run.first_row);
}

void HostExecutor::await(BatchRun& run, std::vector<std::unique_ptr<Backing::Coming>>& coming,
                         Batch::Row first_row) {
  if (coming.empty()) return;
  for (auto& one : coming) run.await(std::move(one));
  for (Backing::Hot hot : direct_.hot()) {
    hot.row += first_row;
    run.hot.push_back(hot);
  }
}

// What a view shows was all there at once, after the counts of changes were looked at and before
// they are looked at again: nobody may have been in the middle of a group then.
void HostExecutor::start_together(BatchRun& run, std::span<const Batch::Row> rows,
                                  std::vector<Batch::Row>& left) {
  const Batch::Columns columns = run.batch->columns();
  direct_.begin(false);
  for (const Batch::Row row : rows) direct_.add(row, columns.hash[row]);
  direct_.part(columns, *store_.backing, false, left);
  std::vector<std::unique_ptr<Backing::Coming>> coming;
  store_.backing->start_directly(columns, 0, direct_.rows(), true, coming, left);
  if (store_.gate.nobody_has()) return await(run, coming, 0);
  left.assign(rows.begin(), rows.end());
}

void HostExecutor::answer_coming(BatchRun& its) {
  Batch::Columns columns = its.batch->columns();
  Run run{*this, columns, its.now_ms, its.writable ? store_.largest_item() : 0, true, true};
  run.token = token_;
  run.parking = &its;
  run.batch = its.batch;
  const Backing::Answered answered = its.answer_coming();
  run.hits = answered.hits;
  run.misses = answered.misses;
  bring_in(run, its.hot);
  count(run, 0);
}

void HostExecutor::count(const Run& run, uint64_t requests) {
  counters_.requests.add(requests);
  counters_.hits.add(run.hits);
  counters_.misses.add(run.misses);
  counters_.retries.add(run.retries);
  counters_.expired.add(run.expired);
  counters_.changes.add(run.changes);
}

void HostExecutor::count_reads(uint64_t hits, uint64_t misses) {
  counters_.requests.add(hits + misses);
  counters_.hits.add(hits);
  counters_.misses.add(misses);
}

void HostExecutor::uncount_reads(const Batch& batch, Batch::Row first, Batch::Row end) {
  for (Batch::Row row = first; row < end; ++row) {
    if (batch.columns().op[row] != Op::get) continue;
    const bool missed = batch.reply(row).status == Status::not_found;
    (missed ? counters_.misses : counters_.hits).subtract(1);
  }
  counters_.requests.subtract(end - first);
}

void HostExecutor::hash_keys(Batch::Columns& columns, Batch::Row from, Batch::Row to) const {
  if (ISOTHERM_LIKELY(store_.hash == static_cast<HostStore::Hash>(hash_bytes))) {
    return hash_bytes(columns.key + from, to - from, store_.seed, columns.hash + from);
  }
  for (Batch::Row row = from; row < to; ++row) {
    columns.hash[row] = store_.hash(columns.key[row], store_.seed);
  }
}

// Sending values away needs some memory, too, and must find it even when writers find none.
bool HostExecutor::sends_for_writers() const {
  return store_.values->helps() && store_.budget.would_admit(store_.budget.most_over() / 4);
}

// Whether the value is in its place already.
static bool arrives(const Plan& plan) {
  return plan.parts.all_fields && plan.parts.type == ValueType::string;
}

// A long value that has become longer gets room for more, so that to lengthen it takes time for
// what is new alone, however often it is done. Nobody goes without memory for it, or evicts.
uint64_t HostExecutor::room_to_grow(const Plan& plan) const {
  constexpr uint64_t share = 8;
  const uint64_t before = plan.first.size();
  const bool grows = plan.patches() && before > size_classes::largest &&
                     plan.parts.value_bytes > before && plan.parts.state == 0;
  if (!store_.changes_in_place || !grows) return 0;
  const MemoryBudget& budget = store_.budget;
  const uint64_t room = std::min(before, budget.room()) / share;
  return budget.would_admit(room) && budget.fits(plan.parts.bytes() + room) ? room : 0;
}

Location HostExecutor::allocate(const Plan& plan, bool over) {
  const uint64_t bytes = plan.parts.bytes();
  const uint64_t room = room_to_grow(plan);
  if (room != 0) {
    const Location location = cache_.allocate(bytes + room, false);
    if (location != location::none) return location;
  }
  return cache_.allocate(bytes, over);
}

HostExecutor::Prepared HostExecutor::prepare_item(const Plan& plan, bool over_cap) {
  const bool over = runs_over(over_cap);
  if (arrives(plan)) [[unlikely]]
    return take_over(plan, over);
  const Location location = allocate(plan, over);
  if (location == location::none) return {};
  Item* item = Item::create(store_.items.address(location), plan.parts);
  plan.fill(item);
  if (store_.changes_in_place && plan.patches() &&
      location::kind(location) == location::Kind::large) {
    item->let_change();
  }
  return {location, item};
}

// An item whose value is in its place already, and counted, nearly all of it.
HostExecutor::Prepared HostExecutor::take_over(const Plan& plan, bool over) {
  const Location location = ArrivingItem::location_of(plan.parts.key, plan.first);
  if (!store_.items.large_items().take_in(location, over)) return {};
  return {location, Item::create(store_.items.address(location), plan.parts)};
}

void HostExecutor::drop_item(const Plan& plan, Location location) {
  if (arrives(plan)) return store_.items.large_items().take_out(location);
  cache_.free_unpublished(location);
}

void HostExecutor::settle(Database& database, Member old, int64_t old_expiry, int64_t fresh_expiry,
                          Member fresh) {
  const int64_t delta = (fresh_expiry != no_expiry) - (old_expiry != no_expiry);
  if (delta != 0) database.expires.fetch_add(delta, std::memory_order_relaxed);
  if (old.location == location::none || !store_.items.clear_live(old.location)) return;
  if (old.item->is_object()) [[unlikely]]
    settle_object(*old.item, fresh.item);
  if (store_.values != nullptr) store_.values->settle(*old.item, fresh.item, fresh.location);
  cache_.retire(old.location);
}

void HostExecutor::begin_marks(uint64_t hash, Location old, Location fresh) {
  ItemStore& items = store_.items;
  if (old == location::none) {
    if (items.probation().comes_back(hash)) items.prove(fresh);
  } else {
    if (items.is_proven(old)) items.prove(fresh);
    items.touch(fresh);
  }
}

void HostExecutor::settle_evicted(Database& database, Member old) {
  const int64_t expiry = old.item->expiry();
  Gone& gone = counters_.gone[ItemStore::class_number(old.location)];
  counters_.evicted.add();
  counters_.index_evicted.add();
  gone.evicted.add();
  gone.volatile_evicted.add(expiry != no_expiry);
  if (broken(Rule::evicting)) {
    const bool chunked = location::kind(old.location) == location::Kind::item;
    if (chunked && store_.items.clear_live(old.location)) cache_.free_unpublished(old.location);
    return;
  }
  settle(database, old, expiry, no_expiry);
}

void HostExecutor::settle_object(const Item& old, const Item* fresh) {
  const bool stays =
      fresh != nullptr && fresh->is_object() && fresh->object_location() == old.object_location();
  if (!stays) store_.items.retire_object(old);
}

void HostExecutor::Run::await(Reply& reply, const Item& item, Status status, Status if_lost,
                              bool again, bool get) {
  if (values != nullptr) {
    awaited.push_back({&reply, item.value_place(), status, if_lost, again, get});
  } else {
    reply.status.store(if_lost, std::memory_order_release);
  }
}

ValueReader::Whole HostExecutor::Run::whole(const Item& item, Batch::Row row) const {
  if (values == nullptr) return {};
  const ValueReader::Whole whole = values->whole(item, parking != nullptr);
  if (whole.awaited) parking->park(*batch, first_row + row, nullptr);
  return whole;
}

bool HostExecutor::Run::backing_takes(const Request& request, const Plan& plan) const {
  const Backing* const backing = executor.store_.backing;
  return backing == nullptr ||
         backing->takes(request.database, request.key, plan.parts.value_bytes);
}

bool HostExecutor::Run::parks_behind(Batch::Row row) const {
  if (!parking->is_parked(columns, row)) return false;
  parking->park(*batch, first_row + row, nullptr);
  return true;
}

void HostExecutor::Run::park(Batch::Row row, Awaited* what) const {
  parking->park(*batch, first_row + row, what);
}

void HostExecutor::Run::tell(const Request& request, uint64_t hash, Member old, int64_t old_expiry,
                             const Item* fresh, int64_t expiry, uint64_t version,
                             const ObjectCall* call) const {
  using Reason = ItemChange::Reason;
  Reason reason = Reason::request;
  if (fresh == nullptr && old_expiry != no_expiry && old_expiry <= now_ms) {
    reason = Reason::expired;
  } else if (fresh == nullptr && request.op != Op::erase && request.op != Op::expire &&
             request.op != Op::call) {
    reason = Reason::lost;
  }
  const ObjectFunction* const function = call != nullptr ? &function_of(request) : nullptr;
  executor.store_.sink.load(std::memory_order_relaxed)
      ->changed({reason, request.database, request.key, hash, old.item, fresh, expiry, version,
                 token, function, call});
}

bool HostExecutor::Run::show_held(Batch::Row row, const Backing::Stored& stored) {
  struct Copy final : Backing::Held {
    explicit Copy(std::string_view its) : value(its) {}
    const std::string value;
  };
  if (parking == nullptr || stored.state != 0) return false;
  Reply& reply = columns.reply[row];
  auto copy = std::make_unique<Copy>(stored.value);
  reply.type = ValueType::string;
  reply.flags = stored.flags;
  reply.version = stored.version;
  reply.expiry = stored.expiry;
  reply.data = copy->value.data();
  reply.size = copy->value.size();
  parking->held.push_back(std::move(copy));
  ++hits;
  reply.status.store(Status::ok, std::memory_order_release);
  return true;
}

bool HostExecutor::Run::reserve(const Item& item) const {
  return values == nullptr || values->reserve(item.value_bytes());
}

}  // namespace isotherm

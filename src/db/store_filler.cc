#include "db/store_filler.h"

#include <algorithm>

#include "base/raise_to.h"
#include "db/lent_memory.h"
#include "durability/journal_reader.h"
#include "tree/tree.h"

namespace isotherm {

uint64_t count_keys(const Engine& engine) {
  uint64_t keys = 0;
  for (uint32_t i = 0; i < engine.options().databases; ++i) keys += engine.database(i).keys;
  return keys;
}

namespace {

// What the items in memory take wherever they lie: no store has ever had them with less.
uint64_t least_bytes(const Engine& engine) {
  constexpr uint64_t place_in_index = 16;
  uint64_t bytes = engine.large_item_bytes();
  for (const ItemClassStats& its : engine.item_classes()) bytes += its.bytes * its.items;
  return bytes + std::min(engine.stats().index_bytes, place_in_index * count_keys(engine));
}

// Items that were put again may run over the cap, since they lie otherwise than they did; but not
// more of them than fit below it. A tree, and policies that evict, make room later.
bool is_over(const Engine& engine) {
  const uint64_t cap = engine.maxmemory();
  return cap != 0 && engine.tree() == nullptr && engine.policy() == EvictionPolicy::noeviction &&
         least_bytes(engine) > cap + cap / 32;
}

}  // namespace

// As much as is sure to do: sizes of items are rounded up, and each has a header and a place in the
// index.
std::string FillTotals::problem(const Engine& engine) const {
  constexpr uint64_t of_an_item = 96;
  constexpr uint64_t mib = 1 << 20;
  if (refused == 0 && !is_over(engine)) return {};
  const Options& options = engine.options();
  std::string text = refused == 0 ? "its items take more than maxmemory: "
                                  : std::to_string(refused) + " items could not be stored: ";
  // It may have gone on since.
  if (Tree* const tree = engine.tree(); tree != nullptr && !tree->last_error().empty()) {
    return text + tree->last_error();
  }
  if (longest > options.max_value_bytes) {
    return text + "start with a proto-max-bulk-len of at least " + std::to_string(longest);
  }
  uint64_t needed = std::max(engine.maxmemory(), engine.used_memory());
  needed += (refused_bytes + of_an_item * refused) / 4 * 5 + mib;
  text += "start with a maxmemory of " + std::to_string(needed / mib + 1) + "mb";
  if (evicts_any_key(options.maxmemory_policy)) return text;
  return text + ", or with the maxmemory-policy allkeys-lru, which evicts what has no room";
}

// A batch that is large for the cap would be refused, and its rows, put again one by one, would
// become a file of the tree each.
StoreFiller::StoreFiller(Engine& engine, FillTotals& totals)
    : engine_(engine),
      totals_(totals),
      now_ms_(engine.clock().now_ms()),
      worker_(engine),
      most_bytes_(engine.maxmemory() == 0
                      ? 4 << 20
                      : std::clamp<uint64_t>(engine.maxmemory() / 32, 16 << 10, 4 << 20)) {
  with_state_.reserve(most_rows);
}

void StoreFiller::put(const Item& item, bool copies) {
  if (item.expiry != no_expiry && item.expiry <= now_ms_) {
    ++totals_.expired;
    return;
  }
  const std::string_view key = copies ? copies_.emplace_back(item.key) : item.key;
  const std::string_view value = copies ? copies_.emplace_back(item.value) : item.value;
  batch_.select(item.database);
  if (item.state == 0) {
    batch_.put(key, value, 0, item.expiry, item.flags);
  } else {
    with_state_.push_back({.kind = MetaRequest::Kind::store, .kept_state = item.state});
    batch_.meta(key, value, with_state_.back(), item.expiry, item.flags);
  }
  bytes_ += key.size() + value.size();
  if (batch_.size() == most_rows || bytes_ > most_bytes_) finish();
}

void StoreFiller::erase(uint32_t database, std::string_view key) {
  batch_.select(database);
  batch_.erase(key);
  if (batch_.size() == most_rows) finish();
}

bool StoreFiller::is_refused(const Batch& batch, Batch::Row row) {
  const Status status = batch.reply(row).status;
  const bool erases = batch.columns().op[row] == Op::erase;
  return status != Status::ok && !(erases && status == Status::not_found);
}

// What was stored once, with less memory or beyond the cap, may run over it now as far as writes
// may, since items lie otherwise than they did, and is lent its own size. A tree makes room: it
// takes in what waits for it, and memory forgets what is in its files. Rows of a batch are of
// different keys.
bool StoreFiller::put_again(Batch::Row row, MetaRequest* with_state) {
  Tree* const tree = engine_.tree();
  const Batch::Columns& columns = batch_.columns();
  for (int left = most_tries; left > 0; --left) {
    worker_.maintain(now_ms_);
    Batch again;
    again.select(columns.database[row]);
    if (columns.op[row] == Op::erase) {
      again.erase(columns.key[row]);
    } else if (with_state != nullptr) {
      again.meta(columns.key[row], columns.value[row], *with_state, columns.expiry[row],
                 columns.flags[row]);
      again.columns().options[0] |= option::over_cap;
    } else {
      again.put(columns.key[row], columns.value[row], option::over_cap, columns.expiry[row],
                columns.flags[row]);
    }
    {
      const LentMemory lent(engine_, columns.key[row].size() + columns.value[row].size());
      worker_.submit(again, now_ms_);
    }
    if (!is_refused(again, 0)) return true;
    if (tree == nullptr || !tree->flush()) return false;
  }
  return false;
}

// As `put_again`: what memory has no room for is awaited.
bool StoreFiller::get(uint32_t database, std::string_view key, std::string& value,
                      uint64_t& version) {
  Tree* const tree = engine_.tree();
  for (int left = most_tries; left > 0; --left) {
    Batch batch;
    batch.select(database);
    batch.get(key);
    worker_.submit(batch, now_ms_);
    const Reply& reply = batch.reply(0);
    if (reply.status == Status::not_found) return false;
    if (reply.status == Status::ok) {
      value = reply.value();
      version = reply.version;
      return true;
    }
    batch.clear();
    worker_.maintain(now_ms_);
    if (tree == nullptr || !tree->flush()) break;
  }
  throw JournalError("journal: a value that it has changes of cannot be read");
}

void StoreFiller::note_refused(Batch::Row row) {
  const uint64_t value = batch_.columns().value[row].size();
  ++totals_.refused;
  totals_.refused_bytes += batch_.columns().key[row].size() + value;
  raise_to(totals_.longest, value);
}

void StoreFiller::finish() {
  worker_.submit(batch_, now_ms_);
  auto state = with_state_.begin();
  for (Batch::Row row = 0; row < batch_.size(); ++row) {
    const bool has_state = batch_.columns().op[row] == Op::meta;
    MetaRequest* const with_state = has_state ? &*state++ : nullptr;
    if (is_refused(batch_, row) && !put_again(row, with_state)) note_refused(row);
  }
  batch_.clear();
  with_state_.clear();
  copies_.clear();
  bytes_ = 0;
  worker_.maintain(now_ms_);
}

}  // namespace isotherm

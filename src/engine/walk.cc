#include "engine/walk.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <new>
#include <optional>
#include <thread>

#include "engine/engine.h"
#include "engine/engine_state.h"
#include "index/item_table.h"
#include "items/objects.h"
#include "tree/tree_moment.h"

namespace isotherm {
namespace {

constexpr uint64_t device_bit = 1;
// Empty lines cost a step too, so a sparse index does not make one long.
constexpr uint64_t lines_per_item = 8;
// On a device. Each look keeps rounds waiting, so it is neither long nor for few entries.
constexpr uint64_t most_at_once = 1 << 10;
constexpr uint64_t looks_per_item = 16;

// Shows the members of roots that belong to the walk, and counts them.
class Shower {
 public:
  Shower(HostStore& store, uint32_t database, int64_t now_ms, ItemVisitor& visitor)
      : store_(store), database_(database), now_ms_(now_ms), visitor_(visitor) {}

  void operator()(uint64_t root) {
    for_each_member(store_.items, root, [&](Location location) { show(location); });
  }
  uint64_t shown() const { return shown_; }
  // Not what the walk of the tree has shown.
  void leave_out(Tree& tree) { tree_ = &tree; }

 private:
  void show(Location location) {
    const Item* item = store_.items.item(location);
    if (item->expired(now_ms_) || item->database() != database_) return;
    if (tree_ != nullptr && tree_->is_shown(database_, item->key())) return;
    const uint64_t bytes = item->is_object() ? Objects::bytes_of(*item) : item->value_bytes();
    visitor_.visit({item->key(), item->type(), bytes, item->expiry(),
                    ItemStore::class_number(location), item->flags()});
    ++shown_;
  }

  HostStore& store_;
  const uint32_t database_;
  const int64_t now_ms_;
  ItemVisitor& visitor_;
  Tree* tree_ = nullptr;
  uint64_t shown_ = 0;
};

// False: the device is lost. Its index has the entries of all databases: where few belong to the
// walk, it looks at as many more.
bool walk_device(EngineState& engine, uint64_t count, Shower& show, uint64_t& bound) {
  const auto show_root = [&](uint64_t root) { show(root); };
  uint64_t looked = 0;
  uint64_t wanted = std::min(count, most_at_once);
  while (looked / looks_per_item < count + most_at_once / 4) {
    if (!engine.device->scan(bound, wanted, show_root, bound)) return false;
    const uint64_t shown = show.shown();
    if (bound == 0 || shown >= count) break;
    looked += wanted;
    // How many entries to look at for the rest, if as large a share of them belongs to the walk as
    // so far.
    const double rest = static_cast<double>(count - shown) * static_cast<double>(looked) /
                        static_cast<double>(shown);
    wanted = static_cast<uint64_t>(std::min(rest + 1, static_cast<double>(most_at_once)));
  }
  return true;
}

uint64_t walk_host(const WalkedIndex& index, uint64_t count, Shower& show, uint64_t bound) {
  if (!index) return 0;
  for (uint64_t lines = 0; show.shown() < count && lines / lines_per_item < count; ++lines) {
    // A line that was joined to its neighbour has entries that were shown before.
    bound = index.scan(bound, [&, from = bound](uint64_t hash, uint64_t root) {
      if (hash >= from) show(root);
    });
    if (bound == 0) break;
  }
  return bound;
}

// In the order of the keys, and over all, also those that memory has not. Where these cannot be
// read there is no answer rather than a short one.
void walk_tree(EngineState& engine, uint32_t database, uint64_t count, ItemVisitor& visitor,
               Reply& reply, uint64_t cursor) {
  const auto show = [&](std::string_view key, uint64_t value_bytes, int64_t expiry) {
    const uint64_t bytes = Item::bytes(key.size(), value_bytes, expiry != no_expiry, database != 0);
    const uint32_t number =
        bytes <= size_classes::largest ? size_classes::class_of(bytes) : size_classes::count;
    visitor.visit({key, ValueType::string, value_bytes, expiry, number});
  };
  // Where a device was lost, what memory alone has comes behind the rest, which odd cursors go
  // over; this bit is in the even ones that go over memory. Those of the device have neither.
  constexpr uint64_t of_memory = 2;
  constexpr uint64_t of_none = of_memory | 1;
  const bool lost = engine.tree->is_lost();
  const bool in_memory = lost && (cursor & of_none) == of_memory;
  bool anew = lost && cursor != 0 && (cursor & of_none) == 0;
  if (anew) cursor = 0;
  bool worked = true;
  if (cursor == 0 && visitor.only_counts() && engine.tree->counts_itself()) {
    const auto keys = engine.tree->count(database, engine.clock.now_ms());
    worked = keys.has_value();
    visitor.count(keys.value_or(0));
  } else if (in_memory) {
    Shower show_item(engine.store, database, engine.clock.now_ms(), visitor);
    show_item.leave_out(*engine.tree);
    const WalkedIndex index = engine.store.databases[database].walked();
    cursor = walk_host(index, count, show_item, cursor & ~of_memory);
    if (cursor != 0) cursor |= of_memory;
  } else {
    worked = engine.tree->walk(database, cursor, count, engine.clock.now_ms(), show, anew);
    const bool is_lost = engine.tree->is_lost();
    if (cursor == 0 && is_lost) cursor = of_memory;
    anew |= is_lost && !lost;
  }
  reply.number = static_cast<int64_t>(cursor);
  reply.flags = anew ? 1 : 0;
  reply.status.store(worked ? Status::ok : Status::not_saved, std::memory_order_release);
}

// Empty: files cannot be read, or there is no memory or no epoch slot for it.
std::optional<uint64_t> count_by_walk(EngineState& engine, uint32_t database) try {
  constexpr uint64_t at_once = 4096;
  struct Counter final : ItemVisitor {
    void visit(const ScanItem& /*item*/) override { ++keys; }
    uint64_t keys = 0;
  } counter;
  const TakenSlot taken(engine.store.epochs);
  for (uint64_t cursor = 0;;) {
    const EpochGuard guard(engine.store.epochs, *taken.slot);
    Reply reply;
    walk_tree(engine, database, at_once, counter, reply, cursor);
    if (reply.status != Status::ok) return std::nullopt;
    const bool anew = reply.flags != 0;
    cursor = anew ? 0 : static_cast<uint64_t>(reply.number);
    if (anew) counter.keys = 0;
    if (cursor == 0 && !anew) return counter.keys;
  }
} catch (const std::exception&) {
  return std::nullopt;
}

ItemVisitor& visitor_of(const Batch::Columns& columns, Batch::Row row) {
  return *reinterpret_cast<ItemVisitor*>(const_cast<char*>(columns.value[row].data()));
}

}  // namespace

// Files that last show a moment for as long as somebody holds it; others are asked at once.
KeyCount begin_count(EngineState& engine, uint32_t database) {
  std::optional<uint64_t> keys;
  const int64_t now_ms = engine.clock.now_ms();
  if (Tree* const tree = engine.tree.get(); tree == nullptr) {
    keys = engine.store.databases.at(database).count();
  } else if (tree->lasts()) {
    return [tree, moment = tree->take_moment(database), now_ms] {
      return tree->count(*moment, now_ms);
    };
  } else if (tree->take_in_all()) {
    if (tree->counts_itself()) keys = tree->count(database, now_ms);
    if (!keys) keys = count_by_walk(engine, database);
  }
  return [keys] { return keys; };
}

Awaited* walk_waits_for(EngineState& engine, const Batch& batch, Batch::Row row) {
  const Batch::Columns& columns = batch.columns();
  if (engine.tree == nullptr || columns.number[row] != 0) return nullptr;
  return visitor_of(columns, row).only_memory() ? nullptr : engine.tree->awaited_by_walks();
}

void walk(EngineState& engine, Batch& batch, Batch::Row row) {
  const Batch::Columns& columns = batch.columns();
  const uint32_t database = columns.database[row];
  const auto cursor = static_cast<uint64_t>(columns.number[row]);
  const uint64_t count = std::max<uint64_t>(static_cast<uint64_t>(columns.expiry[row]), 1);
  ItemVisitor& visitor = visitor_of(columns, row);
  Shower show(engine.store, database, engine.clock.now_ms(), visitor);
  Reply& reply = columns.reply[row];
  if (engine.tree != nullptr && !visitor.only_memory()) {
    return walk_tree(engine, database, count, visitor, reply, cursor);
  }

  bool on_device = engine.on_device();
  bool anew = cursor != 0 && ((cursor & device_bit) != 0) != on_device;
  uint64_t bound = anew ? 0 : cursor & ~device_bit;
  const bool has_none = engine.store.databases[database].entries_on_device <= 0;
  if (on_device && has_none && !engine.device->rounds().losing()) {
    bound = 0;
  } else if (on_device && !walk_device(engine, count, show, bound)) {
    on_device = false;
    anew = true;
    bound = 0;
  }
  if (!on_device) {
    bound = walk_host(engine.store.databases[database].walked(), count, show, bound);
  } else if (bound != 0) {
    bound |= device_bit;
  }
  reply.number = static_cast<int64_t>(bound);
  reply.flags = anew ? 1 : 0;
  reply.status.store(Status::ok, std::memory_order_release);
}

uint64_t Worker::scan(uint32_t database, uint64_t cursor, uint64_t count,
                      const std::function<void(const ScanItem&)>& visit) {
  struct FunctionVisitor final : ItemVisitor {
    explicit FunctionVisitor(const std::function<void(const ScanItem&)>& its) : function(its) {}
    // What the function throws must not pass through the batch that calls it.
    void visit(const ScanItem& item) override {
      if (thrown != nullptr) return;
      try {
        function(item);
      } catch (...) {
        thrown = std::current_exception();
      }
    }
    const std::function<void(const ScanItem&)>& function;
    std::exception_ptr thrown;
  } visitor(visit);
  for (;; std::this_thread::yield()) {
    Batch batch;
    batch.select(database);
    batch.walk(cursor, count, visitor);
    submit(batch);
    const Reply& reply = batch.reply(0);
    if (visitor.thrown != nullptr) std::rethrow_exception(visitor.thrown);
    if (reply.status == Status::out_of_memory) throw std::bad_alloc();
    if (reply.status != Status::retry) return static_cast<uint64_t>(reply.number);
  }
}

void Worker::flush(uint32_t database) { flush(database, database + 1); }

void Worker::flush(uint32_t first, uint32_t end) {
  Batch batch;
  batch.flush(first, end);
  submit(batch);
}

void Worker::give_indexes_back(int64_t now_ms) {
  try {
    Batch batch;
    batch.flush_empty();
    submit(batch, now_ms);
  } catch (const std::bad_alloc&) {  // another step will
  }
}

// The batch holds all keys while it calls `work`, so no exception may pass through it.
bool Worker::stand_still(const std::function<void()>& work) {
  bool called = false;
  const std::function<void()> noted = [&] {
    try {
      work();
      called = true;
    } catch (const std::bad_alloc&) {
    }
  };
  Batch batch;
  batch.stand_still(noted);
  submit(batch);
  return called;
}

}  // namespace isotherm

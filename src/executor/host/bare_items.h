// BareItems: gets and puts of items that are nothing but a key and a value (Item::is_bare), which
// most items of most loads are. Each does what RowAnswers does for such a row, in fewer steps.
//
// A put without conditions needs no look at what is there before it prepares its item: it replaces
// whatever bare item of its key the line has when it holds the line's lock, so it cannot lose.
// Where it finds anything else under the root (another key of the same hash, an expiry, an object),
// or no room, it takes back what it has done and says so; the row then goes the long way. Where the
// store has a sink, it is `told` as RowAnswers tells it.
//
// Everything here must be a template or always inlined, as in host_stages.h.
// Threads. As RowAnswers.
#pragma once

#include <algorithm>
#include <new>

#include "executor/commit_sink.h"
#include "executor/host/host_executor.h"
#include "index/item_table.h"
#include "items/item.h"

namespace isotherm {

// Prefetches what a root leads to, for a row that reads it or changes it.
ISOTHERM_INLINE void prefetch_item(HostStore& store, Location root, bool reads) {
  if (root == location::none) return;
  const char* item = store.items.address(root);
  __builtin_prefetch(item);
  // The second line of an item that has one; the class of a rare collision node says nothing.
  constexpr uint32_t one_line_class = size_classes::class_of(64);
  if (location::size_class(root) > one_line_class) __builtin_prefetch(item + 64);
  // A write clears the item's live bit, and a read may set its CLOCK bit beside it.
  if (!reads || store.touches) store.items.prefetch_bits(root);
}

template <class Tile>
struct BareItems {
  using Row = Batch::Row;
  using Run = HostExecutor::Run;

  // The bare item of the key, if it is what the root leads to, else none.
  static ISOTHERM_INLINE Member find(const ItemStore& items, Location root, std::string_view key) {
    if (ISOTHERM_UNLIKELY(location::kind(root) != location::Kind::item)) return {};
    Item* const item = items.item_in_chunk(root);
    const std::string_view stored = item->bare_key();
    const bool same = item->is_bare() && stored.size() == key.size() &&
                      equal_bytes(stored.data(), key.data(), key.size());
    if (ISOTHERM_UNLIKELY(!same)) return {};
    return {root, item};
  }

  static ISOTHERM_INLINE void show(Reply& reply, const Item& item) {
    const std::string_view value = item.bare_value();
    reply.type = ValueType::string;
    reply.flags = 0;
    reply.version = item.version();
    reply.expiry = no_expiry;
    reply.data = value.data();
    reply.size = value.size();
  }

  // Whether the row may be a put as above.
  static ISOTHERM_INLINE bool is_put(const Run& run, Row row) {
    const Batch::Columns& columns = run.columns;
    const uint32_t conditions =
        columns.options[row] & ~uint32_t{option::over_cap | option::any_length};
    return run.puts_plainly && columns.op[row] == Op::put &&
           (conditions | columns.database[row] | columns.flags[row]) == 0 &&
           columns.expiry[row] == no_expiry;
  }

  // Whether the row is answered.
  template <bool told>
  static ISOTHERM_INLINE bool put(Run& run, Row row, LineIndex& index) {
    const Batch::Columns& columns = run.columns;
    HostExecutor& executor = run.executor;
    HostStore& store = executor.store_;
    const std::string_view key = columns.key[row];
    const std::string_view value = columns.value[row];
    const uint64_t bytes = Item::bare_bytes(key.size(), value.size());
    if (bytes > size_classes::largest || bytes > run.largest_item ||
        std::max(key.size(), value.size()) >
            store.max_value_bytes.load(std::memory_order_relaxed)) {
      return false;
    }
    const bool over = store.evicts || (columns.options[row] & option::over_cap) != 0;
    const Location fresh = executor.cache_.allocate(bytes, over);
    if (ISOTHERM_UNLIKELY(fresh == location::none)) return false;
    Item* const item = Item::create_bare(store.items.item_in_chunk(fresh), key, value);

    Member old;
    uint64_t version = 0;
    const auto decide = [&](bool found, uint64_t word, auto& versions)
                            __attribute__((always_inline))
                                ->Decision {
      old = found ? find(store.items, word, key) : Member{};
      if (found && old.item == nullptr) return {};
      version = versions.next_version();
      item->set_version(version);
      store.items.set_live(fresh);
      return {Action::store, fresh};
    };
    const auto publish = [&]() __attribute__((always_inline)) {
      if constexpr (told) {
        store.sink.load(std::memory_order_relaxed)
            ->changed({ItemChange::Reason::request, 0, key, columns.hash[row], old.item, item,
                       no_expiry, version, run.token});
      }
    };
    Updated updated;
    try {
      updated = index.template update<Tile>(columns.hash[row], decide, publish);
    } catch (const std::bad_alloc&) {  // of whoever is told: nothing has changed
      updated.change = Change::no_line;
    }
    if (ISOTHERM_UNLIKELY(version == 0)) {
      executor.cache_.free_unpublished(fresh);
      return false;
    }
    if (ISOTHERM_UNLIKELY(updated.change == Change::no_line)) {
      executor.cache_.retire(fresh);
      return false;
    }
    Reply& reply = columns.reply[row];
    reply.number = 0;
    reply.version = version;
    reply.expiry = no_expiry;
    reply.location = fresh;
    ++run.changes;
    if (store.touches) executor.begin_marks(columns.hash[row], old.location, fresh);
    if (old.item != nullptr && store.items.clear_live(old.location)) {
      executor.cache_.retire(old.location);
    }
    reply.status.store(Status::ok, std::memory_order_release);
    return true;
  }
};

}  // namespace isotherm

// HostStages: the passes of the host executor, as templates over the tile. See host_executor.h.
//
// Only the files host_stages_*.cc include this, one per instruction set. Everything here must be a
// template over Tile or always inlined: a shared inline function compiled here for AVX-512 could be
// the copy that the linker keeps for everybody (tools/check_isa_symbols.sh watches that).
#pragma once

#include <algorithm>

#include "device/host_executor.h"
#include "index/item_table.h"

namespace isotherm {

template <class Tile>
struct HostStages {
  using Row = Batch::Row;
  using Run = HostExecutor::Run;

  // Rows in flight: more than a core's outstanding misses, few enough to stay in the first-level
  // cache.
  static constexpr Row window = 32;
  // Rows that wait for their lines, and rows that wait for their items, where all rows read.
  static constexpr Row reads_ahead = 16;
  // The largest size class whose items take one cache line.
  static constexpr uint32_t one_line_class = size_classes::class_of(64);

  static void run(Run& run, Row rows) {
    if (run.reads_only) return run_reads(run, rows);
    Location roots[window];
    prefetch_lines(run, 0, std::min(rows, window));
    for (Row from = 0; from < rows; from += window) {
      const Row to = std::min(rows, from + window);
      for (Row row = from; row < to; ++row) {
        roots[row - from] = find_root(run, row);
        prefetch_item(run, row, roots[row - from]);
      }
      // The next window's lines arrive while this one's requests run.
      prefetch_lines(run, to, std::min(rows, to + window));
      run_window(run, from, to, roots);
    }
  }

 private:
  // Roots found before serve until a row writes.
  static ISOTHERM_INLINE void run_window(Run& run, Row from, Row to, const Location* roots) {
    bool wrote = false;
    for (Row row = from; row < to; ++row) {
      if (run.columns.op[row] == Op::get) {
        get(run, row, wrote ? find_root(run, row) : roots[row - from]);
      } else {
        wrote = true;
        write(run, row);
      }
    }
  }

  // The three passes at once, each `reads_ahead` rows behind the one before, so that lines and
  // items arrive evenly.
  static ISOTHERM_INLINE void run_reads(Run& run, Row rows) {
    const Bucket* homes[reads_ahead];
    Location roots[reads_ahead];
    for (Row step = 0; step < rows + 2 * reads_ahead; ++step) {
      const Row place = step % reads_ahead;
      if (step >= 2 * reads_ahead) get(run, step - 2 * reads_ahead, roots[place]);
      if (step >= reads_ahead && step - reads_ahead < rows) {
        const Row row = step - reads_ahead;
        roots[place] = root_at(homes[place], run.columns.hash[row]);
        prefetch_item(run, row, roots[place]);
      }
      if (step < rows) {
        if (step % window == 0) hash(run, step, std::min(rows, step + window));
        homes[place] = prefetch_home(run, step);
      }
    }
  }

  static ISOTHERM_INLINE void hash(Run& run, Row from, Row to) {
    run.executor.hash_keys(run.columns, from, to);
  }

  static ISOTHERM_INLINE LineIndex* index_of(const Run& run, Row row) {
    return run.executor.store_.databases[run.columns.database[row]].index();
  }

  // The home line of a row's key, on its way; null where the database is empty.
  static ISOTHERM_INLINE const Bucket* prefetch_home(const Run& run, Row row) {
    const LineIndex* index = index_of(run, row);
    return index == nullptr ? nullptr : index->prefetch_home(run.columns.hash[row]);
  }

  static ISOTHERM_INLINE void prefetch_lines(Run& run, Row from, Row to) {
    hash(run, from, to);
    for (Row row = from; row < to; ++row) {
      const LineIndex* index = index_of(run, row);
      if (index != nullptr) index->prefetch(run.columns.hash[row], run.columns.op[row] != Op::get);
    }
  }

  static ISOTHERM_INLINE Location root_at(const Bucket* home, uint64_t hash) {
    return home == nullptr ? location::none : isotherm::find(Tile{}, home, hash).word;
  }

  static ISOTHERM_INLINE Location find_root(const Run& run, Row row) {
    const LineIndex* index = index_of(run, row);
    return index == nullptr ? location::none : index->find<Tile>(run.columns.hash[row]).word;
  }

  static ISOTHERM_INLINE void prefetch_item(const Run& run, Row row, Location root) {
    if (root == location::none) return;
    const char* item = run.executor.store_.items.address(root);
    __builtin_prefetch(item);
    // The second line of an item that has one; a collision node's class says nothing, but it is
    // rare.
    if (location::size_class(root) > one_line_class) __builtin_prefetch(item + 64);
    // A write clears the item's live bit, and a read may set its CLOCK bit beside it.
    if (run.columns.op[row] != Op::get || run.executor.store_.touches) {
      run.executor.store_.items.prefetch_bits(root);
    }
  }

  static ISOTHERM_INLINE void show(Reply& reply, const Item& item) {
    const std::string_view value = item.value();
    reply.type = item.type();
    reply.flags = item.flags();
    reply.version = item.version();
    reply.expiry = item.expiry();
    reply.data = value.data();
    reply.size = value.size();
  }

  static ISOTHERM_INLINE void finish(Reply& reply, Status status) {
    reply.status.store(status, std::memory_order_release);
  }

  static ISOTHERM_INLINE void get(Run& run, Row row, Location root) {
    Reply& reply = run.columns.reply[row];
    ItemStore& items = run.executor.store_.items;
    const Member member = resolve(items, root, run.columns.key[row]);
    if (ISOTHERM_UNLIKELY(member.item == nullptr)) {
      ++run.misses;
      return finish(reply, Status::not_found);
    }
    // An expired item is erased by the write path, which answers the row too.
    if (ISOTHERM_UNLIKELY(member.item->expired(run.now_ms))) {
      ++run.misses;
      return write(run, row);
    }
    show(reply, *member.item);
    reply.location = member.location;
    if (run.executor.store_.touches && (run.columns.options[row] & option::no_touch) == 0) {
      items.touch(member.location);
    }
    ++run.hits;
    finish(reply, Status::ok);
  }

  static ISOTHERM_INLINE Request request_of(const Run& run, Row row) {
    const Batch::Columns& columns = run.columns;
    // A get has no other columns.
    if (columns.op[row] == Op::get) {
      return {Op::get, columns.options[row], columns.database[row], 0, columns.key[row], {}, 0, 0};
    }
    return {columns.op[row],  columns.options[row], columns.database[row], columns.flags[row],
            columns.key[row], columns.value[row],   columns.number[row],   columns.expiry[row]};
  }

  // The index to write to; null, with the row answered, where there is nothing to do.
  static ISOTHERM_INLINE LineIndex* index_to_write(const Run& run, const Request& request,
                                                   Reply& reply) {
    HostStore& store = run.executor.store_;
    Database& database = store.databases[request.database];
    if (LineIndex* index = database.index(); index != nullptr) return index;
    if (request.op == Op::erase || request.op == Op::expire || request.op == Op::get) {
      finish(reply, Status::not_found);
      return nullptr;
    }
    LineIndex* index = database.make_index(store.pages, store.budget, store.epochs);
    if (index == nullptr) finish(reply, Status::out_of_memory);
    return index;
  }

  static __attribute__((noinline)) void write(Run& run, Row row) {
    Reply& reply = run.columns.reply[row];
    const Request request = request_of(run, row);
    LineIndex* index = index_to_write(run, request, reply);
    if (index == nullptr) return;
    while (!try_write(run, row, request, *index, reply)) ++run.retries;
  }

  // Looks, plans, prepares and swaps once; false when the swap was lost.
  static ISOTHERM_INLINE bool try_write(Run& run, Row row, const Request& request, LineIndex& index,
                                        Reply& reply) {
    HostStore& store = run.executor.store_;
    const uint64_t hash = run.columns.hash[row];
    const Location root = index.find<Tile>(hash).word;
    const Member old = resolve(store.items, root, request.key);
    const int64_t old_expiry = old.item != nullptr ? old.item->expiry() : no_expiry;
    const bool expired = old_expiry != no_expiry && old_expiry <= run.now_ms;

    Plan plan;
    plan_change(request, expired ? nullptr : old.item, run.now_ms, store.options.max_value_bytes,
                plan);
    if (plan.action == Plan::Action::store && plan.parts.bytes() > run.largest_item) {
      plan.action = Plan::Action::keep;
      plan.status = Status::out_of_memory;
    }
    if (expired && plan.action == Plan::Action::keep) plan.action = Plan::Action::erase;

    // The old value stays readable until the batch is cleared, also when it is replaced.
    if (old.item != nullptr && !expired) {
      const bool shown =
          request.has(option::want_previous) || request.op == Op::expire || request.op == Op::get;
      if (shown) show(reply, *old.item);
    }
    reply.number = plan.number;

    if (plan.action == Plan::Action::keep) {
      if (old.item != nullptr) reply.expiry = old_expiry;
      finish(reply, plan.status);
      return true;
    }
    const Swapped swapped = swap(run, request, index, hash, root, old, old_expiry, plan, reply);
    if (swapped == Swapped::lost) {
      // What it showed may be gone when it is planned again.
      reply.type = ValueType::none;
      reply.flags = 0;
      reply.data = nullptr;
      reply.size = 0;
      return false;
    }
    if (swapped == Swapped::no_memory) plan.status = Status::out_of_memory;
    if (expired && swapped == Swapped::done) ++run.expired;
    finish(reply, plan.status);
    return true;
  }

  // One swap of roots as planned; settles what it replaced, or frees what it prepared.
  static ISOTHERM_INLINE Swapped swap(Run& run, const Request& request, LineIndex& index,
                                      uint64_t hash, Location root, Member old, int64_t old_expiry,
                                      const Plan& plan, Reply& reply) {
    HostExecutor& executor = run.executor;
    HostStore& store = executor.store_;
    // The expiry may be set in place meanwhile; it is then planned anew.
    const auto unchanged = [&] { return old.item == nullptr || old.item->expiry() == old_expiry; };

    if (plan.action == Plan::Action::set_expiry) {
      const Swapped swapped = swap_root<Tile>(index, hash, root, root, [&](Segment&) {
        if (!unchanged()) return false;
        old.item->set_expiry(plan.expiry);
        if (plan.expiry != no_expiry) store.items.note_expiry(old.location, plan.expiry);
        return true;
      });
      reply.expiry = plan.expiry;
      if (swapped == Swapped::done) {
        const int64_t delta = (plan.expiry != no_expiry) - (old_expiry != no_expiry);
        store.databases[request.database].expires.fetch_add(delta, std::memory_order_relaxed);
      }
      return swapped;
    }

    HostExecutor::Prepared fresh;
    if (plan.action == Plan::Action::store) {
      fresh = executor.prepare_item(plan);
      if (fresh.item == nullptr) return Swapped::no_memory;
    }
    const Composed composed =
        compose(store.items, executor.cache_, root, old.location, fresh.location);
    if (!composed.ok) {
      executor.cache_.free_unpublished(fresh.location);
      return Swapped::no_memory;
    }
    // Another expiry is the same value still, so it keeps the version, which the reply shows
    // already.
    const bool keeps_version = request.op == Op::expire && plan.status == Status::ok;
    bool live = false;
    const Swapped swapped =
        swap_root<Tile>(index, hash, root, composed.root, [&](Segment& segment) {
          if (!unchanged()) return false;
          if (!keeps_version) reply.version = segment.next_version();
          if (fresh.item != nullptr) {
            fresh.item->set_version(reply.version);
            store.items.set_live(fresh.location);
            live = true;
          }
          return true;
        });
    if (swapped == Swapped::done) {
      reply.expiry = fresh.item != nullptr ? plan.parts.expiry : no_expiry;
      if (root != composed.root) retire_root(executor.cache_, root);
      executor.settle(store.databases[request.database], old, old_expiry, reply.expiry);
      if (reply.expiry != no_expiry) store.items.note_expiry(fresh.location, reply.expiry);
      return swapped;
    }
    if (composed.root != root && composed.root != fresh.location) {
      discard_root(executor.cache_, composed.root);
    }
    if (fresh.item == nullptr) return swapped;
    if (live) {
      // A sweep may have seen it.
      executor.cache_.retire(fresh.location);
    } else {
      executor.cache_.free_unpublished(fresh.location);
    }
    return swapped;
  }
};

}  // namespace isotherm

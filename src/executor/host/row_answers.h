// RowAnswers: what an executor does for one row once it can ask for the key's root: it answers a
// get, or plans a write, prepares the item and swaps the roots. See executor/host/host_executor.h.
//
// `Roots` says where roots come from and go to: lines of the host's memory
// (executor/host/host_stages.h), or a round of a device (executor/device/round_stages.cc). It
// offers
//   to_write(run, row, request, reply)   the index as the row sees it, a pointer; null, with the
//                                        row answered, where there is nothing to do
//   answer_object(run, row, request, index)   runs a row of object_answers.h
// and that index offers find and update as a LineIndex does.
//
// Values that lie in device memory are fetched after all rows have run
// (executor/values/value_reader.h). Where the new value depends on one, its row runs again when it
// is there (executor/run/batch_run.h), or, in a batch that cannot wait, it is fetched on the spot.
//
// Calls, and puts of objects, have code of their own (executor/host/object_answers.h).
//
// Everything here must be a template or always inlined, as in host_stages.h.
#pragma once

#include "executor/commit_sink.h"
#include "executor/host/backed_rows.h"
#include "executor/host/bare_items.h"
#include "executor/host/changed_in_place.h"
#include "executor/host/shown_items.h"
#include "executor/values/value_reader.h"
#include "index/item_table.h"
#include "items/meta_state.h"

namespace isotherm {

template <class Tile, class Roots>
struct RowAnswers {
  using Row = Batch::Row;
  using Run = HostExecutor::Run;
  using Shown = ShownItems<Tile>;

  // Copies of shorter values are not worth counting.
  static constexpr uint64_t longest_unnoticed = 4096;

  static ISOTHERM_INLINE void get(Run& run, Roots& roots, Row row, Location root) {
    Reply& reply = run.columns.reply[row];
    ItemStore& items = run.executor.store_.items;
    if (ISOTHERM_UNLIKELY(run.direct != nullptr) && run.direct->has(run.columns.hash[row])) {
      return get_later(run, row);
    }
    Member member = BareItems<Tile>::find(items, root, run.columns.key[row]);
    if (ISOTHERM_LIKELY(member.item != nullptr)) {
      BareItems<Tile>::show(reply, *member.item);
    } else {
      member = resolve(items, root, run.columns.key[row]);
      if (member.item == nullptr) {
        if (ISOTHERM_UNLIKELY(run.direct != nullptr)) return get_later(run, row);
        if (run.executor.store_.backing != nullptr) return get_backed(run, roots, row);
        ++run.misses;
        return Shown::finish(reply, Status::not_found);
      }
      // An expired item is erased by the write path, which answers the row too.
      const Item& item = *member.item;
      if (ISOTHERM_UNLIKELY(item.expired(run.now_ms))) {
        ++run.misses;
        if (!run.erases_expired) return Shown::finish(reply, Status::not_found);
        return write(run, roots, row);
      }
      if (ISOTHERM_UNLIKELY(!item.is_shown_at_once())) {
        return get_otherwise(run, roots, row, member);
      }
      Shown::show_string(reply, item, item.value_data());
    }
    Shown::finish_get(run, row, member);
  }

  static __attribute__((noinline)) void write(Run& run, Roots& roots, Row row) {
    if (ISOTHERM_UNLIKELY(run.executor.store_.sink != nullptr)) return write_told(run, roots, row);
    write_as<false>(run, roots, row);
  }

  // A get that memory misses, where the backing answers such directly, or a row behind one.
  static __attribute__((noinline)) void get_later(Run& run, Row row) {
    run.direct->add(row, run.columns.hash[row]);
  }

  // Any row but a get.
  static ISOTHERM_INLINE void change(Run& run, Roots& roots, Row row, Op op) {
    ISOTHERM_UNLIKELY(op >= Op::call) ? write_object(run, roots, row) : write(run, roots, row);
  }

 private:
  template <class Index>
  friend struct ObjectAnswers;

  static __attribute__((noinline)) void write_object(Run& run, Roots& roots, Row row) {
    const Request request = request_of(run, row);
    // Objects have no place in files, so a key there would be taken for none. Behind the operations
    // on objects there are none.
    if (run.executor.store_.backing != nullptr || request.op > Op::put_object) {
      return Shown::finish(run.columns.reply[row], Status::invalid);
    }
    auto* index = roots.to_write(run, row, request, run.columns.reply[row]);
    if (index != nullptr) roots.answer_object(run, row, request, *index);
  }
  // Code of its own for stores with a sink, so that the others pay for one look.
  static __attribute__((noinline)) void write_told(Run& run, Roots& roots, Row row) {
    write_as<true>(run, roots, row);
  }
  template <bool told>
  static ISOTHERM_INLINE void write_as(Run& run, Roots& roots, Row row) {
    Reply& reply = run.columns.reply[row];
    const Request request = request_of(run, row);
    auto* index = roots.to_write(run, row, request, reply);
    if (index == nullptr) return;
    while (!try_write<told>(run, row, request, *index, reply)) ++run.retries;
  }

  // A get that memory misses, where there is a backing.
  static __attribute__((noinline)) void get_backed(Run& run, Roots& roots, Row row) {
    Reply& reply = run.columns.reply[row];
    const Request request = request_of(run, row);
    auto* index = roots.to_write(run, row, request, reply);
    if (index == nullptr) return;
    for (;; ++run.retries) {
      const Location root = index->template find<Tile>(run.columns.hash[row]).word;
      if (resolve(run.executor.store_.items, root, request.key).item != nullptr) {
        return get(run, roots, row, root);
      }
      Backing::Stored stored;
      switch (bring<Tile>(run, row, request, *index, root, stored)) {
        case Brought::here:
          continue;
        case Brought::parked:
          return;
        case Brought::absent:
          ++run.misses;
          return Shown::finish(reply, Status::not_found);
        case Brought::failed:
          return Shown::finish(reply, Status::not_saved);
        case Brought::no_memory:
          if (run.show_held(row, stored)) return;
          return Shown::finish(reply, Status::out_of_memory);
      }
    }
  }

  // Anything but a string that is here, has no state and does not change.
  static __attribute__((noinline)) void get_otherwise(Run& run, Roots& roots, Row row,
                                                      Member member) {
    const Item& item = *member.item;
    if (item.is_object()) return Shown::get_object(run, row, member);
    const uint16_t options = run.columns.options[row];
    if (item.has_state()) {
      if ((options & option::with_state) != 0) {
        if (MetaState::may_be_won(item.state())) return write(run, roots, row);
        run.columns.reply[row].number = static_cast<int64_t>(item.state());
      }
      if ((options & option::no_touch) == 0) Shown::note_use(run, item);
    }
    if (item.away()) return Shown::get_away(run, row, member);
    Reply& reply = run.columns.reply[row];
    const bool shows_none = item.may_change() && (options & option::no_value) != 0;
    const bool shows_part =
        item.may_change() && (options & option::part) != 0 && run.show_part(row, member);
    if (item.may_change() && !shows_none && !shows_part) run.share(member.location);
    if (!shows_part) Shown::show(reply, item);
    if (shows_none) reply.data = nullptr;
    Shown::finish_get(run, row, member);
  }

  // An item whose value lies on a device as far as the request needs to know it: with its value
  // where that decides what is done, and null where that is lost.
  static __attribute__((noinline)) ValueReader::Whole known_away(const Run& run, Row row,
                                                                 const Request& request,
                                                                 const Item& old) {
    if (builds_on_value(request, old)) return run.whole(old, row);
    const bool shows = shows_old(request) && !request.has(option::no_value);
    return {.item = &old, .no_memory = shows && !run.reserve(old)};
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

  // Looks, plans, prepares and swaps once; false when the swap was lost.
  template <bool told, class Index>
  static ISOTHERM_INLINE bool try_write(Run& run, Row row, const Request& request, Index& index,
                                        Reply& reply) {
    HostStore& store = run.executor.store_;
    const uint64_t hash = run.columns.hash[row];
    const Location root = index.template find<Tile>(hash).word;
    const Member old = resolve(store.items, root, request.key);
    const int64_t old_expiry = old.item != nullptr ? old.item->expiry() : no_expiry;
    const bool expired = old_expiry != no_expiry && old_expiry <= run.now_ms;

    Backing::Stored stored;
    bool is_seen = false;
    if constexpr (told) {
      if (old.item == nullptr && store.backing != nullptr && needs_old(request)) {
        const Brought brought = bring<Tile>(run, row, request, index, root, stored);
        if (brought == Brought::here) return false;
        // What is only to go need not come.
        if (brought == Brought::no_memory && request.op == Op::erase && !shows_old(request) &&
            !request.has(option::if_version)) {
          return erase_stored(run, request, index, hash, root, stored.seen, reply);
        }
        if (brought == Brought::failed) Shown::finish(reply, Status::not_saved);
        if (brought == Brought::no_memory && !run.stops(row))
          Shown::finish(reply, Status::out_of_memory);
        if (brought != Brought::absent) return true;
        is_seen = true;
      }
    }

    const Item* known = expired ? nullptr : old.item;
    if (known != nullptr && ISOTHERM_UNLIKELY(!known->is_plain())) {
      if (known->is_object()) {
        if (!takes_objects(request)) {
          Shown::finish(reply, Status::wrong_type);
          return true;
        }
      } else if (known->may_change()) {
        using Changed = ChangedInPlace<Tile>;
        const auto outcome =
            Changed::template change<told>(run, row, request, index, root, old, old_expiry);
        if (outcome != Changed::Outcome::copied) return outcome == Changed::Outcome::answered;
        if (Changed::looks(request, *known)) run.share(old.location);
      } else {
        const ValueReader::Whole away = known_away(run, row, request, *known);
        if (away.no_memory) Shown::finish(reply, Status::out_of_memory);
        if (away.no_memory || away.awaited) return true;
        known = away.item;
      }
    }
    // Expired, or its value was lost with a device.
    const bool gone = old.item != nullptr && known == nullptr;

    Plan plan;
    plan_change(request, known, run.now_ms, store.max_value_bytes.load(std::memory_order_relaxed),
                plan);
    if (plan.action == Plan::Action::store && !request.has(option::over_cap) &&
        !run.takes(request, plan)) {
      plan.action = Plan::Action::keep;
      plan.status = Status::out_of_memory;
    }
    if (gone && plan.action == Plan::Action::keep) plan.action = Plan::Action::erase;

    // The old value stays readable until the batch is cleared, also when it is replaced.
    const Item* const shown = shows_old(request) ? known : nullptr;
    if (shown != nullptr) {
      Shown::show(reply, *shown);
      reply.location = old.location;
    }
    reply.number = plan.number;

    if (ISOTHERM_UNLIKELY(plan.counts_use) && shown != nullptr) {
      Shown::note_planned_use(run, row, *shown, old.location);
    }
    if (plan.action == Plan::Action::keep) {
      if (old.item != nullptr) {
        reply.expiry = old_expiry;
        reply.location = old.location;
      }
      Shown::finish_write(run, request, reply, shown, plan.status);
      return true;
    }
    const Swapped swapped = swap<told>(run, request, index, hash, root, old, old_expiry, plan,
                                       reply, is_seen ? &stored.seen : nullptr);
    if (swapped == Swapped::lost || (swapped == Swapped::no_memory && run.stops(row))) {
      // Clears what the reply showed, since the item may be gone when the row is planned again.
      reply.type = ValueType::none;
      reply.flags = 0;
      reply.data = nullptr;
      reply.size = 0;
      reply.location = location::none;
      return swapped != Swapped::lost;
    }
    if (swapped == Swapped::no_memory) plan.status = Status::out_of_memory;
    run.changes += swapped == Swapped::done;
    if (expired && swapped == Swapped::done) run.count_expired(old.location);
    Shown::finish_write(run, request, reply, shown, plan.status);
    return true;
  }

  // Erases what the backing alone has; false when it was changed meanwhile.
  template <class Index>
  static __attribute__((noinline)) bool erase_stored(Run& run, const Request& request, Index& index,
                                                     uint64_t hash, Location root,
                                                     const Backing::Seen& seen, Reply& reply) {
    const Backing& backing = *run.executor.store_.backing;
    const Swapped swapped = swap_root<Tile>(index, hash, root, root, [&](auto& versions) {
      if (!backing.is_as_seen(seen)) return false;
      run.tell(request, hash, {}, no_expiry, nullptr, no_expiry, versions.next_version());
      return true;
    });
    run.changes += swapped == Swapped::done;
    if (swapped == Swapped::lost) return false;
    Shown::finish(reply, swapped == Swapped::done ? Status::ok : Status::out_of_memory);
    return true;
  }

  // One swap of roots as planned; settles what it replaced, or frees what it prepared.
  template <bool told, class Index>
  static ISOTHERM_INLINE Swapped swap(Run& run, const Request& request, Index& index, uint64_t hash,
                                      Location root, Member old, int64_t old_expiry,
                                      const Plan& plan, Reply& reply,
                                      const Backing::Seen* seen = nullptr) {
    HostExecutor& executor = run.executor;
    HostStore& store = executor.store_;
    // The expiry may be set in place meanwhile, and an object may change; it is then planned anew.
    // A key that is nowhere may have come and gone from memory.
    const auto unchanged = [&] {
      if (told && seen != nullptr && !store.backing->is_as_seen(*seen)) return false;
      return old.item == nullptr ||
             (old.item->expiry() == old_expiry &&
              (ISOTHERM_LIKELY(!request.has(option::if_version)) || plan.status != Status::ok ||
               Objects::version_of(*old.item) == static_cast<uint64_t>(request.number)) &&
              (ISOTHERM_LIKELY(!plan.token_decides) ||
               MetaState::has_token(old.item->state()) == plan.token_seen));
    };

    if (plan.action == Plan::Action::in_place) {
      // Others see the expiry as soon as it is set.
      const Swapped swapped = swap_root<Tile>(index, hash, root, root, [&](auto& versions) {
        if (!unchanged()) return false;
        const uint64_t version = versions.next_version();
        // Before it is told of, since whoever is told takes the state from the item.
        if (plan.sends_token) {
          old.item->change_state([](uint64_t state) { return state | MetaState::token_sent; });
        }
        if (told) run.tell(request, hash, old, old_expiry, old.item, plan.expiry, version);
        if (old.item->has_expiry()) old.item->set_expiry(plan.expiry);
        if (plan.expiry != no_expiry) store.items.note_expiry(old.location, plan.expiry);
        return true;
      });
      reply.expiry = plan.expiry;
      reply.location = old.location;
      if (swapped == Swapped::done) {
        const int64_t delta = (plan.expiry != no_expiry) - (old_expiry != no_expiry);
        store.databases[request.database].expires.fetch_add(delta, std::memory_order_relaxed);
      }
      return swapped;
    }

    HostExecutor::Prepared fresh;
    if (plan.action == Plan::Action::store) {
      fresh = executor.prepare_item(plan, request.has(option::over_cap));
      if (fresh.item == nullptr) return Swapped::no_memory;
    }
    const Composed composed =
        compose(store.items, executor.cache_, root, old.location, fresh.location);
    if (!composed.ok) {
      if (fresh.item != nullptr) executor.drop_item(plan, fresh.location);
      return Swapped::no_memory;
    }
    bool live = false;
    uint64_t version = 0;
    const auto prepare = [&](auto& versions) {
      if (!unchanged()) return false;
      version = versions.next_version();
      // A version that is kept is in the reply already.
      if (!plan.keeps_version) reply.version = version;
      if (fresh.item != nullptr) {
        fresh.item->set_version(reply.version);
        store.items.set_live(fresh.location);
        live = true;
      }
      return true;
    };
    const auto publish = [&] {
      if constexpr (told) {
        if (ISOTHERM_UNLIKELY(plan.first.size() >= ChangedPart::least_value)) {
          return run.tell_stored(request, hash, old, old_expiry, fresh.item, plan, version);
        }
        run.tell(request, hash, old, old_expiry, fresh.item,
                 fresh.item != nullptr ? plan.parts.expiry : no_expiry, version);
      }
    };
    const Swapped swapped = swap_root<Tile>(index, hash, root, composed.root, prepare, publish);
    if (swapped == Swapped::done) {
      reply.expiry = fresh.item != nullptr ? plan.parts.expiry : no_expiry;
      if (reply.location == location::none) {
        reply.location = fresh.item != nullptr ? fresh.location : old.location;
      }
      if (root != composed.root) retire_root(executor.cache_, root);
      if (fresh.item != nullptr && store.touches && !request.has(option::no_touch)) {
        executor.begin_marks(hash, old.location, fresh.location);
      }
      executor.settle(store.databases[request.database], old, old_expiry, reply.expiry);
      if (reply.expiry != no_expiry) store.items.note_expiry(fresh.location, reply.expiry);
      if (request.op == Op::put) return swapped;
      if (ISOTHERM_UNLIKELY(plan.parts.value_bytes > longest_unnoticed)) {
        store.copied.fetch_add(plan.parts.value_bytes, std::memory_order_relaxed);
      }
      // The item may be replaced at once, but stays readable as the old one does.
      if (ISOTHERM_UNLIKELY(request.op == Op::add_float && fresh.item != nullptr)) {
        Shown::show(reply, *fresh.item);
      }
      return swapped;
    }
    if (composed.root != root && composed.root != fresh.location) {
      discard_root(executor.cache_, composed.root);
    }
    if (fresh.item == nullptr) return swapped;
    // A sweep may have seen one that is live.
    live ? executor.cache_.retire(fresh.location) : executor.drop_item(plan, fresh.location);
    return swapped;
  }
};

}  // namespace isotherm

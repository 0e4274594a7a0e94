// ChangedInPlace: rows that change some bits or bytes of a long value where it lies
// (items/changing_item.h), which is all that they do.
//
// The row is planned under the lock of its key's line, with the lease of the value's writer, so
// nothing has to be looked at again, and rows that write one value only wait for that lock. Where
// somebody reads the value, or the sink has to see the old one, or the item has no room for a
// longer one, it goes the long way and stores a changed copy (RowAnswers). So does one that writes
// much, since readers wait for it.
//
// Everything here must be a template or always inlined, as in host_stages.h.
// Threads. As RowAnswers.
#pragma once

#include "executor/commit_sink.h"
#include "executor/host/host_executor.h"
#include "index/item_table.h"
#include "items/change.h"
#include "items/changing_item.h"

namespace isotherm {

// Whether what is done depends on the old value, or on whether it can still be had.
ISOTHERM_INLINE bool builds_on_value(const Request& request, const Item& old) {
  constexpr uint16_t conditions = option::if_absent | option::if_present | option::if_version;
  switch (request.op) {
    case Op::expire:
      return request.expiry != no_expiry && !old.has_expiry();
    case Op::put:
      return request.has(option::want_previous) && request.has(conditions);
    default:
      return request.op != Op::erase && request.op != Op::get && request.op != Op::none;
  }
}
ISOTHERM_INLINE bool shows_old(const Request& request) {
  return request.has(option::want_previous) || request.op == Op::expire || request.op == Op::get ||
         request.op == Op::meta;
}

template <class Tile>
struct ChangedInPlace {
  using Row = Batch::Row;
  using Run = HostExecutor::Run;

  enum class Outcome : uint8_t {
    answered,
    lost,    // to another request: it has to be looked at anew
    copied,  // nothing was done: it stores a copy
  };

  // Of an item that may change, and that the index has, or had a moment ago.
  template <bool told, class Index>
  static __attribute__((noinline)) Outcome change(Run& run, Row row, const Request& request,
                                                  Index& index, Location root, Member old,
                                                  int64_t old_expiry) {
    if (!run.may_change_in_place(request)) return Outcome::copied;
    HostStore& store = run.executor.store();
    const uint64_t hash = run.columns.hash[row];
    Plan plan;
    uint64_t version = 0;
    Outcome outcome = Outcome::lost;
    const Swapped swapped = swap_root<Tile>(index, hash, root, root, [&](auto& versions) {
      if (old.item->expiry() != old_expiry) return false;
      const ChangingItem::Writing writing(old.location);
      outcome = Outcome::copied;
      if (!writing) return false;
      plan_change(request, old.item, run.now_ms,
                  store.max_value_bytes.load(std::memory_order_relaxed), plan);
      ChangedPart part;
      const bool keeps = plan.action == Plan::Action::keep;
      if (!keeps && !run.fits_in_place(request, *old.item, plan, part)) return false;
      outcome = Outcome::answered;
      if (keeps) return false;
      version = versions.next_version();
      run.change_in_place(request, hash, old, plan, told ? &part : nullptr, version);
      return true;
    });
    Reply& reply = run.columns.reply[row];
    if (swapped == Swapped::no_memory) {
      if (!run.stops(row)) reply.status.store(Status::out_of_memory, std::memory_order_release);
      return Outcome::answered;
    }
    if (outcome != Outcome::answered) return outcome;
    if (swapped == Swapped::done) {
      ++run.changes;
      reply.version = version;
      if (store.touches && !request.has(option::no_touch)) store.items.touch(old.location);
    }
    reply.number = plan.number;
    reply.expiry = old_expiry;
    reply.location = old.location;
    reply.status.store(plan.status, std::memory_order_release);
    return outcome;
  }

  // Whether a row that goes the long way looks at the value, or shows it.
  static bool looks(const Request& request, const Item& old) {
    return builds_on_value(request, old) ||
           (shows_old(request) && !request.has(option::no_value)) ||
           (request.op == Op::get && request.has(option::with_state));
  }
};

}  // namespace isotherm

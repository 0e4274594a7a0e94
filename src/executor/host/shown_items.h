// ShownItems: what a reply shows of an item that a row has found, and that it was used.
//
// Everything here must be a template or always inlined, as in host_stages.h.
// Threads. As RowAnswers.
#pragma once

#include "executor/host/changed_in_place.h"
#include "executor/host/host_executor.h"
#include "executor/values/value_reader.h"
#include "index/item_table.h"
#include "items/meta_state.h"
#include "items/objects.h"

namespace isotherm {

template <class Tile>
struct ShownItems {
  using Row = Batch::Row;
  using Run = HostExecutor::Run;

  static ISOTHERM_INLINE bool touches(const Run& run, Row row) {
    return run.executor.store().touches && (run.columns.options[row] & option::no_touch) == 0;
  }

  // ---- Gets ----

  static ISOTHERM_INLINE void finish_get(Run& run, Row row, Member member) {
    note_find(run, row, member);
    finish(run.columns.reply[row], Status::ok);
  }
  static ISOTHERM_INLINE void note_find(Run& run, Row row, Member member) {
    run.columns.reply[row].location = member.location;
    if (ISOTHERM_UNLIKELY((run.columns.options[row] & option::with_bytes) != 0)) {
      note_bytes(run, row, member);
    }
    if (touches(run, row)) run.executor.store().items.touch(member.location);
    ++run.hits;
  }
  // Whoever reads the reply may do so long after the epoch, when the item is gone.
  static __attribute__((noinline)) void note_bytes(const Run& run, Row row, Member member) {
    const uint64_t bytes = ItemStore::footprint(member.location) + Objects::bytes_of(*member.item);
    run.columns.reply[row].number = static_cast<int64_t>(bytes);
  }

  static __attribute__((noinline)) void get_away(Run& run, Row row, Member member) {
    Reply& reply = run.columns.reply[row];
    show(reply, *member.item);
    const bool again = touches(run, row) && run.executor.store().items.is_used(member.location);
    note_find(run, row, member);
    if ((run.columns.options[row] & option::no_value) != 0) return finish(reply, Status::ok);
    if (!run.reserve(*member.item)) return finish(reply, Status::out_of_memory);
    run.await(reply, *member.item, Status::ok, Status::not_found, again, true);
  }

  static __attribute__((noinline)) void get_object(Run& run, Row row, Member member) {
    Reply& reply = run.columns.reply[row];
    if ((run.columns.options[row] & option::any_type) == 0) {
      ++run.hits;
      return finish(reply, Status::wrong_type);
    }
    show(reply, *member.item);
    finish_get(run, row, member);
  }

  // ---- Uses ----

  static void note_use(const Run& run, const Item& item) {
    const int64_t now_ms = run.now_ms;
    if (MetaState::used(item.state(), now_ms) == item.state()) return;
    item.change_state([now_ms](uint64_t state) { return MetaState::used(state, now_ms); });
  }
  static __attribute__((noinline)) void note_planned_use(const Run& run, Row row, const Item& item,
                                                         Location location) {
    if (item.has_state()) note_use(run, item);
    if (run.columns.op[row] != Op::expire && touches(run, row)) {
      run.executor.store().items.touch(location);
    }
  }

  // ---- Replies ----

  // Where the reply shows an item whose value lies on a device, it is fetched behind all rows.
  static ISOTHERM_INLINE void finish_write(Run& run, const Request& request, Reply& reply,
                                           const Item* shown, Status status) {
    if (shown == nullptr || ISOTHERM_LIKELY(!shown->away()) || request.has(option::no_value)) {
      return finish(reply, status);
    }
    run.await(reply, *shown, status, request.op == Op::put ? status : Status::not_found);
  }

  static ISOTHERM_INLINE void show(Reply& reply, const Item& item) {
    show_string(reply, item, item.away() ? nullptr : item.value_data());
    if (ISOTHERM_UNLIKELY(!item.is_constant())) show_changing(reply, item);
  }
  static ISOTHERM_INLINE void show_string(Reply& reply, const Item& item, const char* data) {
    reply.type = ValueType::string;
    reply.flags = item.flags();
    reply.version = item.version();
    reply.expiry = item.expiry();
    reply.data = data;
    reply.size = item.value_bytes();
  }
  static __attribute__((noinline)) void show_changing(Reply& reply, const Item& item) {
    reply.version = Objects::version_of(item);
    if (!item.is_object()) return;
    reply.type = item.type();
    reply.data = reinterpret_cast<const char*>(item.object());
    reply.size = 0;
  }

  static ISOTHERM_INLINE void finish(Reply& reply, Status status) {
    reply.status.store(status, std::memory_order_release);
  }
};

}  // namespace isotherm

// ObjectAnswers: what an executor does for a row that is about an object (isotherm/object.h): a
// call, or the put of one.
//
// A call that only reads finds the item in the index without locking a line, and then waits only
// for a call that is changing the object at that moment. A call that changes the object takes the
// object's lock and then the line's, as if it swapped the root for the same one, so it is ordered
// with everything else on the key. If it leaves the object empty, the item leaves the index under
// both locks; a reader that has waited for the object meanwhile finds it empty, and answers as if
// the key were absent. If the key is absent, the function runs on a new object that nobody else
// knows, which is then put like any other item; if another thread was faster, the whole call runs
// again.
//
// `Index` is a LineIndex, or the index as a row of a round sees it
// (executor/device/round_overlay.h). This code is compiled once for all instruction sets, so it
// need not be a template over the tile.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "base/tile.h"
#include "executor/host/row_answers.h"
#include "isotherm/object.h"

namespace isotherm {

template <class Index>
struct ObjectAnswers {
  using Row = Batch::Row;
  using Run = HostExecutor::Run;
  using Rows = RowAnswers<TilePlain, ObjectAnswers>;
  using Shown = ShownItems<TilePlain>;

  static void answer(Run& run, Row row, const Request& request, Index& index) {
    const bool calls = request.op == Op::call;
    while (!(calls ? try_call(run, row, request, index) : try_put(run, row, request, index))) {
      ++run.retries;
    }
  }

 private:
  // The key as one look found it.
  struct Seen {
    Seen(const Run& run, Row row, const Request& request, const Index& index)
        : hash(run.columns.hash[row]),
          root(index.template find<TilePlain>(hash).word),
          old(resolve(run.executor.store().items, root, request.key)),
          old_expiry(old.item != nullptr ? old.item->expiry() : no_expiry),
          expired(old_expiry != no_expiry && old_expiry <= run.now_ms) {}

    Item* item() const { return expired ? nullptr : old.item; }

    const uint64_t hash;
    const Location root;
    const Member old;
    const int64_t old_expiry;
    const bool expired;
  };

  static bool answered(Reply& reply, Status status) {
    Shown::finish(reply, status);
    return true;
  }

  // Whether the value of a key may be so large.
  static bool is_possible(const Run& run, const Request& request, uint64_t bytes) {
    return request.has(option::over_cap) || bytes <= run.largest_item;
  }
  // What a call that makes its object larger asks for: a byte at least, since without any room
  // there is none for it.
  static uint64_t growth_of(const ObjectCall& call) {
    return std::max<uint64_t>(1, bytes_of_arguments(call.arguments));
  }
  // Whether `bytes` more may be taken. A function may take far more than its arguments, and objects
  // that were evicted are not free before their readers have gone; so a batch that can look for
  // memory on its way does so where both leave the cap behind.
  static bool has_room(const Run& run, Row row, const Request& request, uint64_t bytes) {
    const bool over_cap = request.has(option::over_cap);
    const MemoryBudget& budget = run.executor.store().budget;
    const auto fits = [&] {
      return (over_cap || !run.may_stop(row) || budget.fits_near(bytes)) && budget.fits(bytes);
    };
    if (fits()) return true;
    run.executor.cache().reclaim_all();
    if (fits()) return true;
    if (!over_cap && run.may_stop(row)) return false;
    return run.executor.runs_over(over_cap) && budget.fits_over(bytes);
  }
  // Whether the row is left to run again, when there is memory.
  static bool stops(Run& run, Row row, Reply& reply) {
    if (!run.stops(row)) return false;
    reply.type = ValueType::none;
    reply.expiry = no_expiry;
    return true;
  }

  static bool try_call(Run& run, Row row, const Request& request, Index& index) {
    Reply& reply = run.columns.reply[row];
    const ObjectFunction& function = function_of(request);
    ObjectCall call{.arguments = run.columns.arguments_of(row),
                    .context = reinterpret_cast<void*>(request.expiry),
                    .now_ms = run.now_ms};
    const Seen seen(run, row, request, index);
    const Item* item = seen.item();
    if (item == nullptr) {
      if (function.read != nullptr) ++run.misses;
      if (!run.erases_expired) return answered(reply, Status::not_found);
      return function.make != nullptr ? make(run, row, request, index, seen, call, reply)
                                      : leave(run, request, index, seen, Status::not_found, reply);
    }
    if (item->type() != function.type) return answered(reply, Status::wrong_type);
    reply.type = function.type;
    reply.expiry = seen.old_expiry;
    if (Shown::touches(run, row)) run.executor.store().items.touch(seen.old.location);
    return function.read != nullptr ? read(run, *item, function, call, reply)
                                    : change(run, row, request, index, seen, call);
  }

  static bool read(Run& run, const Item& item, const ObjectFunction& function, ObjectCall& call,
                   Reply& reply) {
    const bool found = item.object()->look([&](const Object& object) {
      if (object.empty()) return false;
      function.read(object, call);
      reply.version = Objects::version_of(item);
      return true;
    });
    ++(found ? run.hits : run.misses);
    reply.number = call.number;
    return answered(reply, found ? call.status : Status::not_found);
  }

  static bool change(Run& run, Row row, const Request& request, Index& index, const Seen& seen,
                     ObjectCall& call) {
    Reply& reply = run.columns.reply[row];
    HostStore& store = run.executor.store();
    ItemStore::Cache& cache = run.executor.cache();
    const ObjectFunction& function = function_of(request);
    Object& object = *seen.old.item->object();
    if (function.grows) {
      const uint64_t bytes = growth_of(call);
      const bool is_possible = ObjectAnswers::is_possible(run, request, object.counted() + bytes);
      if (!is_possible || !has_room(run, row, request, bytes)) {
        return (is_possible && stops(run, row, reply)) || answered(reply, Status::out_of_memory);
      }
    }
    // Where the object is left empty.
    const Composed without =
        compose(store.items, cache, seen.root, seen.old.location, location::none);
    if (!without.ok) return answered(reply, Status::out_of_memory);
    const auto [ran, stays] = change_in_place(run, request, index, seen, call, without.root, reply);
    if (stays) {
      discard_root(cache, without.root);
      if (!ran) return false;
    } else {
      retire_root(cache, seen.root);
      run.executor.settle(store.databases[request.database], seen.old, seen.old_expiry, no_expiry);
    }
    reply.number = call.number;
    return answered(reply, call.status);
  }

  struct Outcome {
    bool ran = false;  // else another request came in between
    bool stays = true;
  };
  // The root becomes `without` where the object does not stay.
  static Outcome change_in_place(Run& run, const Request& request, Index& index, const Seen& seen,
                                 ObjectCall& call, Location without, Reply& reply) {
    HostStore& store = run.executor.store();
    Object& object = *seen.old.item->object();
    Outcome outcome;
    Objects::Changing changing(store.items.objects(), object);
    const auto decide = [&](bool found, uint64_t word, auto& versions) -> Decision {
      if ((found ? word : location::none) != seen.root && !broken(Rule::swaps)) return {};
      if (seen.old.item->expiry() != seen.old_expiry) return {};
      outcome.ran = true;
      reply.version = Objects::version_of(*seen.old.item);
      if (!function_of(request).change(object, call)) return {};
      reply.version = versions.next_version();
      changing.note(reply.version);
      outcome.stays = !object.empty();
      if (store.sink != nullptr) {
        run.tell(request, seen.hash, seen.old, seen.old_expiry,
                 outcome.stays ? seen.old.item : nullptr,
                 outcome.stays ? seen.old_expiry : no_expiry, reply.version, &call);
      }
      if (outcome.stays) return {Action::store, seen.root};
      return {without != location::none ? Action::store : Action::erase, without};
    };
    index.template update<TilePlain>(seen.hash, decide);
    return outcome;
  }

  // Calls the function on a new object, which is put where the key is absent.
  static bool make(Run& run, Row row, const Request& request, Index& index, const Seen& seen,
                   ObjectCall& call, Reply& reply) {
    HostStore& store = run.executor.store();
    const ObjectFunction& function = function_of(request);
    const uint64_t max_value_bytes = store.max_value_bytes.load(std::memory_order_relaxed);
    if (request.key.size() > max_value_bytes) {
      return leave(run, request, index, seen, Status::too_large, reply);
    }
    const uint64_t bytes = function.grows ? growth_of(call) : 0;
    const bool is_possible = ObjectAnswers::is_possible(run, request, bytes);
    if (function.grows && (!is_possible || !has_room(run, row, request, bytes))) {
      return (is_possible && stops(run, row, reply)) ||
             leave(run, request, index, seen, Status::out_of_memory, reply);
    }
    std::unique_ptr<Object> object = function.make();
    function.change(*object, call);
    reply.number = call.number;
    if (object->empty()) return leave(run, request, index, seen, call.status, reply);
    Request put = request;
    put.op = Op::put_object;
    put.options = static_cast<uint16_t>(request.options & option::over_cap);
    put.flags = 0;
    put.expiry = no_expiry;
    const Location location = store.items.objects().take(std::move(object));
    put.value = {reinterpret_cast<const char*>(&location), sizeof location};
    Plan plan;
    plan_change(put, nullptr, run.now_ms, max_value_bytes, plan);
    become(plan, function.type);
    const Swapped swapped = swap(run, put, index, seen, plan, reply);
    if (swapped != Swapped::done) store.items.objects().free(location);
    if (swapped == Swapped::lost) return false;
    if (swapped == Swapped::no_memory) {
      return stops(run, row, reply) || answered(reply, Status::out_of_memory);
    }
    reply.type = function.type;
    return answered(reply, call.status);
  }

  static bool try_put(Run& run, Row row, const Request& request, Index& index) {
    Reply& reply = run.columns.reply[row];
    HostStore& store = run.executor.store();
    auto& object =
        *reinterpret_cast<std::unique_ptr<Object>*>(const_cast<char*>(request.value.data()));
    if (object == nullptr) return answered(reply, Status::invalid);
    const Seen seen(run, row, request, index);
    const uint64_t bytes = object->memory();
    Request put = request;
    const ValueType type = object->type();
    const Location location = store.items.objects().take(std::move(object));
    put.value = {reinterpret_cast<const char*>(&location), sizeof location};
    Plan plan;
    plan_change(put, seen.item(), run.now_ms, store.max_value_bytes.load(std::memory_order_relaxed),
                plan);
    become(plan, type);
    Swapped swapped = Swapped::no_memory;
    const bool is_possible = ObjectAnswers::is_possible(run, request, bytes);
    if (plan.action == Plan::Action::store && is_possible && has_room(run, row, request, 0)) {
      swapped = swap(run, put, index, seen, plan, reply);
      if (swapped == Swapped::done) {
        reply.type = type;
        return answered(reply, Status::ok);
      }
    }
    object = store.items.objects().give_back(location);
    if (swapped == Swapped::lost) return false;
    if (plan.action == Plan::Action::store) {
      if (is_possible && stops(run, row, reply)) return true;
      plan.status = Status::out_of_memory;
    }
    return leave(run, request, index, seen, plan.status, reply);
  }

  // Of the item of an object.
  static void become(Plan& plan, ValueType type) {
    plan.parts.type = type;
    plan.parts.all_fields = true;
  }

  static Swapped swap(Run& run, const Request& request, Index& index, const Seen& seen,
                      const Plan& plan, Reply& reply) {
    const Swapped swapped =
        run.executor.store().sink != nullptr
            ? Rows::template swap<true>(run, request, index, seen.hash, seen.root, seen.old,
                                        seen.old_expiry, plan, reply)
            : Rows::template swap<false>(run, request, index, seen.hash, seen.root, seen.old,
                                         seen.old_expiry, plan, reply);
    if (swapped == Swapped::done && seen.expired) run.count_expired(seen.old.location);
    return swapped;
  }

  // Changes nothing, but erases what has expired.
  static bool leave(Run& run, const Request& request, Index& index, const Seen& seen, Status status,
                    Reply& reply) {
    if (seen.expired) {
      Plan plan;
      plan.action = Plan::Action::erase;
      if (swap(run, request, index, seen, plan, reply) == Swapped::lost) return false;
    }
    return answered(reply, status);
  }
};

}  // namespace isotherm

#include "executor/batch_bytes.h"

#include <algorithm>
#include <mutex>

#include "base/worker_pool.h"
#include "command/changes.h"
#include "index/item_table.h"
#include "items/change.h"
#include "items/changing_item.h"
#include "items/meta_request.h"

namespace isotherm {
namespace {

const MetaRequest& meta_at(const Batch::Columns& columns, Batch::Row row) {
  return *reinterpret_cast<const MetaRequest*>(static_cast<uintptr_t>(columns.number[row]));
}

// A get may also store an item that it wins since that is stale, which happens seldom.
bool meta_stores(const MetaRequest& meta) {
  using enum MetaRequest::Kind;
  if (meta.kind == get) return meta.sets_expiry || meta.vivifies || meta.recaches;
  return meta.kind != look && meta.kind != erase;
}

bool stores(const Batch::Columns& columns, Batch::Row row) {
  const Op op = columns.op[row];
  if (op == Op::meta) return meta_stores(meta_at(columns, row));
  return op != Op::erase && op != Op::none && op != Op::flush && changes(columns, row);
}

// A function that takes no memory runs however little room there is.
uint64_t call_bytes(const Batch::Columns& columns, Batch::Row row) {
  if (!function_at(columns, row).grows) return 0;
  return bytes_of_arguments(columns.arguments_of(row));
}

uint64_t object_bytes(std::string_view value) {
  const auto& object = *reinterpret_cast<const std::unique_ptr<Object>*>(value.data());
  return object != nullptr ? object->memory() : 0;
}

// Whether the row's item holds the old value, too.
bool copies(const Batch::Columns& columns, Batch::Row row) {
  const Op op = columns.op[row];
  if (op == Op::meta) {
    const MetaRequest& meta = meta_at(columns, row);
    const bool joins =
        meta.mode == MetaRequest::Mode::append || meta.mode == MetaRequest::Mode::prepend;
    return meta.kind != MetaRequest::Kind::store || joins;
  }
  return op == Op::append || op == Op::prepend || op == Op::expire || op == Op::set_range ||
         op == Op::set_bit || op == Op::bitfield;
}

// Whether the row may change a long value where it lies, or else stores a copy that the next such
// row changes so (items/changing_item.h).
bool patches(const HostStore& store, const Batch::Columns& columns, Batch::Row row) {
  return store.changes_in_place && may_patch(columns.op[row]) &&
         columns.value[row].size() <= ChangingItem::most_written;
}

// Bytes that the row brings, or sets to zero.
uint64_t new_value_bytes(const Batch::Columns& columns, Batch::Row row) {
  const std::string_view value = columns.value[row];
  const auto number = static_cast<uint64_t>(columns.number[row]);
  switch (columns.op[row]) {
    case Op::set_range:
      return value.empty() ? 0 : number + value.size();
    case Op::set_bit:
      return number / 8 + 1;
    case Op::bitfield:
      return bitfield_bytes(bitfield_steps(value));
    case Op::call:
      return call_bytes(columns, row);
    case Op::put_object:
      return object_bytes(value);
    default:
      return value.size();
  }
}

struct OldValue {
  uint64_t bytes = 0;
  bool stays = false;  // where it is, with what the row brings
};

// `value`: how many bytes that is.
OldValue old_value(const HostStore& store, const Batch::Columns& columns, Batch::Row row,
                   uint64_t value) {
  const std::string_view key = columns.key[row];
  const Location root = store.databases[columns.database[row]].root_of(store.hash(key, store.seed));
  const Item* item = resolve(store.items, root, key).item;
  if (item == nullptr) return {};
  const uint64_t bytes = item->value_bytes();
  const uint64_t longer = columns.op[row] == Op::append ? bytes + value : std::max(bytes, value);
  return {bytes, patches(store, columns, row) && item->may_change() &&
                     ChangingItem::takes(*item, longer, columns.value[row].size())};
}

// Whether the row before stores the value that this one changes.
bool goes_on(const HostStore& store, const Batch::Columns& columns, Batch::Row row) {
  return patches(store, columns, row) && patches(store, columns, row - 1) &&
         columns.database[row] == columns.database[row - 1] &&
         columns.key[row] == columns.key[row - 1];
}

struct Sum {
  BatchBytes bytes;
  bool depends = false;  // on what some rows copy or replace
};

BatchBytes bounded(const HostStore& store, BatchBytes sum) {
  const uint64_t largest = store.largest_item();
  sum.lasting = std::min(sum.lasting, largest);
  sum.at_once = std::min(sum.at_once, largest);
  sum.alone = std::min(sum.alone, largest);
  return sum;
}

// Of the rows, until they take `most`. `old_values`: with a look at what rows copy, and at what
// large ones replace.
Sum sum_of_rows(const HostStore& store, const Batch& batch, bool old_values, Batch::Span rows,
                uint64_t most = ~uint64_t{0}) {
  const uint64_t largest = store.largest_item();
  const Batch::Columns& columns = batch.columns();
  BatchBytes sum;
  bool depends = false;
  for (Batch::Row row = rows.first; row < rows.end; ++row) {
    const Op op = columns.op[row];
    if (!stores(columns, row)) continue;
    const uint64_t value = new_value_bytes(columns, row);
    const bool copy = copies(columns, row);
    const bool on_old = copy || value > size_classes::largest;
    depends |= on_old;
    const bool looks = old_values && on_old && (row == rows.first || !goes_on(store, columns, row));
    const auto [old, stays] = looks ? old_value(store, columns, row, value) : OldValue{};
    if (stays) continue;
    const uint64_t bytes =
        Item::bytes(columns.key[row].size(), value + (copy ? old : 0), true, true, op == Op::meta);
    if (bytes > largest) continue;
    if (sum.at_once != 0 && sum.at_once + bytes > most) break;
    sum.replaced += old;
    if ((columns.options[row] & option::in_place) != 0) {
      sum.in_place += bytes;
      continue;
    }
    sum.lasting += bytes - std::min(bytes, old);
    sum.at_once += bytes;
    if (is_for_object(op) || bytes > size_classes::largest) sum.alone += bytes;
  }
  return {sum, depends};
}

// Of all, without that look.
Sum sum_of_pieces(const HostStore& store, const Batch& batch, WorkerPool* pool) {
  constexpr Batch::Row at_once = 1 << 14;
  std::mutex mutex;
  Sum sum;
  run_pieces(pool, batch.size(), at_once, [&](Batch::Row first, Batch::Row end) {
    const Sum its = sum_of_rows(store, batch, false, {first, end});
    const std::lock_guard guard(mutex);
    sum.bytes.lasting += its.bytes.lasting;
    sum.bytes.at_once += its.bytes.at_once;
    sum.bytes.alone += its.bytes.alone;
    sum.bytes.in_place += its.bytes.in_place;
    sum.depends |= its.depends;
  });
  return {bounded(store, sum.bytes), sum.depends};
}

}  // namespace

BatchBytes bytes_to_store(HostStore& store, EpochDomain::Slot* slot, const Batch& batch,
                          WorkerPool* pool) {
  const auto [bytes, depends] = sum_of_pieces(store, batch, pool);
  const uint64_t large = store.items.large_bytes();
  if (!depends || large == 0 || store.budget.fits(bytes.at_once + large)) return bytes;
  if (slot == nullptr)
    return {.lasting = store.budget.limit(),
            .at_once = store.budget.limit(),
            .in_place = bytes.in_place};
  const EpochGuard guard(store.epochs, *slot);
  return bounded(store, sum_of_rows(store, batch, true, {0, batch.size()}).bytes);
}

BatchBytes bytes_from(HostStore& store, EpochDomain::Slot& slot, const Batch& batch,
                      Batch::Row first, uint64_t most) {
  const EpochGuard guard(store.epochs, slot);
  return bounded(store, sum_of_rows(store, batch, true, {first, batch.size()}, most).bytes);
}

}  // namespace isotherm

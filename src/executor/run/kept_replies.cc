// The parts of BatchRun that keep what replies show: where the batch cannot stay in its epoch, and
// where values may change.
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "command/value_range.h"
#include "executor/run/batch_run.h"
#include "items/changing_item.h"
#include "items/item_store.h"

namespace isotherm {
namespace {

class KeptItem final : public Backing::Held {
 public:
  KeptItem(ItemStore& items, Location location) : items_(items), location_(location) {
    ItemStore::keep(location);
  }
  ~KeptItem() override { items_.let_go(location_); }

 private:
  ItemStore& items_;
  const Location location_;
};

struct Copy final : Backing::Held {
  explicit Copy(std::string its) : value(std::move(its)) {}
  std::string value;
};

bool lies_in_large_item(const ItemStore& items, const Reply& reply) {
  return location::kind(reply.location) == location::Kind::large &&
         reply.data == items.item(reply.location)->value_data();
}

}  // namespace

// Objects have no other place, and groups hold keys by their epoch. Another thread may be about to
// hand replies back.
bool BatchRun::leave_epoch(ItemStore& items, uint64_t most_copied) {
  if (EpochDomain::is_outside(slot)) return true;
  if (batch->has_groups() || batch->walks() || reader != nullptr) return false;
  const std::lock_guard guard(mutex_);
  uint64_t copied = 0;
  for (Batch* const its : {batch, &again_}) {
    for (Batch::Row row = 0; row < its->size(); ++row) {
      Reply& reply = its->columns().reply[row];
      if (!its->answered(row) || reply.data == nullptr || kept_.contains(reply.data)) continue;
      if (reply.type != ValueType::string) return false;
      const bool stays = lies_in_large_item(items, reply);
      copied += stays ? 0 : reply.size;
      if (!stays && (!may_move || copied > most_copied)) return false;
      keep(items, reply, stays);
    }
  }
  EpochDomain::leave(slot);
  return true;
}

void BatchRun::keep(ItemStore& items, Reply& reply, bool stays) {
  if (stays) {
    held.push_back(std::make_unique<KeptItem>(items, reply.location));
  } else {
    auto copy = std::make_unique<Copy>(std::string(reply.value()));
    const char* const data = copy->value.data();
    held.push_back(std::move(copy));
    reply.data = data;
  }
  kept_.insert(reply.data);
}

// Rows behind each other often show the same.
void BatchRun::share(ItemStore& items, Location location) {
  const std::lock_guard guard(mutex_);
  if (!shared_.empty() && shared_.back() == location) return;
  items_ = &items;
  try {
    shared_.push_back(location);
  } catch (const std::bad_alloc&) {
    return ChangingItem::fix(location);
  }
  ChangingItem::share(location);
}

// Null: there is no memory for it.
const char* BatchRun::hold_copy(std::string_view value) try {
  auto copy = std::make_unique<Copy>(std::string(value));
  const char* const data = copy->value.data();
  const std::lock_guard guard(mutex_);
  held.push_back(std::move(copy));
  return data;
} catch (const std::bad_alloc&) {
  return nullptr;
}

// Nobody looks at the value behind it, so a row behind this one changes it where it lies.
bool BatchRun::copy_part(ItemStore& items, Location location, int64_t first, int64_t last,
                         Reply& reply) {
  constexpr uint64_t most_copied = 256;
  const Item& item = *items.item(location);
  ChangingItem::share(location);
  const ValueRange part = ValueRange::in_order(first, last, item.value_bytes());
  const char* const copy =
      part.count <= most_copied ? hold_copy(item.value().substr(part.first, part.count)) : nullptr;
  reply.version = ChangingItem::version(item);
  items.let_go(location);
  if (copy == nullptr) return false;
  reply.type = ValueType::string;
  reply.flags = item.flags();
  reply.expiry = item.expiry();
  reply.data = copy;
  reply.size = part.count;
  reply.number = Batch::part_alone;
  return true;
}

void BatchRun::let_go_shared() {
  for (const Location location : shared_) items_->let_go(location);
  shared_.clear();
}

}  // namespace isotherm

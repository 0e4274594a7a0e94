// The parts of HostExecutor::Run that ChangedInPlace asks for, and what becomes of values that may
// change where rows look at them.
#include "executor/host/changed_in_place.h"

#include <algorithm>
#include <cstdint>
#include <span>

#include "executor/run/batch_run.h"
#include "items/meta_request.h"

namespace isotherm {
namespace {

// The bytes that the steps may write, of a value that lacks none of them.
ChangedPart part_of(std::span<const BitfieldStep> steps) {
  uint64_t begin = ~uint64_t{0};
  uint64_t end = 0;
  for (const BitfieldStep& step : steps) {
    if (step.kind == BitfieldStep::Kind::get) continue;
    begin = std::min(begin, step.offset / 8);
    end = std::max(end, (step.offset + step.bits + 7) / 8);
  }
  return {begin, end - begin, 0};
}

bool may_patch(const Request& request) {
  if (request.op != Op::meta) return isotherm::may_patch(request.op);
  const auto& meta = *reinterpret_cast<const MetaRequest*>(static_cast<uintptr_t>(request.number));
  return meta.kind == MetaRequest::Kind::store && meta.mode == MetaRequest::Mode::append;
}

// What the plan changes of the value that its key has; false: it is another value, or none of it
// is known to be the same.
bool find_part(const Plan& plan, const Request& request, ChangedPart& part) {
  const char* const changed = plan.second.data();
  const bool writes_over = changed == request.value.data() || changed == plan.digits;
  if (!plan.steps.empty()) {
    part = part_of(plan.steps);
  } else if (!plan.second.empty() && writes_over) {
    part = {plan.second_at, plan.second.size(), 0};
  } else {
    return false;
  }
  part.value_bytes = plan.parts.value_bytes;
  return part.bytes <= plan.parts.value_bytes / ChangedPart::most_of_value;
}

}  // namespace

void HostExecutor::Run::tell_stored(const Request& request, uint64_t hash, Member old,
                                    int64_t old_expiry, const Item* fresh, const Plan& plan,
                                    uint64_t version) const {
  ChangedPart part;
  if (fresh == nullptr || old.item == nullptr || !find_part(plan, request, part)) {
    return tell(request, hash, old, old_expiry, fresh,
                fresh != nullptr ? plan.parts.expiry : no_expiry, version);
  }
  CommitSink* const sink = executor.store_.sink.load(std::memory_order_relaxed);
  const ItemChange change{
      ItemChange::Reason::request, request.database, request.key, hash, old.item, fresh,
      plan.parts.expiry,           version,          token};
  sink->make_room(change, &part);
  sink->changed_part(change, part);
}

bool HostExecutor::Run::may_change_in_place(const Request& request) const {
  const CommitSink* const sink = executor.store_.sink.load(std::memory_order_relaxed);
  return may_patch(request) && (sink == nullptr || sink->lets_change_in_place());
}

bool HostExecutor::Run::fits_in_place(const Request& request, const Item& old, const Plan& plan,
                                      ChangedPart& part) const {
  if (!plan.patches() || !ChangingItem::takes(old, plan.parts.value_bytes, plan.second.size())) {
    return false;
  }
  if (plan.parts.bytes() > largest_item && !request.has(option::over_cap)) return false;
  if (executor.store_.sink.load(std::memory_order_relaxed) == nullptr) return true;
  return find_part(plan, request, part) && part.bytes <= ChangingItem::most_written;
}

void HostExecutor::Run::change_in_place(const Request& request, uint64_t hash, Member old,
                                        const Plan& plan, const ChangedPart* part,
                                        uint64_t version) const {
  CommitSink* const sink = executor.store_.sink.load(std::memory_order_relaxed);
  const ItemChange change{
      ItemChange::Reason::request, request.database, request.key, hash, old.item, old.item,
      plan.parts.expiry,           version,          token};
  if (part != nullptr) sink->make_room(change, part);
  plan.patch(old.item->value_data(), old.item->value_bytes());
  if (part != nullptr) sink->changed_part(change, *part);
  // Others see the length as soon as it is set.
  old.item->lengthen_value(plan.parts.value_bytes);
  ChangingItem::set_version(*old.item, version);
}

void HostExecutor::Run::share(Location location) const {
  if (executor.showing_ == nullptr) return ChangingItem::fix(location);
  executor.showing_->share(executor.store_.items, location);
}

bool HostExecutor::Run::show_part(Batch::Row row, Member member) const {
  return executor.showing_ != nullptr &&
         executor.showing_->copy_part(executor.store_.items, member.location, columns.number[row],
                                      columns.expiry[row], columns.reply[row]);
}

}  // namespace isotherm

#include "db/write_plan.h"

#include <atomic>
#include <exception>

#include "db/statuses.h"

namespace isotherm {

WritePlan::WritePlan(const WriteGroup& group, const Checks* checks, const WriteGroup& intents,
                     const MergeFunctions& functions, Batch& batch)
    : group_(group), functions_(functions) {
  find_merges();
  fill(batch, checks, intents);
}

void WritePlan::find_merges() {
  using Kind = WriteGroup::Kind;
  for (size_t i = 0; i < group_.size(); ++i) {
    const WriteGroup::Row change = group_.row(i);
    if (change.kind == Kind::merge) folded_.try_emplace(change.key);
  }
  if (folded_.empty()) return;
  for (size_t i = 0; i < group_.size(); ++i) {
    const auto folded = folded_.find(group_.row(i).key);
    if (folded != folded_.end()) folded->second.changes.push_back(i);
  }
}

// A key with merges has its row behind all.
void WritePlan::fill_writes(Batch& batch, const WriteGroup& group) const {
  for (size_t i = 0; i < group.size(); ++i) {
    const WriteGroup::Row change = group.row(i);
    if (&group == &group_ && !folded_.empty() && folded_.contains(change.key)) continue;
    if (change.kind == WriteGroup::Kind::put) {
      batch.put(change.key, change.value, option::over_cap);
    } else {
      batch.erase(change.key);
    }
  }
}

void WritePlan::fill(Batch& batch, const Checks* checks, const WriteGroup& intents) {
  if (checks != nullptr) {
    for (const auto& [key, version] : *checks) {
      batch.note(batch.get(key, option::no_value), static_cast<int64_t>(version));
    }
  }
  checks_ = batch.size();
  for (auto& [key, folded] : folded_) folded.get = batch.get(key);
  const bool guarded = !batch.empty();
  if (guarded) {
    batch.guard([](Batch& its, Batch::Row row,
                   void* plan) { static_cast<WritePlan*>(plan)->check(its, row); },
                this);
  }
  first_write_ = batch.size();
  fill_writes(batch, group_);
  if (!intents.empty()) {
    batch.select(intents_database);
    fill_writes(batch, intents);
    batch.select(keys_database);
  }
  for (auto& [key, folded] : folded_) folded.row = batch.put(key, {}, option::over_cap);
  if (guarded || batch.size() > 1) batch.group(0);
}

// The guard.
void WritePlan::check(Batch& batch, Batch::Row row) {
  try {
    problem_ = look_at_checks(batch);
    Batch::Columns& columns = batch.columns();
    for (auto folded = folded_.begin(); folded != folded_.end() && problem_.ok(); ++folded) {
      Folded& its = folded->second;
      problem_ = fold(batch, its);
      columns.value[its.row] = its.value.text;
      if (!its.value.there) columns.op[its.row] = Op::erase;
    }
  } catch (const std::exception& error) {
    problem_ = {DbStatus::Code::merge_failed, error.what()};
  } catch (...) {
    problem_ = {DbStatus::Code::merge_failed, "a merge function has thrown"};
  }
  if (!problem_.ok()) batch.cancel(row, batch.size());
}

DbStatus WritePlan::look_at_checks(const Batch& batch) const {
  for (Batch::Row row = 0; row < checks_; ++row) {
    const Reply& reply = batch.reply(row);
    const Status status = reply.status.load(std::memory_order_acquire);
    if (status != Status::ok && status != Status::not_found) return status_of(status);
    const uint64_t version = status == Status::ok ? reply.version : 0;
    if (version == static_cast<uint64_t>(batch.columns().number[row])) continue;
    return {DbStatus::Code::busy, "a key that the transaction has read was changed meanwhile"};
  }
  return {};
}

DbStatus WritePlan::fold(const Batch& batch, Folded& folded) const {
  const Reply& reply = batch.reply(folded.get);
  const Status status = reply.status.load(std::memory_order_acquire);
  if (status != Status::ok && status != Status::not_found) return status_of(status);
  folded.value.there = status == Status::ok;
  if (folded.value.there) folded.value.text.assign(reply.value());
  for (const size_t change : folded.changes) {
    if (DbStatus made = functions_.apply(group_.row(change), folded.value); !made.ok()) return made;
  }
  return folded.value.text.size() <= most_value ? DbStatus() : status_of(Status::too_large);
}

}  // namespace isotherm

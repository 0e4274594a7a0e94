#include "db/write_plan.h"

#include <atomic>

#include "base/worker_pool.h"
#include "db/statuses.h"

namespace isotherm {

WritePlan::WritePlan(Parts parts, const WriteGroup& intents, const MergeFunctions& functions,
                     Batch& batch, WorkerPool* pool)
    : parts_(parts), functions_(functions) {
  find_merges();
  fill(batch, intents, pool);
}

void WritePlan::find_merges() {
  using Kind = WriteGroup::Kind;
  for (const Part& part : parts_) {
    if (!part.group->has_merges()) continue;
    for (size_t i = 0; i < part.group->size(); ++i) {
      const WriteGroup::Row change = part.group->row(i);
      if (change.kind == Kind::merge) folded_.try_emplace(change.key);
    }
  }
  if (folded_.empty()) return;
  for (const Part& part : parts_) {
    for (size_t i = 0; i < part.group->size(); ++i) {
      const WriteGroup::Row change = part.group->row(i);
      const auto folded = folded_.find(change.key);
      if (folded != folded_.end()) folded->second.changes.push_back(change);
    }
  }
}

// A key with merges has its row behind all.
void WritePlan::fill_writes(Batch& batch, const WriteGroup& group, bool may_merge) const {
  for (size_t i = 0; i < group.size(); ++i) {
    const WriteGroup::Row change = group.row(i);
    if (may_merge && !folded_.empty() && folded_.contains(change.key)) continue;
    if (change.kind == WriteGroup::Kind::put) {
      batch.put(change.key, change.value, option::over_cap);
    } else {
      batch.erase(change.key);
    }
  }
}

void WritePlan::fill_checks(Batch& batch) const {
  for (const Part& part : parts_) {
    if (part.checks == nullptr) continue;
    batch.part();
    for (const auto& [key, version] : *part.checks) {
      batch.note(batch.get(key, option::no_value), static_cast<int64_t>(version));
    }
  }
}

// Of puts and erases alone.
void WritePlan::fill_parts(Batch& batch, WorkerPool& pool) const {
  std::vector<Batch::Row> firsts;
  for (const Part& part : parts_) {
    batch.part();
    firsts.push_back(batch.add_changes(static_cast<Batch::Row>(part.group->size())));
  }
  pool.run(static_cast<uint32_t>(parts_.size()), [&](uint32_t part, uint32_t) {
    const WriteGroup& group = *parts_[part].group;
    for (size_t i = 0; i < group.size(); ++i) {
      const WriteGroup::Row change = group.row(i);
      const bool puts = change.kind == WriteGroup::Kind::put;
      batch.set_change(firsts[part] + static_cast<Batch::Row>(i), puts ? Op::put : Op::erase,
                       change.key, change.value, puts ? option::over_cap : uint16_t{0});
    }
  });
}

void WritePlan::fill(Batch& batch, const WriteGroup& intents, WorkerPool* pool) {
  uint64_t rows = 2 * folded_.size() + intents.size();
  for (const Part& part : parts_) {
    rows += part.group->size() + (part.checks == nullptr ? 0 : part.checks->size());
  }
  batch.reserve(rows);
  fill_checks(batch);
  checks_ = batch.size();
  for (auto& [key, folded] : folded_) folded.get = batch.get(key);
  const bool guarded = !batch.empty();
  if (guarded) {
    batch.guard([](Batch& its, Batch::Row row,
                   void* plan) { static_cast<WritePlan*>(plan)->check(its, row); },
                this);
  }
  first_write_ = batch.size();
  if (pool != nullptr && folded_.empty()) {
    fill_parts(batch, *pool);
  } else {
    for (const Part& part : parts_) fill_writes(batch, *part.group, true);
  }
  if (!intents.empty()) {
    batch.select(intents_database);
    fill_writes(batch, intents, false);
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
  } catch (...) {
    // What functions throw is a status by then. The text is short enough to need no memory.
    problem_ = {DbStatus::Code::out_of_memory, "no memory"};
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
  for (const WriteGroup::Row& change : folded.changes) {
    if (DbStatus made = functions_.apply(change, folded.value); !made.ok()) return made;
  }
  return folded.value.text.size() <= most_value ? DbStatus() : status_of(Status::too_large);
}

}  // namespace isotherm

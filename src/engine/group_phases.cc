#include "engine/group_phases.h"

#include <algorithm>

#include "executor/run/batch_run.h"

namespace isotherm {
namespace {

// The group that ends behind the row, or the end of all.
auto group_at(const Batch& batch, Batch::Row row) {
  const auto before = [](const Batch::Span& group, Batch::Row at) { return group.end <= at; };
  return std::lower_bound(batch.groups().begin(), batch.groups().end(), row, before);
}

bool looks_at_its_group(const Batch& batch, const Batch::Guard& guard) {
  if (guard.check == nullptr || guard.looks_from == Batch::everywhere) return false;
  const auto group = group_at(batch, guard.row);
  return group != batch.groups().end() && group->first < guard.row &&
         group->first <= guard.looks_from;
}

}  // namespace

std::span<const Batch::Guard> GroupPhases::together(const Batch& batch,
                                                    std::span<const Batch::Guard> guards) {
  size_t count = 0;
  while (count < guards.size() && looks_at_its_group(batch, guards[count])) ++count;
  return guards.first(count);
}

bool GroupPhases::shares(const Batch& batch, std::span<const Batch::Guard> guards) {
  return !guards.empty() &&
         group_at(batch, guards.front().row) != group_at(batch, guards.back().row);
}

void GroupPhases::plan(const Batch& batch, Batch::Row first, Batch::Row end,
                       std::span<const Batch::Guard> guards) {
  first_ = first;
  clear();
  rows_.resize(end - first);
  guards_.clear();
  keys_.clear();
  auto group = group_at(batch, first);
  for (Batch::Row row = first; row < end;) {
    while (group != batch.groups().end() && group->end <= row) ++group;
    const bool inside = group != batch.groups().end() && group->first <= row;
    const Batch::Row behind = inside ? std::min(group->end, end) : row + 1;
    size_t its = guards_.size();
    while (its < guards.size() && guards[its].row < behind) ++its;
    add(batch.columns(), {row, behind}, guards.subspan(guards_.size(), its - guards_.size()));
    row = behind;
  }
}

// Rows that stay together, with their guards.
void GroupPhases::add(const Batch::Columns& columns, Batch::Span unit,
                      std::span<const Batch::Guard> guards) {
  uint32_t phase = 0;
  for (Batch::Row row = unit.first; row < unit.end; ++row) {
    const auto key = keys_.find(BatchRun::key_of(columns, row));
    if (key != keys_.end()) phase = std::max(phase, key->second);
  }
  auto guard = guards.begin();
  for (Batch::Row row = unit.first; row < unit.end; ++row) {
    const bool guarded = guard != guards.end() && guard->row == row;
    for (; guard != guards.end() && guard->row == row; ++guard) guards_.push_back(phase);
    if (guarded) ++phase;
    rows_[row - first_] = phase;
  }
  count_ = std::max(count_, phase + 1);
  if (phase == 0) return;  // as if it were not there
  for (Batch::Row row = unit.first; row < unit.end; ++row)
    keys_[BatchRun::key_of(columns, row)] = phase;
}

}  // namespace isotherm

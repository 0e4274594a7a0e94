#include "isotherm/batch.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <utility>

#include "base/give_back.h"
#include "base/worker_pool.h"
#include "command/changes.h"
#include "isotherm/object.h"

namespace isotherm {
namespace {

constexpr Batch::Row first_capacity = 64;

// Places a column of `rows` at `at`, which moves behind it, and copies the rows it has.
template <class T>
void place(char*& at, T*& column, Batch::Row rows, Batch::Row filled) {
  auto* to = reinterpret_cast<T*>(at);
  if (filled != 0) std::memcpy(static_cast<void*>(to), column, filled * sizeof(T));
  column = to;
  at += (rows * sizeof(T) + 63) / 64 * 64;
}

}  // namespace

Batch::Batch() = default;

Batch::~Batch() { clear(); }

void Batch::grow(Row capacity) {
  constexpr size_t row_bytes = sizeof(Op) + sizeof(uint16_t) + 2 * sizeof(uint32_t) +
                               2 * sizeof(std::string_view) + 3 * sizeof(uint64_t) + sizeof(Reply);
  constexpr size_t column_slack = 11 * 64;
  const size_t bytes = size_t{capacity} * row_bytes + column_slack;
  std::unique_ptr<char[]> memory(new char[bytes]);
  char* at =
      reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(memory.get()) + 63) & ~uintptr_t{63});
  place(at, columns_.op, capacity, size_);
  place(at, columns_.options, capacity, size_);
  place(at, columns_.database, capacity, size_);
  place(at, columns_.key, capacity, size_);
  place(at, columns_.hash, capacity, size_);
  place(at, columns_.value, capacity, size_);
  place(at, columns_.number, capacity, size_);
  place(at, columns_.expiry, capacity, size_);
  place(at, columns_.flags, capacity, size_);
  // Replies hold nothing yet: a batch is filled before it runs.
  columns_.reply = reinterpret_cast<Reply*>(at);
  for (Row row = 0; row < size_; ++row) new (&columns_.reply[row]) Reply();
  memory_ = std::move(memory);
  memory_bytes_ = bytes;
  capacity_ = capacity;
}

void Batch::grow_for_more() { grow(std::max(first_capacity, capacity_ * 2)); }

Batch::Row Batch::get_all(std::span<const std::string_view> keys) {
  const Row first = size_;
  while (capacity_ - size_ < keys.size()) grow_for_more();
  const Columns rows = columns_.from(first);
  std::fill_n(rows.op, keys.size(), Op::get);
  std::fill_n(rows.options, keys.size(), uint16_t{0});
  std::fill_n(rows.database, keys.size(), current_database_);
  std::copy(keys.begin(), keys.end(), rows.key);
  std::uninitialized_default_construct_n(rows.reply, keys.size());
  size_ += static_cast<Row>(keys.size());
  return first;
}

void Batch::reserve(uint64_t rows) {
  if (rows <= capacity_ - size_) return;
  if (rows > std::numeric_limits<Row>::max() - size_) throw std::bad_alloc();
  grow(std::max(first_capacity, size_ + static_cast<Row>(rows)));
}

Batch::Row Batch::add_changes(Row count) {
  const Row first = size_;
  reserve(count);
  size_ += count;
  writes_ |= count != 0;
  return first;
}

Batch::Row Batch::erase(std::string_view key, uint16_t options, uint64_t expected_version) {
  const Row row = append_row(Op::erase, key, options);
  columns_.value[row] = {};
  columns_.number[row] = static_cast<int64_t>(expected_version);
  columns_.expiry[row] = no_expiry;
  columns_.flags[row] = 0;
  return row;
}

Batch::Row Batch::add(std::string_view key, int64_t delta, uint16_t options) {
  const Row row = append_row(Op::add, key, options);
  columns_.value[row] = {};
  columns_.number[row] = delta;
  columns_.expiry[row] = no_expiry;
  columns_.flags[row] = 0;
  return row;
}

Batch::Row Batch::append(std::string_view key, std::string_view value, uint16_t options) {
  const Row row = put(key, value, options);
  columns_.op[row] = Op::append;
  return row;
}

Batch::Row Batch::prepend(std::string_view key, std::string_view value, uint16_t options) {
  const Row row = put(key, value, options);
  columns_.op[row] = Op::prepend;
  return row;
}

// Who lets keys expire makes room, even where the copy that has the expiry passes the cap.
Batch::Row Batch::expire(std::string_view key, int64_t expiry, uint16_t options) {
  const Row row = append_row(Op::expire, key, static_cast<uint16_t>(options | option::over_cap));
  columns_.value[row] = {};
  columns_.number[row] = 0;
  columns_.expiry[row] = expiry;
  columns_.flags[row] = 0;
  return row;
}

Batch::Row Batch::set_range(std::string_view key, int64_t offset, std::string_view value,
                            uint16_t options) {
  const Row row = put(key, value, options);
  columns_.op[row] = Op::set_range;
  columns_.number[row] = offset;
  return row;
}

Batch::Row Batch::set_bit(std::string_view key, int64_t offset, bool bit, uint16_t options) {
  const Row row = add(key, offset, options);
  columns_.op[row] = Op::set_bit;
  columns_.flags[row] = bit ? 1 : 0;
  return row;
}

Batch::Row Batch::bitfield(std::string_view key, std::span<BitfieldStep> steps, uint16_t options) {
  const Row row = put(key, as_value(steps), options);
  columns_.op[row] = Op::bitfield;
  return row;
}

Batch::Row Batch::add_float(std::string_view key, std::string_view delta, uint16_t options) {
  const Row row = put(key, delta, options);
  columns_.op[row] = Op::add_float;
  return row;
}

Batch::Row Batch::meta(std::string_view key, std::string_view value, MetaRequest& request,
                       int64_t expiry, uint32_t flags) {
  const Row row = put(key, value, 0, expiry, flags, reinterpret_cast<uintptr_t>(&request));
  columns_.op[row] = Op::meta;
  return row;
}

Batch::Row Batch::call(std::string_view key, const ObjectFunction& function,
                       std::span<const std::string_view> arguments, void* context,
                       uint16_t options) {
  const bool writes = writes_;
  const std::string_view where{reinterpret_cast<const char*>(&function), sizeof function};
  const Row row =
      put(key, where, options, static_cast<int64_t>(reinterpret_cast<intptr_t>(context)));
  columns_.op[row] = Op::call;
  note_call(row, writes);
  add_arguments(row, arguments);
  return row;
}

// `writes`: whether one of the rows before it does.
void Batch::note_call(Row row, bool writes) {
  calls_ = true;
  writes_ = writes || changes(columns_, row);
}

void Batch::add_arguments(Row row, std::span<const std::string_view> arguments) {
  columns_.number[row] = static_cast<int64_t>(arguments_.size());
  columns_.flags[row] = static_cast<uint32_t>(arguments.size());
  arguments_.insert(arguments_.end(), arguments.begin(), arguments.end());
  columns_.arguments = arguments_.data();
}

Batch::Row Batch::put(std::string_view key, std::unique_ptr<Object>& object, uint16_t options,
                      int64_t expiry) {
  const Row row =
      put(key, {reinterpret_cast<const char*>(&object), sizeof object}, options, expiry);
  columns_.op[row] = Op::put_object;
  return row;
}

Batch::Row Batch::append(const Columns& from, Row row) {
  const bool writes = writes_;
  const Row to = append_row(from.op[row], from.key[row], from.options[row]);
  columns_.database[to] = from.database[row];
  last_database_ = std::max(last_database_, from.database[row]);
  columns_.hash[to] = from.hash[row];
  marks_ |= isotherm::marks(from, row);
  // A get has no other columns, unless somebody noted numbers there: executors look at them only
  // where they say which part is wanted.
  const bool is_get = from.op[row] == Op::get;
  if (!is_get || (from.options[row] & option::part) != 0) {
    columns_.number[to] = from.number[row];
    columns_.expiry[to] = from.expiry[row];
  }
  if (is_get) return to;
  columns_.value[to] = from.value[row];
  columns_.flags[to] = from.flags[row];
  if (from.op[row] == Op::walk) {
    writes_ = writes;
    walks_ = true;
  }
  if (from.op[row] == Op::call) {
    note_call(to, writes);
    add_arguments(to, from.arguments_of(row));
  }
  return to;
}

Batch::Row Batch::walk(uint64_t cursor, uint64_t count, ItemVisitor& visitor) {
  const bool writes = writes_;
  const Row row = append_row(Op::walk, {}, 0);
  writes_ = writes;
  walks_ = true;
  columns_.value[row] = {reinterpret_cast<const char*>(&visitor), sizeof visitor};
  columns_.number[row] = static_cast<int64_t>(cursor);
  columns_.expiry[row] = static_cast<int64_t>(count);
  return row;
}

Batch::Row Batch::flush(uint32_t first, uint32_t end) {
  const Row row = put({}, {});
  columns_.op[row] = Op::flush;
  columns_.database[row] = first;
  last_database_ = std::max(last_database_, first);
  columns_.number[row] = end;
  guards_.push_back({row, nullptr, nullptr, everywhere});
  return row;
}

Batch::Row Batch::flush_empty() {
  const Row row = flush(0, std::numeric_limits<uint32_t>::max());
  columns_.options[row] = option::if_absent;
  return row;
}

// It changes nothing, so it runs while a journal refuses writes, too.
Batch::Row Batch::stand_still(const std::function<void()>& work) {
  const bool writes = writes_;
  const Row row = flush(0, std::numeric_limits<uint32_t>::max());
  writes_ = writes;
  columns_.value[row] = {reinterpret_cast<const char*>(&work), sizeof work};
  return row;
}

// The context is the number of gets.
template <auto holds>
void Batch::check_gets(Batch& batch, Row row, void* count) {
  for (Row i = row - static_cast<Row>(reinterpret_cast<uintptr_t>(count)); i < row; ++i) {
    if (!(batch.*holds)(i)) return batch.cancel(row, batch.group_end(row));
  }
}

bool Batch::is_absent(Row get) const {
  return reply(get).status.load(std::memory_order_acquire) == Status::not_found;
}

bool Batch::is_unchanged(Row get) const {
  const auto noted = static_cast<uint64_t>(columns_.number[get]);
  const Status status = reply(get).status.load(std::memory_order_acquire);
  return status == Status::ok ? reply(get).version == noted
                              : status == Status::not_found && noted == 0;
}

void Batch::unless_absent(Row first) {
  guard(check_gets<&Batch::is_absent>, reinterpret_cast<void*>(uintptr_t{size_ - first}), first);
}

void Batch::unless_unchanged(Row first) {
  guard(check_gets<&Batch::is_unchanged>, reinterpret_cast<void*>(uintptr_t{size_ - first}), first);
}

// The end of the group that a guard before `row` stands in.
Batch::Row Batch::group_end(Row row) const {
  const auto before = [](const Span& group, Row at) { return group.end < at; };
  return std::lower_bound(groups_.begin(), groups_.end(), row, before)->end;
}

// A view shares keys with groups of its batch, and others may have the rest of its keys: so that
// groups behind it never wait for these, its keys are taken together with theirs.
void Batch::take_views_as_groups() {
  const size_t count = groups_.size();
  const auto before = [](const Span& group, Row row) { return group.end <= row; };
  for (const Span& view : views_) {
    const auto group =
        std::lower_bound(groups_.begin(), groups_.begin() + count, view.first, before);
    const bool inside = group != groups_.begin() + count && group->first <= view.first;
    if (!inside) groups_.push_back(view);
  }
  const auto order = [](const Span& one, const Span& other) { return one.first < other.first; };
  std::inplace_merge(groups_.begin(), groups_.begin() + count, groups_.end(), order);
}

void Batch::close_groups() {
  if (!views_.empty()) take_views_as_groups();
  auto group = groups_.begin();
  for (const Guard& guard : guards_) {
    if (guard.check == nullptr) continue;
    while (group != groups_.end() && group->end < guard.row) ++group;
    if (group != groups_.end() && group->first <= guard.row) continue;
    groups_.assign(1, {0, size_});
    return;
  }
}

void Batch::clear() {
  if (hold_ != nullptr) std::exchange(hold_, nullptr)->release(*this);
  size_ = 0;
  writes_ = calls_ = walks_ = marks_ = false;
  last_database_ = current_database_;
  if (unsaved()) unsaved_.store(false, std::memory_order_relaxed);
  guards_.clear();
  groups_.clear();
  views_.clear();
  parts_.clear();
  arguments_.clear();
}

void Batch::forget_replies() {
  std::exchange(hold_, nullptr)->release(*this);
  for (Row row = 0; row < size_; ++row) new (&columns_.reply[row]) Reply();
}

void Batch::drop(Row first) {
  while (!guards_.empty() && guards_.back().row >= first) guards_.pop_back();
  while (!groups_.empty() && groups_.back().end > first) groups_.pop_back();
  while (!views_.empty() && views_.back().end > first) views_.pop_back();
  size_ = std::min(size_, first);
}

void Batch::shrink(Row rows) {
  if (capacity_ > rows && size_ <= rows) grow(std::max(first_capacity, rows));
  if (arguments_.empty() && arguments_.capacity() > rows) arguments_.shrink_to_fit();
}

void Batch::free_columns(WorkerPool& pool) {
  constexpr uint32_t units_at_once = 1 << 6;
  constexpr size_t unit = 64 << 10;
  run_pieces(&pool, static_cast<uint32_t>(memory_bytes_ / unit), units_at_once,
             [&](uint32_t first, uint32_t end) {
               give_back(memory_.get() + first * unit, memory_.get() + end * unit);
             });
  memory_.reset();
  memory_bytes_ = capacity_ = 0;
  columns_ = {};
}

size_t Batch::memory() const {
  return memory_bytes_ + arguments_.capacity() * sizeof(std::string_view);
}

}  // namespace isotherm

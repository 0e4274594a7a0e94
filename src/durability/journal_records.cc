// The parts of Journal that make records of changes, and blocks of a batch's records.
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>
#include <utility>
#include <vector>

#include "base/kill_point.h"
#include "base/macros.h"
#include "base/raise_to.h"
#include "base/wait_for_memory.h"
#include "base/worker_pool.h"
#include "durability/journal.h"
#include "items/item.h"
#include "items/objects.h"

namespace isotherm {
namespace {

constexpr uint64_t block_head = sizeof(BlockHeader);

// Of all that puts and erases among the rows may become.
uint64_t most_record_bytes(const Batch& batch, Batch::Span rows) {
  const Batch::Columns& columns = batch.columns();
  uint64_t bytes = 0;
  for (Batch::Row row = rows.first; row < rows.end; ++row) {
    if (columns.op[row] != Op::put && columns.op[row] != Op::erase) continue;
    const bool puts = columns.op[row] == Op::put;
    bytes += record_bytes(columns.key[row].size(), puts ? columns.value[row].size() : 0);
  }
  return bytes;
}

// But for the lengths. `is_put`: also where the new item is the old one.
ISOTHERM_INLINE RecordHeader head_of(const ItemChange& change, bool is_put = false) {
  RecordHeader record{};
  record.database = change.database;
  record.version = change.version;
  if (change.new_item == nullptr || change.new_item->is_object()) {
    record.op = RecordOp::erase;
  } else if (change.new_item == change.old_item && !is_put) {
    record.op = RecordOp::expiry;
    record.expiry = change.expiry;
  } else {
    record.op = RecordOp::put;
    record.expiry = change.expiry;
    record.flags = change.new_item->flags();
    record.type = static_cast<uint8_t>(change.new_item->type());
    record.state = static_cast<uint16_t>(change.new_item->state());
  }
  return record;
}

// Of what is recorded for no batch of a worker.
struct TakenPlace {
  explicit TakenPlace(RunningBatches& batches) : running(batches.take()) {}
  ~TakenPlace() { RunningBatches::give_back(running); }
  TakenPlace(const TakenPlace&) = delete;
  TakenPlace& operator=(const TakenPlace&) = delete;

  RunningBatch& running;
};

}  // namespace

// The bound is there before the number is (durability/running_batches.h).
void Journal::give_number(RunningBatch& running) {
  running.open_number.store(last_number_.load() + 1);
  running.number = last_number_.fetch_add(1) + 1;
  running.open_number.store(running.number, std::memory_order_release);
}

// Throws std::bad_alloc, and then nothing has changed. Rows that take effect together have their
// records in one block, and none is refused, since others are certain already: it waits.
void Journal::make_room(RunningBatch& running, uint64_t bytes) {
  if (running.batch->has_groups()) {
    return wait_for_memory([&] { take_memory(running, bytes); });
  }
  if (running.bytes > most_own_bytes) end_records(running);
  take_memory(running, bytes);
}

// Throws std::bad_alloc, and then nothing has changed.
void Journal::take_memory(RunningBatch& running, uint64_t bytes) {
  const uint64_t needed = block_head + running.bytes + bytes;
  if (needed <= running.capacity) return;
  constexpr uint64_t least = 4096;
  const uint64_t capacity = std::max({needed, running.capacity * 2, least});
  auto memory = std::make_unique_for_overwrite<char[]>(capacity);
  char* const records = memory.get() + block_head;
  if (running.bytes != 0) std::memcpy(records, running.records, running.bytes);
  count_own(static_cast<int64_t>(capacity) - static_cast<int64_t>(running.capacity));
  running.memory = std::move(memory);
  running.capacity = capacity;
  running.records = records;
}

void Journal::count_own(int64_t bytes) {
  own_bytes_.fetch_add(static_cast<uint64_t>(bytes), std::memory_order_relaxed);
  if (options_.count) options_.count(bytes);
}

char* Journal::take_room(RunningBatch& running, uint64_t bytes) {
  return running.records + std::exchange(running.bytes, running.bytes + bytes);
}

// Of records that are in their place, with their checksum: others wait until this is done.
void Journal::seal_block(const RecordBuffer::Room& room, uint64_t bytes, uint32_t body_crc,
                         RunningBatch& running) {
  BlockHeader block{};
  block.magic = BlockHeader::right_magic;
  block.lsn = room.lsn;
  block.bytes = bytes;
  block.body_crc = body_crc;
  block.synced = synced_lsn_.load(std::memory_order_relaxed);
  block.crc = block_crc(block, store_);
  std::memcpy(room.at, &block, sizeof block);
  running.open_lsn.store(RecordBuffer::closed, std::memory_order_release);
  running.end = block.end_lsn();
}

// Of all records so far.
void Journal::sum_records(RunningBatch& running) {
  const uint64_t more = running.bytes - running.summed;
  running.crc = crc32c(running.crc, running.records + running.summed, more);
  running.summed = running.bytes;
}

void Journal::end_records(RunningBatch& running) {
  if (running.bytes == 0) return;
  kill_point("journal.append");
  sum_records(running);
  const uint64_t bytes = std::exchange(running.bytes, running.summed = 0);
  const uint32_t body_crc = std::exchange(running.crc, 0);
  // A large block stays where it is, unless that has much room beside it.
  const bool fits_well = bytes >= RecordBuffer::chunk_bytes && running.capacity <= 2 * bytes;
  RecordBuffer::Room room{};
  if (!fits_well) room = buffer_.reserve(block_head + bytes, running.open_lsn);
  const bool copies = room.at != nullptr;
  if (copies) {
    std::memcpy(room.at + block_head, running.records, bytes);
  } else {
    room = buffer_.adopt(std::move(running.memory), running.capacity, block_head + bytes,
                         running.open_lsn);
  }
  seal_block(room, bytes, body_crc, running);
  if (!copies || running.capacity > 2 * most_own_bytes) drop_memory(running);
}

// Or what is left of it, where it has become part of the buffer.
void Journal::drop_memory(RunningBatch& running) {
  count_own(-static_cast<int64_t>(std::exchange(running.capacity, 0)));
  running.memory.reset();
}

// Of no batch.
void Journal::append_alone(const RecordHeader& record, const ItemChange& change) {
  const TakenPlace place(batches_);
  RunningBatch& running = place.running;
  running.number = 0;
  const uint64_t bytes = record_bytes(change.key.size(), 0);
  take_memory(running, bytes);
  note_change(running, record, change.hash);
  put_record(take_room(running, bytes), record, change.key, {});
  end_records(running);
}

// Changes nothing. False: there is no memory for it.
bool Journal::append_again(std::string_view records) {
  const TakenPlace place(batches_);
  const uint32_t body_crc = crc32c(0, records.data(), records.size());
  const RecordBuffer::Room room =
      buffer_.reserve(block_head + records.size(), place.running.open_lsn);
  if (room.at == nullptr) return false;
  std::memcpy(room.at + block_head, records.data(), records.size());
  seal_block(room, records.size(), body_crc, place.running);
  return true;
}

// Of a key, or a flush.
void Journal::note_change(RunningBatch& running, const RecordHeader& record, uint64_t hash) {
  if (running.number == 0) give_number(running);
  if (record.version > running.max_version.load(std::memory_order_relaxed)) {
    running.max_version.store(record.version, std::memory_order_relaxed);
  }
  const uint64_t before = record.op == RecordOp::flush
                              ? raise_to(flushed_at_, running.number)
                              : marks_.raise(hash_in(record.database, hash), running.number);
  if (before != running.number) running.builds_on = std::max(running.builds_on, before);
}

// Whether the record of this version of the key's value has its place, so that what is recorded now
// comes behind it. It stays so for the batch, which notes it.
bool Journal::note_recorded(RunningBatch& running, uint64_t hash, uint64_t version) {
  if (running.number == 0) give_number(running);
  if (running.has_value(hash, version)) return true;
  if (!marks_.is_before(hash, ended_number(), 0)) return false;
  running.note_value(hash, version);
  return true;
}

void Journal::make_room(const ItemChange& change, const ChangedPart* part) {
  if (change.reason == ItemChange::Reason::expired) return;
  if (change.token == 0 || is_reader(change.token)) return;
  auto& running = *reinterpret_cast<RunningBatch*>(change.token);
  const Item* const item = change.new_item;
  const bool has_value = item != nullptr && !item->is_object() && item != change.old_item;
  const uint64_t value_bytes = part != nullptr ? part->value_bytes
                               : has_value     ? item->value().size()
                                               : 0;
  uint64_t bytes = record_bytes(change.key.size(), value_bytes);
  if (part != nullptr && note_recorded(running, hash_in(change.database, change.hash),
                                       Objects::version_of(*change.old_item))) {
    bytes = part_record_bytes(change.key.size(), part->bytes);
  }
  make_room(running, bytes);
}

// The room is there, for the part alone where `make_room` has noted what it was made of.
void Journal::changed_part(const ItemChange& change, const ChangedPart& part) {
  if (change.token == 0 || is_reader(change.token)) return changed(change);
  auto& running = *reinterpret_cast<RunningBatch*>(change.token);
  const uint64_t hash = hash_in(change.database, change.hash);
  const uint64_t base = Objects::version_of(*change.old_item);
  RecordHeader record = head_of(change, true);
  // The item's own length may still be the old value's.
  const std::string_view value = {change.new_item->value_data(), part.value_bytes};
  if (running.has_value(hash, base)) {
    record.op = RecordOp::part;
    note_change(running, record, change.hash);
    put_part_record(take_room(running, part_record_bytes(change.key.size(), part.bytes)), record,
                    change.key, {base <= first_version_ ? 0 : base, part.at, value.size()},
                    value.substr(part.at, part.bytes));
  } else {
    append(running, record, change, value);
  }
  running.note_value(hash, change.version);
}

void Journal::changed(const ItemChange& change) {
  if (change.reason == ItemChange::Reason::expired) return;
  const RecordHeader record = head_of(change);
  if (change.token == 0 || is_reader(change.token)) {
    append_alone(record, change);
    if (any_waits_.load()) wake_writer();
    return;
  }
  const bool is_put = record.op == RecordOp::put;
  append(*reinterpret_cast<RunningBatch*>(change.token), record, change,
         is_put ? change.new_item->value() : std::string_view());
}

void Journal::append(RunningBatch& running, const RecordHeader& record, const ItemChange& change,
                     std::string_view value) {
  const uint64_t bytes = record_bytes(change.key.size(), value.size());
  make_room(running, bytes);
  note_change(running, record, change.hash);
  put_record(take_room(running, bytes), record, change.key, value);
}

// In the block of its batch: a flush may be one change of several that take effect together. All is
// gone by now, so it waits for the little memory that it needs.
void Journal::flushed(uint32_t database, uint64_t version, uint64_t token) {
  RecordHeader record{};
  record.op = RecordOp::flush;
  record.database = database;
  record.version = version;
  auto& running = *reinterpret_cast<RunningBatch*>(token);
  wait_for_memory([&] { make_room(running, record_bytes(0, 0)); });
  note_change(running, record, 0);
  put_record(take_room(running, record_bytes(0, 0)), record, {}, {});
}

// The room for all records is taken here, so that nothing can fail when they are certain. Each part
// has its place in it, behind all that those before it may need.
void Journal::begins_parts(uint64_t token, std::span<const Batch::Span> rows,
                           std::span<uint64_t> parts, WorkerPool& pool) {
  auto& running = *reinterpret_cast<RunningBatch*>(token);
  std::vector<uint64_t> most(rows.size());
  pool.run(static_cast<uint32_t>(rows.size()),
           [&](uint32_t i, uint32_t) { most[i] = most_record_bytes(*running.batch, rows[i]); });
  take_memory(running, std::accumulate(most.begin(), most.end(), uint64_t{0}));
  take_places(parts);
  expect(running.capacity);
  if (running.number == 0) give_number(running);
  char* next = running.records + running.bytes;
  for (size_t i = 0; i < parts.size(); ++i) {
    auto& its = *reinterpret_cast<RunningBatch*>(parts[i]);
    drop_memory(its);  // of a batch that had the place before
    its.batch = running.batch;
    its.number = running.number;
    its.builds_on = its.end = 0;
    its.capacity = block_head + most[i];
    its.records = std::exchange(next, next + most[i]);
  }
}

// Throws std::bad_alloc, and then none is taken.
void Journal::take_places(std::span<uint64_t> parts) {
  size_t taken = 0;
  try {
    for (; taken < parts.size(); ++taken) {
      parts[taken] = reinterpret_cast<uint64_t>(&batches_.take());
    }
  } catch (const std::bad_alloc&) {
    while (taken != 0) RunningBatches::give_back(*reinterpret_cast<RunningBatch*>(parts[--taken]));
    throw;
  }
}

// Where rows have told of nothing, as erases of absent keys, parts behind them move forward.
void Journal::ends_parts(uint64_t token, std::span<const uint64_t> parts, WorkerPool& pool) {
  auto& running = *reinterpret_cast<RunningBatch*>(token);
  const auto part = [&](size_t i) { return reinterpret_cast<RunningBatch*>(parts[i]); };
  pool.run(static_cast<uint32_t>(parts.size()),
           [&](uint32_t i, uint32_t) { sum_records(*part(i)); });
  sum_records(running);
  for (size_t i = 0; i < parts.size(); ++i) {
    RunningBatch& its = *part(i);
    char* const to = take_room(running, its.bytes);
    if (to != its.records) std::memmove(to, its.records, its.bytes);
    running.crc = crc32c_joined(running.crc, std::exchange(its.crc, 0), its.bytes);
    running.builds_on = std::max(running.builds_on, its.builds_on);
    its.records = nullptr;
    its.bytes = its.summed = its.capacity = 0;
    RunningBatches::give_back(its);
  }
  running.summed = running.bytes;
}

void Journal::grouped(uint64_t token) {
  if (!is_reader(token)) end_records(*reinterpret_cast<RunningBatch*>(token));
}

}  // namespace isotherm

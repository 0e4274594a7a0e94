// Journal: a CommitSink (executor/commit_sink.h) that writes every change to files, and has replies
// wait until what they show is there.
//
//   changed ─▶ RecordBuffer ─▶ writer: write, sync ─▶ replies that waited
// A change becomes a record under the lock of its key's line. One thread, the writer, takes what
// there is, writes it and, as the policy says, syncs it; what comes meanwhile is its next group.
//
// When a change is safe. `always`: it is on disk. `everysec`, `no`: the system has it, so it
// survives the end of the process; it is on disk about a second later, or when the system likes.
//
// Who waits. A batch waits for the last change of each key that it names, so nobody reads what is
// not safe, and whoever reads other keys does not wait. Keys share marks by their hash, so it may
// wait for others' changes, too. A batch without rows waits for all. An item that has expired needs
// no record to be gone, so nobody waits for that one.
//
// Disks that fail. Records stay in memory until they are safe for good (synced, or with `no`
// written). Where a write or a sync fails, `error` says so, all of them are written again to the
// same places every `pause_ms`, and those who wait do so until it has worked.
//
// Memory. `unwritten_bytes`; where there are more than `most_unwritten`, a worker of whose batches
// some are under way begins no other that writes (CommitSink::full).
//
// Threads. Any. Waiters are told by the writer.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "durability/files.h"
#include "durability/journal_reader.h"
#include "durability/record_buffer.h"
#include "durability/segment_writer.h"
#include "durability/sync_policy.h"
#include "executor/commit_sink.h"

namespace isotherm {

struct JournalOptions {
  std::string folder = ".";
  std::string name = "appendonly.aof";
  SyncPolicy policy = SyncPolicy::everysec;
  uint64_t segment_bytes = 64 << 20;
  uint64_t most_unwritten = 64 << 20;
  int64_t pause_ms = 100;  // between tries, and before what nobody waits for is written
  std::function<void(const std::string& line)> log;  // by the writer; may be empty
};

class Journal final : public CommitSink, public Awaited {
 public:
  // Goes on behind what the reader has found, with versions behind `last_version`. Nobody else uses
  // the files meanwhile. Throws JournalError where the first segment cannot be made.
  Journal(JournalOptions options, const JournalReader& reader, uint64_t last_version,
          Files& files = system_files());
  // Writes and syncs all, unless the disk fails.
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  Begun begins(const Batch& batch) override;
  void changed(const ItemChange& change) override;
  void flushed(uint32_t database, uint64_t version) override;
  Awaited* ends(uint64_t token) override;
  bool full() const override { return buffer_.bytes() > options_.most_unwritten; }
  void begin(Waiter& waiter) override;

  SyncPolicy policy() const { return policy_.load(std::memory_order_relaxed); }
  void set_policy(SyncPolicy policy);

  // The errno of the last write or sync, 0 if it worked.
  int error() const { return error_.load(std::memory_order_relaxed); }
  uint64_t unwritten_bytes() const { return buffer_.bytes(); }
  uint64_t bytes() const { return buffer_.end(); }  // of all records so far
  uint64_t syncs() const { return syncs_.load(std::memory_order_relaxed); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    uint64_t lsn;
    Waiter* waiter;
  };
  static constexpr size_t marks = 1 << 14;  // they stay in a core's cache

  std::atomic<uint64_t>& mark_of(uint32_t database, std::string_view key);
  // Appends a record and returns its end.
  uint64_t append(RecordHeader record, std::string_view key, std::string_view value);
  uint64_t safe_lsn() const;

  void run();
  void step(bool ends);
  int write_all();
  int next_segment(uint64_t least_bytes);
  int sync();
  bool sync_is_due(bool ends) const;
  void release(uint64_t lsn);
  void note_error(int error);
  void tell();

  const JournalOptions options_;
  const uint64_t store_;
  RecordBuffer buffer_;
  SegmentWriter segments_;
  std::atomic<SyncPolicy> policy_;
  // By the writer, and read by all at the ends of their batches.
  alignas(64) std::atomic<uint64_t> written_;
  std::atomic<uint64_t> synced_;
  std::atomic<uint64_t> flushed_at_;  // the end of the last flush
  const uint64_t last_version_;       // that was given before; records tell of later ones
  std::atomic<uint64_t> syncs_{0};
  std::atomic<int> error_{0};

  alignas(64) std::unique_ptr<std::atomic<uint64_t>[]> marks_;  // the end of the last change
  // The writer's.
  std::deque<std::unique_ptr<RecordBuffer::Chunk>> chunks_;  // that are not safe for good
  Clock::time_point last_sync_ = Clock::now();

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stops_ = false;
  std::vector<Waiting> waiting_;
  std::thread writer_;
};

}  // namespace isotherm

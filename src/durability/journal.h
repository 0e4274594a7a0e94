// Journal: a CommitSink (executor/commit_sink.h) that writes every change to files, and has replies
// wait until what they show is there.
//
//   changed ─▶ records of the batch ─ends─▶ a block in RecordBuffer ─▶ write, sync ─▶ replies
// A change becomes a record in memory that the batch has for itself, so nothing is shared there. At
// the end of the batch they become a block: what takes effect together is in one, and is read
// again whole or not at all; and it is before the block of any batch that builds on it. What no
// batch changes, as eviction does, is a block of its own.
//
// Batches side by side. Of what all batches share, one takes a number, by one addition, when it
// first changes something, and the place of its block, by a lock that is held for a few words. It
// fills the block beside others, and publishes how far it is in a place of its own
// (durability/running_batches.h), so no batch waits for another. Who writes reads these places.
//
// When a change is safe. `always`: it is on disk. `everysec`, `no`: the system has it, so it
// survives the end of the process; it is on disk about a second later, or when the system likes.
//
// Parts of values. Of a long value of which little has changed the record has that part alone, if
// the record of what it was made of is in the batch's own, or has its place before: it is when no
// batch that is under way has changed the key, by its marks. Else it has the whole value.
//
// Batches in parts. Threads that share the rows of one batch with groups have a place each, the
// batch's number, and room for their records among the batch's, as much as their rows may need;
// where some have needed less, those behind move forward when all have ended. So there is still one
// block. The writer makes the segment of one that is larger than a segment while its rows run.
//
// Who writes. Of `always`, one thread, the writer: what comes while it syncs is its next group,
// from all loops. Else whoever ends a batch writes, as far as nobody does, which takes no other
// thread's time and no wake; those that end meanwhile look on for a moment, and mostly find their
// blocks taken along. The writer does what takes long: syncs, new segments, and what failed. While
// segments become full it takes the room for the next one ahead, beside those who write.
//
// Who waits. Batches that change something have numbers. A key's marks (durability/key_marks.h) are
// the number of the last batch that has changed it, and a batch waits while those of a key that it
// shows, or a flush, are not safe; safe are the numbers below those of all batches whose block is
// not written. So nobody reads what is not safe, and whoever reads other keys does not wait. A
// batch without rows, or a walk, waits for all. A put without conditions shows nothing of what was
// there before, so it waits for the block of its batch alone: if a crash takes an older change of
// its key away, nobody can tell. What a batch shows of a key that it has changed itself is safe
// with its block, if no other change of any of its keys is missing before that. An item that has
// expired needs no record to be gone: there is none of it.
//
// Disks that fail. Blocks stay in memory until they are safe for good (synced, or with `no`
// written). Where a write or a sync fails, `error` says so, and all of them are written again to
// the same places every `pause_ms`. Until that has worked nobody waits: rows of which it is not
// certain that what they show is safe are answered `not_saved`, and so are all that write. So it is
// from the start on where the disk is full then, until there is room for the first segment. A
// segment that somebody has removed, with its folder perhaps, has failed likewise, at its next
// sync; when there is a folder again, the next one begins there, and until the journal is written
// anew, or cut, it is incomplete.
//
// Memory. `unwritten_bytes`; where there are more than `most_unwritten`, batches that change
// something wait for the disk, and a worker of whose batches some are under way begins no other
// that writes (CommitSink::full). A batch without groups gives its records away when it has
// `most_own_bytes` of them. `count` is told at once what all takes. Under a cap on the store's
// memory the bounds are a part of that, whatever it becomes, and a journal that rests keeps next to
// nothing. A change for whose record there is no memory is refused, and one of a group waits for
// it.
//
// Written anew. A new segment begins, and what the store has is appended once more, each item with
// its version, between the records of changes that go on; then the segments before are dropped. So
// there is no second file and nothing to copy at the end: which of two records of a key counts is
// said by their versions, and what is gone from the store is gone with its segment.
//
// Cut. Who holds all that was told before a position elsewhere, on disk for good, has the segments
// before it dropped (`cut_before`). A snapshot takes its place as the base of the journal
// (durability/record.h), and then a start reads the base and what is behind it; a tree that has
// recorded the position for itself needs none. A segment that began before the moment of a snapshot
// (`begin_segment`) has all changes behind that moment, or those behind it have.
//
// Threads. Any. Waiters are told by who writes.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "base/short_lock.h"
#include "durability/background_job.h"
#include "durability/files.h"
#include "durability/journal_reader.h"
#include "durability/journal_segment.h"
#include "durability/key_marks.h"
#include "durability/record_buffer.h"
#include "durability/running_batches.h"
#include "durability/segment_writer.h"
#include "durability/sync_policy.h"
#include "executor/commit_sink.h"

namespace isotherm {

struct JournalOptions {
  std::string folder = ".";
  std::string name = "appendonly.aof";
  SyncPolicy policy = SyncPolicy::everysec;
  uint64_t segment_bytes = 64 << 20;
  // A new one begins with a tree's files, not with an empty store.
  bool behind_tree = false;
  uint64_t most_unwritten = 64 << 20;  // and a part of `cap`, where there is one
  int64_t pause_ms = 100;              // between tries, and before what nobody waits for is written
  std::function<void(const std::string& line)> log;  // by the writer; may be empty
  std::function<void(int64_t bytes)> count;          // so many more, or fewer, bytes are taken
  std::function<uint64_t()> cap;                     // on all memory of the store; 0: there is none
};

class Journal final : public CommitSink, public Awaited {
 public:
  // Goes on behind what the reader has found, with versions behind `last_version`. Nobody else uses
  // the files meanwhile. Throws JournalError where the first segment cannot be made, unless there
  // is a journal and its disk is full.
  Journal(JournalOptions options, const JournalReader& reader, uint64_t last_version,
          Files& files = system_files());
  // Writes and syncs all, unless the disk fails.
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  Begun begins(const Batch& batch) override;
  void fetch_ahead(uint32_t database, uint64_t hash) const override {
    marks_.fetch(hash_in(database, hash));
  }
  void make_room(const ItemChange& change, const ChangedPart* part) override;
  void changed(const ItemChange& change) override;
  void changed_part(const ItemChange& change, const ChangedPart& part) override;
  bool lets_change_in_place() const override { return true; }
  void flushed(uint32_t database, uint64_t version, uint64_t token) override;
  void begins_parts(uint64_t token, std::span<const Batch::Span> rows, std::span<uint64_t> parts,
                    WorkerPool& pool) override;
  void ends_parts(uint64_t token, std::span<const uint64_t> parts, WorkerPool& pool) override;
  void grouped(uint64_t token) override;
  Awaited* ends(uint64_t token) override;
  bool full() const override { return unwritten_bytes() > most_unwritten(); }
  bool refuses() const override { return error() != 0; }
  bool is_safe(uint32_t database, uint64_t hash) const override;
  void begin(Waiter& waiter) override;

  SyncPolicy policy() const { return policy_.load(std::memory_order_relaxed); }
  void set_policy(SyncPolicy policy);

  // The errno of the last write or sync, 0 if it worked; of the last that failed.
  int error() const { return error_.load(std::memory_order_seq_cst); }
  int last_error() const { return last_error_.load(std::memory_order_relaxed); }
  uint64_t unwritten_bytes() const { return buffer_.bytes(); }
  uint64_t memory() const { return buffer_.memory() + own_bytes_.load(std::memory_order_relaxed); }
  uint64_t bytes() const { return buffer_.end(); }  // of all blocks so far
  // Of the segments there are, and what that was after the start or when it was last written anew.
  uint64_t live_bytes() const {
    return bytes() - first_lsn_.load(std::memory_order_relaxed) +
           base_file_bytes_.load(std::memory_order_relaxed);
  }
  uint64_t base_bytes() const { return base_bytes_.load(std::memory_order_relaxed); }
  // Files were removed by others, so it has to be written anew, or cut.
  bool is_incomplete() const { return incomplete_.load(std::memory_order_relaxed); }
  uint64_t syncs() const { return syncs_.load(std::memory_order_relaxed); }

  // Returns when all blocks of batches that have ended are on disk, whatever the policy says; below
  // 0 where the disk fails.
  int sync_now();

  // Of the one who writes it anew (server/journal_rewriter.h), in this order; they wait for the
  // disk. Below 0, or false: it fails, and all stays as it is.
  BackgroundJob& rewrite_job() { return job_; }
  const BackgroundJob& rewrite_job() const { return job_; }
  // `bytes`: of all that is put again, about.
  int begin_rewrite(uint64_t bytes = 0);
  bool put_again(std::string_view records);
  int end_rewrite();

  // Of the one who has it cut; they wait for the disk. Below 0: it fails, and all stays as it is.
  // `at`: the segment that has begun.
  int begin_segment(JournalSegment& at);
  // Copies the snapshot of this name, of `base.bytes`, to be the base of what is behind `at`.
  int put_base(const std::string& path, const JournalSegment& at, JournalBase& base);
  // What is before `lsn` is no part of the journal any more, but `base` is, if it has a number; the
  // one before is not. While the journal is written anew: -EBUSY. Where it has begun behind
  // `base` meanwhile: -ESTALE.
  int cut_before(uint64_t lsn, const JournalBase& base = JournalBase::in_tree());

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    uint64_t number;
    Waiter* waiter;
  };
  // Up to where something is done: the blocks before `lsn` have all changes up to `number`.
  struct Point {
    uint64_t lsn;
    uint64_t number;
  };
  static constexpr uint64_t of_reader = 4;  // of a token; the lower bits are the tree's
  static bool is_reader(uint64_t token) { return (token & of_reader) != 0; }
  static constexpr uint64_t most_own_bytes = 256 << 10;

  void make_room(RunningBatch& running, uint64_t bytes);
  void take_memory(RunningBatch& running, uint64_t bytes);
  void count_own(int64_t bytes);
  void drop_memory(RunningBatch& running);
  static char* take_room(RunningBatch& running, uint64_t bytes);
  void give_number(RunningBatch& running);
  bool note_recorded(RunningBatch& running, uint64_t hash, uint64_t version);
  void note_change(RunningBatch& running, const RecordHeader& record, uint64_t hash);
  void seal_block(const RecordBuffer::Room& room, uint64_t bytes, uint32_t body_crc,
                  RunningBatch& running);
  void append(RunningBatch& running, const RecordHeader& record, const ItemChange& change,
              std::string_view value);
  void append_alone(const RecordHeader& record, const ItemChange& change);
  bool append_again(std::string_view records);
  void append_mark();
  static void sum_records(RunningBatch& running);
  void end_records(RunningBatch& running);
  void take_places(std::span<uint64_t> parts);
  void expect(uint64_t bytes);
  uint64_t safe_number() const;
  bool is_shown_safe(const Batch& batch, uint64_t own) const;

  Point point() const;
  uint64_t ended_number() const { return batches_.ended_number(last_number_); }
  bool write_here(uint64_t end);
  void wake_writer();
  void run();
  void step(bool ends);
  int write_for_waiters();
  int write_all(bool may_change_segment);
  int next_segment(uint64_t least_bytes);
  bool sync_is_due(bool ends) const;
  int sync();
  int sync_or_rewind();
  int write_and_sync();
  int by_writer(std::function<int()> work);
  int next_segment_now();
  void note_begin();
  void obey();
  void rewind();
  void release(uint64_t lsn);
  void note_error(int error);
  void tell();
  uint64_t most_unwritten() const { return most_unwritten_.load(std::memory_order_relaxed); }
  void follow_cap();

  const JournalOptions options_;
  const uint64_t store_;
  std::atomic<SyncPolicy> policy_;
  // By who writes, and read by all at the ends of their batches.
  alignas(64) std::atomic<uint64_t> written_lsn_;
  alignas(64) std::atomic<uint64_t> written_number_{0};
  std::atomic<uint64_t> synced_number_{0};
  std::atomic<uint64_t> synced_lsn_;
  std::atomic<uint64_t> flushed_at_{0};  // the number of the last flush
  std::atomic<uint64_t> syncs_{0};
  std::atomic<uint64_t> first_lsn_;
  std::atomic<uint64_t> base_bytes_;
  std::atomic<uint64_t> base_file_bytes_;
  alignas(64) std::atomic<int> error_{0};
  std::atomic<int> last_error_{0};
  std::atomic<bool> any_waits_{false};
  std::atomic<bool> incomplete_{false};
  std::atomic<uint64_t> expected_{0};  // bytes of a large block that is to come, for the writer

  alignas(64) std::atomic<uint64_t> last_number_{0};
  alignas(64) KeyMarks marks_;
  const uint64_t first_version_;  // no record that was there at the start has a larger one
  std::atomic<uint64_t> most_unwritten_;
  RecordBuffer buffer_;
  RunningBatches batches_;
  std::atomic<uint64_t> own_bytes_{0};

  // Who writes has it. The policy's syncs are made without it. It is kept for long by the writer
  // alone, for which nobody waits here.
  alignas(64) ShortLock writing_;
  alignas(64) SegmentWriter segments_;
  // The writer's.
  Clock::time_point last_sync_ = Clock::now();
  uint64_t mark_end_ = 0;       // of the last one; 0: none yet
  uint64_t seen_end_ = 0;       // of the buffer, by the last step
  uint64_t complete_from_ = 0;  // the segment that began behind those that were removed
  Point rewrite_from_{};        // with the number of a segment; 0: no rewrite has begun one

  // Of all that follows.
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stops_ = false;
  std::vector<Waiting> waiting_;
  std::mutex ordering_;  // who has it may give an order
  std::function<int()> order_;
  bool ordered_ = false;
  int order_result_ = 0;
  std::condition_variable done_;
  BackgroundJob job_;
  std::thread writer_;
};

}  // namespace isotherm

// Snapshot: what a store in memory has at one moment, for a file, while others go on changing it.
//
//   begin: the moment ──▶ step, step, …: a line of the index, what was replaced ──▶ end
// At that moment no row runs (Batch::stand_still), so each group is either before it or behind it
// as a whole. All versions that were given by then are at most `bound_`, and all later ones are
// larger: an item with a larger one came later, and is no part of the snapshot.
//
// A walk in the order of hashes shows what is still there. What is replaced, erased or evicted
// before the walk has come to its line is copied to a log instead, by whoever does that. The walk
// reads a line under its lock, and a change is told under the same lock, so every item of the
// moment is shown exactly once. Where an expiry is set and the item keeps its version, the log has
// the earlier expiry, which the walk then takes. A large item is not copied: its memory is kept.
//
// A flush takes items away before they were shown. Then `step` says `flushed`, and the snapshot has
// to begin anew, with a later moment; the same happens where there is no memory for the log. A
// snapshot that was told to keep flushed items walks over them before they are taken apart. So
// flushes that follow each other closely cannot keep it from its end, but their items' memory
// becomes free only after they were shown.
//
// Items that are evicted meanwhile may be left out, as if they had been evicted just before the
// moment. So eviction, which waits for nobody, does not make the log longer.
//
// Who waits. While the log is full (`most_log`), batches that write do not end until the disk has
// taken some of it; reads wait for nothing. A sink that was there before is told of everything as
// before.
//
// Limits. The index must be in host memory. Objects are left out; items that expire meanwhile may
// be. Memory. The log, the items of one step, and for each key whose expiry is set before the walk
// has come to it some hundred bytes and its name. Nobody waits for these to become fewer, since
// only the walk frees them. `memory` says how much all of it is, and the store counts that.
// Threads. `begin`, `step` and `end`: one thread, which is no worker's. As a sink: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/snapshot_source.h"
#include "executor/awaited.h"
#include "executor/commit_sink.h"
#include "items/epoch.h"
#include "items/location.h"

namespace isotherm {

struct DetachedIndex;

class Snapshot final : public CommitSink, public SnapshotSource {
 public:
  static constexpr uint64_t most_log = 16 << 20;

  explicit Snapshot(Engine& engine);
  // After `end`, and behind all workers.
  ~Snapshot() override = default;
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  const Moment* begin(Worker& worker, bool keeps_flushed) override;
  Step step(const Write& write) override;
  void end(Worker& worker) override;

  Begun begins(const Batch& batch) override;
  void changed(const ItemChange& change) override;
  void changed_part(const ItemChange& change, const ChangedPart& part) override;
  void make_room(const ItemChange& change, const ChangedPart* part) override {
    if (behind_ != nullptr) behind_->make_room(change, part);
  }
  void fetch_ahead(uint32_t database, uint64_t hash) const override {
    if (behind_ != nullptr) behind_->fetch_ahead(database, hash);
  }
  void grouped(uint64_t token) override;
  void flushed(uint32_t database, uint64_t version, uint64_t token) override;
  bool full() const override;
  bool refuses() const override;
  bool refuses_erases() const override;
  bool is_safe(uint32_t database, uint64_t hash) const override;
  Awaited* ends(uint64_t token) override;
  Awaited* ends_reads(uint64_t token) override;

  uint64_t memory() const { return memory_.load(std::memory_order_relaxed); }

 private:
  // Items of one database, one behind the other, of which the last may be large.
  struct Piece {
    uint32_t database = 0;
    std::string text;
    Location kept = location::none;
    std::string_view value;  // of what is kept
  };
  // Room in the log is awaited, and then what the sink behind has its replies wait for.
  class Room final : public Awaited {
   public:
    explicit Room(Snapshot& snapshot) : snapshot_(snapshot) {}
    void begin(Waiter& waiter) override { snapshot_.wait_for_room(waiter, behind); }
    std::atomic<Awaited*> behind{nullptr};

   private:
    Snapshot& snapshot_;
  };
  struct Waiting {
    Awaited::Waiter* waiter;
    Awaited* behind;
  };
  struct Found {
    Location location;
    int64_t expiry;
  };
  static constexpr uint64_t done = ~uint64_t{0};
  static constexpr uint64_t most_piece = 256 << 10;
  static constexpr uint32_t most_lines = 256;

  void take_moment(bool keeps_flushed);
  void keep_flushed(uint32_t database);
  void let_go_flushed(uint32_t database);
  bool is_walked(uint32_t database, uint64_t hash) const;
  void note_if_active(const ItemChange& change);
  void note(const ItemChange& change);
  void give_up();
  int64_t take_expiry(const Item& item, uint32_t database);
  void add(std::deque<Piece>& pieces, uint32_t database, const Item& item, int64_t expiry);
  bool walk();
  void find(uint32_t database, uint64_t root);
  bool write_pieces(std::deque<Piece>& pieces, const Write& write);
  void forget();
  void empty();
  void drop(std::deque<Piece>& pieces);
  void release(std::deque<Piece>& replaced);
  void wait_for_room(Awaited::Waiter& waiter, Awaited* behind);
  void count();
  void tell();
  static std::string name_of(uint32_t database, std::string_view key);
  static uint64_t bytes_of_expiry(const std::string& name);
  bool over() const {
    return log_bytes_.load(std::memory_order_relaxed) +
               kept_bytes_.load(std::memory_order_relaxed) >
           most_log;
  }

  EngineState& engine_;
  const TakenSlot taken_;
  Moment moment_;
  CommitSink* behind_ = nullptr;
  uint64_t bound_ = 0;
  std::atomic<bool> active_{false};
  std::atomic<bool> flushed_{false};
  bool keeps_flushed_ = false;
  // For each database: all hashes below it were shown; `done`: all of them.
  std::vector<std::atomic<uint64_t>> shown_;
  // For each database: the index that a flush took away and that is walked, or null.
  std::vector<std::atomic<const DetachedIndex*>> kept_indexes_;
  // The walk's.
  uint32_t database_ = 0;
  uint64_t selected_ = 0;  // of the file, and one more; 0: none
  std::vector<Found> found_;
  std::deque<Piece> walked_;

  std::mutex mutex_;  // of what follows
  std::deque<Piece> log_;
  std::unordered_map<std::string, int64_t> expiries_;  // before they were set, by key
  std::atomic<uint64_t> log_bytes_{0};                 // of text
  std::atomic<uint64_t> expiry_bytes_{0};              // of these
  std::atomic<uint64_t> kept_bytes_{0};  // of values that it keeps, which the store counts
  std::atomic<bool> any_expiries_{false};
  std::vector<Waiting> waiting_;
  std::atomic<uint64_t> memory_{0};  // as the store counts it
  Room room_{*this};                 // behind which nothing is awaited
  Room room_behind_{*this};
};

}  // namespace isotherm

// Tree: a store's items in files, of which its memory is a cache (DESIGN: runs and the tree).
//
//   changes ─▶ active run ─sealed─▶ up to five runs ─oldest─▶ sorted, cut, written ─▶ taken in
//   memory misses ─▶ runs, newest first ─▶ filters ─▶ files (tree/tree_loads.h)
// It is the store's CommitSink, and passes on to the journal what it is told. It is the store's
// DemotionHook: an item that is evicted is in a run or in the files already, so memory may let it
// go whenever the policy says, and nobody is told. And it is its Backing: it knows what memory
// lacks. A run has a copy of what was changed, so a value that is not in the files yet is there
// once more; runs count against maxmemory, as do filters, caches and loads.
//
// Order. A change is put into the active run under the lock of its key's line, so per key in the
// order in which changes are made; a run is read, and written, as newer than those sealed before.
// A flush of a database seals the active run; the next one begins with it.
//
// The journal. A run is taken in when all that it has is on disk in the journal: it is sealed,
// batches that began before have ended, and a new segment begins, which syncs those before. Then
// nothing is in the files that a crash of the machine takes back elsewhere. The segments that began
// before the run did are dropped behind it. Which, is in the files' meta record, written with the
// run. A crash in between leaves records that are read again, and change nothing. What expires is
// not recorded at all: each copy of an item says itself when it does.
//
// Pressure. Where five runs wait, replies to writes wait until one was taken in, so a writer is
// slowed down to what the files can take. While files cannot be written, and five runs wait, writes
// are refused (`refuses`), and tried again every `pause_ms`. Where files have taken in more than
// they have room for (`TreeFiles::crowding`), what erases is not refused, since it makes room.
//
// Moments. While no row runs, a moment (tree/tree_moment.h) is taken by a number, the runs there
// are and a view of the files: nothing is copied, and no run is sealed for it. Runs that were taken
// in are let go where a view of the files shows what the moment does. A checkpoint is what the
// files have when the run that ends at a moment was taken in, and the next one was not.
//
// Files that do not last. The memory of a GPU takes the place of the files (tree/device_files.h).
// Nothing is dropped from the journal then, and no run waits for it. A walk begins when all runs
// are taken in, and goes on in order of hash. Who asks for a key that was lost with the GPU is told
// that it is absent.
//
// Objects lie in memory only, as with a journal: they are not evicted.
//
// Threads. Any; one of its own writes runs, others read.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/thread_number.h"
#include "durability/journal_segment.h"
#include "executor/backing.h"
#include "executor/commit_sink.h"
#include "tree/direct_pool.h"
#include "tree/direct_watch.h"
#include "tree/range_pool.h"
#include "tree/tree_files.h"
#include "tree/tree_loads.h"
#include "tree/tree_run.h"

namespace isotherm {

class Journal;
class MomentSources;
class TreeMoment;

struct TreeOptions {
  uint64_t run_bytes = 64 << 20;
  uint32_t stripes = 1 << 16;  // of keys that share a count of changes, a power of two
  uint32_t writers = files_per_run();
  uint32_t readers = 4;
  uint32_t read_at_once = 64;      // keys, by one of these
  uint64_t most_direct = 0;        // bytes of columns for direct gets; 0: there are none
  uint64_t most_ranges = 0;        // and for ranges
  bool seals_idle = false;         // a run that nobody has sealed for `pause_ms`
  uint64_t most_loaded = 4 << 20;  // bytes that were read and wait for their rows
  int64_t pause_ms = 100;
  std::function<void(int64_t bytes)> count;  // so many more, or fewer, bytes are taken
  uint64_t hash_seed = 0;                    // of the keys' hashes, as the store has them
};

struct TreeStats {
  uint64_t runs = 0;       // that wait to be taken in
  uint64_t run_bytes = 0;  // of all, the active one included
  uint64_t ingested = 0;
  uint64_t loads = 0;  // keys that were asked for
  uint64_t memory = 0;
  uint64_t disk_bytes = 0;
  uint64_t host_bytes = 0;  // TreeFiles
  uint64_t keys = 0;        // about
  bool failing = false;
  bool lasts = true;  // TreeFiles
  bool lost = false;
  uint64_t lost_keys = 0;
  SortedCopy sorted;
};

class Tree final : public CommitSink, public DemotionHook, public Backing, public Awaited {
 public:
  static constexpr size_t most_runs = 5;
  // As many runs may moments keep beside those; more are taken in by pieces, for moments to let
  // them go at the cost of more files.
  static constexpr uint64_t most_kept_runs = 4;

  Tree(std::unique_ptr<TreeFiles> files, TreeOptions options);
  // Takes in what there is, unless that fails.
  ~Tree();
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  // Who is told of changes behind it; null: nobody. While no worker runs.
  void pass_on_to(CommitSink* sink) { next_ = sink; }
  // Before the store is filled from a journal, or, with 0, without one. Throws TreeError where the
  // files and the journal do not belong together: one was changed without the other.
  void expect_journal(uint64_t number, uint64_t first_lsn, bool found);
  // Takes in what there is: whoever opens the files needs no journal, until it is begun again.
  // Before `drop_from(nullptr)`.
  void end_journal();
  // The number of the journal that may have changes which the files lack, since it was not ended;
  // 0: there is none.
  uint64_t lacks_journal() const;
  // Whose segments are dropped from now on; null: no more.
  void drop_from(Journal* journal);
  // No version is larger that the tree has or was told of.
  uint64_t last_version() const;

  // Whether nothing was ever taken in, or a snapshot in part only. What is read of one is put into
  // the store between these two, and is the tree's when the second has returned; whether there is a
  // part, to be flushed first. Before `expect_journal`. They throw TreeError.
  bool wants_snapshot() const;
  bool begin_filling();
  void end_filling();

  Begun begins(const Batch& batch) override;
  void changed(const ItemChange& change) override { note(change, nullptr); }
  void changed_part(const ItemChange& change, const ChangedPart& part) override {
    note(change, &part);
  }
  void fetch_ahead(uint32_t database, uint64_t hash) const override;
  void flushed(uint32_t database, uint64_t version, uint64_t token) override;
  void begins_parts(uint64_t token, std::span<const Batch::Span> rows, std::span<uint64_t> parts,
                    WorkerPool& pool) override;
  void ends_parts(uint64_t token, std::span<const uint64_t> parts, WorkerPool& pool) override;
  void grouped(uint64_t token) override;
  bool full() const override { return is_crowded() || (next_ != nullptr && next_->full()); }
  bool refuses() const override;
  bool refuses_erases() const override;
  bool is_safe(uint32_t database, uint64_t hash) const override;
  Awaited* ends(uint64_t token) override { return end(token, true); }
  Awaited* ends_reads(uint64_t token) override { return end(token, false); }
  void begin(Waiter& waiter) override;

  Fate demote(const Item& item) override;

  Answer look(uint32_t database, std::string_view key, int64_t now_ms, bool may_wait,
              Stored& stored) override;
  bool is_as_seen(const Seen& seen) const override;
  Seen see(uint32_t database, std::string_view key) const override;
  bool gets_directly() const override { return direct_.serves() || files_->lasts(); }
  bool reads_dearly() const override { return !asks_device(); }
  void get_directly(const Batch::Columns& columns, int64_t now_ms, std::span<const Batch::Row> rows,
                    std::vector<std::unique_ptr<Held>>& held, Answered& answered) override;
  bool has_changed(uint32_t database, std::string_view key) const override;
  bool takes(uint32_t database, std::string_view key, uint64_t value_bytes) const override;
  bool starts_directly() const override { return asks_device() && watch_.works(); }
  void start_directly(const Batch::Columns& columns, Batch::Row first_row,
                      std::span<const Batch::Row> rows, bool all,
                      std::vector<std::unique_ptr<Coming>>& coming,
                      std::vector<Batch::Row>& left) override;

  // Gets in frames (net/packets), which a device answers beside the tree. Null: there is none.
  std::unique_ptr<PacketDevice> make_packets(const PacketOptions& options);
  // The last run that the device has whole; asked before a batch of frames goes to it.
  uint64_t on_device() const { return taken_in_.load(std::memory_order_acquire); }
  // Whether what such a batch has shown of a key is what the store has now.
  bool is_newest(uint64_t on_device, uint32_t database, std::string_view key, bool found) const;
  // A batch of frames has found that the device has failed.
  void lose_files(const std::string& why) { files_->lose(why); }

  bool walk(uint32_t database, uint64_t& cursor, uint64_t count, int64_t now_ms, const Show& show,
            bool& anew) override;
  // Before a walk begins, or all is counted, files that do not last must have all that was changed
  // so far. What that waits for; null: nothing.
  Awaited* awaited_by_walks();
  // Waits for the same here; false: it fails.
  bool take_in_all() { return awaited_by_walks() == nullptr || flush() || overfull_.load(); }
  // Whether its files are gone, of those that do not last.
  bool is_lost() const { return files_->is_lost(); }
  // Then: whether its walks show the key all the same.
  bool is_shown(uint32_t database, std::string_view key);
  bool lasts() const { return files_->lasts(); }
  // All keys of a database, of files that count themselves, and those that a moment has, by a walk
  // over it. Empty: that failed.
  std::optional<uint64_t> count(uint32_t database, int64_t now_ms);
  std::optional<uint64_t> count(const TreeMoment& moment, int64_t now_ms);
  // Whether it is such files that have what the runs had, or will have it.
  bool counts_itself() const {
    return !lasts() && !failing_.load(std::memory_order_relaxed) && !is_lost();
  }

  // Takes in all that was changed so far; false: it fails.
  bool flush();
  // Bytes of runs that moments alone keep, since the files have what they had.
  uint64_t held_by_moments() const;
  // At the most, without a lock.
  uint64_t most_held_by_moments() const { return most_held_.load(std::memory_order_relaxed); }
  bool holds_moments() const { return last_held_.load(std::memory_order_acquire) != 0; }

  // As its runs have keys.
  uint64_t hash_seed() const { return options_.hash_seed; }
  uint64_t hash_of(uint32_t database, std::string_view key) const {
    return hash_in(database, hash_bytes(key, options_.hash_seed));
  }
  // What the database has now. While no row runs; the tree must outlive it.
  // `sorted`: for many ranges (tree/range_reader.h).
  std::shared_ptr<const TreeMoment> take_moment(uint32_t database, bool sorted = false);
  // What files that do not last have now, beside the runs; the same holds.
  std::unique_ptr<MomentWalk> walk_moment() { return files_->walk_moment(); }
  // Columns for many ranges of a moment (tree/range_reader.h).
  RangePool& ranges() { return ranges_; }
  // `folder`, which is not there yet, gets the files of a tree that has what this one had when the
  // work that `stand_still` gets was called, while no row ran. Empty: it worked.
  using StandStill = std::function<bool(const std::function<void()>& work)>;
  std::string checkpoint(const std::string& folder, const StandStill& stand_still);
  // Empty where it is as it should be.
  std::string error() const;
  // The last that there was.
  std::string last_error() const;
  // Told when files or a device fail, and when they work again.
  EventLog& events() { return files_->events(); }
  TreeStats stats();

 private:
  friend class MomentSources;
  friend class TreeMoment;
  class ComingGets;
  // Told when a flush has ended that was wanted then.
  class Flush final : public Awaited {
   public:
    explicit Flush(Tree& tree) : tree_(tree) {}
    void begin(Waiter& waiter) override;
    // Who waits for one of the flushes up to this one, and is to be told; or null. With `mutex_`.
    Waiter* take(uint64_t ended);

   private:
    Tree& tree_;
    std::deque<std::pair<uint64_t, Waiter*>> waiters_;  // in the order of their flushes
  };
  struct Checkpoint {
    std::string folder;
    std::shared_ptr<TreeRun> behind;  // null: all is in the files
    std::string problem;
    bool done = false;
  };
  using Runs = std::deque<std::shared_ptr<TreeRun>>;

  // In place of a journal's number, while a snapshot is read.
  static constexpr uint64_t being_filled = ~uint64_t{0};

  void set_journal(uint64_t number, uint64_t lsn = 0);
  bool has_all_of_journal() const {
    return new_ || meta_.journal == 0 || meta_.lsn == TreeMeta::all_of_it;
  }
  // Of a stripe: how often its keys were changed, and the number of the run that has the last
  // change, above these bits.
  static constexpr uint32_t run_at = 32;
  std::atomic<uint64_t>& changes_of(uint64_t hash) const {
    return changes_[hash & (options_.stripes - 1)];
  }
  bool may_be_in_runs(uint64_t hash) const;
  Seen seen_now(uint64_t hash) const;
  bool still_holds(const Seen& seen, uint32_t database, std::string_view key) const;
  Answer show(std::string_view record, int64_t now_ms, Stored& stored) const;
  TreeRun::Found find_in_runs(std::string_view key, uint64_t hash, uint32_t database,
                              std::string& value) const;
  Awaited* end(uint64_t token, bool wrote);
  bool is_full(const TreeRun& run) const { return run.bytes() > options_.run_bytes; }
  bool is_crowded() const { return waiting_runs_.load(std::memory_order_acquire) >= most_runs; }

  void note(const ItemChange& change, const ChangedPart* part);
  void put(const ItemChange& change);
  // if_wanted: of the threads that have seen that a run is full one seals it, and the others not
  // the next one, which has hardly begun.
  enum class Seals : uint8_t { always, if_wanted };
  void seal(Seals when = Seals::always, std::optional<uint32_t> flushed_database = {});
  void seal_if_possible(Seals when = Seals::always);
  void make_spare(const TreeRun& before);
  void work();
  uint64_t last_sealed() const;  // run, by its number
  std::shared_ptr<TreeRun> oldest();
  std::string erase_flushed(const std::set<uint32_t>& databases);
  std::string take_in(const std::shared_ptr<TreeRun>& run);
  std::string take_in_all(TreeRun& run, const TreeMeta& meta);
  std::string take_in_by_moments(TreeRun& run, const std::vector<uint64_t>& inside,
                                 const TreeMeta& meta);
  std::string try_to_take_in(const std::shared_ptr<TreeRun>& run);
  void wait_for_older_batches();
  void take_away(const TreeRun& run);
  void end_checkpoints_behind(const TreeRun* run);
  template <class Is>
  Checkpoint* checkpoint_of(const Is& is);
  void give_up_checkpoints(const std::string& problem);
  void end_checkpoint(Checkpoint& one, std::string problem);
  void let_go(uint64_t moment);
  std::vector<uint64_t> moments_inside(const TreeRun& run) const;
  void let_runs_go(const TreeRun& run, uint64_t inside, const std::shared_ptr<TreeView>& view,
                   std::vector<std::shared_ptr<const MomentSources>>& gone);
  void show_from_files(const TreeRun& run, uint64_t inside);
  void note_error(const std::string& problem);
  void note_crowding();
  bool work_on(const std::shared_ptr<TreeRun>& run);
  void note_copy();
  void tell_room();
  uint64_t other_memory() const;
  uint64_t count_held() const;
  void count_memory(bool asks_files);

  bool step(const TreeMoment& moment, std::string& from, uint64_t count, int64_t now_ms,
            const Show& show);
  bool walk_by_hash(uint32_t database, uint64_t& cursor, uint64_t count, int64_t now_ms,
                    const Show& show);
  std::string take_cursor(uint64_t cursor);
  bool holds_runs();
  bool has_taken_in_all();
  void note_held() {
    if (!holds_.load(std::memory_order_relaxed)) holds_.store(true, std::memory_order_seq_cst);
  }
  void note_quiet();
  bool is_quiet_since(uint64_t quiet_times) const;
  std::vector<Seen> see_all(const Batch::Columns& columns, std::vector<Batch::Row>& rows,
                            std::vector<Batch::Row>& known) const;
  static Status show_directly(Reply& reply, const TreeRecord* record);
  bool asks_device() const { return direct_.serves() && files_->direct_counts(); }
  void ask_device(const Batch::Columns& columns, int64_t now_ms, std::span<const Batch::Row> rows,
                  std::vector<std::unique_ptr<Held>>& held, Answered& answered);
  Status answer(Reply& reply, const char* slot, uint32_t stride, int64_t now_ms);
  // Some gets that a device answers together.
  struct Piece {
    std::span<const Batch::Row> rows;
    std::span<const Seen> seen;
    uint64_t quiet_times = 0;
    const char* slots = nullptr;
    uint32_t stride = 0;
  };
  struct Before;
  void answer(const Piece& piece, const Batch::Columns& columns, int64_t now_ms,
              Answered& answered);
  void read_directly(const Batch::Columns& columns, int64_t now_ms,
                     std::span<const Batch::Row> rows, std::vector<std::unique_ptr<Held>>& held,
                     Answered& answered);
  std::span<TreeRead> read_some(const Batch::Columns& columns, std::span<const Batch::Row> rows,
                                std::vector<std::unique_ptr<Held>>& held);

  const std::unique_ptr<TreeFiles> files_;
  const TreeOptions options_;
  CommitSink* next_ = nullptr;
  std::unique_ptr<std::atomic<uint64_t>[]> changes_;
  std::atomic<uint64_t> flushes_{0};
  TreeLoads loads_;
  std::atomic<uint64_t> held_bytes_{0};     // that replies of gets point into, beside columns
  std::atomic<uint64_t> usual_bytes_{256};  // of a read, of late
  DirectPool direct_;
  DirectWatch watch_;
  RangePool ranges_;
  // Whether runs may have something, and how often they came to have nothing.
  std::atomic<bool> holds_{false};
  std::atomic<uint64_t> quiet_times_{0};

  // Batches that run, by the parity of what was sealed when they began: how many more of them have
  // begun on threads of a stripe than have ended there.
  struct alignas(64) Running {
    std::array<std::atomic<int64_t>, 2> count{};
  };
  std::atomic<int64_t>& running_here(uint64_t generation) {
    return running_[thread_number() % running_.size()].count[generation & 1];
  }
  std::atomic<uint64_t> generation_{0};
  std::array<Running, 64> running_;

  // Of the shards of all runs, and, all of them together, of the two that follow.
  mutable TreeRun::Locks shard_locks_;
  std::shared_ptr<TreeRun> active_;
  std::shared_ptr<TreeRun> spare_;                       // null, or the run that comes next
  std::array<TreeRun::Places, TreeRun::shards> places_;  // of the active run
  uint64_t active_number_ = 1;
  Runs sealed_;  // the oldest first
  // Were taken in, and moments may hold them.
  std::vector<std::weak_ptr<TreeRun>> held_runs_;
  mutable std::atomic<uint64_t> most_held_{0};  // bytes of these
  uint64_t next_moment_ = 1;
  JournalSegment segment_;              // the last that was begun
  std::atomic<uint64_t> last_held_{0};  // moment that somebody holds
  std::atomic<size_t> waiting_runs_{0};
  std::atomic<uint64_t> taken_in_{0};     // the number of the last run that was
  std::atomic<uint64_t> flushed_run_{0};  // and of the last that a flush has begun
  std::atomic<bool> seals_{false};        // the active run is large enough; unset with all locks

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable wake_;
  std::condition_variable done_;
  std::vector<Waiter*> waiters_;
  std::vector<Checkpoint*> checkpoints_;
  std::string error_;
  std::string last_error_;
  std::atomic<bool> failing_{false};
  std::atomic<bool> overfull_{false};  // the files have more than they have room for
  bool stops_ = false;
  uint64_t wanted_flushes_ = 0;
  uint64_t done_flushes_ = 0;
  uint64_t failed_flushes_ = 0;
  uint64_t failed_run_ = 0;  // the last that a flush should have taken in, and did not
  Flush flush_{*this};
  std::atomic<uint64_t> ingested_{0};
  std::atomic<uint64_t> files_memory_{0};
  int64_t counted_ = 0;
  bool has_released_copy_ = false;  // its columns; of the thread that writes runs
  TreeMeta meta_;
  bool new_ = true;                       // there was no meta record
  std::atomic<Awaited*> inner_{nullptr};  // what the next sink's replies wait for

  std::mutex journal_mutex_;  // of what follows
  Journal* journal_ = nullptr;

  mutable std::mutex moments_mutex_;  // of what follows
  std::map<uint64_t, TreeMoment*> moments_;

  std::mutex cursors_mutex_;  // of what follows
  std::unordered_map<uint64_t, std::string> cursors_;
  std::deque<uint64_t> cursor_order_;
  uint64_t cursor_bytes_ = 0;  // of their keys
  uint64_t next_cursor_ = 1;

  std::thread writer_;
};

}  // namespace isotherm

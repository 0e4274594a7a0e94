// TreeLoads: keys on their way from the files of the tree to memory, read by threads of their own,
// many at a time, while whoever asked goes on.
//
//   want ─▶ queued ─▶ read with others (MultiGet) ─▶ there: waiters are told
//                                                      └─▶ take, by the row that runs again
// Several who want one key share a load. What was read stays until a row takes it, or until too
// much is there that nobody waits for; so does the news that a key is absent. A row that waits
// holds its load until it has run again, however many others are read meanwhile. Each has what was
// seen of changes before it was read (Backing::Seen), so a load that a write has overtaken is known
// for what it is: the next who wants its key has another one.
//
// Who may wait reads by itself (`read`), and the threads that have nothing else to do help it.
//
// Threads. Any. Waiters are told by the threads that read.
// Memory. `bytes`; at most `most_loads` keys, and beyond `most_bytes` the oldest go that nobody
// holds. A load goes from list to list and takes no memory for that: what there is none for has
// failed, and whoever waits is told.
// Errors. If the system gives fewer threads, these do all the work; where it gives none, nothing is
// wanted, and who asks reads by itself.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "executor/awaited.h"
#include "executor/backing.h"
#include "tree/tree_files.h"

namespace isotherm {

class TreeLoads {
 public:
  // `at_once`: keys that a thread reads together, at most.
  TreeLoads(TreeFiles& files, uint32_t threads, uint64_t most_bytes, size_t at_once);
  ~TreeLoads();
  TreeLoads(const TreeLoads&) = delete;
  TreeLoads& operator=(const TreeLoads&) = delete;

  // What has been read of the key, if it is there and its stripe has not changed, or no run has
  // gone to the files: whoever asks knows that none of them has a change of the key. A value is
  // given away.
  bool take(std::string_view key, const Backing::Seen& seen, TreeRead& read);
  // Its load, whose `begin` is to be called once; null: too many are under way. Throws
  // std::bad_alloc, and then nothing has changed but that what is overtaken is forgotten.
  Awaited* want(std::string_view key, const Backing::Seen& seen);

  // All keys; returns when they are read. Where there is no memory some have failed, or it throws
  // std::bad_alloc.
  void read(std::span<const std::string_view> keys, TreeRead* reads);

  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  uint64_t loads() const { return loads_count_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t most_loads = 1 << 14;

  // Each load is in one of the lists below, or in that of the thread that reads it.
  struct Load;
  using List = std::list<Load>;
  // A key that is read, or was.
  struct Load final : Awaited {
    explicit Load(TreeLoads& its) : loads(its) {}
    void begin(Waiter& waiter) override;
    void ran_again() override;
    uint64_t bytes_to_bring() const override;

    TreeLoads& loads;
    std::string key;
    Backing::Seen seen;
    TreeRead read;
    List::iterator place;  // its own
    List* list = nullptr;  // in which it is, once it is there
    uint64_t counted = 0;  // of `bytes`
    uint32_t users = 0;    // who will call `begin`, and have not let go
    std::list<Waiter*> waiters;

    bool there() const { return list != nullptr; }
  };

  // Keys that somebody reads with others' help.
  struct Job {
    const std::span<const std::string_view> keys;
    TreeRead* const reads;
    size_t next = 0;
    size_t read = 0;
    std::condition_variable ended{};
  };

  void work();
  void read_queued(std::unique_lock<std::mutex>& lock);
  void read_some(Job& job, std::unique_lock<std::mutex>& lock);
  void drop_old();
  void move(Load& load, List& to);
  void forget(Load& load);
  void let_go(Load& load);
  void count_bytes(Load& load);

  TreeFiles& files_;
  const uint64_t most_bytes_;
  const size_t at_once_;
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint64_t> loads_count_{0};

  std::mutex mutex_;  // of what follows
  std::condition_variable wanted_;
  std::unordered_map<std::string_view, Load*> loads_;
  List queue_;
  List there_;             // read, the oldest first
  List left_;              // likewise, but they go when nobody holds them
  List forgotten_;         // that rows still hold; found by their keys no more
  std::deque<Job*> jobs_;  // of which some keys are read by nobody yet
  uint32_t sleeping_ = 0;
  bool stops_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace isotherm

// KeyGate: which keys a group of rows has taken (isotherm/batch.h), so that rows of others on them
// wait, and nobody else does.
//
// Slots. A key belongs to one of 2^16 slots by its hash and database, and a slot has the number of
// the holder that took it, or 0. Two keys of one slot count as one key, which costs a needless wait
// now and then.
//
// A group of very many keys (`many_rows`) would have nearly all slots. It takes none, and has a
// filter of its keys instead, in which one key of fifty is found that it does not have. One such
// group has its keys at a time.
//
// A batch with groups
//   take    takes the slots of all keys of all its groups at once, and the databases that it
//           flushes; or none, and waits. Who asked first is first, of those that want the same. A
//           thread that must not wait is told when it has them.
//   drain   waits for what others run on these keys since before they were taken. So much ends by
//           itself: nobody waits for a group while he runs rows.
//   rows, guards, rows …
//   give back
// While it has keys, such a batch takes no more of them and waits for nobody else's, and its memory
// was made ready before. So no batches wait for each other in a circle.
//
// Rows of others. Where the gate is not armed they run as they come; their runner's epoch slot says
// that it works (items/epoch.h), on whatever keys, and the group waits for that. The first group
// arms the gate. A runner then shows the slots of its rows in a small filter, looks which of them
// are taken, runs all others, and parks these until the holder gives back (`Awaited`). A group
// waits for those only whose filter has a slot of its own. Long after the last group the gate is
// disarmed: a store without groups pays a load a batch.
//
// Why nobody is missed: a thread that runs rows first shows that it does, and then looks at what is
// taken. A thread that takes keys first marks them as taken, and then looks at what others show.
// Both steps are sequentially consistent, so at least one of the two sees the other. The filter is
// made from the rows' hashes before they run: what their keys point at may be gone when a group
// looks.
//
// Views. Of the rows that are to see groups whole, either all are parked or none. Others may take
// their keys while the runner looks, and then wait until it has run its rows. So the runner looks
// again as long as `takes` changes and it finds taken keys; then it has parked either none of a
// view's rows or all.
//
// Background work (executor/upkeep/host_upkeep.h) moves or removes items as a row does: it shows
// that it works before it looks whether a key is taken, and for now leaves the items of taken keys
// where they are. So eviction, expiry and moves cannot undo what a guard has found, and none of
// them runs beside a flush. A group waits for one sweep of this work at most, and the work never
// waits for a group. Growth of an index, and the taking apart of a flushed one, concern no key.
//
// Threads. A holder belongs to one thread at a time; `held`, `is_held` and Awaited::begin any.
// Limits. 1,023 holders. 128 KiB, and 600 bytes a holder; 8 MiB more from the first group of very
// many keys on.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/broken.h"
#include "base/hash.h"
#include "executor/awaited.h"
#include "isotherm/batch.h"
#include "items/epoch.h"

namespace isotherm {

class WorkerPool;

class KeyGate {
 public:
  // Who runs rows, with groups or without. It is the gate's, since others may wait for it.
  class Holder final : public Awaited {
   public:
    // Tells when it holds nothing, which may be so already.
    void begin(Waiter& waiter) override;

   private:
    friend class KeyGate;
    static constexpr uint32_t shown_bits = 1 << 12;

    explicit Holder(KeyGate& gate, uint16_t number) : gate_(gate), number_(number) {}

    KeyGate& gate_;
    const uint16_t number_;
    bool in_use_ = true;
    // Odd while rows run; what they are on.
    alignas(64) std::atomic<uint64_t> runs_{0};
    std::atomic<uint32_t> first_database_{0};
    std::atomic<uint32_t> last_database_{0};
    std::array<std::atomic<uint64_t>, shown_bits / 64> shown_{};
    // The thread's own.
    bool has_all_rows_ = false;
    uint64_t rows_ = 0;  // of its groups
    uint64_t takes_seen_ = 0;
    uint32_t quiet_ = 0;  // spans of rows since then
    // What it has taken or waits for; under the mutex but for its own thread.
    const Batch* batch_ = nullptr;
    uint32_t flush_first_ = 0;
    uint32_t flush_end_ = 0;
    std::atomic<bool> granted_{false};
    std::condition_variable told_;
    Waiter* to_tell_ = nullptr;    // instead
    Holder* next_told_ = nullptr;  // of those that have just been granted their keys
    std::vector<Waiter*> waiters_;
  };

  explicit KeyGate(EpochDomain& epochs);
  KeyGate(const KeyGate&) = delete;
  KeyGate& operator=(const KeyGate&) = delete;

  // Throws std::bad_alloc, and std::runtime_error where there are too many.
  Holder& join();
  void leave(Holder& holder);
  // Null where there are too many, or no memory.
  Holder* join_if_possible();

  // Whether a group is, or was of late, under way.
  bool armed() const { return armed_.load(std::memory_order_seq_cst); }

  // For a batch whose keys have their hashes, and whose groups are closed; the thread is not at
  // work. Returns when its rows may run.
  void take(Holder& holder, const Batch& batch);
  // The same without waiting; false: others have some of them, and nothing is taken. `pool`: whose
  // threads share the work where there are very many; may be null.
  bool take_now(Holder& holder, const Batch& batch, WorkerPool* pool = nullptr);
  // Whether it has them at once; if not, `waiter` will be told when it has. Before any row comes
  // `drain`.
  bool take_or_tell(Holder& holder, const Batch& batch, Awaited::Waiter& waiter);
  void drain(const Holder& holder) const;
  void give_back(Holder& holder);
  // Whether all rows of its batch are in groups, so nobody else's can be in the way.
  static bool has_all_rows(const Holder& holder) { return holder.has_all_rows_; }

  // Rows with hashes are to run, or have run; while the gate is armed.
  void begin(Holder& holder, const Batch::Columns& columns, Batch::Row first, Batch::Row end);
  static void end(Holder& holder) {
    holder.runs_.store(holder.runs_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  static void end_if_begun(Holder& holder) {
    if (holder.runs_.load(std::memory_order_relaxed) % 2 != 0) end(holder);
  }
  // Whether its batch has its keys.
  static bool has_keys(const Holder& holder) {
    return holder.granted_.load(std::memory_order_relaxed);
  }
  // How many wait to take theirs.
  size_t waiting() {
    const std::lock_guard lock(mutex_);
    return waiting_.size();
  }

  // Whether no batch has any keys. For who has shown its rows (`begin`): whoever takes keys after
  // this look sees these rows, and waits for them.
  bool nobody_has() const { return having_.load(std::memory_order_seq_cst) == 0; }
  // Changes with every batch that takes.
  uint64_t takes() const { return takes_.load(std::memory_order_seq_cst); }
  // Who has taken the key; null: nobody, or the holder itself.
  Holder* held(const Holder& holder, uint64_t hash, uint32_t database) const {
    const uint16_t owner = waits() ? owner_of(hash, database) : 0;
    const bool free = owner == 0 || owner == holder.number_ || owns(holder, hash, database);
    return free ? nullptr : holders_[owner - 1].get();
  }
  // Whether the holder has it. A slot, and a key that is found in the filter, may be two holders'.
  bool owns(const Holder& holder, uint64_t hash, uint32_t database) const {
    return owner_of(hash, database) == holder.number_ ||
           (filter_owner_.load(std::memory_order_acquire) == holder.number_ &&
            is_in_filter(hash, database));
  }
  // Whether anybody has; for who works.
  bool is_held(uint64_t hash, uint32_t database) const {
    if (!armed()) return false;
    // As for who runs rows: whoever took the key before this look is seen.
    static_cast<void>(takes());
    return owner_of(hash, database) != 0;
  }

 private:
  static constexpr uint32_t slot_bits = 16;
  // Who runs batches, and each batch whose groups wait: as many as workers may have under way.
  static constexpr uint32_t most_holders = 1023 + 256 * 64;
  static constexpr uint32_t quiet_spans = 512;
  static constexpr uint64_t many_rows = 1 << 13;
  static constexpr uint64_t filter_bits = uint64_t{1} << 26;
  // Nobody, in a build that tests must catch.
  static bool waits() { return !broken(Rule::groups); }

  static uint32_t slot_of(uint64_t hash, uint32_t database) {
    return static_cast<uint32_t>(hash_in(database, hash) >> (64 - slot_bits));
  }
  template <class Visit>
  static void each_row(const Batch& batch, Visit&& visit) {
    for (const Batch::Span& group : batch.groups()) {
      for (Batch::Row row = group.first; row < group.end; ++row) {
        if (!visit(batch.columns().hash[row], batch.columns().database[row])) return;
      }
    }
  }
  static bool flushes(const Holder& one, uint32_t first, uint32_t last) {
    return one.flush_first_ <= last && first < one.flush_end_;
  }
  static bool flushes_some(const Holder& one, const Holder& other);
  // A database that is flushed is its flusher's, whoever has slots of its keys for others of
  // theirs.
  uint16_t owner_of(uint64_t hash, uint32_t database) const {
    const uint16_t flusher = flusher_.load(std::memory_order_acquire);
    const bool flushed = flusher != 0 && flush_first_.load(std::memory_order_relaxed) <= database &&
                         database < flush_end_.load(std::memory_order_relaxed);
    if (flushed) return flusher;
    const uint16_t owner = owners_[slot_of(hash, database)].load(std::memory_order_acquire);
    if (owner != 0) return owner;
    const uint16_t many = filter_owner_.load(std::memory_order_acquire);
    return many != 0 && is_in_filter(hash, database) ? many : 0;
  }
  // Two bits a key, of one mixed number.
  static uint64_t mixed(uint64_t hash, uint32_t database) {
    hash = hash_in(database, hash);
    hash = (hash ^ hash >> 32) * 0xD6E8'FEB8'6659'FD93;
    return hash ^ hash >> 32;
  }
  bool has_bit(uint64_t bit) const {
    return (filter_[bit % filter_bits / 64].load(std::memory_order_relaxed) >> (bit % 64) & 1) != 0;
  }
  bool is_in_filter(uint64_t hash, uint32_t database) const {
    const uint64_t bits = mixed(hash, database);
    return has_bit(bits) && has_bit(bits >> 32);
  }
  bool make_filter();
  void fill_filter(const Batch& batch, WorkerPool* pool);
  void set_bit(uint64_t bit, bool shared);
  static void want(Holder& holder, const Batch& batch);
  bool grant(Holder& holder, WorkerPool* pool = nullptr);
  bool queue(Holder& holder, Awaited::Waiter* waiter);
  Holder* grant_waiting();
  bool waits_behind(const Holder& holder) const;
  void release(const Holder& holder);
  static bool meets(const Holder& holder, const Holder& other);
  void disarm_if_quiet(Holder& holder);

  EpochDomain& epochs_;
  std::atomic<bool> armed_{false};
  std::atomic<uint64_t> takes_{0};
  std::atomic<uint32_t> having_{0};  // batches that have keys
  // The databases that are being flushed, and by whom: one at a time.
  std::atomic<uint16_t> flusher_{0};
  std::atomic<uint32_t> flush_first_{0};
  std::atomic<uint32_t> flush_end_{0};
  const std::unique_ptr<std::atomic<uint16_t>[]> owners_;

  // Of a group of very many keys; 0: there is none.
  std::atomic<uint16_t> filter_owner_{0};
  std::unique_ptr<std::atomic<uint64_t>[]> filter_;

  std::mutex mutex_;  // of what follows
  std::vector<Holder*> holding_;
  std::vector<Holder*> waiting_;  // in order
  // Of each slot, by those who wait: the look that saw it. Null, without memory: nobody passes.
  std::unique_ptr<uint32_t[]> wanted_;
  uint32_t look_ = 0;
  std::atomic<uint32_t> holder_count_{0};
  std::array<std::unique_ptr<Holder>, most_holders> holders_;
};

// A holder for the life of the object.
class GateHolder {
 public:
  explicit GateHolder(KeyGate& gate) : holder(gate.join()), gate_(gate) {}
  ~GateHolder() { gate_.leave(holder); }
  GateHolder(const GateHolder&) = delete;
  GateHolder& operator=(const GateHolder&) = delete;

  KeyGate::Holder& holder;

 private:
  KeyGate& gate_;
};

}  // namespace isotherm

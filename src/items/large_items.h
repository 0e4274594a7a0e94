// LargeItems: items larger than the largest size class, each in an allocation of its own.
//
//   header, 64 bytes    u64 bytes that the budget counts, u32 number, u32 state,
//                       u64 neighbours in the order of the CLOCK, u64 stamp,
//                       u64 bytes that have arrived, u64 version of a value that has changed,
//                       u64 where whoever receives the value is told that the store has it
//   the item            at a 16-byte boundary; its address is the location's place
//
// A table by number holds all of them, so that sweeps find them; a number stays an item's for life,
// and freed numbers are used again.
//
// The order of the CLOCK. Live items are in two lists, those on probation and the proven ones, for
// a hand each (items/clock_hand.h), in the order in which they joined it. Each has a stamp, which
// says where the hand stood at that moment. `take_due` takes the front when the hand has come round
// to its stamp.
//
// A connection that sends an item's value does not copy it, but keeps its memory until the client
// has taken it; bits of the state count such connections, and all others who may still read the
// value of an item that may change (items/changing_item.h).
//
// The budget counts what the allocator says a block takes. The allocator decides how soon freed
// blocks leave the process; the server links jemalloc, which gives them back within seconds.
//
// Invariants. `find` shows only items that were live within the caller's epoch, so they stay until
// the caller leaves it.
// Threads. Any; one mutex for the table and room in the account, which is never held while other
// code runs.
// Limits. 2^32 - 1 large items.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <mutex>
#include <vector>

#include "items/location.h"
#include "items/memory_budget.h"

namespace isotherm {

class LargeItems {
 public:
  struct Header {
    uint64_t charged = 0;
    uint32_t number = 0;
    std::atomic<uint32_t> state{0};
    Header* older = nullptr;
    Header* newer = nullptr;
    uint64_t stamp = 0;
    uint64_t arrived = 0;  // bytes that the budget counts before the item is in the store
    std::atomic<uint64_t> version{0};  // since the value was changed; 0: it is the item's
    bool* taken = nullptr;             // of who received the value: whether the store has it

    static constexpr uint32_t live = 1;
    static constexpr uint32_t used = 2;
    static constexpr uint32_t freed = 8;  // by the store; who keeps it last gives it back
    static constexpr uint32_t proven = 16;
    static constexpr uint32_t written = 32;    // the value is being changed
    static constexpr uint32_t constant = 64;   // the value changes no more
    static constexpr uint32_t one_keep = 128;  // the bits from here on count who keeps it
  };
  static_assert(sizeof(Header) == 64);

  explicit LargeItems(MemoryBudget& budget) : budget_(budget) {}
  // Frees all that are left.
  ~LargeItems();
  LargeItems(const LargeItems&) = delete;
  LargeItems& operator=(const LargeItems&) = delete;

  // location::none when the cap, or with `force` what may be used beyond it, or the machine has no
  // more memory.
  Location allocate(uint64_t bytes, bool force);
  void free(Location location);

  // The two halves of `allocate`: memory that nobody counts, for an item whose value is still on
  // its way (items/arriving_item.h), and its entry into the store. `take_out` undoes the latter.
  static Location prepare(uint64_t bytes);
  void arrive(Location location, uint64_t bytes);  // the budget counts as many from now on
  bool take_in(Location location, bool force);
  void take_out(Location location);
  void discard(Location location);
  // The full lengths of the values that are on their way.
  std::atomic<uint64_t>& announced() { return announced_; }
  // How many bytes of such values have come, ever.
  uint64_t came() const { return came_.load(std::memory_order_relaxed); }

  static Header& header(Location location) {
    return reinterpret_cast<Header*>(location::place(location))[-1];
  }
  // Keeps the memory of an item that was found within the caller's epoch until `let_go`, which any
  // thread may call. An item that is freed meanwhile counts as a buffer of clients until then.
  static void keep(Location location) {
    header(location).state.fetch_add(Header::one_keep, std::memory_order_relaxed);
  }
  void let_go(Location location);

  // How much retired_bytes counts for the item.
  static uint64_t charged(Location location) { return header(location).charged; }
  // How many bytes the item may have in its block, which the budget counts already.
  static uint64_t capacity(const Header& header) {
    return header.charged - allocator_bytes - sizeof(Header);
  }

  // The item is live from now on, on probation, and the last in the order of the CLOCK.
  void publish(Location location);
  // The item is not live any more; returns whether it was.
  bool withdraw(Location location);
  // A live item is on probation no more.
  void prove(Location location);
  // Of the one that became live last, if it is still on probation.
  uint64_t newest_on_probation();
  uint64_t proven_bytes() const { return proven_bytes_.load(std::memory_order_relaxed); }

  // Here and below `proven` tells which hand is meant, and the items that it visits.
  // The hand has come to `stamp`, a number that only rises and rises by one_lap with each lap.
  static constexpr uint64_t one_lap = uint64_t{1} << 32;
  void move_hand(bool proven, uint64_t stamp) {
    orders_[proven].hand.store(stamp, std::memory_order_relaxed);
  }
  // Whether the hand has come round to the front of the list.
  bool any_due(bool proven) const {
    const Order& order = orders_[proven];
    return order.is_due(order.front_stamp.load(std::memory_order_relaxed));
  }
  // Takes the first item that is due and not larger than `most_bytes`, which becomes the last in
  // the order, and says whether it was used since the last time. False when there is none behind
  // the first few larger ones, which keep their place in the order.
  bool take_due(bool proven, uint64_t most_bytes, Location& location, bool& used);
  // These larger ones, none for those that were used: how many.
  static constexpr uint32_t most_passed_over = 16;
  using PassedOver = std::array<Location, most_passed_over>;
  uint32_t due_above(bool proven, uint64_t most_bytes, PassedOver& found);

  // Whether it is the last one that became live.
  bool is_newest(const Header& item);

  // No live large item expires before it.
  std::atomic<int64_t>& next_expiry() { return next_expiry_; }

  // Live items by number: looks at up to `looks` numbers from `number` on, writes those of live
  // items to `found` (at most `room`), moves `number` on and sets it to 0 at the end of the table.
  uint32_t find(uint32_t& number, uint32_t& looks, Location* found, uint32_t room);

  // Numbers in the table, free ones included.
  uint32_t limit() const { return limit_.load(std::memory_order_relaxed); }
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  // What an allocator keeps beside or around a block.
  static constexpr uint64_t allocator_bytes = 16;
  static constexpr uint64_t no_stamp = ~uint64_t{0};

  // One list of the CLOCK. The atomics: any thread; the ends: under the mutex.
  struct Order {
    std::atomic<uint64_t> hand{0};
    std::atomic<uint64_t> front_stamp{no_stamp};
    Header* oldest = nullptr;
    Header* newest = nullptr;
    bool is_due(uint64_t stamp) const {
      return stamp != no_stamp && stamp + one_lap <= hand.load(std::memory_order_relaxed);
    }
    void append(Header* header);
    void unlink(Header* header);
  };
  Order& order_of(const Header& header) {
    return orders_[(header.state.load(std::memory_order_relaxed) & Header::proven) != 0];
  }
  static Location location_of(Header* header);
  bool reserve(uint64_t cost, bool force);
  void enter(Header* header);
  void give_number(Header* header);
  void leave(Header* header);
  static void give_back(Header* header);

  MemoryBudget& budget_;
  std::atomic<int64_t> next_expiry_{std::numeric_limits<int64_t>::max()};
  std::atomic<uint32_t> limit_{0};
  std::atomic<uint64_t> count_{0};
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint64_t> proven_bytes_{0};
  Order orders_[2];
  std::atomic<uint64_t> announced_{0};
  std::atomic<uint64_t> came_{0};

  std::mutex mutex_;  // all below
  std::vector<Header*> table_;
  std::vector<uint32_t> free_numbers_;
  const Header* newest_ = nullptr;  // the last one that became live, if it still is
};

}  // namespace isotherm

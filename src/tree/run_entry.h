// RunEntry: what a run of a tree (tree/tree_run.h) has of one key: the newest, and what that has
// replaced, as far as somebody holds a moment that shows it.
//
//   newest, its stamp ─▶ kept, of an earlier stamp ─▶ kept …
// A moment shows what has no larger stamp than its number. While it is held nothing comes with such
// a stamp, and what it shows is kept when it is replaced, in other memory. So who holds a moment
// reads without a lock: he looks at the stamp before and behind the rest, and where it has become
// larger, what he wants is among what is kept.
//
// Threads. One changes it at a time; any may read at a moment that is held, `latest` only while
// nobody changes it. Keys and values lie elsewhere, and stay.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace isotherm {

class RunEntry {
 public:
  struct Kept {
    std::string_view value;
    uint64_t stamp = 0;
    const Kept* older = nullptr;
  };
  struct Shown {
    bool known = false;
    std::string_view value;  // empty: the key was erased
    uint64_t stamp = 0;
  };
  // Of what is shown without a moment: the newest.
  static constexpr uint64_t latest = ~uint64_t{0};

  // With `room` bytes for values behind it.
  RunEntry(std::string_view key, uint32_t room) : key_(key), at_(behind()), room_(room) {}
  RunEntry(const RunEntry&) = delete;
  RunEntry& operator=(const RunEntry&) = delete;

  std::string_view key() const { return key_; }
  uint64_t stamp() const { return stamp_.load(std::memory_order_relaxed); }
  // Bytes for a value that takes the place of the newest.
  uint32_t room() const { return room_; }
  Kept newest() const {
    return {{at_.load(std::memory_order_relaxed), bytes_.load(std::memory_order_relaxed)},
            stamp(),
            older_.load(std::memory_order_relaxed)};
  }
  Shown at_moment(uint64_t moment) const {
    if (const uint64_t before = stamp_.load(std::memory_order_acquire); before <= moment) {
      const char* const at = at_.load(std::memory_order_acquire);
      const uint32_t bytes = bytes_.load(std::memory_order_acquire);
      if (stamp() <= moment) return {true, {at, bytes}, before};
    }
    const Kept* state = older_.load(std::memory_order_acquire);
    while (state != nullptr && state->stamp > moment) state = state->older;
    return state == nullptr ? Shown() : Shown{true, state->value, state->stamp};
  }

  // What is kept of the newest, in memory of its own: its place is not written to again.
  void keep(const Kept& newest) {
    older_.store(&newest, std::memory_order_release);
    room_ = 0;
  }
  // Where the value is to be written: `more`, of so many bytes, where there is no room.
  char* change(uint64_t stamp, uint32_t bytes, char* more) {
    stamp_.store(stamp, std::memory_order_release);
    char* at = at_.load(std::memory_order_relaxed);
    if (bytes > room_) {
      at = more;
      room_ = bytes;
    }
    at_.store(at, std::memory_order_release);
    bytes_.store(bytes, std::memory_order_release);
    return at;
  }

 private:
  char* behind() { return reinterpret_cast<char*>(this + 1); }

  const std::string_view key_;
  std::atomic<uint64_t> stamp_{0};
  std::atomic<char*> at_;
  std::atomic<uint32_t> bytes_{0};
  uint32_t room_;
  std::atomic<const Kept*> older_{nullptr};
};

}  // namespace isotherm

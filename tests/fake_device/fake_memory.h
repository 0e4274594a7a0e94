// FakeMemory: the memory of the fake device, apart from the host's.
//
//   arena   | allocation … pattern | gap | allocation … | gap | released | gap | never used …
//
// The arena is a mapping of its own that nobody may touch unless it is open: the device opens it
// while its operations run, so host code that follows a device pointer ends there and then;
// but once hiding it has cost enough, `close` leaves it open most times.
//
// An allocation starts at a multiple of 256 bytes and is filled with `fresh`. What is not allocated
// (gaps, the rest of an allocation's last unit, released memory) is filled with `dead`, and
// `check` finds what was written there; under the address sanitizer each such access is reported
// where it happens. Released memory is handed out again only when the arena has no fresh part left.
//
// Limits. As many bytes are handed out as the device is said to have, gaps not counted; the arena
// spans four times as much address space, of which only what is used takes memory.
// Threads. One at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace isotherm {

class FakeMemory {
 public:
  static constexpr uint64_t unit = 256;
  static constexpr unsigned char fresh = 0xA5;
  static constexpr unsigned char dead = 0xDB;

  // `report` takes what went wrong.
  FakeMemory(uint64_t bytes, std::function<void(std::string)> report);
  ~FakeMemory();
  FakeMemory(const FakeMemory&) = delete;
  FakeMemory& operator=(const FakeMemory&) = delete;

  // Null if there is not so much left.
  void* allocate(uint64_t bytes);
  void release(void* at, uint64_t bytes);

  // While it lives everybody may touch the arena, else nobody; but see `close`.
  class Open {
   public:
    explicit Open(FakeMemory& memory) : memory_(memory) { memory.open(); }
    ~Open() { memory_.close(); }
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;

   private:
    FakeMemory& memory_;
  };

  // Whether all of it lies in one allocation.
  bool allocated(const void* at, uint64_t bytes) const;
  // Whether a kernel may touch so many bytes: in the arena allocated units only. Fast, and blind
  // to a mistake within an allocation's last unit.
  bool may_touch(const void* at, uint64_t bytes) const {
    const auto offset = static_cast<uint64_t>(static_cast<const char*>(at) - base_);
    return offset >= arena_bytes_ ||
           (live_units_[offset / unit] && live_units_[(offset + bytes - 1) / unit]);
  }
  // Reports writes to what lies behind allocations. The arena is open.
  void check_gaps();
  // The same for all that is not allocated. The arena is open.
  void check_all();
  // All contents are lost. The arena is open.
  void scramble();

  uint64_t used() const { return used_; }
  uint64_t left() const { return bytes_ - used_; }

 private:
  void open();
  // Hides the arena. That takes time in proportion to what was ever used of it, so once 32 MiB
  // were hidden, it does so one time in 64, and less often where more than 32 MiB would be.
  void close();
  void protect(uint64_t offset, uint64_t bytes, bool hide) const;
  uint64_t find_room(uint64_t span);
  void return_room(uint64_t offset, uint64_t span);
  void check_dead(uint64_t from, uint64_t upto);
  void set_live(uint64_t offset, uint64_t bytes, bool live);

  std::function<void(std::string)> report_;
  uint64_t bytes_;
  uint64_t arena_bytes_;
  char* base_;
  uint64_t used_ = 0;
  uint64_t top_ = 0;                     // all behind it was never used
  std::map<uint64_t, uint64_t> live_;    // offset → bytes
  std::map<uint64_t, uint64_t> vacant_;  // offset → bytes, between allocations, never adjacent
  std::vector<bool> live_units_;
  bool open_ = false;
  uint64_t open_for_ = 0;  // times that it was to be closed
  uint64_t hidden_bytes_ = 0;
};

}  // namespace isotherm

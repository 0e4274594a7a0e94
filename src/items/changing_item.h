// ChangingItem: a long value that is changed and lengthened where it lies, where nobody else looks
// at it.
//
// A large item (items/large_items.h) of a string may have the bit `may change` (items/item.h). Its
// value and its version are read and written under the lease that the state in its header is:
//
//   readers  each is one keep, from before it reads until it has no more use for the bytes: until
//            its batch is cleared where a reply shows them, or until a client has taken them
//   writer   the bit `written`, which nobody gets while there is a keep; who begins to read then
//            waits, for as long as some KiB take to be written
//   nobody   the bit `constant`, for readers who cannot say when they are done: from then on the
//            value is that of any other item
//
// A writer that does not get the lease stores a changed copy, which may change in its turn. So what
// was shown stays as it was shown, and readers never wait for each other.
//
// The value never becomes shorter, and longer only as far as the item's block has room. The key and
// all else stay, and so does the version that the item itself has, which is no longer the value's
// once that was changed.
//
// Invariants. Who writes holds the lock of the key's line, and the index has the item. A version, a
// length and the bytes that they belong to are seen together by readers, and by nobody else: who
// reads the version or the length alone sees the one before a change that is under way, or the one
// behind it. So whoever takes memory for a copy does it while there is a keep.
// Threads. Any, within an epoch in which the item was found.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/macros.h"
#include "items/item.h"
#include "items/large_items.h"
#include "items/location.h"

namespace isotherm {

struct ChangingItem {
  // At most so many bytes of a value are written at a time, since readers and the line wait for it.
  static constexpr uint64_t most_written = 64 << 10;

  // Inlined, for those who call it are compiled for several instruction sets.
  static ISOTHERM_INLINE uint64_t version(const Item& item) {
    const uint64_t version = header(item).version.load(std::memory_order_relaxed);
    return version != 0 ? version : item.version();
  }
  static void set_version(const Item& item, uint64_t version) {
    header(item).version.store(version, std::memory_order_relaxed);
  }

  // The longest value for which the item has room. Where it has a state, that lies behind the
  // value.
  static uint64_t most_value_bytes(const Item& item) {
    if (item.has_state()) return item.value_bytes();
    const auto before = item.value_data() - reinterpret_cast<const char*>(&item);
    return LargeItems::capacity(header(item)) - static_cast<uint64_t>(before);
  }

  // Whether a value of so many bytes, which is no shorter, may be written where this one lies:
  // the item has room for it, and it differs in few enough bytes, those behind this one among them.
  static bool takes(const Item& item, uint64_t value_bytes, uint64_t changed_bytes) {
    const uint64_t more = value_bytes - item.value_bytes();
    return value_bytes <= most_value_bytes(item) && std::max(more, changed_bytes) <= most_written;
  }

  // One more who keeps the item, until LargeItems::let_go, and may read it.
  static void share(Location location);
  // The value does not change any more, so it may be read.
  static void fix(Location location);

  // The lease of a writer, for the life of the object; false: others have it.
  class Writing {
   public:
    explicit Writing(Location location);
    ~Writing();
    Writing(const Writing&) = delete;
    Writing& operator=(const Writing&) = delete;
    explicit operator bool() const { return state_ != nullptr; }

   private:
    std::atomic<uint32_t>* state_ = nullptr;
  };

 private:
  static ISOTHERM_INLINE LargeItems::Header& header(const Item& item) {
    return LargeItems::header(reinterpret_cast<uint64_t>(&item));
  }
};

}  // namespace isotherm

// Item: a key with its value, expiry, flags and version, as bytes in memory.
//
// Layout, at a 16-byte boundary (docs/layout.md draws it):
//    0  u64  version << 8 | meta      meta: bits 0–2 type, 3 may change, 4 has expiry, 5 has extra,
//                                   6 away, 7 has a state
//    8  u32  value bytes; atomic where the value may change
//   12  u32  key bytes
//   16  i64  expiry, ms since the epoch      only with "has expiry"; atomic
//    .  u32  memcached flags, u32 database   only with "has extra" (either is not zero)
//    .  key, then value, without padding
//    .  u64  state (items/meta_state.h), at the next multiple of 8; only with "has a state"; atomic
// An item of a 16-byte key and a 32-byte value takes 64 bytes: one cache line.
//
// An item that is away has its value in device memory: instead of the value there is a u64 that
// says where (executor/values/value_place.h); the length stays that of the value.
//
// An item of an object (isotherm/object.h), whose type is not string, has the location of the
// object as its value. Its copies have the same object, so whoever moves an item leaves the object
// where it is. The version of an object changes with it; the item has the one with which the object
// came.
//
// The value of a large item that may change is written and lengthened where it lies, and its
// version is the one that items/changing_item.h knows; that header says who may read either, and
// when.
//
// Invariants. Immutable once published, except the expiry and the state, an atomic each, and values
// that may change. The version is set before publication, under the lock of the key's line, and so
// are the expiry and `token sent` of the state afterwards. An item that was never published may be
// freed at once; a published one goes through retirement.
//
// A collision node (location kind `collision`) is an immutable array of the locations of items
// whose 64-bit hashes agree: u64 count, then count locations.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/bytes.h"
#include "base/macros.h"
#include "isotherm/batch.h"
#include "items/location.h"

namespace isotherm {

class Item {
 public:
  static constexpr uint8_t may_change_bit = 1 << 3;
  static constexpr uint8_t expiry_bit = 1 << 4;
  static constexpr uint8_t extra_bit = 1 << 5;
  static constexpr uint8_t away_bit = 1 << 6;
  static constexpr uint8_t state_bit = 1 << 7;
  static constexpr uint64_t header_bytes = 16;

  // Bytes an item takes, in 64 bits so that no length can wrap.
  static constexpr uint64_t bytes(uint64_t key_bytes, uint64_t value_bytes, bool has_expiry,
                                  bool has_extra, bool has_state = false) {
    const uint64_t plain =
        header_bytes + (has_expiry ? 8 : 0) + (has_extra ? 8 : 0) + key_bytes + value_bytes;
    return has_state ? (plain + 7) / 8 * 8 + 8 : plain;
  }

  // What an item consists of; `value` may be filled in later through value_data().
  struct Parts {
    std::string_view key;
    uint64_t value_bytes = 0;
    ValueType type = ValueType::string;
    int64_t expiry = no_expiry;
    uint32_t flags = 0;
    uint32_t database = 0;
    bool away = false;
    uint64_t state = 0;  // 0: none
    // Room for all: the value came before they were known, or it is an object, so that its expiry
    // is set in its place.
    bool all_fields = false;

    bool has_expiry() const { return expiry != no_expiry || all_fields; }
    bool has_extra() const { return flags != 0 || database != 0 || all_fields; }
    uint64_t bytes() const {
      return Item::bytes(key.size(), away ? sizeof(uint64_t) : value_bytes, has_expiry(),
                         has_extra(), state != 0);
    }
  };

  // Writes header and key at `memory`, which holds parts.bytes(); the value is the caller's.
  static Item* create(void* memory, const Parts& parts);
  // The same item at `memory`, which holds bytes(); its expiry may be set by others meanwhile.
  Item* copy_to(void* memory) const;
  // What the item consists of, with its value here or, with `away`, on a device. The expiry is that
  // of the moment.
  Parts parts(bool away) const {
    return {key(), value_bytes(), type(), expiry(), flags(), database(), away, state()};
  }

  // The one that it was published with: Objects::version_of knows of later ones.
  uint64_t version() const { return version_meta_ >> 8; }
  void set_version(uint64_t version) { version_meta_ = version << 8 | (version_meta_ & 0xFF); }
  ValueType type() const { return static_cast<ValueType>(version_meta_ & 0x7); }
  bool may_change() const { return (version_meta_ & may_change_bit) != 0; }
  // Before it is published. Only of a string that is a large item.
  void let_change() { version_meta_ |= may_change_bit; }
  bool has_expiry() const { return (version_meta_ & expiry_bit) != 0; }
  bool has_extra() const { return (version_meta_ & extra_bit) != 0; }
  bool away() const { return (version_meta_ & away_bit) != 0; }
  bool has_state() const { return (version_meta_ & state_bit) != 0; }

  ISOTHERM_INLINE int64_t expiry() const {
    return has_expiry() ? expiry_field().load(std::memory_order_relaxed) : no_expiry;
  }
  // Only where has_expiry().
  void set_expiry(int64_t expiry) { expiry_field().store(expiry, std::memory_order_relaxed); }
  ISOTHERM_INLINE bool expired(int64_t now_ms) const {
    if (!has_expiry()) return false;
    const int64_t at = expiry();
    return at != no_expiry && at <= now_ms;
  }

  // What the meta commands know of it; 0: nothing.
  uint64_t state() const { return has_state() ? state_field().load(std::memory_order_relaxed) : 0; }
  // Both only where has_state().
  void set_state(uint64_t state) { state_field().store(state, std::memory_order_relaxed); }
  // `used` says what the state becomes; it is asked again if another one was faster.
  template <class Used>
  void change_state(const Used& used) const {
    uint64_t before = state();
    while (!state_field().compare_exchange_weak(before, used(before), std::memory_order_relaxed)) {
    }
  }

  ISOTHERM_INLINE uint32_t flags() const { return has_extra() ? extra()[0] : 0; }
  uint32_t database() const { return has_extra() ? extra()[1] : 0; }
  std::string_view key() const { return {key_data(), key_bytes_}; }
  // The length of the moment, where others may lengthen the value.
  ISOTHERM_INLINE uint32_t value_bytes() const {
    return __atomic_load_n(&value_bytes_, __ATOMIC_RELAXED);
  }
  // Only of an item that may change, as items/changing_item.h says; its bytes are there already.
  void lengthen_value(uint64_t bytes) {
    __atomic_store_n(&value_bytes_, static_cast<uint32_t>(bytes), __ATOMIC_RELAXED);
  }
  // Not of an item that is away.
  ISOTHERM_INLINE std::string_view value() const { return {value_data(), value_bytes()}; }
  char* value_data() { return const_cast<char*>(key_data()) + key_bytes_; }
  ISOTHERM_INLINE const char* value_data() const { return key_data() + key_bytes_; }
  // Its value is an object.
  ISOTHERM_INLINE bool is_object() const { return type() > ValueType::string; }
  // A string that does not change: its version is that of the item.
  ISOTHERM_INLINE bool is_constant() const {
    return (version_meta_ & type_bits) == static_cast<uint64_t>(ValueType::string);
  }
  // Such a one that is here.
  ISOTHERM_INLINE bool is_plain() const {
    return (version_meta_ & (away_bit | type_bits)) == static_cast<uint64_t>(ValueType::string);
  }
  // Such a one, and the meta commands know nothing of it: a reader has no more to do.
  ISOTHERM_INLINE bool is_shown_at_once() const {
    return (version_meta_ & (away_bit | state_bit | type_bits)) ==
           static_cast<uint64_t>(ValueType::string);
  }
  // A string that is here, and nothing else is known of it: no expiry, no extra, no state. Its key
  // is `bare_key`, and its value is behind that.
  ISOTHERM_INLINE bool is_bare() const {
    return static_cast<uint8_t>(version_meta_) == static_cast<uint8_t>(ValueType::string);
  }
  ISOTHERM_INLINE std::string_view bare_key() const { return {body(), key_bytes_}; }
  ISOTHERM_INLINE std::string_view bare_value() const {
    return {body() + key_bytes_, value_bytes_};
  }
  // Writes such an item at `memory`, which holds bare_bytes.
  static constexpr uint64_t bare_bytes(uint64_t key_bytes, uint64_t value_bytes) {
    return header_bytes + key_bytes + value_bytes;
  }
  static ISOTHERM_INLINE Item* create_bare(void* memory, std::string_view key,
                                           std::string_view value) {
    Item* item = static_cast<Item*>(memory);
    item->version_meta_ = static_cast<uint64_t>(ValueType::string);
    item->value_bytes_ = static_cast<uint32_t>(value.size());
    item->key_bytes_ = static_cast<uint32_t>(key.size());
    char* const body = static_cast<char*>(memory) + header_bytes;
    copy_bytes(body, key.data(), key.size());
    copy_bytes(body + key.size(), value.data(), value.size());
    return item;
  }
  // Only of an item of an object.
  ISOTHERM_INLINE Location object_location() const { return value_place(); }
  ISOTHERM_INLINE Object* object() const {
    return reinterpret_cast<Object*>(location::place(value_place()));
  }
  // Only of an item that is away, or of an object.
  ISOTHERM_INLINE uint64_t value_place() const {
    uint64_t place = 0;
    std::memcpy(&place, value_data(), sizeof place);
    return place;
  }
  void set_value_place(uint64_t place) { std::memcpy(value_data(), &place, sizeof place); }
  uint64_t bytes() const {
    return bytes(key_bytes_, away() ? sizeof(uint64_t) : value_bytes(), has_expiry(), has_extra(),
                 has_state());
  }

 private:
  // What the type is read from, and the bit beside it: one compare tells plain strings from all
  // others.
  static constexpr uint64_t type_bits = 0xF;

  const char* body() const { return reinterpret_cast<const char*>(this) + header_bytes; }
  std::atomic<int64_t>& expiry_field() const {
    return *reinterpret_cast<std::atomic<int64_t>*>(const_cast<char*>(body()));
  }
  static Item* create_with_state(void* memory, Parts parts);
  std::atomic<uint64_t>& state_field() const;
  const uint32_t* extra() const {
    return reinterpret_cast<const uint32_t*>(body() + (has_expiry() ? 8 : 0));
  }
  ISOTHERM_INLINE const char* key_data() const {
    return body() + (has_expiry() ? 8 : 0) + (has_extra() ? 8 : 0);
  }

  uint64_t version_meta_;
  uint32_t value_bytes_;
  uint32_t key_bytes_;
};
static_assert(sizeof(Item) == Item::header_bytes);

// A collision node; see above.
struct CollisionNode {
  uint64_t count;
  uint64_t members[1];  // `count` of them

  static constexpr uint64_t bytes(uint64_t count) { return 8 + 8 * count; }
};

}  // namespace isotherm

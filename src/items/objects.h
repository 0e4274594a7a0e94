// Objects: what a store knows of its objects (isotherm/object.h): how many there are, what they
// take, and when they may change.
//
// An object belongs to the store from `take` to `free`. Its address is its location, which is the
// value of an item (items/item.h). A reader may still have the object when its item is gone, so it
// is retired as large items are (items/item_store.h), and freed in steps.
//
// Threads. An object changes only under two locks: first its own, then that of its item's line; in
// a round of a device the thread that answers the rows of its key stands for the latter. Whoever
// has either may read it, so a sink may look at the object of a change that it is told of.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "isotherm/object.h"
#include "items/changing_item.h"
#include "items/item.h"
#include "items/location.h"
#include "items/memory_budget.h"

namespace isotherm {

class Objects {
 public:
  explicit Objects(MemoryBudget& budget) : budget_(budget) {}
  Objects(const Objects&) = delete;
  Objects& operator=(const Objects&) = delete;

  Location take(std::unique_ptr<Object> object) {
    Object* const taken = object.release();
    count_.fetch_add(1, std::memory_order_relaxed);
    count_bytes(*taken, taken->memory());
    return location::make(location::Kind::object, 0, reinterpret_cast<uint64_t>(taken));
  }
  // Undoes `take`, for an object that no other thread could ever see.
  std::unique_ptr<Object> give_back(Location location) {
    Object* const object = at(location);
    count_bytes(*object, 0);
    count_.fetch_sub(1, std::memory_order_relaxed);
    return std::unique_ptr<Object>(object);
  }
  void free(Location location) { give_back(location).reset(); }
  // A step of `free`, which frees at most `fields` fields and lowers `fields` by as many; whether
  // it was the last.
  bool free_some(Location location, uint64_t& fields) {
    Object& object = *at(location);
    const uint64_t freed = object.free_fields(fields);
    fields -= std::min(fields, freed);
    if (fields != 0) {
      free(location);
      return true;
    }
    count_bytes(object, object.memory());
    return false;
  }

  // While this is there nobody else changes or reads the object, nor counts its bytes.
  class Changing {
   public:
    Changing(Objects& objects, Object& object) : objects_(objects), object_(object) {
      object_.lock_.lock();
    }
    ~Changing() { object_.lock_.unlock(); }
    Changing(const Changing&) = delete;
    Changing& operator=(const Changing&) = delete;

    // The object has changed.
    void note(uint64_t version) {
      object_.version_.store(version, std::memory_order_relaxed);
      objects_.count_bytes(object_, object_.memory());
    }

   private:
    Objects& objects_;
    Object& object_;
  };

  // The version of the item's value.
  static ISOTHERM_INLINE uint64_t version_of(const Item& item) {
    if (ISOTHERM_LIKELY(item.is_constant())) return item.version();
    if (item.may_change()) return ChangingItem::version(item);
    const uint64_t version = item.object()->version_.load(std::memory_order_relaxed);
    return version != 0 ? version : item.version();
  }

  static uint64_t bytes(Location location) { return at(location)->counted(); }
  // That go with the item.
  static uint64_t bytes_of(const Item& item) {
    return item.is_object() ? item.object()->counted() : 0;
  }
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  static Object* at(Location location) {
    return reinterpret_cast<Object*>(location::place(location));
  }
  void count_bytes(Object& object, uint64_t bytes) {
    const uint64_t before = object.counted_.exchange(bytes, std::memory_order_relaxed);
    budget_.items.fetch_add(static_cast<int64_t>(bytes - before));
  }

  MemoryBudget& budget_;
  std::atomic<uint64_t> count_{0};
};

}  // namespace isotherm

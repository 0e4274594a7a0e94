// Object: a mutable value of several fields, as a hash or a list is one, and functions that
// requests call on it.
//
// A key has a string or an object. A request calls a function on the object of its key
// (Batch::call), with any number of byte strings as arguments:
//   read     looks at the object, beside others that do; not_found where the key is absent
//   change   may change it; where the key is absent it runs on a new object, if the function can
//            make one, and else is not_found
// The type is compared before anything else: a function on a value of another type answers
// wrong_type, and so does an operation on strings where the key has an object. An object that a
// function has left empty is removed with its key, and a new one that is empty is never stored.
//
// Threads. Functions that change an object run one at a time, and while none reads it. They hold up
// whoever writes keys nearby, so they should be short. A function may be called by any thread of
// the store, and again on another object, if another request came in between: what it leaves in its
// context it sets anew each time. It must not throw, wait or call the store. `look` reads the
// object of a reply, until its batch is cleared; others may have changed the object since.
//
// Memory. The store counts what `memory` says after each change, so that should cost little, and
// evicts the object as it evicts a string of that size. A function that takes memory says so
// (`grows`): it is refused where there is no room for its arguments.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <span>
#include <string_view>

#include "isotherm/batch.h"

namespace isotherm {

// Lets no new reader in while somebody waits to change what it guards.
class ObjectLock {
 public:
  ObjectLock() = default;
  ObjectLock(const ObjectLock&) = delete;
  ObjectLock& operator=(const ObjectLock&) = delete;

  void lock() { pthread_rwlock_wrlock(&lock_); }
  void unlock() { pthread_rwlock_unlock(&lock_); }
  void lock_shared() { pthread_rwlock_rdlock(&lock_); }
  void unlock_shared() { pthread_rwlock_unlock(&lock_); }

 private:
  pthread_rwlock_t lock_ = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
};

class Object {
 public:
  virtual ~Object() = default;

  // Not string.
  virtual ValueType type() const = 0;
  virtual bool empty() const = 0;
  // Bytes that it takes, itself included.
  virtual uint64_t memory() const = 0;
  // One that shares nothing with it.
  virtual std::unique_ptr<Object> copy() const = 0;
  // How it keeps its fields, as OBJECT ENCODING names it.
  virtual std::string_view encoding() const = 0;
  // Frees at most `most` fields of an object that nobody can see any more, and returns how many. As
  // long as it is `most`, it is called again, so that a large object goes in several steps; then
  // comes the destructor, which is to be quick.
  virtual uint64_t free_fields(uint64_t /*most*/) { return 0; }

  // Calls read(object) while nobody changes it.
  template <class Read>
  auto look(Read&& read) const {
    const std::shared_lock guard(lock_);
    return read(*this);
  }
  // What the store has counted of its memory.
  uint64_t counted() const { return counted_.load(std::memory_order_relaxed); }

 private:
  friend class Objects;

  mutable ObjectLock lock_;
  std::atomic<uint64_t> version_{0};  // of the last change; 0: that of its item
  std::atomic<uint64_t> counted_{0};
};

// One call, as the function sees it.
struct ObjectCall {
  std::span<const std::string_view> arguments;
  void* context;  // of the request; for what does not fit a reply
  int64_t now_ms;
  // For the reply.
  Status status = Status::ok;
  int64_t number = 0;
};

struct ObjectFunction {
  ValueType type;
  // One of both; `change` says whether it has changed the object.
  void (*read)(const Object& object, ObjectCall& call) = nullptr;
  bool (*change)(Object& object, ObjectCall& call) = nullptr;
  // An empty object of the type, for `change`; null: only where the key is present.
  std::unique_ptr<Object> (*make)() = nullptr;
  bool grows = false;
};

}  // namespace isotherm

// CommitSink: is told of every change of an item; a journal is one, and so is whatever copies the
// store to another place. DemotionHook: is asked before eviction drops an item.
//
//   begins ──▶ changed, changed, … ──▶ ends ──▶ replies are ready
//                                        └────▶ something to wait for (executor/awaited.h): replies
//                                               are ready when it is there
// A change is told when it is certain and nobody can see it yet: under the lock of the key's line,
// or, with the index on a device, by the one thread that answers the rows of the key in a round.
// So the changes of a key are told in the order in which they are made, which is the order of their
// versions, and before the reply of whoever made or saw one. A sink that replays all of them,
// flushes included, has what the store has.
//
// What is a change: a request that stores or erases an item, sets its expiry, or changes its
// object; the end of an item that has expired, was evicted, or lost its value with a device; a
// flush, which is told once for all items of a database. It is no change when an item or its value
// moves to another place, also to that of a DemotionHook.
//
// Versions. Each change has one of its own, larger than those of all earlier changes of its key:
// across deletes and flushes, and when the host takes an index over from a device. An item keeps
// the version of its value when its expiry is set, so it may show an older one.
//
// Withheld replies. If `begins` says that replies may have to wait, no row of the batch is ready
// before `ends` was called and what it returned is there. Rows that wait for a value run later,
// between a `begins` and an `ends` of their own. The sink is told of a batch without rows as well,
// so such a batch ends when everything that was told before it may be shown.
//
// Objects. The item of an object shows it whole. The new item has the object after the change, and
// the old item the object before it; if both are the same item, its object has changed already.
// Both may be read without their locks until `changed` returns (items/objects.h). A sink that wants
// to keep an object copies it.
//
// Threads. Any, several at a time, but for one key one after the other. Nothing here may wait for a
// batch or a lock that is held while a store is called, allocate without bound, throw, or call the
// store; what it gets is valid until it returns. But `changed` may throw std::bad_alloc, and then
// nothing has changed, in the store or in the sink.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

#include "executor/awaited.h"
#include "isotherm/batch.h"
#include "items/item.h"

namespace isotherm {

struct ObjectFunction;
struct ObjectCall;
class WorkerPool;

struct ItemChange {
  enum class Reason : uint8_t {
    request,
    expired,
    evicted,
    lost,  // with a device, or for want of memory when the index of one was taken over
  };

  Reason reason;
  uint32_t database;
  std::string_view key;
  uint64_t hash;  // of the key, as the store has it
  // The values of both may be away (items/item.h). The old one may have expired.
  const Item* old_item;  // null: there was none
  // Null: there is none from now on; the old one: its expiry is set, or its object has changed, or
  // a part of its value has, where `changed_part` tells of it.
  const Item* new_item;
  int64_t expiry;  // from now on; no_expiry: none
  uint64_t version;
  uint64_t token;  // of the batch whose row changes it; 0: none does
  // The function that has changed the object of the old item in its place, else null. It may have
  // left the object empty; then the item goes.
  const ObjectFunction* function = nullptr;
  const ObjectCall* call = nullptr;
};

// Which bytes of a long value a request has changed: the new item's value is the old item's, cut or
// with zeros behind it so that it has the new length, with bytes of its own from `at` on. Neither
// value is away, and the old item has not expired. If both are the same item, which may change
// (items/changing_item.h), its bytes are those of the new value, while its version and its length
// are still the old ones.
struct ChangedPart {
  static constexpr uint64_t least_value = 1 << 10;  // of the old item
  static constexpr uint64_t most_of_value = 4;      // the part is no more than one of so many

  uint64_t at;
  uint64_t bytes;
  uint64_t value_bytes;  // of the new value
};

class CommitSink {
 public:
  struct Begun {
    uint64_t token = 0;  // told with each change and by `ends`
    bool withholds = false;
  };
  // Rows of `batch` are about to run.
  virtual Begun begins(const Batch& batch) = 0;
  virtual void changed(const ItemChange& change) = 0;
  // The same, where little of a long value is another one: told in the place of `changed`, right
  // behind `make_room`.
  virtual void changed_part(const ItemChange& change, const ChangedPart& part);
  // Whether values may change where they lie: it looks at no old value, and finds in `make_room`
  // all the memory that it needs to be told, since `changed_part` must not throw then.
  virtual bool lets_change_in_place() const { return false; }
  // A change of the key may be told soon: what the sink will look at then may be fetched.
  virtual void fetch_ahead(uint32_t database, uint64_t hash) const;
  // Takes the memory that telling of this change needs, and nothing else: before `changed_part`,
  // and for a sink that tells another. `part`: where `changed_part` will be told of it, else null.
  // Throws std::bad_alloc.
  virtual void make_room(const ItemChange& /*change*/, const ChangedPart* /*part*/) {}
  // Several threads are to run rows of a batch with groups, each those of other keys, and each
  // tells with a token of its own: `parts` gets one for each span of `rows`. Throws std::bad_alloc,
  // and then nothing has changed. `ends_parts`: they have told all. Both may use the pool.
  virtual void begins_parts(uint64_t token, std::span<const Batch::Span> /*rows*/,
                            std::span<uint64_t> parts, WorkerPool& /*pool*/) {
    std::fill(parts.begin(), parts.end(), token);
  }
  virtual void ends_parts(uint64_t /*token*/, std::span<const uint64_t> /*parts*/,
                          WorkerPool& /*pool*/) {}
  // The sink was told of all that a batch with groups has changed; others may build on these
  // changes from now on.
  virtual void grouped(uint64_t /*token*/) {}
  // All items of the database are gone; nobody else works on its keys meanwhile. `token`: of the
  // batch whose row flushes it.
  virtual void flushed(uint32_t database, uint64_t version, uint64_t token) = 0;
  // Whether no batch that writes should begin, for too much is not safe yet. A worker that waits
  // for nothing begins one all the same.
  virtual bool full() const { return false; }
  // Whether nothing can be made safe for now: rows that write are not run, but `not_saved`.
  virtual bool refuses() const { return false; }
  // The same of rows that erase or flush, where there is only no room for more.
  virtual bool refuses_erases() const { return refuses(); }
  // Whether what the key of this hash shows is safe. Asked where what `ends` returned has failed
  // (Awaited::Waiter); where it is not, the row is `not_saved`, whatever it has done. And asked of
  // what a get has found that runs at once (Worker::get_at_once), of which the sink is not told;
  // where it is not, the get runs as a batch.
  virtual bool is_safe(uint32_t /*database*/, uint64_t /*hash*/) const { return false; }
  // They have run, but for those that wait. What replies have to wait for, where `begins` said that
  // they may; null: nothing.
  virtual Awaited* ends(uint64_t token) = 0;
  // The same of a batch that does not write, which never waits for room.
  virtual Awaited* ends_reads(uint64_t token) { return ends(token); }

 protected:
  ~CommitSink() = default;
};

class DemotionHook {
 public:
  enum class Fate : uint8_t {
    dropped,  // it goes, and the sink is told
    taken,    // it goes to the place that the hook has, which has a copy by now
    kept,     // it stays
  };
  // Eviction is about to drop `item`, whose value may be away. Under the lock of its line, or by
  // the thread that answers the rows of its key in a round. So an object of it does not change
  // meanwhile: it may be looked at without its lock, and copied. It goes with its item.
  virtual Fate demote(const Item& item) = 0;

 protected:
  ~DemotionHook() = default;
};

}  // namespace isotherm

// Backing: has the items that are not in memory, for a store whose memory is a cache of files
// (tree/tree.h).
//
//   memory misses ─▶ look ─▶ absent   nobody has the key
//                        ├─▶ found    the row puts the item into memory, and goes on with it
//                        ├─▶ coming   the row is parked until a thread has read it (Awaited)
//                        └─▶ failed   the files cannot be read: the row is `not_saved`
// A backing is told of every change, as a CommitSink is. So an item in memory is always as new as
// that of the backing, and nobody looks for a key that is in memory.
//
// Never overtaken. What was found is true as long as nobody changes the key. `seen` says which
// changes were known then. The row asks `is_as_seen` once more under the lock of the key's line,
// under which changes are told, and looks again if there was a change.
//
// Directly. A backing may answer gets whose keys memory lacks itself, all of a batch at once, on
// the thread that asks. One that answers many keys as soon as few leaves their items where they
// are; where reading is dear they are in memory from then on.
//
// Threads. Any, within an epoch. What `look` shows stays until the same thread looks again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "executor/awaited.h"
#include "isotherm/batch.h"

namespace isotherm {

class Backing {
 public:
  struct Seen {
    uint32_t stripe = 0;  // of keys that share a count
    uint64_t changes = 0;
    uint64_t taken_in = 0;  // number of the last run of changes that the files had
  };
  enum class Answer : uint8_t { absent, found, coming, failed };
  struct Stored {
    Seen seen;
    std::string_view value;
    uint64_t version = 0;
    int64_t expiry = no_expiry;
    uint32_t flags = 0;
    uint64_t state = 0;          // items/meta_state.h
    Awaited* awaited = nullptr;  // coming: its `begin` is to be called once
  };
  // What has expired is absent. `may_wait`: it reads on the spot, and nothing is `coming`.
  virtual Answer look(uint32_t database, std::string_view key, int64_t now_ms, bool may_wait,
                      Stored& stored) = 0;
  virtual bool is_as_seen(const Seen& seen) const = 0;

  // What replies point into.
  class Held {
   public:
    virtual ~Held() = default;
  };
  struct Answered {
    uint64_t hits = 0;
    uint64_t misses = 0;
    std::vector<Batch::Row> left;  // the others
  };
  // Answers those of `rows`, gets in order, whose keys nobody changes meanwhile; the others stay
  // pending. What replies show lies in `held` from then on. May wait for a device, or a disk.
  virtual void get_directly(const Batch::Columns& /*columns*/, int64_t /*now_ms*/,
                            std::span<const Batch::Row> rows,
                            std::vector<std::unique_ptr<Held>>& /*held*/, Answered& answered) {
    answered.left.assign(rows.begin(), rows.end());
  }
  // The same without waiting: gets on their way while the thread that has asked goes on. Told when
  // their replies are there (Awaited); answered by the thread that runs the batch again. Kept, like
  // what is held, until the batch is cleared.
  class Coming : public Held, public Awaited {
   public:
    // Answers as `get_directly`, of all rows of the batch those that were asked for; within an
    // epoch.
    virtual void answer(const Batch::Columns& columns, int64_t now_ms, Answered& answered) = 0;
    // Rows of the batch.
    virtual std::span<const Batch::Row> rows() const = 0;
  };
  // `first_row`: of the batch, the first of the columns. Rows that are not asked for go to `left`;
  // `all`: that is all or none, as long as there is memory.
  virtual void start_directly(const Batch::Columns& /*columns*/, Batch::Row /*first_row*/,
                              std::span<const Batch::Row> rows, bool /*all*/,
                              std::vector<std::unique_ptr<Coming>>& /*coming*/,
                              std::vector<Batch::Row>& left) {
    left.insert(left.end(), rows.begin(), rows.end());
  }
  // Whether a change of the key is known that such gets may not see.
  virtual bool has_changed(uint32_t /*database*/, std::string_view /*key*/) const { return true; }
  // Whether it ever starts any.
  virtual bool starts_directly() const { return false; }
  // A get whose key should be in memory, and what was known of it before.
  struct Hot {
    Batch::Row row;
    Seen seen;
  };
  // Which changes of the key are known now.
  virtual Seen see(uint32_t database, std::string_view key) const = 0;
  // Whether it has a place for the key and a value of so many bytes, which are not short; where it
  // has none, the request is refused before anything is stored.
  virtual bool takes(uint32_t /*database*/, std::string_view /*key*/,
                     uint64_t /*value_bytes*/) const {
    return true;
  }
  // Whether it ever gets directly.
  virtual bool gets_directly() const { return false; }
  // Whether memory is to be asked before, and to have what was read, however seldom it is asked
  // for.
  virtual bool reads_dearly() const { return false; }

  // A step of a walk over all keys of a database, in the order of the keys: shows about `count`,
  // and sets the cursor to go on from; 0 at the end. A cursor that is too old begins anew, and
  // sets `anew`. False: the files cannot be read, and not all was shown.
  using Show = std::function<void(std::string_view key, uint64_t value_bytes, int64_t expiry)>;
  virtual bool walk(uint32_t database, uint64_t& cursor, uint64_t count, int64_t now_ms,
                    const Show& show, bool& anew) = 0;

 protected:
  ~Backing() = default;
};

}  // namespace isotherm

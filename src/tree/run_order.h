// RunOrder: the keys of a run of a tree (tree/tree_run.h) in their order, as some sorted arrays,
// pieces, each at least twice as long as the next one.
//
// A piece never changes. New keys come as one more, which is merged with those that are not much
// longer; so whoever goes over pieces takes no lock, keys move a few times only, and there are few
// places to look for a key. No key is in two pieces of a run.
//
// Threads. Any. Memory. A piece has a KeyHead and an address for each key, and every 16th head
// once more, for searches to touch little. Entries belong to the run.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tree/key_head.h"
#include "tree/run_entry.h"
#include "tree/tree_files.h"

namespace isotherm {

class WorkerPool;

struct RunPlace {
  KeyHead head;
  const RunEntry* entry = nullptr;

  RunPlace() = default;
  explicit RunPlace(const RunEntry& its) : head(KeyHead::of(its.key())), entry(&its) {}
  // Entries lie anywhere in memory, so they are looked at only where heads agree.
  bool operator<(const RunPlace& other) const {
    if (head != other.head) return head < other.head;
    return entry->key() < other.entry->key();
  }
};

class RunPiece {
 public:
  // Sorted.
  explicit RunPiece(std::vector<RunPlace> places);

  const RunPlace* begin() const { return places_.data(); }
  const RunPlace* end() const { return places_.data() + places_.size(); }
  size_t size() const { return places_.size(); }
  // Places among which is the first that is not before a key of this head, or behind which it is.
  // Their memory is on its way, so that who looks into several pieces waits once.
  struct Block {
    const RunPlace* begin;
    const RunPlace* end;
  };
  Block block_of(const KeyHead& head) const;
  // The first that is not before the key.
  static const RunPlace* lower_bound(const Block& block, const KeyHead& head, std::string_view key);

 private:
  static constexpr size_t apart = 16;

  const std::vector<RunPlace> places_;
  std::vector<KeyHead> samples_;  // of the places 0, `apart`, 2 * `apart`, …
};

class RunOrder {
 public:
  using Pieces = std::vector<std::shared_ptr<const RunPiece>>;

  RunOrder() = default;
  // With more places, sorted; `whole`: all become one piece. Throws std::bad_alloc.
  RunOrder(const RunOrder& before, std::vector<RunPlace> more, bool whole);

  const Pieces& pieces() const { return pieces_; }
  // Of one that became one piece: what the moment shows and the moment `behind` does not.
  std::vector<TreeEntry> changes(uint64_t moment, uint64_t behind) const;

 private:
  Pieces pieces_;
};

// By all threads of the pool where there is enough to do, and memory for a second copy. Throws
// std::bad_alloc, and then nothing has changed.
void sort_places(std::span<RunPlace> places, WorkerPool& pool);

}  // namespace isotherm

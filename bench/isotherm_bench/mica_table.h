// MicaTable: the layout of MICA (Lim et al., NSDI 2014, sections 4.3 and 4.4), which KVCG's paper
// compares with: keys and values of one size each, for measurements beside our own store.
//
//   hash ─┬▶ bucket: a version, 15 entries {tag, place of the item} ─▶ the next bucket of its chain
//         └▶ partition: memory for items, and the places of those that were erased
//   item:  bytes of the key and of the value, in words, the key's first
// As MICA's store mode nothing is evicted: a full bucket gets another one behind it. And as its
// mode in which each core may do everything (CRCW), a version that is odd says that somebody
// changes the bucket's chain; who reads looks at the version before and behind.
//
// Who has many requests calls `prefetch_bucket` for some, then `prefetch_item` for the same, then
// asks: MICA's loop takes 32 at a time.
//
// Left out: the network card that sends each request to the core that has its partition, and
// several sizes of items.
// Threads. Any. Limits. As many spare buckets as a quarter of the others; all memory lasts as long
// as the table.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/short_lock.h"
#include "items/huge_block.h"

namespace isotherm::bench {

class MicaTable {
 public:
  // For about so many items of so many bytes. Throws std::bad_alloc.
  MicaTable(uint64_t items, uint64_t key_bytes, uint64_t value_bytes);

  // Keys and values are whole words, zeros behind the last byte.
  static uint64_t words_of(uint64_t bytes) { return (bytes + 7) / 8; }

  void prefetch_bucket(uint64_t hash) const;
  void prefetch_item(uint64_t hash) const;
  bool get(uint64_t hash, const uint64_t* key, uint64_t* value) const;
  // False: no memory, or no spare bucket is left.
  bool put(uint64_t hash, const uint64_t* key, const uint64_t* value);
  bool erase(uint64_t hash, const uint64_t* key);
  uint64_t memory() const;

 private:
  using Word = std::atomic<uint64_t>;
  static constexpr uint32_t entries = 15;
  struct alignas(64) Bucket {
    std::atomic<uint32_t> version;  // of the first one of a chain
    std::atomic<uint32_t> next;     // the number of a spare one; 0: none
    Word entry[entries];            // 0: free
  };
  struct Partition {
    ShortLock lock;  // of all
    std::vector<std::unique_ptr<HugeBlock>> blocks;
    uint64_t used = 0;  // of the last block
    std::vector<Word*> erased;
  };
  class Change;
  static constexpr uint32_t partitions = 64;
  static constexpr int tag_bits = 16;
  static constexpr int place_bits = 48;  // of an entry, as many as addresses have

  static uint64_t tag_of(uint64_t hash) { return hash >> place_bits << place_bits; }
  static Word* item_of(uint64_t entry) {
    return reinterpret_cast<Word*>(entry & ((uint64_t{1} << place_bits) - 1));
  }
  Bucket& bucket_of(uint64_t hash) const { return buckets_[hash & bucket_mask_]; }
  Bucket* behind(const Bucket& bucket) const;
  Partition& partition_of(uint64_t hash) { return partitions_[(hash >> 40) % partitions]; }
  bool has_key(const Word* item, const uint64_t* key) const;
  Word* find(uint64_t hash, const uint64_t* key) const;
  Word* free_entry(uint64_t hash);
  Word* take_place(Partition& partition);

  const uint64_t key_words_;
  const uint64_t value_words_;
  const uint64_t bucket_mask_;
  const uint32_t spare_buckets_;
  const HugeBlock memory_;
  Bucket* const buckets_;
  std::atomic<uint32_t> spare_used_{0};
  std::unique_ptr<Partition[]> partitions_;
};

}  // namespace isotherm::bench

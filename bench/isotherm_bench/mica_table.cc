#include "isotherm_bench/mica_table.h"

#include <algorithm>
#include <bit>

namespace isotherm::bench {
namespace {

constexpr uint64_t usual_entries = 8;  // of a bucket, where as many items come as were told of
constexpr uint64_t block_bytes = uint64_t{4} << 20;

}  // namespace

// Nobody else changes the bucket's chain, and who reads it reads it again.
class MicaTable::Change {
 public:
  explicit Change(Bucket& bucket) : bucket_(bucket) {
    uint32_t version = bucket_.version.load(std::memory_order_relaxed) & ~1u;
    while (
        !bucket_.version.compare_exchange_weak(version, version + 1, std::memory_order_acquire)) {
      version &= ~1u;
      __builtin_ia32_pause();
    }
    std::atomic_thread_fence(std::memory_order_release);
  }
  ~Change() {
    bucket_.version.store(bucket_.version.load(std::memory_order_relaxed) + 1,
                          std::memory_order_release);
  }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

 private:
  Bucket& bucket_;
};

MicaTable::MicaTable(uint64_t items, uint64_t key_bytes, uint64_t value_bytes)
    : key_words_(words_of(key_bytes)),
      value_words_(words_of(value_bytes)),
      bucket_mask_(std::bit_ceil(items / usual_entries + 1) - 1),
      spare_buckets_(static_cast<uint32_t>(bucket_mask_ / 4 + 16)),
      memory_((bucket_mask_ + 1 + spare_buckets_) * sizeof(Bucket)),
      buckets_(reinterpret_cast<Bucket*>(memory_.data())),
      partitions_(new Partition[partitions]) {}

uint64_t MicaTable::memory() const {
  uint64_t bytes = memory_.bytes();
  for (uint32_t i = 0; i < partitions; ++i) {
    const std::lock_guard guard(partitions_[i].lock);
    for (const auto& block : partitions_[i].blocks) bytes += block->bytes();
  }
  return bytes;
}

MicaTable::Bucket* MicaTable::behind(const Bucket& bucket) const {
  const uint32_t next = bucket.next.load(std::memory_order_acquire);
  return next == 0 ? nullptr : &buckets_[bucket_mask_ + next];
}

void MicaTable::prefetch_bucket(uint64_t hash) const {
  const char* const at = reinterpret_cast<const char*>(&bucket_of(hash));
  __builtin_prefetch(at);
  __builtin_prefetch(at + 64);
}

void MicaTable::prefetch_item(uint64_t hash) const {
  for (const Word& word : bucket_of(hash).entry) {
    const uint64_t entry = word.load(std::memory_order_relaxed);
    if (entry != 0 && tag_of(entry) == tag_of(hash)) return __builtin_prefetch(item_of(entry));
  }
}

bool MicaTable::has_key(const Word* item, const uint64_t* key) const {
  for (uint64_t i = 0; i < key_words_; ++i) {
    if (item[i].load(std::memory_order_relaxed) != key[i]) return false;
  }
  return true;
}

// The entry of the key; null: there is none.
MicaTable::Word* MicaTable::find(uint64_t hash, const uint64_t* key) const {
  for (Bucket* bucket = &bucket_of(hash); bucket != nullptr; bucket = behind(*bucket)) {
    for (Word& word : bucket->entry) {
      const uint64_t entry = word.load(std::memory_order_acquire);
      if (entry != 0 && tag_of(entry) == tag_of(hash) && has_key(item_of(entry), key)) {
        return &word;
      }
    }
  }
  return nullptr;
}

bool MicaTable::get(uint64_t hash, const uint64_t* key, uint64_t* value) const {
  const Bucket& bucket = bucket_of(hash);
  for (;;) {
    const uint32_t before = bucket.version.load(std::memory_order_acquire);
    if (before % 2 != 0) {
      __builtin_ia32_pause();
      continue;
    }
    const Word* const found = find(hash, key);
    const uint64_t entry = found == nullptr ? 0 : found->load(std::memory_order_relaxed);
    if (entry != 0) {
      const Word* const words = item_of(entry) + key_words_;
      for (uint64_t i = 0; i < value_words_; ++i) {
        value[i] = words[i].load(std::memory_order_relaxed);
      }
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    if (bucket.version.load(std::memory_order_relaxed) == before) return entry != 0;
  }
}

// In a chain that nobody else changes; null: no spare bucket is left.
MicaTable::Word* MicaTable::free_entry(uint64_t hash) {
  Bucket* bucket = &bucket_of(hash);
  for (;;) {
    for (Word& word : bucket->entry) {
      if (word.load(std::memory_order_relaxed) == 0) return &word;
    }
    Bucket* const next = behind(*bucket);
    if (next == nullptr) break;
    bucket = next;
  }
  const uint32_t number = spare_used_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (number > spare_buckets_) {
    spare_used_.fetch_sub(1, std::memory_order_relaxed);
    return nullptr;
  }
  bucket->next.store(number, std::memory_order_release);
  return &buckets_[bucket_mask_ + number].entry[0];
}

MicaTable::Word* MicaTable::take_place(Partition& partition) {
  const std::lock_guard guard(partition.lock);
  if (!partition.erased.empty()) {
    Word* const place = partition.erased.back();
    partition.erased.pop_back();
    return place;
  }
  const uint64_t bytes = (key_words_ + value_words_) * sizeof(Word);
  if (partition.blocks.empty() || partition.used + bytes > block_bytes) {
    partition.blocks.push_back(
        std::make_unique<HugeBlock>(std::max(block_bytes, bytes), HugeBlock::Pages::transparent));
    partition.used = 0;
  }
  char* const place = partition.blocks.back()->data() + partition.used;
  partition.used += bytes;
  return reinterpret_cast<Word*>(place);
}

bool MicaTable::put(uint64_t hash, const uint64_t* key, const uint64_t* value) {
  const auto store = [](Word* to, const uint64_t* from, uint64_t words) {
    for (uint64_t i = 0; i < words; ++i) to[i].store(from[i], std::memory_order_relaxed);
  };
  const Change change(bucket_of(hash));
  if (const Word* const found = find(hash, key); found != nullptr) {
    store(item_of(found->load(std::memory_order_relaxed)) + key_words_, value, value_words_);
    return true;
  }
  Word* const entry = free_entry(hash);
  if (entry == nullptr) return false;
  Word* const item = take_place(partition_of(hash));
  store(item, key, key_words_);
  store(item + key_words_, value, value_words_);
  entry->store(tag_of(hash) | reinterpret_cast<uint64_t>(item), std::memory_order_release);
  return true;
}

bool MicaTable::erase(uint64_t hash, const uint64_t* key) {
  const Change change(bucket_of(hash));
  Word* const found = find(hash, key);
  if (found == nullptr) return false;
  Word* const item = item_of(found->load(std::memory_order_relaxed));
  found->store(0, std::memory_order_relaxed);
  Partition& partition = partition_of(hash);
  const std::lock_guard guard(partition.lock);
  partition.erased.push_back(item);
  return true;
}

}  // namespace isotherm::bench

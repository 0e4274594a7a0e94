// What hot_bench compares the hot cache with: two dictionaries as others lay them out, and a cache
// of addresses.
//
//   RedisLayout   as Redis documents its own: an array of pointers to chains of entries
//                 {key, value, next}, SipHash-1-2, and entry, key string and value object allocated
//                 one by one; a short value lies in its object, a longer one is a string of its own
//   PaperTable    as EKRM prints it: the entries of such a dictionary lie in huge pages, in part
//                 one where one of two cheap hashes of the key says, else in part two, which is a
//                 free list and a fifth of all; the chains go through both parts. It finds items.
//   AddressCache  before a RedisLayout, as SLB is: lines of eight addresses of entries that were
//                 found, with 16 bits of a cheap hash each; what is found again moves to the front
//
// Threads. One.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "items/huge_block.h"
#include "items/item_store.h"

namespace isotherm::bench {

// SipHash with one round a word and two at the end, as Redis has it.
inline uint64_t siphash12(std::string_view bytes, uint64_t k0, uint64_t k1) {
  uint64_t v0 = k0 ^ 0x736f6d6570736575ULL, v1 = k1 ^ 0x646f72616e646f6dULL;
  uint64_t v2 = k0 ^ 0x6c7967656e657261ULL, v3 = k1 ^ 0x7465646279746573ULL;
  const auto rotate = [](uint64_t x, int bits) { return x << bits | x >> (64 - bits); };
  const auto round = [&] {
    v0 += v1, v1 = rotate(v1, 13), v1 ^= v0, v0 = rotate(v0, 32);
    v2 += v3, v3 = rotate(v3, 16), v3 ^= v2;
    v0 += v3, v3 = rotate(v3, 21), v3 ^= v0;
    v2 += v1, v1 = rotate(v1, 17), v1 ^= v2, v2 = rotate(v2, 32);
  };
  const auto add = [&](uint64_t word) {
    v3 ^= word;
    round();
    v0 ^= word;
  };
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, 8);
    add(word);
  }
  uint64_t last = uint64_t{bytes.size()} << 56;
  std::memcpy(&last, bytes.data() + at, bytes.size() - at);
  add(last | uint64_t{bytes.size()} << 56);
  v2 ^= 0xff;
  round();
  round();
  return v0 ^ v1 ^ v2 ^ v3;
}

class RedisLayout {
 public:
  // With as many chains as Redis would have grown to.
  explicit RedisLayout(uint64_t keys) {
    uint64_t chains = 4;
    while (chains < keys) chains *= 2;
    chains_.resize(chains);
  }
  ~RedisLayout() {
    for (Entry* entry : chains_) {
      while (entry != nullptr) {
        Entry* next = entry->next;
        free_object(entry->value);
        std::free(entry->key - header);
        std::free(entry);
        entry = next;
      }
    }
  }
  RedisLayout(const RedisLayout&) = delete;
  RedisLayout& operator=(const RedisLayout&) = delete;

  struct Object {
    uint32_t type_and_clock;
    int32_t references;
    char* data;
  };
  struct Entry {
    char* key;
    Object* value;
    Entry* next;
  };

  // Null where there is none.
  Entry* find(std::string_view key) const {
    Entry* entry = chains_[number(key)];
    while (entry != nullptr && !is(*entry, key)) entry = entry->next;
    return entry;
  }
  static bool is(const Entry& entry, std::string_view key) {
    const size_t length = length_of(entry.key);
    return length == key.size() && std::memcmp(entry.key, key.data(), length) == 0;
  }
  static std::string_view value_of(const Entry& entry) {
    return {entry.value->data, length_of(entry.value->data)};
  }
  static void replace(Entry& entry, std::string_view value) {
    Object* old = entry.value;
    entry.value = make_object(value);
    free_object(old);
  }
  void insert(std::string_view key, std::string_view value) {
    Entry*& chain = chains_[number(key)];
    auto* entry = static_cast<Entry*>(std::malloc(sizeof(Entry)));
    *entry = {make_string(static_cast<char*>(std::malloc(string_bytes(key))), key),
              make_object(value), chain};
    chain = entry;
  }

 private:
  static constexpr size_t longest_embedded = 44;
  static constexpr size_t header = 5;  // of a string: its length

  static size_t string_bytes(std::string_view text) { return header + text.size() + 1; }
  static size_t length_of(const char* data) {
    uint32_t length = 0;
    std::memcpy(&length, data - header, sizeof length);
    return length;
  }
  static char* make_string(char* memory, std::string_view text) {
    const auto length = static_cast<uint32_t>(text.size());
    std::memcpy(memory, &length, sizeof length);
    std::memcpy(memory + header, text.data(), text.size());
    memory[header + text.size()] = 0;
    return memory + header;
  }
  static Object* make_object(std::string_view value) {
    const bool embedded = value.size() <= longest_embedded;
    const size_t bytes = string_bytes(value);
    auto* object =
        static_cast<Object*>(std::malloc(sizeof(Object) + (embedded ? bytes : size_t{0})));
    char* memory =
        embedded ? reinterpret_cast<char*>(object + 1) : static_cast<char*>(std::malloc(bytes));
    *object = {embedded ? 8u : 0u, 1, make_string(memory, value)};
    return object;
  }
  static void free_object(Object* object) {
    if (length_of(object->data) > longest_embedded) std::free(object->data - header);
    std::free(object);
  }

  uint64_t number(std::string_view key) const {
    return siphash12(key, 0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL) & (chains_.size() - 1);
  }

  std::vector<Entry*> chains_;
};

class PaperTable {
 public:
  // Huge pages of `bytes` for the entries of `keys`.
  PaperTable(const ItemStore& items, uint64_t keys, uint64_t bytes, HugeBlock::Pages largest)
      : items_(items),
        block_(bytes, largest),
        entries_(reinterpret_cast<Entry*>(block_.data())),
        first_(bytes / sizeof(Entry) * 4 / 5),
        all_(bytes / sizeof(Entry)),
        unused_(first_) {
    uint64_t chains = 4;
    while (chains < keys) chains *= 2;
    chains_.resize(chains, none);
  }

  // Two cheap hashes in one number: products of the words of the key.
  static uint64_t hash(std::string_view key) {
    uint64_t sum = key.size();
    size_t at = 0;
    for (; at + 8 <= key.size(); at += 8) {
      uint64_t word = 0;
      std::memcpy(&word, key.data() + at, 8);
      sum = (sum ^ word) * 0x9e3779b97f4a7c15ULL;
      sum ^= sum >> 32;
    }
    for (; at < key.size(); ++at) sum = (sum ^ static_cast<uint8_t>(key[at])) * 0x100000001b3ULL;
    return sum * 0xd6e8feb86659fd93ULL;
  }
  void prefetch(uint64_t hash) const {
    __builtin_prefetch(&entries_[place(hash, 0)]);
    __builtin_prefetch(&entries_[place(hash, 1)]);
  }

  Location find(uint64_t hash, std::string_view key) {
    ++looks_;
    for (const int which : {0, 1}) {
      const Entry& entry = entries_[place(hash, which)];
      if (entry.hash == hash && is(entry, key)) return ++hits_, entry.item;
    }
    const uint32_t at = find_in_chain(key);
    return at == none ? location::none : entries_[at].item;
  }
  void replace(uint64_t hash, std::string_view key, Location to) {
    for (const int which : {0, 1}) {
      Entry& entry = entries_[place(hash, which)];
      if (entry.hash == hash && is(entry, key)) return void(entry.item = to);
    }
    entries_[find_in_chain(key)].item = to;
  }
  // False when all memory is in use.
  bool insert(std::string_view key, Location item) {
    const uint64_t its_hash = hash(key);
    uint32_t at = room(its_hash);
    if (at == none) {
      if (unused_ == all_) return false;
      at = static_cast<uint32_t>(unused_++);
    }
    const uint64_t chain = number(key);
    entries_[at] = {its_hash, item, chains_[chain], static_cast<uint32_t>(chain), 0};
    chains_[chain] = at;
    return true;
  }
  double hit_ratio() const { return static_cast<double>(hits_) / static_cast<double>(looks_); }

 private:
  static constexpr uint32_t none = ~uint32_t{0};

  struct Entry {
    uint64_t hash;
    Location item;  // none: free
    uint32_t next;
    uint32_t chain;
    uint64_t unused;  // as the paper's, an entry takes 32 bytes
  };

  uint64_t place(uint64_t hash, int which) const {
    return (which == 0 ? hash >> 32 : hash & 0xFFFFFFFF) * first_ >> 32;
  }
  bool is(const Entry& entry, std::string_view key) const {
    return entry.item != location::none && items_.item(entry.item)->key() == key;
  }
  uint64_t number(std::string_view key) const {
    return siphash12(key, 0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL) & (chains_.size() - 1);
  }
  uint32_t find_in_chain(std::string_view key) const {
    uint32_t at = chains_[number(key)];
    while (at != none && !is(entries_[at], key)) at = entries_[at].next;
    return at;
  }
  uint32_t room(uint64_t hash) {
    for (const int which : {0, 1}) {
      const auto at = static_cast<uint32_t>(place(hash, which));
      if (entries_[at].item == location::none) return at;
    }
    for (const int which : {0, 1}) {
      const auto at = static_cast<uint32_t>(place(hash, which));
      Entry& entry = entries_[at];
      for (const int other : {0, 1}) {
        const auto to = static_cast<uint32_t>(place(entry.hash, other));
        if (entries_[to].item != location::none) continue;
        entries_[to] = entry;
        uint32_t* link = &chains_[entry.chain];
        while (*link != at) link = &entries_[*link].next;
        *link = to;
        return at;
      }
    }
    return none;
  }

  const ItemStore& items_;
  HugeBlock block_;
  Entry* const entries_;
  const uint64_t first_;  // entries of part one
  const uint64_t all_;
  uint64_t unused_;  // of part two, from here on
  uint64_t looks_ = 0;
  uint64_t hits_ = 0;
  std::vector<uint32_t> chains_;
};

class AddressCache {
 public:
  using Entry = RedisLayout::Entry;

  AddressCache(const RedisLayout& redis, uint64_t bytes)
      : redis_(redis), lines_(std::max<uint64_t>(bytes / sizeof(Line), 1)) {}

  Entry* find(std::string_view key) {
    ++looks_;
    const uint64_t hash = PaperTable::hash(key);
    Line& line = lines_[(hash >> 32) * lines_.size() >> 32];
    for (size_t i = 0; i < width; ++i) {
      if (line.words[i] >> 48 != (hash & 0xFFFF) || line.words[i] == 0) continue;
      auto* entry = reinterpret_cast<Entry*>(line.words[i] & address);
      if (entry == nullptr || !RedisLayout::is(*entry, key)) continue;
      if (i > 0) std::swap(line.words[i], line.words[i - 1]);
      ++hits_;
      return entry;
    }
    Entry* entry = redis_.find(key);
    if (entry != nullptr) {
      // Over one of the half that was found again least.
      const size_t at = width / 2 + (hash >> 16) % (width / 2);
      line.words[at] = hash << 48 | reinterpret_cast<uint64_t>(entry);
    }
    return entry;
  }
  double hit_ratio() const { return static_cast<double>(hits_) / static_cast<double>(looks_); }

 private:
  static constexpr size_t width = 8;
  static constexpr uint64_t address = (uint64_t{1} << 48) - 1;
  struct alignas(64) Line {
    uint64_t words[width] = {};  // 16 bits of the hash, then the address
  };

  const RedisLayout& redis_;
  std::vector<Line> lines_;
  uint64_t looks_ = 0;
  uint64_t hits_ = 0;
};

}  // namespace isotherm::bench

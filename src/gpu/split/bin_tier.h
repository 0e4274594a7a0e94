// BinTier and BinHost: the two sides of an index that a device and the host share in bins of
// hashes, as those who move bins see them (gpu/split/bin_moves.h): 64-bit keys to words.
//
// The device's tier has all hashes at first; bins of them are dropped and restored. A key's hash is
// mix(key, seed).
//
// Errors. All functions of a tier throw DeviceError when the device fails; what it holds is then of
// no use any more. Threads. One at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "index/hash_bin.h"

namespace isotherm {

class BinTier {
 public:
  struct Entry {
    uint64_t key;
    uint64_t word;
  };

  virtual ~BinTier() = default;

  // Whether `rows` new entries find room; the tier grows if it must.
  virtual bool has_room(uint64_t rows) = 0;
  // Visits the entries of about `lines` lines at most from `bound` on, visit(key, word), until
  // there are `wanted`, and returns the bound to go on from; 0 at the end. Lines are visited whole
  // and in the order of hashes, also while the table grows between calls.
  virtual uint64_t scan(uint64_t bound, uint64_t lines, uint64_t wanted,
                        const std::function<void(uint64_t key, uint64_t word)>& visit) = 0;
  // Puts entries whose keys are not there. False where some found no place; then none is there.
  virtual bool put(std::span<const Entry> entries) = 0;
  // The fewest bits of a bin that may be dropped now.
  virtual int least_bin_bits() = 0;
  // Gives up a bin with all its entries; nobody may look up or change keys of it any more.
  virtual void drop(const HashBin& bin) = 0;
  // Takes back a bin that was dropped, or a part of one, empty; false without memory.
  virtual bool restore(const HashBin& bin) = 0;
};

class BinHost {
 public:
  struct Entry {
    uint64_t hash;
    uint64_t word;
  };

  virtual ~BinHost() = default;

  // Puts entries whose hashes are not there. False where there is no memory for all; then none is
  // there.
  virtual bool put(std::span<const Entry> entries) = 0;
  virtual void erase(std::span<const Entry> entries) = 0;
  // Appends the entries of hashes from `bound` to before `end` (0: to the last), line by line until
  // there are `wanted`, to `entries`; returns the bound to go on from, `end` when all are there.
  virtual uint64_t read(uint64_t bound, uint64_t end, uint64_t wanted,
                        std::vector<Entry>& entries) const = 0;
};

}  // namespace isotherm

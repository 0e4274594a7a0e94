#include "base/lzf.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace isotherm {
namespace {

constexpr uint64_t longest_run = 32;     // of bytes as they are
constexpr uint64_t longest_match = 264;  // 9 + 255
constexpr uint64_t farthest = 1 << 13;
constexpr uint32_t hash_bits = 16;

// The hash of three bytes.
uint32_t hash_at(const char* text) {
  const auto byte = [&](int i) { return uint32_t{static_cast<uint8_t>(text[i])}; };
  const uint32_t three = byte(0) << 16 | byte(1) << 8 | byte(2);
  return ((three >> (24 - hash_bits)) - three * 5) & ((1u << hash_bits) - 1);
}

// Makes the packed bytes, in a buffer of fixed length.
class Packer {
 public:
  explicit Packer(uint64_t most) : most_(most) { packed_.reserve(most); }

  // False: there is no room.
  bool add_plain(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::string_view run = bytes.substr(0, longest_run);
      if (packed_.size() + 1 + run.size() > most_) return false;
      packed_ += static_cast<char>(run.size() - 1);
      packed_ += run;
      bytes.remove_prefix(run.size());
    }
    return true;
  }

  // Whether the end of a text fits, of which so many bytes were looked at and are in no run yet.
  // Redis asks for room for three bytes more, as many as may be left.
  bool ends_after(uint64_t pending) const {
    const uint64_t runs = pending / longest_run * (longest_run + 1);
    return packed_.size() + runs + 1 + pending % longest_run + 3 <= most_;
  }

  // `back`: how far before its end the match begins, from 1.
  bool add_match(uint64_t back, uint64_t size) {
    const uint64_t offset = back - 1;
    const uint64_t code = size - 2;
    // Redis, too, gives up where less than this is left.
    if (packed_.size() + 4 >= most_) return false;
    packed_ += static_cast<char>(offset >> 8 | std::min<uint64_t>(code, 7) << 5);
    if (code >= 7) packed_ += static_cast<char>(code - 7);
    packed_ += static_cast<char>(offset);
    return true;
  }

  std::string take() { return std::move(packed_); }

 private:
  const uint64_t most_;
  std::string packed_;
};

// Where each hash was seen last.
class Seen {
 public:
  explicit Seen(const char* text) : text_(text), places_(1 << hash_bits, none) {}

  // The last place with the hash of the bytes here, which then is here.
  uint32_t exchange(uint64_t here) {
    return std::exchange(places_[hash_at(text_ + here)], static_cast<uint32_t>(here));
  }
  static constexpr uint32_t none = ~uint32_t{0};

 private:
  const char* text_;
  std::vector<uint32_t> places_;
};

// Leaves the last two bytes, except where that would make a match shorter than three bytes, or than
// nineteen once it may be longer than sixteen.
uint64_t match_size(std::string_view text, uint64_t from, uint64_t here) {
  uint64_t most = std::min<uint64_t>(text.size() - here - 2, longest_match);
  if (most > 16) most = std::max<uint64_t>(most, 19);
  uint64_t size = 3;
  while (size < most && text[from + size] == text[here + size]) ++size;
  return size;
}

}  // namespace

std::string lzf_pack(std::string_view text, uint64_t most) {
  Packer packer(most);
  Seen seen(text.data());
  uint64_t plain = 0;  // where the bytes begin that are in no run yet
  uint64_t here = 0;
  while (here + 2 < text.size()) {
    const uint64_t from = seen.exchange(here);
    // The very first byte never begins a match.
    const bool matches = from != Seen::none && from != 0 && here - from <= farthest &&
                         std::memcmp(text.data() + from, text.data() + here, 3) == 0;
    if (!matches) {
      ++here;
      continue;
    }
    const uint64_t size = match_size(text, from, here);
    if (!packer.add_plain(text.substr(plain, here - plain)) ||
        !packer.add_match(here - from, size)) {
      return {};
    }
    here += size;
    plain = here;
    if (here + 2 >= text.size()) break;
    seen.exchange(here - 2);
    seen.exchange(here - 1);
  }
  const bool fits = packer.ends_after(here - plain) && packer.add_plain(text.substr(plain));
  return fits ? packer.take() : std::string();
}

bool lzf_unpack(std::string_view packed, std::span<char> text) {
  uint64_t at = 0;
  uint64_t out = 0;
  while (at < packed.size()) {
    const auto control = static_cast<uint8_t>(packed[at++]);
    if (control < longest_run) {
      const uint64_t size = uint64_t{control} + 1;
      if (size > packed.size() - at || size > text.size() - out) return false;
      std::memcpy(text.data() + out, packed.data() + at, size);
      at += size;
      out += size;
      continue;
    }
    uint64_t size = uint64_t{control} >> 5;
    if (size == 7) {
      if (at == packed.size()) return false;
      size += static_cast<uint8_t>(packed[at++]);
    }
    size += 2;
    if (at == packed.size()) return false;
    const uint64_t back = (uint64_t{control & 31u} << 8 | static_cast<uint8_t>(packed[at++])) + 1;
    if (back > out || size > text.size() - out) return false;
    // Byte by byte: the source may be what is just being made.
    for (uint64_t i = 0; i < size; ++i) text[out + i] = text[out + i - back];
    out += size;
  }
  return out == text.size();
}

}  // namespace isotherm

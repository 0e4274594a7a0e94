#include "items/item.h"

#include <new>
#include <utility>

namespace isotherm {

Item* Item::create(void* memory, const Parts& parts) {
  if (ISOTHERM_UNLIKELY(parts.state != 0)) return create_with_state(memory, parts);
  Item* item = static_cast<Item*>(memory);
  const bool has_expiry = parts.has_expiry();
  item->version_meta_ = static_cast<uint64_t>(parts.type) | (has_expiry ? expiry_bit : 0) |
                        (parts.has_extra() ? extra_bit : 0) | (parts.away ? away_bit : 0);
  item->value_bytes_ = static_cast<uint32_t>(parts.value_bytes);
  item->key_bytes_ = static_cast<uint32_t>(parts.key.size());
  char* body = static_cast<char*>(memory) + header_bytes;
  if (has_expiry) {
    new (body) std::atomic<int64_t>(parts.expiry);
    body += 8;
  }
  if (parts.has_extra()) {
    const uint32_t extra[2] = {parts.flags, parts.database};
    std::memcpy(body, extra, sizeof extra);
    body += 8;
  }
  if (!parts.key.empty()) std::memcpy(body, parts.key.data(), parts.key.size());
  return item;
}

// Not inlined, as what follows: few items have one.
__attribute__((noinline)) Item* Item::create_with_state(void* memory, Parts parts) {
  const uint64_t state = std::exchange(parts.state, 0);
  Item* item = create(memory, parts);
  item->version_meta_ |= state_bit;
  item->set_state(state);
  return item;
}

__attribute__((noinline)) std::atomic<uint64_t>& Item::state_field() const {
  auto* const begin = const_cast<char*>(reinterpret_cast<const char*>(this));
  return *reinterpret_cast<std::atomic<uint64_t>*>(begin + bytes() - sizeof(uint64_t));
}

Item* Item::copy_to(void* memory) const {
  const auto* from = reinterpret_cast<const char*>(this);
  auto* to = static_cast<char*>(memory);
  uint64_t done = header_bytes;
  std::memcpy(to, from, done);
  if (has_expiry()) {
    new (to + done) std::atomic<int64_t>(expiry());
    done += 8;
  }
  const uint64_t end = bytes() - (has_state() ? sizeof(uint64_t) : 0);
  std::memcpy(to + done, from + done, end - done);
  if (has_state()) new (to + end) std::atomic<uint64_t>(state());
  return reinterpret_cast<Item*>(to);
}

}  // namespace isotherm

#include "net/memcached_prefixes.h"

namespace isotherm::net {

MemcachedPrefixes::Uses* MemcachedPrefixes::uses_of(std::string_view key) {
  const size_t end = key.find(delimiter);
  if (end == std::string_view::npos) return nullptr;
  const std::string_view prefix = key.substr(0, end);
  const auto found = uses_.find(prefix);
  if (found != uses_.end()) return &found->second;
  return uses_.size() < most ? &uses_[std::string(prefix)] : nullptr;
}

void MemcachedPrefixes::note_get(std::string_view key, bool hit) {
  const std::lock_guard guard(mutex_);
  Uses* const uses = uses_of(key);
  if (uses == nullptr) return;
  ++uses->gets;
  uses->hits += hit;
}

void MemcachedPrefixes::note_set(std::string_view key) {
  const std::lock_guard guard(mutex_);
  if (Uses* const uses = uses_of(key)) ++uses->sets;
}

void MemcachedPrefixes::note_delete(std::string_view key) {
  const std::lock_guard guard(mutex_);
  if (Uses* const uses = uses_of(key)) ++uses->deletes;
}

void MemcachedPrefixes::clear() {
  const std::lock_guard guard(mutex_);
  uses_.clear();
}

std::string MemcachedPrefixes::lines() const {
  const std::lock_guard guard(mutex_);
  std::string lines;
  for (const auto& [prefix, uses] : uses_) {
    lines.append("PREFIX ").append(prefix);
    lines.append(" get ").append(std::to_string(uses.gets));
    lines.append(" hit ").append(std::to_string(uses.hits));
    lines.append(" set ").append(std::to_string(uses.sets));
    lines.append(" del ").append(std::to_string(uses.deletes)).append("\r\n");
  }
  return lines;
}

}  // namespace isotherm::net

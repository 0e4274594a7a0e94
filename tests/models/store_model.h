// StoreModel: what every request should answer, worked out on a hash map; for tests.
//
// `expect` gives the answer of one request and takes its effect over. Versions are not predicted:
// the caller tells the model what the store gave, and checks that they grow.
#pragma once

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iomanip>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "isotherm/batch.h"

namespace isotherm {

class StoreModel {
 public:
  struct Entry {
    std::string value;
    uint32_t flags = 0;
    int64_t expiry = no_expiry;
    uint64_t version = 0;
  };
  using Key = std::pair<uint32_t, std::string>;  // database, key
  // Unoptimised, as under a sanitizer, a map that compares keys took half the time of a history.
  struct KeyHash {
    size_t operator()(const Key& key) const {
      return std::hash<std::string_view>{}(key.second) + key.first;
    }
  };
  template <class Value>
  using KeyMap = std::unordered_map<Key, Value, KeyHash>;

  struct Request {
    Op op = Op::get;
    uint16_t options = 0;
    Key key;
    std::string value;
    int64_t number = 0;
    int64_t expiry = no_expiry;
    uint32_t flags = 0;

    bool has(uint16_t option) const { return (options & option) != 0; }
  };

  struct Answer {
    Status status = Status::ok;
    std::optional<Entry> shown;  // what the reply shows
    int64_t number = 0;
    bool stores = false;         // a new item
    bool writes = false;         // so there is a new version
    int64_t expiry = no_expiry;  // of what it stores
  };

  explicit StoreModel(uint64_t max_value_bytes) : max_value_bytes_(max_value_bytes) {}

  Answer expect(const Request& request, int64_t now_ms);

  Entry* find(const Key& key, int64_t now_ms) {
    const auto at = entries_.find(key);
    if (at == entries_.end()) return nullptr;
    if (at->second.expiry != no_expiry && at->second.expiry <= now_ms) {
      entries_.erase(at);
      return nullptr;
    }
    return &at->second;
  }
  void forget(const Key& key) { entries_.erase(key); }
  // An entry as it is now, and as it was.
  std::optional<Entry> entry(const Key& key) const {
    const auto at = entries_.find(key);
    return at != entries_.end() ? std::optional(at->second) : std::nullopt;
  }
  void restore(const Key& key, const std::optional<Entry>& entry) {
    if (entry) {
      entries_[key] = *entry;
    } else {
      entries_.erase(key);
    }
  }
  const KeyMap<Entry>& entries() const { return entries_; }
  void clear(uint32_t database) {
    std::erase_if(entries_, [&](const auto& entry) { return entry.first.first == database; });
  }

 private:
  Status conditions(const Request& request, const Entry* old) const;
  Status sum(const Request& request, const Entry* old, std::string& value, int64_t& number) const;
  static Status fraction(const Request& request, const Entry* old, std::string& value);
  Answer expect_expire(const Request& request, Entry* old, int64_t now_ms);
  Answer store(const Request& request, const Entry* old, Answer answer, std::string value);

  const uint64_t max_value_bytes_;
  KeyMap<Entry> entries_;
};

inline Status StoreModel::conditions(const Request& request, const Entry* old) const {
  if (request.op == Op::erase && old == nullptr) return Status::not_found;
  if (request.has(option::if_absent) && old != nullptr) return Status::condition_failed;
  if (request.has(option::if_present | option::if_version) && old == nullptr) {
    return Status::not_found;
  }
  if (request.has(option::if_version) && old->version != static_cast<uint64_t>(request.number)) {
    return Status::condition_failed;
  }
  return Status::ok;
}

inline Status StoreModel::sum(const Request& request, const Entry* old, std::string& value,
                              int64_t& number) const {
  const std::string text = old != nullptr ? old->value : "0";
  errno = 0;
  if (!request.has(option::saturating)) {
    const int64_t before = std::strtoll(text.c_str(), nullptr, 10);
    if (errno != 0 || std::to_string(before) != text) return Status::not_an_integer;
    constexpr int64_t most = std::numeric_limits<int64_t>::max();
    constexpr int64_t least = std::numeric_limits<int64_t>::min();
    const int64_t delta = request.number;
    if (delta > 0 ? before > most - delta : before < least - delta) return Status::overflow;
    number = before + delta;
    value = std::to_string(number);
    return Status::ok;
  }
  // As memcached reads one, with strtoull: up to a zero byte, a number, and behind it nothing or a
  // space; a minus is taken for the sign of a number in the upper half.
  const char* start = text.c_str();
  char* end = nullptr;
  const uint64_t before = std::strtoull(start, &end, 10);
  const bool ends = *end == '\0' || std::isspace(static_cast<unsigned char>(*end)) != 0;
  const bool below_zero = static_cast<int64_t>(before) < 0 && std::strchr(start, '-') != nullptr;
  if (errno != 0 || end == start || !ends || below_zero) return Status::not_an_integer;
  const auto delta = static_cast<uint64_t>(request.number);
  uint64_t after = before + delta;
  if (request.has(option::decrement)) after = before > delta ? before - delta : 0;
  number = static_cast<int64_t>(after);
  value = std::to_string(after);
  if (old != nullptr && value.size() < old->value.size()) value.resize(old->value.size(), ' ');
  return Status::ok;
}

inline Status StoreModel::fraction(const Request& request, const Entry* old, std::string& value) {
  const auto parse = [](const std::string& text, long double& number) {
    char* end = nullptr;
    number = std::strtold(text.c_str(), &end);
    return !text.empty() && std::isspace(static_cast<unsigned char>(text[0])) == 0 &&
           end == text.c_str() + text.size();
  };
  long double before = 0;
  long double delta = 0;
  if (old != nullptr && !parse(old->value, before)) return Status::not_a_float;
  if (!parse(request.value, delta)) return Status::not_a_float;
  std::ostringstream text;
  text << std::fixed << std::setprecision(17) << before + delta;
  value = text.str();
  value.erase(value.find_last_not_of('0') + 1);
  if (value.ends_with('.')) value.pop_back();
  return Status::ok;
}

inline StoreModel::Answer StoreModel::store(const Request& request, const Entry* old, Answer answer,
                                            std::string value) {
  if (value.size() > max_value_bytes_ || request.key.second.size() > max_value_bytes_) {
    answer.status = Status::too_large;
    answer.number = 0;
    return answer;
  }
  Entry fresh{std::move(value), request.flags, request.expiry, 0};
  if (request.op != Op::put) {
    fresh.flags = old != nullptr ? old->flags : 0;
    fresh.expiry = old != nullptr ? old->expiry : no_expiry;
  } else if (request.has(option::keep_expiry) && old != nullptr) {
    fresh.expiry = old->expiry;
  }
  answer.stores = answer.writes = true;
  answer.expiry = fresh.expiry;
  entries_[request.key] = std::move(fresh);
  return answer;
}

inline StoreModel::Answer StoreModel::expect_expire(const Request& request, Entry* old,
                                                    int64_t now_ms) {
  Answer answer;
  if (old == nullptr) {
    answer.status = Status::not_found;
    return answer;
  }
  answer.shown = *old;
  const int64_t never = std::numeric_limits<int64_t>::max();
  const int64_t now = old->expiry == no_expiry ? never : old->expiry;
  const bool holds = (!request.has(option::expire_if_none) || now == never) &&
                     (!request.has(option::expire_if_any) || now != never) &&
                     (!request.has(option::expire_if_greater) || request.expiry > now) &&
                     (!request.has(option::expire_if_less) || request.expiry < now);
  if (!holds) {
    answer.status = Status::condition_failed;
  } else if (request.expiry != no_expiry && request.expiry <= now_ms) {
    entries_.erase(request.key);
  } else if (request.expiry != old->expiry || request.expiry != no_expiry) {
    answer.stores = old->expiry == no_expiry;
    old->expiry = request.expiry;
  }
  return answer;
}

inline StoreModel::Answer StoreModel::expect(const Request& request, int64_t now_ms) {
  Entry* old = find(request.key, now_ms);
  if (request.op == Op::expire) return expect_expire(request, old, now_ms);
  Answer answer;
  if (request.op == Op::none || request.op == Op::bitfield) {
    answer.status = Status::not_found;
    return answer;
  }
  if (old != nullptr && (request.op == Op::get || request.has(option::want_previous))) {
    answer.shown = *old;
  }
  if (request.op == Op::get) {
    if (old == nullptr) answer.status = Status::not_found;
    return answer;
  }
  answer.status = conditions(request, old);
  if (answer.status != Status::ok) return answer;
  const std::string before = old != nullptr ? old->value : "";
  std::string value = request.value;
  switch (request.op) {
    case Op::erase:
      entries_.erase(request.key);
      answer.writes = true;
      return answer;
    case Op::add:
      answer.status = sum(request, old, value, answer.number);
      break;
    case Op::append:
      value = before + request.value;
      answer.number = static_cast<int64_t>(value.size());
      break;
    case Op::prepend:
      value = request.value + before;
      answer.number = static_cast<int64_t>(value.size());
      break;
    case Op::set_range: {
      const auto at = static_cast<size_t>(request.number);
      value = before;
      if (!request.value.empty()) {
        value.resize(std::max(value.size(), at + request.value.size()));
        value.replace(at, request.value.size(), request.value);
      }
      answer.number = static_cast<int64_t>(value.size());
      if (request.value.empty()) return answer;
      break;
    }
    case Op::set_bit: {
      const auto at = static_cast<size_t>(request.number / 8);
      const int bit = 0x80 >> request.number % 8;
      value = before;
      value.resize(std::max(value.size(), at + 1));
      answer.number = (value[at] & bit) != 0 ? 1 : 0;
      value[at] = static_cast<char>(request.flags != 0 ? value[at] | bit : value[at] & ~bit);
      if (value == before) return answer;
      break;
    }
    case Op::add_float:
      answer.status = fraction(request, old, value);
      break;
    default:
      break;
  }
  if (answer.status != Status::ok) return answer;
  answer = store(request, old, answer, std::move(value));
  if (request.op == Op::add_float && answer.stores) answer.shown = entries_[request.key];
  return answer;
}

}  // namespace isotherm

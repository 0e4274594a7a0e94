#include "items/change.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "command/decimal.h"
#include "items/objects.h"

namespace isotherm {
namespace {

// As C's isspace, which memcached's parsing of numbers follows.
bool is_space(char byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

void refuse(Plan& plan, Status status) {
  plan.action = Plan::Action::keep;
  plan.status = status;
}

// The item that replaces `old` with another value.
void store_over(const Item& old, uint64_t value_bytes, Plan& plan) {
  plan.action = Plan::Action::store;
  plan.parts.value_bytes = value_bytes;
  plan.parts.flags = old.flags();
  plan.parts.expiry = old.expiry();
}

[[gnu::noinline]] bool version_holds(const Request& request, const Item& old, Plan& plan) {
  if (Objects::version_of(old) == static_cast<uint64_t>(request.number)) return true;
  refuse(plan, Status::condition_failed);
  return false;
}

bool conditions_hold(const Request& request, const Item* old, Plan& plan) {
  if (request.has(option::if_absent) && old != nullptr) {
    refuse(plan, Status::condition_failed);
    return false;
  }
  if (request.has(option::if_present | option::if_version) && old == nullptr) {
    refuse(plan, Status::not_found);
    return false;
  }
  return !request.has(option::if_version) || version_holds(request, *old, plan);
}

void plan_put(const Request& request, const Item* old, uint64_t max_value_bytes, Plan& plan) {
  if (!conditions_hold(request, old, plan)) return;
  if (request.value.size() > max_value_bytes) return refuse(plan, Status::too_large);
  plan.action = Plan::Action::store;
  plan.parts.value_bytes = request.value.size();
  plan.parts.flags = request.flags;
  plan.parts.expiry = request.expiry;
  plan.parts.all_fields = request.has(option::in_place);
  plan.first = request.value;
  if (request.has(option::keep_expiry) && old != nullptr) plan.parts.expiry = old->expiry();
}

void plan_erase(const Request& request, const Item* old, Plan& plan) {
  if (old == nullptr) return refuse(plan, Status::not_found);
  if (conditions_hold(request, old, plan)) plan.action = Plan::Action::erase;
}

void set_digits(Plan& plan, const char* end) {
  plan.first = {plan.digits, static_cast<size_t>(end - plan.digits)};
}

void plan_signed_add(const Request& request, const Item* old, Plan& plan) {
  int64_t value = 0;
  if (old != nullptr && !parse_integer(old->value(), value)) {
    return refuse(plan, Status::not_an_integer);
  }
  int64_t sum = 0;
  if (__builtin_add_overflow(value, request.number, &sum)) return refuse(plan, Status::overflow);
  plan.number = sum;
  set_digits(plan, std::to_chars(plan.digits, plan.digits + sizeof plan.digits, sum).ptr);
}

void plan_counter_add(const Request& request, const Item* old, Plan& plan) {
  uint64_t value = 0;
  if (old != nullptr && !parse_counter(old->value(), value)) {
    return refuse(plan, Status::not_an_integer);
  }
  const auto delta = static_cast<uint64_t>(request.number);
  const uint64_t sum = !request.has(option::decrement) ? value + delta
                       : value > delta                 ? value - delta
                                                       : 0;
  plan.number = static_cast<int64_t>(sum);
  set_digits(plan, std::to_chars(plan.digits, plan.digits + sizeof plan.digits, sum).ptr);
}

void plan_add(const Request& request, const Item* old, Plan& plan) {
  if (!conditions_hold(request, old, plan)) return;
  const bool counter = request.has(option::saturating);
  counter ? plan_counter_add(request, old, plan) : plan_signed_add(request, old, plan);
  if (plan.status != Status::ok) return;
  if (old == nullptr) {
    plan.action = Plan::Action::store;
    plan.parts.value_bytes = plan.first.size();
    return;
  }
  // memcached keeps the length of a counter and pads it with spaces.
  const uint64_t bytes =
      counter ? std::max<uint64_t>(plan.first.size(), old->value().size()) : plan.first.size();
  store_over(*old, bytes, plan);
}

void plan_concatenation(const Request& request, const Item* old, uint64_t max_value_bytes,
                        Plan& plan) {
  if (!conditions_hold(request, old, plan)) return;
  const uint64_t old_bytes = old != nullptr ? old->value().size() : 0;
  const uint64_t bytes = old_bytes + uint64_t{request.value.size()};
  if (bytes > max_value_bytes) return refuse(plan, Status::too_large);
  plan.number = static_cast<int64_t>(bytes);
  if (old == nullptr) {
    plan.action = Plan::Action::store;
    plan.parts.value_bytes = bytes;
    plan.first = request.value;
    return;
  }
  store_over(*old, bytes, plan);
  plan.first = old->value();
  plan.second = request.value;
  if (request.op == Op::prepend) std::swap(plan.first, plan.second);
  plan.second_at = plan.first.size();
}

// The same where there may be none.
void store_anyway(const Item* old, uint64_t value_bytes, Plan& plan) {
  if (old != nullptr) return store_over(*old, value_bytes, plan);
  plan.action = Plan::Action::store;
  plan.parts.value_bytes = value_bytes;
}

std::string_view value_of(const Item* old) { return old != nullptr ? old->value() : ""; }

// The old value, or none, with as many zeros behind it as make `least_bytes`; `second` and `steps`
// then change it.
void patch(const Item* old, uint64_t least_bytes, uint64_t max_value_bytes, Plan& plan) {
  plan.first = value_of(old);
  const uint64_t bytes = std::max<uint64_t>(plan.first.size(), least_bytes);
  if (bytes > max_value_bytes) return refuse(plan, Status::too_large);
  store_anyway(old, bytes, plan);
  plan.filler = '\0';
}

void plan_set_range(const Request& request, const Item* old, uint64_t max_value_bytes, Plan& plan) {
  if (!conditions_hold(request, old, plan)) return;
  const uint64_t end = static_cast<uint64_t>(request.number) + request.value.size();
  if (request.value.empty()) {
    plan.number = static_cast<int64_t>(value_of(old).size());
    return;
  }
  if (end > max_value_bytes) return refuse(plan, Status::too_large);
  patch(old, end, max_value_bytes, plan);
  plan.number = static_cast<int64_t>(plan.parts.value_bytes);
  plan.second = request.value;
  plan.second_at = static_cast<uint64_t>(request.number);
}

void plan_set_bit(const Request& request, const Item* old, uint64_t max_value_bytes, Plan& plan) {
  if (!conditions_hold(request, old, plan)) return;
  const uint64_t byte = static_cast<uint64_t>(request.number) / 8;
  patch(old, byte + 1, max_value_bytes, plan);
  const auto before = static_cast<uint8_t>(byte < plan.first.size() ? plan.first[byte] : 0);
  const auto mask = static_cast<uint8_t>(1 << (7 - request.number % 8));
  plan.number = (before & mask) != 0 ? 1 : 0;
  plan.digits[0] = static_cast<char>(request.flags != 0 ? before | mask : before & ~mask);
  plan.second = {plan.digits, 1};
  plan.second_at = byte;
}

void plan_bitfield(const Request& request, const Item* old, uint64_t max_value_bytes, Plan& plan) {
  if (!conditions_hold(request, old, plan)) return;
  const std::span<BitfieldStep> steps = bitfield_steps(request.value);
  const uint64_t bytes = bitfield_bytes(steps);
  if (bytes == 0) return read_bitfield(steps, value_of(old).data(), value_of(old).size());
  patch(old, bytes, max_value_bytes, plan);
  plan.steps = steps;
}

void plan_add_float(const Request& request, const Item* old, Plan& plan) {
  if (!conditions_hold(request, old, plan)) return;
  long double sum = 0;
  long double delta = 0;
  if ((old != nullptr && !parse_decimal(old->value(), sum)) ||
      !parse_decimal(request.value, delta)) {
    return refuse(plan, Status::not_a_float);
  }
  sum += delta;
  if (!std::isfinite(sum)) return refuse(plan, Status::not_finite);
  static thread_local char text[longest_decimal];
  plan.first = {text, format_decimal(sum, text)};
  store_anyway(old, plan.first.size(), plan);
}

// An item without expiry counts as one that lives for ever.
bool expiry_conditions_hold(const Request& request, const Item& old) {
  const int64_t now = old.expiry();
  if (request.has(option::expire_if_none) && now != no_expiry) return false;
  if (request.has(option::expire_if_any) && now == no_expiry) return false;
  if (request.has(option::expire_if_greater) && (now == no_expiry || request.expiry <= now)) {
    return false;
  }
  return !request.has(option::expire_if_less) || now == no_expiry || request.expiry < now;
}

void plan_expire(const Request& request, const Item* old, int64_t now_ms, Plan& plan) {
  if (old == nullptr) return refuse(plan, Status::not_found);
  if (!expiry_conditions_hold(request, *old)) return refuse(plan, Status::condition_failed);
  if (request.expiry == no_expiry && old->expiry() == no_expiry) return;
  if (request.expiry != no_expiry && request.expiry <= now_ms) {
    plan.action = Plan::Action::erase;
    return;
  }
  if (old->has_expiry()) {
    plan.action = Plan::Action::set_expiry;
    plan.expiry = request.expiry;
    return;
  }
  plan.action = Plan::Action::store;
  plan.parts.value_bytes = old->value().size();
  plan.parts.flags = old->flags();
  plan.parts.expiry = request.expiry;
  plan.first = old->value();
}

void plan_operation(const Request& request, const Item* old, int64_t now_ms,
                    uint64_t max_value_bytes, Plan& plan) {
  switch (request.op) {
    case Op::get:
      plan.status = old != nullptr ? Status::ok : Status::not_found;
      return;
    case Op::put:
    case Op::put_object:
      return plan_put(request, old, max_value_bytes, plan);
    case Op::erase:
      return plan_erase(request, old, plan);
    case Op::add:
      return plan_add(request, old, plan);
    case Op::append:
    case Op::prepend:
      return plan_concatenation(request, old, max_value_bytes, plan);
    case Op::expire:
      return plan_expire(request, old, now_ms, plan);
    case Op::set_range:
      return plan_set_range(request, old, max_value_bytes, plan);
    case Op::set_bit:
      return plan_set_bit(request, old, max_value_bytes, plan);
    case Op::bitfield:
      return plan_bitfield(request, old, max_value_bytes, plan);
    case Op::add_float:
      return plan_add_float(request, old, plan);
    case Op::none:
      return refuse(plan, Status::not_found);
    case Op::flush:
    case Op::call:
    case Op::walk:
      break;
  }
  refuse(plan, Status::invalid);
}

}  // namespace

void Plan::fill(Item* item) const {
  char* to = item->value_data();
  if (!first.empty()) std::memcpy(to, first.data(), first.size());
  // What lies before `second` and what lies behind everything.
  const uint64_t end = std::max<uint64_t>(first.size(), second_at + second.size());
  if (second_at > first.size()) std::memset(to + first.size(), filler, second_at - first.size());
  if (!second.empty()) std::memcpy(to + second_at, second.data(), second.size());
  if (end < parts.value_bytes) std::memset(to + end, filler, parts.value_bytes - end);
  if (!steps.empty()) run_bitfield(steps, to, parts.value_bytes);
}

bool takes_objects(const Request& request) {
  switch (request.op) {
    case Op::get:
    case Op::expire:
      return request.has(option::any_type);
    case Op::put:
    case Op::put_object:
    case Op::erase:
      return !request.has(option::want_previous);
    default:
      return request.op == Op::none;
  }
}

void plan_change(const Request& request, const Item* old, int64_t now_ms, uint64_t max_value_bytes,
                 Plan& plan) {
  plan.action = Plan::Action::keep;
  plan.status = Status::ok;
  plan.number = 0;
  plan.first = plan.second = {};
  plan.second_at = 0;
  plan.steps = {};
  plan.filler = ' ';
  plan.parts = {.key = request.key,
                .value_bytes = 0,
                .type = ValueType::string,
                .expiry = no_expiry,
                .flags = 0,
                .database = request.database};
  plan_operation(request, old, now_ms, max_value_bytes, plan);
  if (plan.action == Plan::Action::store && request.key.size() > max_value_bytes) {
    refuse(plan, Status::too_large);
  }
}

bool parse_integer(std::string_view text, int64_t& value) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.empty() || (digits[0] == '0' && text.size() > 1)) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

bool parse_counter(std::string_view text, uint64_t& value) {
  text = text.substr(0, text.find('\0'));
  const std::string_view whole = text;
  while (!text.empty() && is_space(text[0])) text.remove_prefix(1);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const char* stop = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), stop, value);
  if (error != std::errc{} || (end != stop && !is_space(*end))) return false;
  if (negative) value = -value;
  // memcached takes a minus anywhere for the sign of a number in the upper half.
  return static_cast<int64_t>(value) >= 0 || whole.find('-') == std::string_view::npos;
}

}  // namespace isotherm

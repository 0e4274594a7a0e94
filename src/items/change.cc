#include "items/change.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "command/decimal.h"
#include "items/meta_request.h"
#include "items/meta_state.h"
#include "items/objects.h"

namespace isotherm {
namespace {

void refuse(Plan& plan, Status status) {
  plan.action = Plan::Action::keep;
  plan.status = status;
}

// The plan holds only while nobody else wins the item. `seen` is the state that it was made by: the
// item's own may have changed since.
void note_token(uint64_t seen, Plan& plan) {
  plan.token_decides = seen != 0;
  plan.token_seen = MetaState::has_token(seen);
}

// The item that replaces `old` with another value.
void store_over(const Item& old, uint64_t value_bytes, Plan& plan) {
  plan.action = Plan::Action::store;
  plan.parts.value_bytes = value_bytes;
  plan.parts.flags = old.flags();
  plan.parts.expiry = old.expiry();
  plan.parts.state = old.state();
  note_token(plan.parts.state, plan);
}

// The same where the key may be absent.
void store_anyway(const Item* old, uint64_t value_bytes, Plan& plan) {
  if (old != nullptr) return store_over(*old, value_bytes, plan);
  plan.action = Plan::Action::store;
  plan.parts.value_bytes = value_bytes;
}

std::string_view value_of(const Item* old) { return old != nullptr ? old->value() : ""; }

// Plans another value, which nobody has asked for yet.
void renew_state(int64_t now_ms, Plan& plan) {
  if (plan.parts.state != 0) plan.parts.state = MetaState::fresh(now_ms);
}

// The item that replaces `old` with the same value.
void store_same(const Item& old, int64_t expiry, Plan& plan) {
  store_over(old, old.value().size(), plan);
  plan.parts.expiry = expiry;
  plan.first = old.value();
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
  if (request.value.size() > max_value_bytes && !request.has(option::any_length)) {
    return refuse(plan, Status::too_large);
  }
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

void plan_add(const Request& request, const Item* old, int64_t now_ms, Plan& plan) {
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
  if (!counter || bytes > old->value().size()) renew_state(now_ms, plan);
}

void plan_concatenation(const Request& request, const Item* old, int64_t now_ms,
                        uint64_t max_value_bytes, Plan& plan) {
  if (!conditions_hold(request, old, plan)) return;
  plan.first = value_of(old);
  plan.second = request.value;
  const uint64_t bytes = plan.first.size() + uint64_t{plan.second.size()};
  if (bytes > max_value_bytes) return refuse(plan, Status::too_large);
  plan.number = static_cast<int64_t>(bytes);
  store_anyway(old, bytes, plan);
  renew_state(now_ms, plan);
  if (request.op == Op::prepend) {
    std::swap(plan.first, plan.second);
  } else {
    plan.filler = '\0';
  }
  plan.second_at = plan.first.size();
}

// The old value, or none, with as many zeros behind it as make `least_bytes`; `second` and `steps`
// then change it. As in Redis, one that was stored when longer ones were allowed may be changed.
void patch(const Item* old, uint64_t least_bytes, uint64_t max_value_bytes, Plan& plan) {
  plan.first = value_of(old);
  if (least_bytes > max_value_bytes) return refuse(plan, Status::too_large);
  store_anyway(old, std::max<uint64_t>(plan.first.size(), least_bytes), plan);
  plan.filler = '\0';
}

void plan_set_range(const Request& request, const Item* old, uint64_t max_value_bytes, Plan& plan) {
  if (!conditions_hold(request, old, plan)) return;
  const uint64_t end = static_cast<uint64_t>(request.number) + request.value.size();
  if (request.value.empty()) {
    plan.number = static_cast<int64_t>(value_of(old).size());
    return;
  }
  const bool wraps = end < request.value.size();
  if (wraps || end > max_value_bytes) return refuse(plan, Status::too_large);
  patch(old, end, max_value_bytes, plan);
  plan.number = static_cast<int64_t>(plan.parts.value_bytes);
  plan.second = request.value;
  plan.second_at = static_cast<uint64_t>(request.number);
}

void plan_set_bit(const Request& request, const Item* old, uint64_t max_value_bytes, Plan& plan) {
  if (!conditions_hold(request, old, plan)) return;
  const uint64_t byte = static_cast<uint64_t>(request.number) / 8;
  const std::string_view value = value_of(old);
  const auto before = static_cast<uint8_t>(byte < value.size() ? value[byte] : 0);
  const auto mask = static_cast<uint8_t>(1 << (7 - request.number % 8));
  plan.number = (before & mask) != 0 ? 1 : 0;
  // As in Redis, a bit that is so already changes nothing.
  if (byte < value.size() && (plan.number != 0) == (request.flags != 0)) return;
  patch(old, byte + 1, max_value_bytes, plan);
  plan.digits[0] = static_cast<char>(request.flags != 0 ? before | mask : before & ~mask);
  plan.second = {plan.digits, 1};
  plan.second_at = byte;
}

void plan_bitfield(const Request& request, const Item* old, uint64_t max_value_bytes, Plan& plan) {
  if (!conditions_hold(request, old, plan)) return;
  const std::span<BitfieldStep> steps = bitfield_steps(request.value);
  if (!are_fields(steps)) return refuse(plan, Status::invalid);
  const uint64_t bytes = bitfield_bytes(steps);
  const std::string_view value = value_of(old);
  // As in Redis, numbers that are so already, or are not stored, change nothing.
  const bool is_long_enough = bytes <= value.size();
  if (is_long_enough && read_bitfield(steps, value.data(), value.size())) return;
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
  plan.keeps_version = true;
  if (request.expiry != no_expiry && request.expiry <= now_ms) {
    plan.action = Plan::Action::erase;
    return;
  }
  plan.counts_use = old->has_expiry() || request.expiry == no_expiry;
  if (request.expiry == no_expiry && old->expiry() == no_expiry) return;
  if (old->has_expiry()) {
    plan.action = Plan::Action::in_place;
    plan.expiry = request.expiry;
    return;
  }
  store_same(*old, request.expiry, plan);
  if (plan.parts.state != 0) plan.parts.state = MetaState::used(plan.parts.state, now_ms);
}

// Whether the version is the one asked for; memcached takes 0 for none.
bool version_holds(const MetaRequest& meta, const Item& old) {
  return meta.version != 0 && Objects::version_of(old) == meta.version;
}

// A get of an item that is there. It stores a new item where the client wins it, or where it gets
// its first expiry.
void plan_meta_get(const Request& request, MetaRequest& meta, const Item& old, int64_t now_ms,
                   Plan& plan) {
  const int64_t expiry = meta.sets_expiry ? request.expiry : old.expiry();
  const int64_t looked_at = meta.expiry_first ? expiry : old.expiry();
  const bool token_sent = (meta.state & MetaState::token_sent) != 0;
  const bool stale = (meta.state & MetaState::stale) != 0;
  // By whole seconds, as the time that is left is shown.
  constexpr int64_t second_ms = 1000;
  const bool soon =
      meta.recaches && looked_at != no_expiry && looked_at <= meta.recache_before - second_ms;
  meta.won = !token_sent && (stale || soon);
  plan.keeps_version = true;
  if (expiry != no_expiry && expiry <= now_ms) {
    plan.action = Plan::Action::erase;
  } else if ((meta.won && !old.has_state()) || (expiry != no_expiry && !old.has_expiry())) {
    store_same(old, expiry, plan);
    note_token(meta.state, plan);
    uint64_t& state = plan.parts.state;
    if (meta.won) state = (state != 0 ? state : MetaState::fresh(now_ms)) | MetaState::token_sent;
    if (state != 0 && meta.counts_use) state = MetaState::used(state, now_ms);
  } else {
    plan.counts_use = meta.counts_use;
    if (!meta.won && expiry == old.expiry()) return;
    plan.action = Plan::Action::in_place;
    plan.expiry = expiry;
    plan.sends_token = meta.won;
    note_token(meta.state, plan);
  }
}

// A get that takes the item's state into account.
void plan_get(const Request& request, const Item* old, int64_t now_ms, Plan& plan) {
  if (old == nullptr) return refuse(plan, Status::not_found);
  if (!request.has(option::with_state)) return;
  MetaRequest meta{.counts_use = !request.has(option::no_touch), .state = old->state()};
  plan_meta_get(request, meta, *old, now_ms, plan);
  plan.number = static_cast<int64_t>(meta.state | (meta.won ? MetaState::won : 0));
}

// A get of an absent key.
void plan_vivify(MetaRequest& meta, std::string_view value, int64_t now_ms, Plan& plan) {
  meta.created = true;
  plan.action = Plan::Action::store;
  plan.first = value;
  plan.parts.value_bytes = value.size();
  plan.parts.expiry = meta.vivify_expiry;
  plan.parts.state = MetaState::fresh(now_ms);
}

void plan_meta_store(const Request& request, const MetaRequest& meta, const Item* old,
                     int64_t now_ms, uint64_t max_value_bytes, Plan& plan) {
  using enum MetaRequest::Mode;
  const bool joins = meta.mode == append || meta.mode == prepend;
  const bool compares = meta.checks_version && (joins ? meta.version != 0 : meta.mode != add);
  Request plain = request;
  if (meta.mode == add) plain.options = option::if_absent;
  if (joins || meta.mode == replace || compares) plain.options = option::if_present;
  if (!conditions_hold(plain, old, plan)) return;
  const bool differs = compares && old != nullptr && !version_holds(meta, *old);
  const bool stale = differs && !joins && meta.may_store_stale && meta.version != 0 &&
                     meta.version < Objects::version_of(*old);
  if (differs && !stale) return refuse(plan, Status::condition_failed);
  if (joins) {
    plain.op = meta.mode == append ? Op::append : Op::prepend;
    return plan_concatenation(plain, old, now_ms, max_value_bytes, plan);
  }
  plan_put(plain, old, max_value_bytes, plan);
  plan.parts.state = meta.kept_state != 0 ? meta.kept_state : MetaState::fresh(now_ms);
  plan.parts.state |= meta.binary_key ? MetaState::binary_key : 0;
  if (!stale) return;
  const uint64_t seen = old->state();
  plan.parts.state |= MetaState::stale | (seen & MetaState::token_sent);
  plan.parts.expiry = old->expiry();
  note_token(seen, plan);
}

void plan_mark_stale(const Request& request, const MetaRequest& meta, const Item& old,
                     int64_t now_ms, Plan& plan) {
  store_same(old, meta.sets_expiry ? request.expiry : old.expiry(), plan);
  uint64_t& state = plan.parts.state;
  if (state == 0) state = MetaState::fresh(now_ms);
  state = (state & ~MetaState::token_sent) | MetaState::stale;
}

void plan_meta_arithmetic(const Request& request, MetaRequest& meta, const Item* old,
                          int64_t now_ms, Plan& plan) {
  if (old == nullptr) {
    plan.number = static_cast<int64_t>(meta.initial);
    set_digits(plan,
               std::to_chars(plan.digits, plan.digits + sizeof plan.digits, meta.initial).ptr);
    return plan_vivify(meta, plan.first, now_ms, plan);
  }
  Request plain = request;
  plain.options =
      static_cast<uint16_t>(option::saturating | (meta.decrements ? option::decrement : 0));
  plain.number = static_cast<int64_t>(meta.delta);
  plan_add(plain, old, now_ms, plan);
  // memcached gives the new expiry to the item it replaces, where the number has become longer.
  const bool longer = plan.parts.value_bytes > old->value().size();
  if (plan.status == Status::ok && meta.sets_expiry && !longer) plan.parts.expiry = request.expiry;
}

void plan_meta(const Request& request, const Item* old, int64_t now_ms, uint64_t max_value_bytes,
               Plan& plan) {
  using enum MetaRequest::Kind;
  auto& meta = *reinterpret_cast<MetaRequest*>(static_cast<uintptr_t>(request.number));
  meta.created = meta.won = false;
  meta.state = old != nullptr ? old->state() : 0;
  meta.old_expiry = old != nullptr ? old->expiry() : no_expiry;
  if (meta.kind == store) {
    return plan_meta_store(request, meta, old, now_ms, max_value_bytes, plan);
  }
  if (old == nullptr && !meta.makes_item()) return refuse(plan, Status::not_found);
  // memcached checks these two first.
  const bool empty = old != nullptr && old->value().empty();
  const bool any_version = meta.kind == arithmetic && (meta.version == 0 || empty);
  if (old != nullptr && meta.checks_version && !any_version && !version_holds(meta, *old)) {
    return refuse(plan, Status::condition_failed);
  }
  switch (meta.kind) {
    case look:
      return;
    case get:
      if (old != nullptr) return plan_meta_get(request, meta, *old, now_ms, plan);
      plan_vivify(meta, {}, now_ms, plan);
      plan.parts.state |= MetaState::token_sent;
      plan.parts.state |= meta.counts_use ? MetaState::fetched : 0;
      meta.won = true;
      return;
    case erase:
      plan.action = Plan::Action::erase;
      return;
    case mark_stale:
      return plan_mark_stale(request, meta, *old, now_ms, plan);
    default:
      return plan_meta_arithmetic(request, meta, old, now_ms, plan);
  }
}

void plan_operation(const Request& request, const Item* old, int64_t now_ms,
                    uint64_t max_value_bytes, Plan& plan) {
  switch (request.op) {
    case Op::get:
      return plan_get(request, old, now_ms, plan);
    case Op::put:
    case Op::put_object:
      return plan_put(request, old, max_value_bytes, plan);
    case Op::erase:
      return plan_erase(request, old, plan);
    case Op::add:
      return plan_add(request, old, now_ms, plan);
    case Op::append:
    case Op::prepend:
      return plan_concatenation(request, old, now_ms, max_value_bytes, plan);
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
    case Op::meta:
      return plan_meta(request, old, now_ms, max_value_bytes, plan);
    case Op::flush:
    case Op::call:
    case Op::walk:
      break;
  }
  refuse(plan, Status::invalid);
}

bool meta_takes_objects(const Request& request) {
  const auto& meta = *reinterpret_cast<const MetaRequest*>(static_cast<uintptr_t>(request.number));
  const bool joins =
      meta.mode == MetaRequest::Mode::append || meta.mode == MetaRequest::Mode::prepend;
  return meta.kind == MetaRequest::Kind::erase || (meta.kind == MetaRequest::Kind::store && !joins);
}

}  // namespace

void Plan::fill(Item* item) const {
  char* to = item->value_data();
  if (!first.empty()) std::memcpy(to, first.data(), first.size());
  patch(to, first.size());
}

// Fills what lies before `second`, and what lies behind everything.
void Plan::patch(char* to, uint64_t before) const {
  const uint64_t end = std::max<uint64_t>(before, second_at + second.size());
  if (second_at > before) std::memset(to + before, filler, second_at - before);
  if (end < parts.value_bytes) std::memset(to + end, filler, parts.value_bytes - end);
  if (!second.empty()) std::memcpy(to + second_at, second.data(), second.size());
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
    case Op::meta:
      return meta_takes_objects(request);
    default:
      return request.op == Op::none;
  }
}

void plan_change(const Request& request, const Item* old, int64_t now_ms, uint64_t max_value_bytes,
                 Plan& plan) {
  plan.action = Plan::Action::keep;
  plan.status = Status::ok;
  plan.number = 0;
  plan.keeps_version = plan.counts_use = plan.sends_token = plan.token_decides = false;
  plan.first = plan.second = {};
  plan.second_at = 0;
  plan.steps = {};
  plan.filler = ' ';
  plan.parts = {.key = request.key, .database = request.database};
  plan_operation(request, old, now_ms, max_value_bytes, plan);
  if (plan.action == Plan::Action::store && request.key.size() > max_value_bytes) {
    refuse(plan, Status::too_large);
  }
}

}  // namespace isotherm

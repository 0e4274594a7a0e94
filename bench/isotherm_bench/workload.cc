#include "isotherm_bench/workload.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <system_error>

namespace isotherm::bench {
namespace {

constexpr std::array<std::string_view, operation_count> operation_names = {
    "read", "update", "insert", "scan", "rmw", "erase"};
constexpr char key_digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
constexpr uint32_t max_key_digits = 11;

bool parse_share(std::string_view text, double* share) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *share);
  return error == std::errc() && end == text.data() + text.size() && *share >= 0 && *share <= 100;
}

}  // namespace

std::string_view to_string(Operation operation) {
  return operation_names[static_cast<size_t>(operation)];
}

std::optional<Mix> parse_mix(std::string_view text, std::string* error) {
  Mix mix{};
  double sum = 0;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t equals = part.find('=');
    const auto name =
        std::find(operation_names.begin(), operation_names.end(), part.substr(0, equals));
    double share = 0;
    if (equals == std::string_view::npos || name == operation_names.end() ||
        !parse_share(part.substr(equals + 1), &share)) {
      *error = "'" + std::string(part) +
               "' is not OPERATION=PERCENT with read, update, insert, scan, rmw or erase";
      return std::nullopt;
    }
    mix[static_cast<size_t>(name - operation_names.begin())] += share;
    sum += share;
  }
  if (sum < 99.999 || sum > 100.001) {
    std::array<char, 32> shown;
    std::snprintf(shown.data(), shown.size(), "%g", sum);
    *error = std::string("the shares add up to ") + shown.data() + ", not to 100";
    return std::nullopt;
  }
  return mix;
}

std::string to_string(const Mix& mix) {
  std::string text;
  for (size_t i = 0; i < operation_count; ++i) {
    if (mix[i] == 0) continue;
    char number[32];
    const auto end = std::to_chars(number, number + sizeof number, mix[i]).ptr;
    if (!text.empty()) text += ',';
    text.append(operation_names[i]).append("=").append(number, end);
  }
  return text;
}

uint64_t key_capacity(uint32_t key_size) {
  const uint32_t digits = std::min(key_size, max_key_digits - 1);
  return uint64_t{1} << (6 * digits);
}

void write_key(uint64_t number, uint32_t key_size, char* out) {
  const uint32_t digits = std::min(key_size, max_key_digits);
  std::memset(out, 'k', key_size - digits);
  for (char* at = out + key_size; at > out + (key_size - digits); number >>= 6) {
    *--at = key_digits[number & 63];
  }
}

void write_value(uint64_t number, uint64_t size, char* out) {
  const uint64_t word = value_word(number);
  for (; size >= sizeof word; size -= sizeof word, out += sizeof word) {
    std::memcpy(out, &word, sizeof word);
  }
  std::memcpy(out, &word, size);
}

Requester::Requester(const Workload& workload, KeySpace& keys, uint64_t stream)
    : workload_(workload),
      keys_(keys),
      random_(workload.seed, stream),
      zipf_(workload.records, workload.theta),
      scramble_(workload.records) {
  // The mix counts keys: a read of several keys is drawn more rarely for the same share.
  double sum = 0;
  for (size_t i = 0; i < operation_count; ++i) {
    const bool read = static_cast<Operation>(i) == Operation::read;
    sum += workload.mix[i] / (read ? workload.keys_per_read : 1);
    limits_[i] = sum;
  }
  for (double& limit : limits_) limit /= sum;
}

Operation Requester::draw_operation() {
  const double chance = random_.unit();
  size_t i = 0;
  while (i + 1 < operation_count && chance >= limits_[i]) ++i;
  return static_cast<Operation>(i);
}

uint64_t Requester::draw_key() {
  switch (workload_.distribution) {
    case Distribution::zipf:
      return scramble_(zipf_.draw(random_));
    case Distribution::uniform:
      return random_.below(std::max<uint64_t>(keys_.present.load(std::memory_order_relaxed), 1));
    case Distribution::latest: {
      const uint64_t present = keys_.present.load(std::memory_order_relaxed);
      const uint64_t age = zipf_.draw(random_);
      return age < present ? present - 1 - age : 0;
    }
  }
  return 0;
}

uint64_t Requester::draw_value_size() {
  const uint64_t spread = workload_.value_size_max - workload_.value_size_min;
  return workload_.value_size_min + (spread == 0 ? 0 : random_.below(spread + 1));
}

std::optional<Request> Requester::next() {
  Request request{.operation = draw_operation()};
  switch (request.operation) {
    case Operation::read:
      request.key = draw_key();
      request.count = workload_.keys_per_read;
      break;
    case Operation::insert:
      request.key = keys_.next.fetch_add(1, std::memory_order_relaxed);
      if (request.key >= keys_.limit) return std::nullopt;
      request.value_size = draw_value_size();
      break;
    case Operation::update:
      request.key = workload_.hot_updates ? draw_key() : random_.below(workload_.records);
      request.value_size = draw_value_size();
      break;
    case Operation::read_modify_write:
      request.key = draw_key();
      request.value_size = draw_value_size();
      break;
    case Operation::erase:
      request.key = draw_key();
      break;
    case Operation::scan:
      request.key = random_.next();
      request.count = 1 + static_cast<uint32_t>(random_.below(workload_.scan_length));
      break;
  }
  return request;
}

}  // namespace isotherm::bench
